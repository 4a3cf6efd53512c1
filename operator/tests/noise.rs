//! What pods report, and what stands in annotations and ConfigMaps that somebody else may have written, whatever it is:
//! facts fit the status, and a document that cannot be read is left as it is.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::collections::{BTreeMap, BTreeSet};

use agentd_base::limit::MESSAGE_CHARS;
use agentd_base::report::Report;
use agentd_crds::agent::AgentStatus;
use agentd_crds::mcp_server::McpServerStatus;
use agentd_noise::{changed_text, json, words};
use agentd_operator::controllers::agent::inputs::standing;
use agentd_operator::issuer::token::{looks_signed, read_review};
use agentd_operator::live::{AGENT, BRIDGE, BUNDLE, Data, Lists, REQUESTED, Said, uptake};
use agentd_operator::reports::facts::{of_agent, of_bridge, of_remote, of_server};
use k8s_openapi::api::authentication::v1::TokenReviewStatus;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use proptest::prelude::*;
use serde::Serialize;
use serde_json::{Value, json as object};

const BUNDLES: &str = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";

fn report() -> Value {
    let digest = agentd_base::digest::of(b"x");
    object!({
        "pod_name": "a-6d4", "pod_uid": "0b5e", "running_digest": digest, "missing_secrets": ["token/key", "token/key"],
        "rejected": {"digest": digest, "message": "limits.steps: what is it?"},
        "servers": [
            {"name": "fs", "state": "connected", "message": "m", "tool_count": 1, "resource_count": 2,
                "info": {"name": "n", "version": "1", "protocol_version": "2025-11-25", "capabilities": ["tools"]},
                "tools": [{"name": "t".repeat(300), "digest": digest}, {"name": format!("{}u", "t".repeat(300)), "digest": digest}]},
            {"name": "web", "state": "failed", "message": "away", "tool_count": 0, "resource_count": 0, "info": null, "tools": []},
        ],
        "a2a_versions": ["1.0"], "tool_count": 1, "tool_digest": digest, "listens_on_all_addresses": true,
        "last_run": {"id": "r", "trigger": "message", "outcome": "completed", "reason": null, "steps": 1, "tokens": 2,
            "started_at": "2026-12-01T10:00:00Z", "ended_at": "2026-12-01T10:00:01Z"},
    })
}

/// Texts are short lines, lists are short, and of those with names each name is there once: else the API server would
/// take none of it.
fn fits(value: &Value) {
    match value {
        Value::String(text) => {
            assert!(
                text.chars().count() <= MESSAGE_CHARS && !text.contains(char::is_control),
                "{text:?}"
            );
        }
        Value::Array(items) => {
            assert!(items.len() <= 256, "{} items", items.len());
            let names: Vec<&Value> = items.iter().filter_map(|item| item.get("name")).collect();
            let distinct: BTreeSet<String> = names.iter().map(ToString::to_string).collect();
            assert_eq!(distinct.len(), names.len(), "a name twice: {names:?}");
            items.iter().for_each(fits);
        }
        Value::Object(members) => {
            assert!(members.len() <= 256);
            for (key, member) in members {
                fits(&Value::from(key.as_str()));
                fits(member);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn status(facts: &impl Serialize) {
    fits(&serde_json::to_value(facts).unwrap());
}

fn agent_document() -> Value {
    object!({"agent": {"name": "a"}, "a2a": {"listen": "0.0.0.0:8443", "principals": [
        {"name": "p", "spiffe_id": "spiffe://td/ns/a/sa/b", "role": "user"}, {"name": "q", "spiffe_id": "spiffe://td/c"}]},
        "mcp": {"servers": [{"name": "fs", "endpoint": "https://fs.a.svc/mcp"}, {"name": "web", "endpoint": "https://x/mcp"}]}})
}

fn bridge_document() -> Value {
    object!({"allowed": ["spiffe://td/ns/a/sa/b", "spiffe://td/c"], "port": 1})
}

fn folder(lists: Lists, document: &[u8]) -> Data {
    BTreeMap::from([
        (
            lists.file.to_owned(),
            String::from_utf8_lossy(document).into_owned(),
        ),
        (BUNDLE.to_owned(), BUNDLES.to_owned()),
        ("other".to_owned(), "x".to_owned()),
    ])
}

/// The callers that a document names; none where it is no document.
fn callers(lists: Lists, data: &Data) -> Vec<Value> {
    let document: Value = serde_json::from_str(&data[lists.file]).unwrap_or_default();
    let list = if lists == AGENT {
        document.pointer("/a2a/principals")
    } else {
        document.pointer("/allowed")
    };
    list.and_then(Value::as_array).cloned().unwrap_or_default()
}

proptest! {
    #![proptest_config(agentd_noise::cases(128))]

    #[test]
    fn facts_of_any_report_fit_the_status(body in json(vec![report()])) {
        let Ok(report) = serde_json::from_slice::<Report>(&body) else { return Ok(()) };
        let agent = of_agent(&report, &AgentStatus::default());
        status(&agent);
        prop_assert_eq!(&of_agent(&report, &agent), &agent, "the same report says the same");
        let server = of_bridge(&report, "fs", &McpServerStatus::default());
        status(&server);
        prop_assert_eq!(&of_bridge(&report, "fs", &server), &server);
        for server in &report.servers {
            of_server(server).iter().for_each(status);
            of_remote(server).iter().for_each(status);
        }
    }

    /// Callers leave a document of an earlier revision, and none comes in; what is no document stays.
    #[test]
    fn live_folders(document in json(vec![agent_document(), bridge_document()]), agent in any::<bool>()) {
        let lists = if agent { AGENT } else { BRIDGE };
        let old = folder(lists, &document);
        let before = callers(lists, &old);
        let valid: Vec<Value> = before.iter().skip(1).cloned().collect();
        if let Some(new) = lists.narrowed(&old, &valid, "bundle") {
            let kept = callers(lists, &new);
            prop_assert!(kept.iter().all(|one| valid.contains(one)), "{:?}", kept);
            prop_assert_eq!(new.len(), 2);
            prop_assert_eq!(lists.narrowed(&new, &valid, "bundle"), None, "it has them already");
        }
        let right = if agent { agent_document() } else { bridge_document() };
        let fresh = folder(lists, right.to_string().as_bytes());
        if let Some(new) = lists.refreshed(&old, &fresh) {
            prop_assert_eq!(callers(lists, &new), callers(lists, &fresh));
            prop_assert_eq!(lists.refreshed(&new, &fresh), None);
        }
    }

    #[test]
    fn annotations(
        made_of in json(vec![object!({"fs": "uid-1", "web": "uid-2"})]),
        document in json(vec![agent_document()]),
        requested in changed_text(&["sha256:00 2026-12-01T10:00:00Z", "sha256:00 9999-12-01T10:00:00Z"]),
    ) {
        let live: ConfigMap = serde_json::from_value(object!({
            "metadata": {"annotations": {"agentd.io/mcp-servers": String::from_utf8_lossy(&made_of)}},
            "data": {"agentd.json": String::from_utf8_lossy(&document)}})).unwrap();
        for (name, standing) in standing(&live) {
            prop_assert_eq!(&name, &standing.entry.name);
        }
        let pod: Pod = serde_json::from_value(object!({
            "metadata": {"name": "p", "uid": "u", "annotations": {REQUESTED: requested}},
            "spec": {"containers": [], "volumes": [{"name": "v", "configMap": {"name": "live"}}]}})).unwrap();
        let now = "2026-12-01T10:00:30Z".parse().unwrap();
        let said = Said { pod_uid: "u".into(), ..Said::default() };
        let uptake = uptake([&pod], "live", "sha256:00", Some(&said), false, now);
        let until = uptake.until.map(|until| until.duration_since(now).as_secs());
        prop_assert!(uptake.overdue || until.is_some_and(|wait| (0..=120).contains(&wait)), "{:?}", uptake);
    }

    #[test]
    fn tokens_and_what_is_said_of_them(
        token in changed_text(&["eyJhbGciOiJSUzI1NiJ9.eyJhdWQiOiJhIiwiZXhwIjo5fQ.c2ln"]),
        review in json(vec![object!({"authenticated": true, "audiences": ["a"], "user": {
            "username": "system:serviceaccount:ns:sa", "uid": "u", "groups": ["system:serviceaccounts"],
            "extra": {"authentication.kubernetes.io/pod-name": ["p"], "authentication.kubernetes.io/pod-uid": ["v"]}}})]),
    ) {
        if looks_signed(&token) {
            prop_assert!(token.is_ascii() && token.matches('.').count() == 2);
        }
        if let Ok(review) = serde_json::from_slice::<TokenReviewStatus>(&review) {
            match read_review(&review, "a") {
                Ok(read) => prop_assert!(!read.namespace.is_empty() && !read.service_account.is_empty()),
                Err(refusal) => words(&refusal.message),
            }
        }
    }
}
