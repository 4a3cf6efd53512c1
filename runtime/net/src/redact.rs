//! What was sent in confidence does not come back: servers repeat a token in an error, an echo or a log of theirs, and
//! from there it would go into our logs, a status or a transcript. Whole bodies and events are cleaned before anybody
//! reads them. It is no defence against a server that wants to tell: that one has the secret already.

use std::sync::Arc;

use bytes::Bytes;
use secrecy::{ExposeSecret as _, SecretString};

/// Stands where the secret stood; fit for JSON.
const REDACTED: &str = "[redacted]";
/// Shorter words are found everywhere, and are no credentials.
const SHORTEST: usize = 8;

/// The secrets of one exchange.
#[derive(Clone, Default)]
pub struct Redactor(Arc<[SecretString]>);

impl Redactor {
    /// Of values that may have a scheme before the secret itself, such as `Bearer`.
    pub fn new(values: impl IntoIterator<Item = SecretString>) -> Self {
        Self(values.into_iter().collect())
    }

    /// The text without the secrets; `None` when there are none in it.
    pub fn text(&self, text: &str) -> Option<String> {
        let mut clean = None;
        let words = self
            .0
            .iter()
            .flat_map(|value| value.expose_secret().split_whitespace());
        for word in words.filter(|word| word.len() >= SHORTEST) {
            let current: &str = clean.as_deref().unwrap_or(text);
            if current.contains(word) {
                clean = Some(current.replace(word, REDACTED));
            }
        }
        clean
    }

    /// The same for a body. One that is no text is left as it is: nobody shows it.
    pub(crate) fn body(&self, body: Bytes) -> Bytes {
        if self.0.is_empty() {
            return body;
        }
        match std::str::from_utf8(&body).ok().and_then(|text| self.text(text)) {
            Some(clean) => clean.into(),
            None => body,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_blanked_and_words_are_not() {
        let redactor = Redactor::new(["Bearer s3cret-token".into(), "short".into()]);
        let text = r#"{"error":"Bearer s3cret-token is not s3cret-token2; short"}"#;
        let clean = r#"{"error":"Bearer [redacted] is not [redacted]2; short"}"#;
        assert_eq!(redactor.text(text).as_deref(), Some(clean));
        assert_eq!(redactor.text("nothing here"), None);
        assert_eq!(redactor.body(Bytes::from_static(b"\xff s3cret-token")).len(), 14);
    }
}
