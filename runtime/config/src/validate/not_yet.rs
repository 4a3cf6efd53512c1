//! Keys that the document has and nothing reads yet: refused, never ignored. Whoever writes a reader takes its line out.

use crate::document::Document;
use crate::fault::Fault;

pub(super) fn check(document: &Document, faults: &mut Vec<Fault>) {
    let Document {
        skills,
        observability,
        ..
    } = document;
    let rows = [
        ("skills", *skills != Default::default()),
        ("observability.log_content", observability.log_content),
    ];
    for (key, is_set) in rows {
        if is_set {
            faults.push(Fault::new(key, "is not supported by this version", "take it out"));
        }
    }
}
