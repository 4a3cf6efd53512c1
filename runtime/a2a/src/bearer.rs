//! Tokens that callers show in place of a certificate, and those that principals have. Compared in a time that says
//! nothing of where they differ; read at each request, so that one that was rotated counts from then on.

use std::time::Instant;

use agentd_base::rate::Rate;
use agentd_config::document::{Principal, Role};
use agentd_config::secret::{SecretSource, Template};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use http::{HeaderMap, header};
use secrecy::ExposeSecret as _;

use crate::throttle::Throttle;

/// A principal that shows a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bearer {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) rate: Option<Rate>,
    token: Template,
}

impl Bearer {
    /// None where the entry names no token, or one that is no reference, which the document's check refuses.
    pub(crate) fn of(entry: &Principal) -> Option<Self> {
        let token = Template::parse(entry.bearer.as_ref()?).ok();
        Some(Self {
            name: entry.name.clone(),
            role: entry.role,
            rate: entry.quotas.rate,
            token: token.filter(Template::has_reference)?,
        })
    }

    /// Whether this is its token now.
    pub(crate) fn is(&self, shown: &str, secrets: &dyn SecretSource, unreadable: &Throttle) -> bool {
        let secret = match self.token.resolve(secrets) {
            Ok(secret) => secret,
            Err(error) => {
                if let Some(left_out) = unreadable.pass(Instant::now()) {
                    tracing::warn!(
                        event = "a2a.principal.token.fail",
                        principal = self.name,
                        err = %error,
                        left_out
                    );
                }
                return false;
            }
        };
        // Digests have one length, whatever the tokens have.
        let [own, shown] = [secret.expose_secret(), shown].map(|text| digest(&SHA256, text.as_bytes()));
        verify_slices_are_equal(own.as_ref(), shown.as_ref()).is_ok()
    }
}

/// What a request has in its `Authorization`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown<'a> {
    /// No such header.
    Nothing,
    /// One token.
    Token(&'a str),
    /// Several of them, another scheme, no text.
    Other,
}

impl<'a> Shown<'a> {
    pub(crate) fn of(headers: &'a HeaderMap) -> Self {
        let mut lines = headers.get_all(header::AUTHORIZATION).iter();
        let line = match (lines.next(), lines.next()) {
            (None, _) => return Self::Nothing,
            (Some(only), None) => only.to_str().ok(),
            (Some(_), Some(_)) => None,
        };
        let token = line
            .and_then(|line| line.split_once(' '))
            .and_then(|(scheme, token)| {
                let token = token.trim_start_matches(' ');
                let is_token = !token.is_empty() && !token.contains(char::is_whitespace);
                (scheme.eq_ignore_ascii_case("bearer") && is_token).then_some(token)
            });
        token.map_or(Self::Other, Self::Token)
    }

    pub(crate) const fn token(self) -> Option<&'a str> {
        match self {
            Self::Token(token) => Some(token),
            Self::Nothing | Self::Other => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_token_is_what_one_header_of_the_scheme_has() {
        let headers = |lines: &[&'static str]| -> HeaderMap {
            lines
                .iter()
                .map(|line| (header::AUTHORIZATION, HeaderValue::from_static(line)))
                .collect()
        };
        for line in ["Bearer abc", "bearer abc", "BEARER  abc"] {
            assert_eq!(Shown::of(&headers(&[line])), Shown::Token("abc"), "{line}");
        }
        for line in [
            "Bearer",
            "Bearer ",
            "Bearer a b",
            "Bearer a,b c",
            "Basic abc",
            "abc",
            "",
        ] {
            assert_eq!(Shown::of(&headers(&[line])), Shown::Other, "{line}");
        }
        assert_eq!(Shown::of(&headers(&["Bearer a", "Bearer b"])), Shown::Other);
        assert_eq!(Shown::of(&HeaderMap::new()), Shown::Nothing);
        let mut bytes = HeaderMap::new();
        bytes.insert(
            header::AUTHORIZATION,
            HeaderValue::from_bytes(b"Bearer \xff").unwrap(),
        );
        assert_eq!(Shown::of(&bytes), Shown::Other);
    }
}
