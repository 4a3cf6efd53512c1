//! OpenAI Chat Completions with native tool calls: `POST <base>/chat/completions`. Many servers speak it, each in its
//! own way, so everything here is lenient.

pub(crate) mod read;
pub(crate) mod stream;
pub(crate) mod write;

/// The status that an error's code stands for, where it comes within an answer.
pub(crate) fn status(code: &str) -> Option<u16> {
    match code {
        "rate_limit_exceeded" | "rate_limit_error" | "insufficient_quota" => Some(429),
        "server_error" | "internal_error" | "api_error" => Some(500),
        "overloaded" | "overloaded_error" | "engine_overloaded" | "service_unavailable" => Some(503),
        "invalid_api_key" | "authentication_error" => Some(401),
        "permission_error" => Some(403),
        "context_length_exceeded" | "invalid_request_error" | "invalid_prompt" => Some(400),
        _ => None,
    }
}
