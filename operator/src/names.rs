//! Names of what the operator makes. An object's own name has at most 46 characters (a rule of the CRDs), so that
//! every name made of it is a Service name.

use agentd_base::digest;

/// How much of a revision's hash stands in names: 40 bits tell the revisions of one object apart.
const HASH_CHARS: usize = 10;

/// Everything of an Agent begins with this; its ServiceAccount, Service, Deployment, claim and NetworkPolicy are named
/// so.
pub fn agent(name: &str) -> String {
    format!("{name}-agent")
}

/// The same for an McpServer.
pub fn mcp(name: &str) -> String {
    format!("{name}-mcp")
}

/// The Agent whose name [`agent`] made this of.
pub fn of_agent(made: &str) -> Option<&str> {
    made.strip_suffix("-agent")
}

/// The McpServer whose name [`mcp`] made this of.
pub fn of_mcp(made: &str) -> Option<&str> {
    made.strip_suffix("-mcp")
}

/// The immutable ConfigMap of a revision; `owner` is [`agent`] or [`mcp`].
pub fn config(owner: &str, revision: &str) -> String {
    format!("{owner}-{revision}")
}

/// The ConfigMap of a revision that is written in place.
pub fn live(owner: &str, revision: &str) -> String {
    format!("{owner}-{revision}-live")
}

/// Whether a ConfigMap's name is that of a [`live`] one of this owner.
pub fn is_live(owner: &str, name: &str) -> bool {
    let revision = name
        .strip_prefix(owner)
        .and_then(|rest| rest.strip_prefix('-'))
        .and_then(|rest| rest.strip_suffix("-live"));
    revision.is_some_and(|revision| revision.len() == HASH_CHARS)
}

/// The short hash of some bytes, for names.
pub fn short_hash(bytes: &[u8]) -> String {
    digest::hex(bytes).chars().take(HASH_CHARS).collect()
}

/// The host name of a Service as pods use it. Relative to the cluster's own domain, whatever that is.
pub fn service_host(service: &str, namespace: &str) -> String {
    format!("{service}.{namespace}.svc")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_name_still_makes_a_service_name() {
        let longest = "a".repeat(46);
        assert_eq!((of_agent(&agent("a")), of_mcp(&mcp("a"))), (Some("a"), Some("a")));
        assert!(agent(&longest).len() <= 63 && mcp(&longest).len() <= 63);
        assert_eq!(
            live(&agent("triage"), "0123456789"),
            "triage-agent-0123456789-live"
        );
        assert_eq!(short_hash(b"x").len(), HASH_CHARS);
        assert!(is_live("triage-agent", "triage-agent-0123456789-live"));
        assert!(!is_live("triage-agent", "triage-agent-0123456789"));
        assert!(!is_live("triage-agent", "another-agent-0123456789-live"));
    }
}
