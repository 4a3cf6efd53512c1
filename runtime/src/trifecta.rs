//! The audit line of an agent that may have untrusted input, sensitive data and a way out at once: it is let be, never in
//! silence.

use agentd_config::{Document, trifecta};

use crate::logging::AUDIT;

/// Says it of a document that was taken, at the start or by a reload.
pub(crate) fn audit(document: &Document) {
    if let Some(found) = trifecta::declared(document) {
        tracing::warn!(
            target: AUDIT,
            event = "audit",
            action = "trifecta.allowed",
            untrusted_input = found.untrusted_input,
            sensitive = found.sensitive,
            egress = found.egress,
        );
    }
}
