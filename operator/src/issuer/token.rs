//! Verifies ServiceAccount tokens: that a token is genuine, current, and made for the issuer. Behind a trait, since a
//! namespaced install will verify offline. What a token says is no decision yet: answers may be cached.
//!
//! What by its own words is not for us, or long over, is refused before anybody is asked: it costs nothing.

use agentd_base::clock::SharedClock;
use agentd_base::issuance::reason;
use agentd_base::limit::FOREIGN_CHARS;
use agentd_base::text::clip;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures::future::BoxFuture;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus};
use kube::api::PostParams;
use kube::{Api, Client};
use serde::Deserialize;

use super::facts::{PodClaim, Token};
use super::policy::Refusal;

const ACCOUNT_PREFIX: &str = "system:serviceaccount:";
const POD_NAME: &str = "authentication.kubernetes.io/pod-name";
const POD_UID: &str = "authentication.kubernetes.io/pod-uid";
/// How far the API server's clock may be from ours. It decides; this only keeps from it what is long over.
const CLOCK_SKEW_SECONDS: i64 = 300;

/// Verifies tokens.
pub trait TokenVerifier: Send + Sync {
    /// Refuses what cannot be a current token for the issuer's audience by what it says of itself, without asking
    /// anybody. Passing it proves nothing.
    ///
    /// # Errors
    /// [`reason::TOKEN_INVALID`].
    fn screen(&self, token: &str) -> Result<(), Refusal>;

    /// What a genuine, current token for the issuer's audience says; else a refusal, which is
    /// [`reason::UNAVAILABLE`] when nothing can be said about the token now.
    fn verify<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Token, Refusal>>;
}

/// Asks the API server.
pub struct ReviewVerifier {
    client: Client,
    audience: String,
    clock: SharedClock,
}

impl ReviewVerifier {
    /// For tokens with this audience only.
    pub fn new(client: Client, audience: String, clock: SharedClock) -> Self {
        Self {
            client,
            audience,
            clock,
        }
    }
}

impl TokenVerifier for ReviewVerifier {
    fn screen(&self, token: &str) -> Result<(), Refusal> {
        screen(token, &self.audience, self.clock.now().as_second())
    }

    fn verify<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Token, Refusal>> {
        Box::pin(async move {
            let review = TokenReview {
                spec: TokenReviewSpec {
                    token: Some(token.to_owned()),
                    audiences: Some(vec![self.audience.clone()]),
                },
                ..TokenReview::default()
            };
            let api: Api<TokenReview> = Api::all(self.client.clone());
            match api.create(&PostParams::default(), &review).await {
                Ok(review) => read_review(&review.status.unwrap_or_default(), &self.audience),
                Err(error) => {
                    tracing::warn!(event = "issuer.review.fail", error = %error);
                    Err(Refusal::new(
                        reason::UNAVAILABLE,
                        "the Kubernetes API cannot review tokens now; try again",
                    ))
                }
            }
        })
    }
}

/// Reads the API server's answer.
///
/// # Errors
/// When the token was not found good for exactly this audience, or is no ServiceAccount's.
pub fn read_review(status: &TokenReviewStatus, audience: &str) -> Result<Token, Refusal> {
    let invalid = |problem: &str| invalid(audience, problem);
    if status.authenticated != Some(true) {
        let said = status
            .error
            .as_deref()
            .map(|said| format!(": {}", clip(said, FOREIGN_CHARS)));
        return Err(invalid(&said.unwrap_or_default()));
    }
    // An API server that does not know audiences answers without them: then nothing was checked.
    if !status.audiences.iter().flatten().any(|found| found == audience) {
        return Err(invalid(": the API server did not confirm the audience"));
    }
    let user = status.user.as_ref().ok_or_else(|| invalid(""))?;
    let account = user
        .username
        .as_deref()
        .and_then(|name| name.strip_prefix(ACCOUNT_PREFIX))
        .and_then(|name| name.split_once(':'));
    let (namespace, service_account) = account.ok_or_else(|| invalid(": it is no ServiceAccount's"))?;
    let uid = user
        .uid
        .clone()
        .filter(|uid| !uid.is_empty())
        .ok_or_else(|| invalid(": it has no UID"))?;
    let extra = |key: &str| match user
        .extra
        .as_ref()
        .and_then(|extra| extra.get(key))
        .map(Vec::as_slice)
    {
        Some([value]) => Some(value.clone()),
        _ => None,
    };
    let pod = match (extra(POD_NAME), extra(POD_UID)) {
        (Some(name), Some(uid)) => Some(PodClaim { name, uid }),
        (None, None) => None,
        _ => return Err(invalid(": its pod claims are incomplete")),
    };
    Ok(Token {
        namespace: namespace.to_owned(),
        service_account: service_account.to_owned(),
        service_account_uid: uid,
        pod,
    })
}

fn invalid(audience: &str, problem: &str) -> Refusal {
    let message = format!("the token is no current ServiceAccount token with audience `{audience}`{problem}");
    Refusal::new(reason::TOKEN_INVALID, message)
}

/// The claims that every token of a ServiceAccount with an audience has.
#[derive(Deserialize)]
struct Claims {
    aud: Audiences,
    exp: i64,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audiences {
    One(String),
    Many(Vec<String>),
}

/// What a token says of itself, against the audience and the time.
fn screen(token: &str, audience: &str, now: i64) -> Result<(), Refusal> {
    let claims = token
        .split('.')
        .nth(1)
        .and_then(|payload| URL_SAFE_NO_PAD.decode(payload).ok())
        .and_then(|payload| serde_json::from_slice::<Claims>(&payload).ok())
        .ok_or_else(|| invalid(audience, ": it has no audience and expiry"))?;
    let ours = match &claims.aud {
        Audiences::One(one) => one == audience,
        Audiences::Many(many) => many.iter().any(|one| one == audience),
    };
    if !ours {
        return Err(invalid(audience, ": it is made for another one"));
    }
    if claims.exp.saturating_add(CLOCK_SKEW_SECONDS) < now {
        return Err(invalid(audience, ": it has expired"));
    }
    Ok(())
}

/// Whether a text has the form of a signed token at all; what has not is refused without asking anybody.
pub fn looks_signed(token: &str) -> bool {
    let parts: Vec<&str> = token.split('.').collect();
    let encoded = |part: &&str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
    };
    parts.len() == 3 && parts.iter().all(encoded)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::api::authentication::v1::UserInfo;

    use super::*;

    const AUDIENCE: &str = "agentd:agentd-system/agentd";

    fn good() -> TokenReviewStatus {
        TokenReviewStatus {
            authenticated: Some(true),
            audiences: Some(vec![AUDIENCE.to_owned()]),
            error: None,
            user: Some(UserInfo {
                username: Some("system:serviceaccount:support:triage-agent".to_owned()),
                uid: Some("u1".to_owned()),
                groups: None,
                extra: Some(BTreeMap::from([
                    (POD_NAME.to_owned(), vec!["p".to_owned()]),
                    (POD_UID.to_owned(), vec!["u2".to_owned()]),
                ])),
            }),
        }
    }

    #[track_caller]
    fn refused(spoil: impl FnOnce(&mut TokenReviewStatus), words: &str) {
        let mut status = good();
        spoil(&mut status);
        let refusal = read_review(&status, AUDIENCE).unwrap_err();
        assert_eq!(refusal.reason, reason::TOKEN_INVALID);
        assert!(
            refusal.message.contains(AUDIENCE) && refusal.message.contains(words),
            "{refusal}"
        );
    }

    #[test]
    fn a_good_answer_is_read() {
        let token = Token {
            namespace: "support".to_owned(),
            service_account: "triage-agent".to_owned(),
            service_account_uid: "u1".to_owned(),
            pod: Some(PodClaim {
                name: "p".to_owned(),
                uid: "u2".to_owned(),
            }),
        };
        assert_eq!(read_review(&good(), AUDIENCE), Ok(token.clone()));
        let mut unbound = good();
        unbound.user.as_mut().unwrap().extra = None;
        assert_eq!(read_review(&unbound, AUDIENCE), Ok(Token { pod: None, ..token }));
    }

    #[test]
    fn a_wrong_audience_is_refused_however_it_is_said() {
        refused(
            |status| {
                status.authenticated = Some(false);
                status.error = Some("token audiences [\"x\"] is invalid for the target audiences".to_owned());
            },
            "is invalid for the target audiences",
        );
        refused(
            |status| status.audiences = Some(vec!["other".to_owned()]),
            "did not confirm",
        );
        refused(|status| status.audiences = None, "did not confirm");
        refused(|status| status.authenticated = None, "");
    }

    #[test]
    fn only_service_accounts_with_whole_claims() {
        let name = |name: &str| {
            let name = name.to_owned();
            move |status: &mut TokenReviewStatus| status.user.as_mut().unwrap().username = Some(name)
        };
        refused(name("system:admin"), "no ServiceAccount's");
        refused(
            name("system:serviceaccount:only-namespace"),
            "no ServiceAccount's",
        );
        refused(|status| status.user = None, "");
        refused(|status| status.user.as_mut().unwrap().uid = None, "no UID");
        refused(
            |status| {
                drop(
                    status
                        .user
                        .as_mut()
                        .unwrap()
                        .extra
                        .as_mut()
                        .unwrap()
                        .remove(POD_UID),
                )
            },
            "incomplete",
        );
        refused(
            |status| {
                drop(
                    status
                        .user
                        .as_mut()
                        .unwrap()
                        .extra
                        .as_mut()
                        .unwrap()
                        .remove(POD_NAME),
                )
            },
            "incomplete",
        );
    }

    #[test]
    fn what_is_not_for_us_by_its_own_words_is_refused_without_asking() {
        let said = |claims: &str| {
            let token = format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims));
            screen(&token, AUDIENCE, 1_000_000).map_err(|refusal| {
                refusal
                    .message
                    .rsplit("`: ")
                    .next()
                    .unwrap_or_default()
                    .to_owned()
            })
        };
        let claims =
            |audience: &str, expiry: i64| format!(r#"{{"aud":{audience},"exp":{expiry},"sub":"x"}}"#);
        let (ours, other) = (format!("\"{AUDIENCE}\""), r#""https://kubernetes.default.svc""#);
        assert_eq!(said(&claims(&ours, 1_003_600)), Ok(()));
        assert_eq!(said(&claims(&format!("[{other},{ours}]"), 1_003_600)), Ok(()));
        assert_eq!(said(&claims(&ours, 999_800)), Ok(()), "clocks differ");
        let refused = |why: &str| Err(why.to_owned());
        assert_eq!(
            said(&claims(other, 1_003_600)),
            refused("it is made for another one")
        );
        assert_eq!(
            said(&claims("[]", 1_003_600)),
            refused("it is made for another one")
        );
        assert_eq!(said(&claims(&ours, 999_000)), refused("it has expired"));
        for none in ["{}", "[]", "", "{", r#"{"aud":1,"exp":2}"#, r#"{"aud":"x"}"#] {
            assert_eq!(said(none), refused("it has no audience and expiry"), "{none}");
        }
        for garbage in ["a.b.c", "a.!!.c", "a", ""] {
            assert!(screen(garbage, AUDIENCE, 0).is_err(), "{garbage}");
        }
    }

    #[test]
    fn what_is_no_signed_token_is_seen_without_asking() {
        assert!(looks_signed("aA0-_.b.c"));
        for bad in ["", "abc", "a.b", "a.b.c.d", "a..c", "a.b.", "a b.c.d", "a.b.c\n"] {
            assert!(!looks_signed(bad), "{bad}");
        }
    }
}
