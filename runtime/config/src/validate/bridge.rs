//! Checks of a bridge's document.

use super::{check_report, connection, identity, named, spiffe_id};
use crate::bridge::BridgeDocument;
use crate::fault::Fault;

/// Every fault of a bridge's document; empty when it can run.
pub fn validate_bridge(document: &BridgeDocument) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut name = Vec::new();
    named(
        "bridge",
        &document.name,
        &mut std::collections::BTreeSet::new(),
        &mut name,
    );
    faults.extend(name.into_iter().map(|fault| Fault {
        key: "name".into(),
        ..fault
    }));
    if document.upstream_port == 0 || document.upstream_port == document.listen.port() {
        faults.push(Fault::new(
            "upstream_port",
            "is zero or the bridge's own port",
            "name the port on which the server listens",
        ));
    }
    let path = &document.upstream_path;
    let plain = |c: char| c.is_ascii_graphic() && !matches!(c, '?' | '#' | '\\');
    if !path.starts_with('/') || !path.chars().all(plain) || path.contains("/../") {
        faults.push(Fault::new("upstream_path", "is not a path", "write such as /mcp"));
    }
    connection::positive("timeout", document.timeout, &mut faults);
    for (index, id) in document.allowed.iter().enumerate() {
        spiffe_id(
            &format!("allowed[{index}]"),
            id,
            Some(&document.identity),
            &mut faults,
        );
    }
    identity(&document.identity, &mut faults);
    check_report(&document.report, Some(&document.identity), &mut faults);
    let observability = &document.observability;
    for (key, is_set) in [
        ("observability.log_content", observability.log_content),
        ("observability.otel", observability.otel.is_some()),
    ] {
        if is_set {
            faults.push(Fault::new(
                key,
                "has no effect: a bridge knows nothing of what it passes on",
                "take it out",
            ));
        }
    }
    if document.lifecycle.watch_config {
        faults.push(Fault::new(
            "lifecycle.watch_config",
            "has no effect: all that a bridge takes up stands in its live folder",
            "take it out",
        ));
    }
    connection::positive(
        "lifecycle.drain_timeout",
        document.lifecycle.drain_timeout,
        &mut faults,
    );
    faults
}
