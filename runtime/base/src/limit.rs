//! Bounds that more than one crate keeps. Each says why it is what it is.

/// A CSR: an EC P-256 request is under 500 bytes, RSA-4096 under 2 KiB.
pub const CSR_BYTES: usize = 8 * 1024;
/// A report of a pod: 64 servers with 256 tool digests each fit unless all their names are long; then the lists are cut.
pub const REPORT_BYTES: usize = 2 * 1024 * 1024;
/// Tools that a report and a status name for one server (api.md).
pub const REPORTED_TOOLS: usize = 256;
/// Servers that an agent may have (api.md).
pub const SERVERS: usize = 64;
/// Text of ours in a condition (api.md).
pub const MESSAGE_CHARS: usize = 256;
/// A string of a server in a status or a log.
pub const FOREIGN_CHARS: usize = 128;
/// An instruction (api.md).
pub const INSTRUCTION_BYTES: usize = 64 * 1024;
/// The rendered document (api.md).
pub const DOCUMENT_BYTES: usize = 900 * 1024;
/// A file that holds one secret.
pub const SECRET_BYTES: usize = 64 * 1024;
