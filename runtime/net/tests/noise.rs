//! Addresses from documents, redirects and metadata, whatever they hold: an address or an error in words, and what a
//! server names is never judged more kindly than what was declared.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use agentd_net::{Declared, Destination};
use proptest::prelude::*;

fn address() -> impl Strategy<Value = String> {
    prop_oneof![
        "\\PC{0,60}",
        "(https?|HTTPS|ftp|file|ws|data|javascript)?:?/{0,3}[a-z0-9.@:%\\[\\]_-]{0,40}[/?#]{0,2}[ -~]{0,20}",
        "https?://(\\[[0-9a-f:.%]{0,30}\\]|0x[0-9a-f]{1,10}|[0-9]{1,12}|[0-9.]{1,20}|localhost\\.?|169\\.254\\.169\\.254)(:[0-9]{0,6})?/?",
    ]
}

proptest! {
    #[test]
    fn an_address_is_taken_or_refused_in_words(declared in address(), named in address()) {
        match Destination::declared(&declared, Declared::Mcp) {
            Ok(destination) => {
                let scheme = destination.url().scheme();
                let host = destination.url().host_str().unwrap_or_default().to_owned();
                prop_assert!(["http", "https"].contains(&scheme), "{declared:?}");
                prop_assert!(scheme == "https" || is_loopback(&host), "{declared:?}");
                prop_assert!(!destination.authority().is_empty());
            }
            Err(error) => {
                let words = error.to_string();
                prop_assert!(!words.is_empty() && words.len() < 4096, "{words:?}");
                prop_assert!(!words.chars().any(char::is_control), "{words:?}");
            }
        }
        // The server is public: nothing that it names is loopback, and all of it is https.
        let public = Destination::declared("https://mcp.example/mcp", Declared::Mcp).unwrap();
        if let Ok(destination) = public.discovered(&named) {
            let host = destination.url().host_str().unwrap_or_default().to_owned();
            prop_assert_eq!(destination.url().scheme(), "https", "{:?}", named);
            // A name is judged by what it resolves to, when it is dialled.
            prop_assert!(!is_loopback_address(&host), "{named:?}");
        }
    }
}

fn is_loopback(host: &str) -> bool {
    let name = host.trim_end_matches('.');
    name == "localhost" || name.ends_with(".localhost") || is_loopback_address(host)
}

fn is_loopback_address(host: &str) -> bool {
    let address = host.trim_matches(['[', ']']);
    address
        .parse::<std::net::IpAddr>()
        .is_ok_and(|ip| ip.is_loopback())
}
