//! What the card says to a reader of 0.3, beside what it says to one of 1.0. The two have no member in common that means
//! something else: where both describe one thing, such as a security scheme, their members stand beside each other.

use a2a::TRANSPORT_PROTOCOL_JSONRPC;
use serde_json::{Map, Value, json};

/// As a card of 0.3 has it: with the patch.
const PROTOCOL_VERSION: &str = "0.3.0";

/// Adds the members of 0.3 to a card of 1.0. `urls`: where it is reached, the best first. `scheme`: the name and the
/// description of its security scheme.
pub(crate) fn add(card: &mut Map<String, Value>, urls: &[&str], scheme: Option<(&str, &str)>) {
    let interfaces: Vec<_> = urls
        .iter()
        .map(|url| json!({ "url": url, "transport": TRANSPORT_PROTOCOL_JSONRPC }))
        .collect();
    let members = [
        ("protocolVersion", json!(PROTOCOL_VERSION)),
        ("url", json!(urls.first())),
        ("preferredTransport", json!(TRANSPORT_PROTOCOL_JSONRPC)),
        ("additionalInterfaces", json!(interfaces)),
        ("supportsAuthenticatedExtendedCard", json!(true)),
    ];
    card.extend(members.map(|(name, value)| (name.to_owned(), value)));
    let Some((name, description)) = scheme else { return };
    if let Some(Value::Object(scheme)) = card
        .get_mut("securitySchemes")
        .and_then(|schemes| schemes.get_mut(name))
    {
        scheme.insert("type".to_owned(), json!("mutualTLS"));
        scheme.insert("description".to_owned(), json!(description));
    }
    card.insert("security".to_owned(), json!([{ name: [] }]));
}
