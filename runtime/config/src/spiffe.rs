//! The form of SPIFFE IDs and trust domains, as far as a document needs it (SPIFFE-ID 2). `agentd-identity` is the
//! authority at run time.

/// The longest SPIFFE ID (SPIFFE-ID 2.3).
const ID_BYTES: usize = 2048;
/// The longest trust domain (SPIFFE-ID 2.1).
const TRUST_DOMAIN_BYTES: usize = 255;

/// Whether it is a trust domain.
pub(crate) fn is_trust_domain(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-_".contains(&byte);
    !text.is_empty() && text.len() <= TRUST_DOMAIN_BYTES && text.bytes().all(allowed)
}

/// The trust domain of a SPIFFE ID of a workload; none when it is no such ID.
pub(crate) fn trust_domain_of(id: &str) -> Option<&str> {
    let (domain, path) = id.strip_prefix("spiffe://")?.split_once('/')?;
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    let segment = |part: &str| !part.is_empty() && part != "." && part != ".." && part.bytes().all(allowed);
    let valid = id.len() <= ID_BYTES && is_trust_domain(domain) && path.split('/').all(segment);
    valid.then_some(domain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_workloads_and_nothing_else() {
        assert_eq!(trust_domain_of("spiffe://a.b-c_1/ns/x/sa/Y"), Some("a.b-c_1"));
        for bad in [
            "",
            "spiffe://",
            "spiffe://td",
            "spiffe://td/",
            "spiffe://TD/x",
            "spiffe://td//x",
            "spiffe://td/x/",
            "spiffe://td/../x",
            "spiffe://td/*",
            "spiffe://td:1/x",
            "https://td/x",
            "spiffe://td/x?y",
        ] {
            assert_eq!(trust_domain_of(bad), None, "{bad}");
        }
    }
}
