//! What pods say about themselves: the mTLS endpoint ([`listener`]), whose report it is ([`subject`]), one write at a
//! time for each object ([`desk`]) and the fields that a report becomes ([`facts`]).
//!
//! Guarantees: a report is taken only about the object that the peer's SPIFFE ID belongs to, from a pod that this
//! object controls by UID, and about the remote servers that the object references; it is acknowledged after the
//! status holds it; only facts are written, with a field manager of their own.

pub mod desk;
pub mod facts;
pub mod listener;
pub mod subject;
