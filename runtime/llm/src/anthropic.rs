//! Anthropic Messages: `POST <base>/messages`. Blocks come and go in their order; thinking goes back with its signature.

pub(crate) mod read;
pub(crate) mod stream;
pub(crate) mod write;

/// The version of the API that this is; another one may be declared as a header of the endpoint.
pub(crate) const VERSION: &str = "2023-06-01";

/// The status that an error's type stands for, where it comes within a stream.
pub(crate) fn status(kind: &str) -> u16 {
    match kind {
        "invalid_request_error" => 400,
        "authentication_error" => 401,
        "billing_error" => 402,
        "permission_error" => 403,
        "not_found_error" => 404,
        "request_too_large" => 413,
        "rate_limit_error" => 429,
        "timeout_error" => 504,
        "overloaded_error" => 529,
        _ => 500,
    }
}
