//! The body of a server-side apply. An API server reads it as YAML, which has fewer characters than JSON: what a person
//! wrote into a spec may hold the others, and is sent with them escaped.

use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use kube::core::Request;
use serde_json::Value;

use super::Owned;

/// Sends the patch of a server-side apply.
pub(super) async fn send<K: Owned>(
    client: &Client,
    api: &Api<K>,
    name: &str,
    params: &PatchParams,
    value: &Value,
) -> kube::Result<K> {
    let request = Request::new(api.resource_url())
        .patch(name, params, &Patch::Apply(value))
        .map_err(kube::Error::BuildRequest)?;
    client.request(request.map(escaped)).await
}

/// JSON of the same meaning that is YAML too. Outside of its strings JSON has none of these characters.
fn escaped(json: Vec<u8>) -> Vec<u8> {
    let text = match String::from_utf8(json) {
        Ok(text) => text,
        Err(error) => return error.into_bytes(),
    };
    if !text.contains(is_foreign) {
        return text.into_bytes();
    }
    let mut escaped = String::with_capacity(text.len() + 64);
    for each in text.chars() {
        if is_foreign(each) {
            escaped.push_str(&format!("\\u{:04x}", u32::from(each)));
        } else {
            escaped.push(each);
        }
    }
    escaped.into_bytes()
}

/// Characters that JSON takes as they are and YAML does not (YAML 1.2, section 5.1), and those that it takes for breaks
/// of lines. None is beyond U+FFFF, so each is one escape.
fn is_foreign(each: char) -> bool {
    matches!(
        each,
        '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}'
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_character_means_the_same_and_none_is_foreign_to_yaml() {
        let all: String = ('\0'..=char::MAX).collect();
        let value = json!({ "all": all });
        let body = escaped(serde_json::to_vec(&value).unwrap());
        let text = std::str::from_utf8(&body).unwrap();
        assert!(!text.contains(is_foreign));
        assert_eq!(serde_json::from_str::<Value>(text).unwrap(), value);
        assert!(text.contains(r"\u007f\u0080"));
    }

    #[test]
    fn what_needs_no_escape_is_sent_as_it_is() {
        let body = serde_json::to_vec(&json!({"text": "é \u{10ffff} \n \" \\"})).unwrap();
        assert_eq!(escaped(body.clone()), body);
    }
}
