//! Texts from documents and command lines, whatever they hold: read or refused, and what was read is written as itself.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::fmt::Display;
use std::str::FromStr;

use agentd_base::duration::Duration;
use agentd_base::issuance::{Refusal, SvidRequest, SvidResponse};
use agentd_base::json::why;
use agentd_base::rate::Rate;
use agentd_base::report::{self, Report};
use agentd_base::text::{clip, is_unseen};
use agentd_base::time_of_day::TimeOfDay;
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn read_or_refused<T: FromStr + Display + PartialEq + std::fmt::Debug>(text: &str) {
    if let Ok(value) = text.parse::<T>() {
        let again = value.to_string().parse::<T>().ok();
        assert_eq!(again.as_ref(), Some(&value), "{text:?}");
    }
}

/// What operator, issuer and pods say to one another.
fn messages() -> Vec<Value> {
    vec![
        json!({
            "pod_name": "a-6d4", "pod_uid": "0b5e", "running_digest": "sha256:1", "missing_secrets": ["token/key"],
            "rejected": {"digest": "sha256:2", "message": "limits.steps: what is it?"},
            "servers": [{
                "name": "fs", "state": "connected", "message": null, "tool_count": 1, "resource_count": 2,
                "info": {"name": "n", "version": "1", "protocol_version": "2025-11-25", "capabilities": ["tools"]},
                "tools": [{"name": "read", "digest": "sha256:3"}],
            }],
            "a2a_versions": ["1.0"], "tool_count": 1, "tool_digest": "sha256:4", "listens_on_all_addresses": true,
            "last_run": {"id": "r", "trigger": "message", "outcome": "completed", "reason": null, "steps": 1, "tokens": 2,
                "started_at": "2026-12-01T10:00:00Z", "ended_at": "2026-12-01T10:00:01Z"},
        }),
        json!({"csr": "-----BEGIN CERTIFICATE REQUEST-----\n"}),
        json!({
            "spiffe_id": "spiffe://td/a", "certificates": "-----BEGIN CERTIFICATE-----\n",
            "bundle": "-----BEGIN CERTIFICATE-----\n", "expires_at": "2026-12-01T10:00:00Z",
        }),
        json!({"reason": "TokenInvalid", "message": "it has expired"}),
    ]
}

/// What was read is the same when it is written and read again, and what was not is refused in a few words.
fn again<T: DeserializeOwned + Serialize + PartialEq + std::fmt::Debug>(bytes: &[u8]) -> Option<T> {
    match serde_json::from_slice::<T>(bytes) {
        Ok(value) => {
            let written = serde_json::to_vec(&value).unwrap();
            assert_eq!(serde_json::from_slice::<T>(&written).unwrap(), value);
            Some(value)
        }
        Err(error) => {
            agentd_noise::words(&why(&error));
            None
        }
    }
}

proptest! {
    #[test]
    fn messages_between_operator_issuer_and_pods(bytes in agentd_noise::json(messages())) {
        if let Some(report) = again::<Report>(&bytes) {
            let sent = report::body(&report).unwrap();
            prop_assert!(sent.len() <= agentd_base::limit::REPORT_BYTES);
            let sent = again::<Report>(&sent).unwrap();
            prop_assert_eq!(report::body(&sent).unwrap(), serde_json::to_vec(&sent).unwrap());
        }
        again::<SvidRequest>(&bytes);
        again::<SvidResponse>(&bytes);
        again::<Refusal>(&bytes);
    }

    #[test]
    fn durations_rates_and_times_of_the_day(
        text in "\\PC{0,24}|[0-9]{0,24}(ns|us|ms|s|m|h|d|µs| )?|[0-9]{1,22}/[0-9]{0,22}[smhd]?|[0-9]{0,3}:[0-9]{0,3}Z?|[-+.eE0-9:/Zsmhd]{0,12}",
    ) {
        read_or_refused::<Duration>(&text);
        read_or_refused::<Rate>(&text);
        read_or_refused::<TimeOfDay>(&text);
    }

    #[test]
    fn what_is_clipped_is_short_and_harmless(text in ".{0,64}|[\u{0}-\u{20}\u{7f}-\u{9f}\u{200b}-\u{202e}]{0,64}", max in 1usize..40) {
        let clipped = clip(&text, max);
        prop_assert!(clipped.chars().count() <= max, "{clipped:?}");
        prop_assert!(!clipped.chars().any(|c| c.is_control() || is_unseen(c)), "{clipped:?}");
    }
}
