//! What callers and the server send through the bridge, whatever it is: bodies pass as they are or end at their bound,
//! and no header of the hop, nor one that says where a request came from, goes on.

use agentd_noise::changed_text;
use bytes::Bytes;
use futures::{FutureExt as _, StreamExt as _, stream};
use http::header::CONNECTION;
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body::Frame;
use http_body_util::StreamBody;
use proptest::prelude::*;

use super::proxy::{DROPPED, REQUEST_BYTES, bounded, drop_claimed_origin, drop_hop_headers};

const NAMES: &[&str] = &[
    "connection",
    "x-once",
    "keep-alive",
    "transfer-encoding",
    "host",
    "mcp-session-id",
    "authorization",
    "te",
    "x-forwarded-for",
    "x-forwarded-client-cert",
    "forwarded",
    "via",
    "x-real-ip",
    "mcp-protocol-version",
];

fn headers() -> BoxedStrategy<HeaderMap> {
    let value = changed_text(&[
        "keep-alive, X-Once",
        "close,mcp-session-id , \"x",
        "timeout=5",
        "127.0.0.1",
        "",
    ]);
    let line = (prop::sample::select(NAMES), value);
    prop::collection::vec(line, 0..12)
        .prop_map(|lines| {
            let mut headers = HeaderMap::new();
            for (name, value) in lines {
                if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
                    headers.append(HeaderName::from_static(name), value);
                }
            }
            headers
        })
        .boxed()
}

proptest! {
    #[test]
    fn headers_that_go_on(before in headers()) {
        let mut after = before.clone();
        drop_hop_headers(&mut after);
        drop_claimed_origin(&mut after);
        let named: Vec<String> = before
            .get_all(CONNECTION)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(',').map(|name| name.trim().to_ascii_lowercase()))
            .collect();
        for name in after.keys() {
            prop_assert!(!DROPPED.contains(name), "{}", name);
            prop_assert!(!named.iter().any(|once| once == name.as_str()), "{}", name);
            prop_assert!(!name.as_str().contains("forwarded") && name != "via" && name != "x-real-ip", "{}", name);
            prop_assert!(after.get_all(name).iter().eq(before.get_all(name).iter()), "{}", name);
        }
    }

    /// As it came, in the pieces in which it came, to the last byte that may be.
    #[test]
    fn bodies_that_go_on(pieces in prop::collection::vec((0_usize..4096, 1_usize..2_000), 0..24), trailers in any::<bool>()) {
        let one = Bytes::from(vec![b'x'; 4096 * 2_000]);
        let pieces: Vec<Bytes> = pieces.into_iter().map(|(size, times)| one.slice(..size * times)).collect();
        let frames = pieces.clone().into_iter().map(Frame::data);
        let end = trailers.then(|| Frame::trailers(HeaderMap::new()));
        let body = StreamBody::new(stream::iter(frames.chain(end).map(Ok::<_, std::io::Error>)));
        let mut left = pieces.iter();
        let mut passed = 0;
        for piece in bounded(body).collect::<Vec<_>>().now_or_never().unwrap() {
            match piece {
                Ok(piece) => {
                    passed += piece.len();
                    prop_assert!(passed <= REQUEST_BYTES);
                    prop_assert_eq!(piece.len(), left.next().map_or(0, Bytes::len));
                }
                Err(error) => {
                    agentd_noise::words(&error.to_string());
                    let next = left.next().map_or(0, Bytes::len);
                    prop_assert!(passed + next > REQUEST_BYTES);
                }
            }
        }
    }
}
