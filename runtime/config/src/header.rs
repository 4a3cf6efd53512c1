//! Which headers a person may declare, and which of them must not hold a literal. The CRD rules use the same lists.

/// Names whose value is a credential, or part of one. Compared in lower case.
pub const CREDENTIAL_NAMES: [&str; 3] = ["authorization", "proxy-authorization", "cookie"];
/// Parts of a name that make it one. Compared in lower case.
pub const CREDENTIAL_PARTS: [&str; 8] = [
    "token",
    "secret",
    "password",
    "passwd",
    "credential",
    "api-key",
    "apikey",
    "api_key",
];
/// Headers that belong to the connection or the protocol; a declared one would be ignored or break it.
pub const RESERVED: [&str; 14] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "last-event-id",
    "mcp-protocol-version",
    "mcp-session-id",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Whether the value under this name is a credential and must come from a secret reference.
pub fn is_credential(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    CREDENTIAL_NAMES.contains(&name.as_str()) || CREDENTIAL_PARTS.iter().any(|part| name.contains(part))
}

/// Whether the name belongs to the connection or the protocol.
pub fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name.to_ascii_lowercase().as_str())
}

/// Whether it is a token of RFC 9110, 5.6.2.
pub fn is_name(name: &str) -> bool {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.len() <= 128 && name.bytes().all(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_known_by_name() {
        for name in [
            "Authorization",
            "X-Api-Key",
            "x-goog-api-key",
            "X-Auth-Token",
            "Cookie",
            "X-Client-Secret",
        ] {
            assert!(is_credential(name), "{name}");
        }
        for name in ["X-Tenant", "User-Agent", "traceparent", "anthropic-version"] {
            assert!(!is_credential(name), "{name}");
        }
        assert!(is_reserved("Host") && is_reserved("Mcp-Session-Id") && !is_reserved("X-Tenant"));
        assert!(is_name("X-Tenant") && !is_name("") && !is_name("a b") && !is_name("a:b") && !is_name("ä"));
    }
}
