//! Whether a request is sent once more, and when. Pure. Only requests that may be sent twice come here at all
//! ([`crate::Replay`]).

use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderMap, StatusCode};
use jiff::Timestamp;

use crate::error::NetError;

/// How often one request is sent at most.
const TIMES: u32 = 3;
/// Before the second time; doubles. A restart of a server's process is over after some hundred milliseconds.
const FIRST: Duration = Duration::from_millis(200);
/// A server that wants to be left alone for longer than this is believed: the caller decides what that means.
const LONGEST: Duration = Duration::from_secs(10);

/// What came of a request.
pub(crate) enum Outcome<'a> {
    /// Nothing.
    Failed(&'a NetError),
    /// An answer.
    Answered(StatusCode, &'a HeaderMap),
}

/// How long to wait before it is sent again; `None` when it is not. `sent` is how often it was, `left` what its clocks
/// leave.
pub(crate) fn pause(
    outcome: &Outcome<'_>,
    sent: u32,
    left: Option<Duration>,
    now: Timestamp,
) -> Option<Duration> {
    let nominal = FIRST.saturating_mul(1_u32 << sent.saturating_sub(1).min(8));
    let wait = match outcome {
        _ if sent >= TIMES => return None,
        // A pooled connection that the server had closed: another one is as good as new. Once, for it is a new one then.
        Outcome::Failed(NetError::Interrupted { .. }) if sent == 1 => Duration::ZERO,
        Outcome::Failed(NetError::Connect { .. }) => nominal,
        Outcome::Answered(StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE, headers) => {
            wanted(headers, now).unwrap_or(nominal)
        }
        Outcome::Failed(_) | Outcome::Answered(..) => return None,
    };
    let fits = wait <= LONGEST && left.is_none_or(|left| spread(wait) < left);
    fits.then_some(wait)
}

/// The longest that a wait becomes so that many clients do not come back in step; never less than was asked for.
pub(crate) fn spread(wait: Duration) -> Duration {
    wait.mul_f64(1.25)
}

/// `Retry-After` (RFC 9110, 10.2.3): seconds, or a date.
fn wanted(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than a number holds are for ever.
        return (!text.is_empty()).then(|| Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let at = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
    // A date that has passed is now.
    Some(Duration::try_from(at.duration_since(now)).unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn failed(error: &NetError, sent: u32, left: Option<Duration>) -> Option<Duration> {
        pause(&Outcome::Failed(error), sent, left, Timestamp::UNIX_EPOCH)
    }

    fn answered(
        status: u16,
        retry_after: Option<&str>,
        sent: u32,
        left: Option<Duration>,
    ) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        if let Some(text) = retry_after {
            headers.insert(RETRY_AFTER, text.parse().unwrap());
        }
        let status = StatusCode::from_u16(status).unwrap();
        let now = "2026-12-02T04:00:00Z".parse().unwrap();
        pause(&Outcome::Answered(status, &headers), sent, left, now)
    }

    #[test]
    fn failures() {
        let (host, detail) = ("h:1".to_owned(), String::new());
        let connect = NetError::Connect {
            host: host.clone(),
            detail: detail.clone(),
        };
        assert_eq!(failed(&connect, 1, None), Some(MS(200)));
        assert_eq!(failed(&connect, 2, None), Some(MS(400)));
        assert_eq!(failed(&connect, 3, None), None);
        assert_eq!(failed(&connect, 1, Some(MS(250))), None, "its clock ends first");
        let stale = NetError::Interrupted {
            host: host.clone(),
            detail: detail.clone(),
        };
        assert_eq!(failed(&stale, 1, None), Some(Duration::ZERO));
        assert_eq!(failed(&stale, 2, None), None);
        for error in [
            NetError::Tls { host, detail },
            NetError::Refused(String::new()),
            NetError::Credential(String::new()),
        ] {
            assert_eq!(failed(&error, 1, None), None, "{error:?}");
        }
    }

    #[test]
    fn answers_and_what_they_ask_for() {
        for (status, retry_after, expected) in [
            (503, None, Some(MS(200))),
            (429, None, Some(MS(200))),
            (503, Some("3"), Some(MS(3000))),
            (429, Some(" 0 "), Some(MS(0))),
            (429, Some("10"), Some(MS(10_000))),
            (429, Some("11"), None),
            (429, Some("99999999999999999999999"), None),
            (429, Some("Wed, 02 Dec 2026 04:00:05 GMT"), Some(MS(5000))),
            (429, Some("Wed, 02 Dec 2026 03:00:00 GMT"), Some(MS(0))),
            (429, Some("Wed, 02 Dec 2026 05:00:00 GMT"), None),
            (429, Some("soon"), Some(MS(200))),
            (429, Some("-1"), Some(MS(200))),
            (500, Some("1"), None),
            (502, None, None),
            (504, None, None),
            (200, Some("1"), None),
            (401, None, None),
        ] {
            assert_eq!(
                answered(status, retry_after, 1, None),
                expected,
                "{status} {retry_after:?}"
            );
        }
        assert_eq!(answered(503, None, 2, None), Some(MS(400)));
        assert_eq!(answered(503, Some("1"), 3, None), None);
        assert_eq!(
            answered(503, Some("5"), 1, Some(MS(6250))),
            None,
            "its clock ends first"
        );
    }
}
