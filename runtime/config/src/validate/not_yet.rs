//! Keys that the document has and nothing reads yet: refused, never ignored. Whoever writes a reader takes its line out.

use crate::document::{Dialect, Document, Mapped, StoreKind, StructuredOutput, Tools};
use crate::fault::Fault;

pub(super) fn check(document: &Document, faults: &mut Vec<Fault>) {
    let Document {
        agent,
        intelligence,
        tools,
        knowledge,
        search,
        skills,
        context,
        store,
        limits,
        observability,
        memory,
        ..
    } = document;
    let rows = [
        ("agent.max_parallel_turns", agent.max_parallel_turns.is_some()),
        ("agent.tools", agent.tools != Default::default()),
        ("intelligence.dialect", intelligence.dialect != Dialect::default()),
        (
            "intelligence.structured_output",
            intelligence.structured_output != StructuredOutput::default(),
        ),
        ("intelligence.budget", intelligence.budget.is_some()),
        ("tools", *tools != Tools::default()),
        ("knowledge", *knowledge != Mapped::default()),
        ("search", *search != Mapped::default()),
        ("memory", *memory != Default::default()),
        ("skills", *skills != Default::default()),
        ("context", *context != Default::default()),
        (
            "store.kind",
            matches!(store.kind, Some(StoreKind::Mcp | StoreKind::Http)),
        ),
        ("store.prefix", store.prefix.is_some()),
        ("store.timeout", store.timeout.is_some()),
        ("store.mcp", store.mcp.is_some()),
        ("store.http", store.http.is_some()),
        ("store.retention", store.retention != Default::default()),
        ("limits.subagents", limits.subagents != Default::default()),
        ("observability.log_content", observability.log_content),
    ];
    for (key, is_set) in rows {
        if is_set {
            faults.push(Fault::new(key, "is not supported by this version", "take it out"));
        }
    }
}
