//! What servers say below their protocols, whatever it is: when to come back, events without end, our own secrets in
//! their words, and the answers of an issuer.

use std::time::Duration;

use agentd_noise::{Edits, SECRET, changed, changed_text, json, words};
use bytes::Bytes;
use futures::FutureExt as _;
use futures::stream::{self, StreamExt as _};
use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderValue, StatusCode};
use proptest::prelude::*;
use serde_json::json as object;

use crate::again::{Outcome, pause};
use crate::body::Body;
use crate::issuer::refusal;
use crate::redact::Redactor;

/// An event stream's chunks as they are passed on, and whether it was refused.
fn passed(bytes: &[u8], size: usize, max: usize) -> (Vec<u8>, bool) {
    let chunks: Vec<_> = bytes
        .chunks(size.max(1))
        .map(|chunk| Ok(Bytes::copy_from_slice(chunk)))
        .collect();
    let body = Body::new(
        stream::iter(chunks).boxed(),
        "h:1".into(),
        1,
        None,
        Redactor::default(),
    );
    let (mut whole, mut refused) = (Vec::new(), false);
    for chunk in body.events(max).collect::<Vec<_>>().now_or_never().unwrap() {
        match chunk {
            Ok(chunk) => whole.extend_from_slice(&chunk),
            Err(error) => {
                words(&error.to_string());
                refused = true;
            }
        }
    }
    (whole, refused)
}

proptest! {
    /// A server is waited for as long as is sensible, or not at all.
    #[test]
    fn when_to_come_back(
        text in changed_text(&["7", "Wed, 02 Dec 2026 04:00:05 GMT", "Wed, 02 Dec 2026 04:00:05 +0100"]),
        sent in 1_u32..4,
    ) {
        let mut headers = HeaderMap::new();
        if let Ok(value) = HeaderValue::from_bytes(text.as_bytes()) {
            headers.insert(RETRY_AFTER, value);
        }
        let outcome = Outcome::Answered(StatusCode::SERVICE_UNAVAILABLE, &headers);
        let now = "2026-12-02T04:00:00Z".parse().unwrap();
        let wait = pause(&outcome, sent, Some(Duration::from_secs(8)), now);
        prop_assert!(wait.is_none_or(|wait| wait < Duration::from_secs(8)), "{:?}", wait);
    }

    /// In which chunks an event comes changes nothing of whether it is too long, and none that is passes.
    #[test]
    fn events_that_are_too_long(
        text in changed(vec![b"id: 1\ndata: x\n\ndata: yy\r\n\r\ndata: zzz\r\r".to_vec()]),
        size in 1_usize..64,
    ) {
        let (alone, refused) = passed(&text, 1, 64);
        prop_assert_eq!(passed(&text, size, 64).1, refused);
        if refused {
            prop_assert!(text.starts_with(&alone) && alone.len() < text.len());
        } else {
            prop_assert_eq!(&alone, &text);
        }
    }

    #[test]
    fn secrets_do_not_come_back(edits in Edits::any(0..3), times in 1_usize..4) {
        let redactor = Redactor::new([format!("Bearer {SECRET}").into()]);
        let mut text = format!("{{\"echo\":\"Bearer {SECRET}\",\"more\":\"{SECRET}{SECRET}\"}}").repeat(times).into_bytes();
        edits.apply(&mut text);
        let text = String::from_utf8_lossy(&text).into_owned();
        let clean = redactor.text(&text).unwrap_or_else(|| text.clone());
        prop_assert!(!clean.contains(SECRET));
        prop_assert_eq!(redactor.text(&clean), None);
    }

    #[test]
    fn refusals_of_an_issuer(body in json(vec![object!({"reason": "TokenInvalid", "message": "it has\nexpired"})]), status in 400_u16..600) {
        words(&refusal(status, &body).to_string());
    }
}
