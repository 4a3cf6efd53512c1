//! Amazon Bedrock Converse: `POST <base>/model/<model>/converse`, or `…/converse-stream` in the framing of
//! `application/vnd.amazon.eventstream`. With a bearer key; a signer of SigV4 would be one of `agentd-net`.

pub(crate) mod frames;
pub(crate) mod read;
pub(crate) mod stream;
pub(crate) mod write;

/// The status that an exception within a stream stands for.
pub(crate) fn status(exception: &str) -> u16 {
    match exception {
        "validationException" => 400,
        "accessDeniedException" => 403,
        "resourceNotFoundException" => 404,
        "modelTimeoutException" => 408,
        "modelStreamErrorException" => 424,
        "throttlingException" | "modelNotReadyException" => 429,
        "serviceUnavailableException" => 503,
        _ => 500,
    }
}

/// A model's name or ARN as one segment of a path (RFC 3986, 3.3).
pub(crate) fn segment(model: &str) -> String {
    use std::fmt::Write as _;
    model
        .bytes()
        .fold(String::with_capacity(model.len()), |mut segment, byte| {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                segment.push(char::from(byte));
            } else {
                let _ = write!(segment, "%{byte:02X}");
            }
            segment
        })
}
