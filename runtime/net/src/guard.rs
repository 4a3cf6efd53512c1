//! The SSRF guard: which addresses may be dialled.
