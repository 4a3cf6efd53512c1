//! The audit line of an agent that may have untrusted input, sensitive data and a way out at once: it is let be, never in
//! silence.

use agentd_config::{Document, trifecta};

use crate::audit::{Audit, SYSTEM};

/// What is allowed then.
pub(crate) const ALLOWED: &str = "trifecta.allowed";

/// Says it of a document that was taken, at the start or by a reload.
pub(crate) fn audit(document: &Document) {
    if let Some(found) = trifecta::declared(document) {
        Audit {
            instance: &document.instance(|name| std::env::var(name).ok()),
            principal: SYSTEM,
            role: SYSTEM,
            action: ALLOWED,
            target: &found.to_string(),
            outcome: "ok",
            request_id: "",
            trace: "",
            dur_ms: None,
        }
        .write();
    }
}
