//! An answer to a call that is none: B6 of the client's checklist, each kind alone.

use agentd_interop::tap::{Act, Asked, event, event_head};
use agentd_mcp::{CallError, ToolOutcome};
use serde_json::{Value, json};

use crate::{CLOCK, survives};

/// Anything but a protocol error of the server's and a timeout.
fn assert_unavailable(name: &str, result: Result<ToolOutcome, CallError>) {
    match result {
        Err(CallError::Unavailable(message)) => {
            assert!(!message.is_empty() && message.len() < 2048, "{name}: {message}");
            assert!(!message.chars().any(char::is_control), "{name}: {message:?}");
        }
        other => panic!("{name}: {other:?}"),
    }
}

fn body(asked: &Asked) -> Value {
    asked.result(&json!({ "content": [{ "type": "text", "text": "right" }] }))
}

#[tokio::test(flavor = "multi_thread")]
async fn m21_what_is_no_answer_is_a_typed_error_and_the_connection_stays() {
    type Wrong = (&'static str, fn(&Asked) -> Act);
    let wrong: [Wrong; 14] = [
        ("HTML", |_| {
            Act::text(200, "text/html", "<html><h1>Login</h1></html>")
        }),
        ("broken JSON", |_| {
            Act::text(200, "application/json", r#"{"jsonrpc":"2.0","id":"#)
        }),
        ("no JSON at all", |_| {
            Act::text(200, "application/json", "\u{1b}[31mred\n\u{7}")
        }),
        ("an empty body", |_| Act::text(200, "application/json", "")),
        ("no media type", |asked| Act::Answer {
            status: 200,
            headers: vec![],
            body: body(asked).to_string().into(),
        }),
        ("invalid UTF-8", |_| {
            Act::text(
                200,
                "application/json",
                b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"\xff\xfe\"}".to_vec(),
            )
        }),
        ("JSON that is too deep", |_| {
            Act::text(200, "application/json", "[".repeat(100_000))
        }),
        ("a batch", |asked| Act::json(&json!([body(asked)]))),
        ("a request in place of an answer", |asked| {
            Act::json(&json!({ "jsonrpc": "2.0", "id": asked.body["id"], "method": "ping" }))
        }),
        ("500", |_| Act::text(500, "text/plain", "out of order")),
        ("502 of a proxy", |_| {
            Act::text(502, "text/html", "<html>Bad Gateway</html>")
        }),
        ("closed without a word", |_| Act::cut()),
        ("closed in the middle", |_| {
            Act::repeated(
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 5000\r\n\r\n".to_vec(),
                b"{\"jsonrpc\"".to_vec(),
                Some(3),
            )
        }),
        ("no HTTP at all", |_| {
            Act::repeated(b"SSH-2.0-OpenSSH_9.2\r\n".to_vec(), Vec::new(), Some(0))
        }),
    ];
    for (name, act) in wrong {
        assert_unavailable(name, survives(name, act).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn m21_an_event_stream_that_holds_no_answer_is_a_typed_error() {
    type Wrong = (&'static str, fn(&Asked) -> Act);
    let wrong: [Wrong; 5] = [
        ("empty", |_| Act::events(&[])),
        ("HTML in events", |_| {
            Act::events(&["data: <html></html>\n\n".into()])
        }),
        ("broken JSON", |_| {
            Act::events(&["data: {\"jsonrpc\":\n\n".into()])
        }),
        ("invalid UTF-8", |_| {
            Act::repeated(event_head(""), b"data: {\"a\":\"\xff\"}\n\n".to_vec(), Some(1))
        }),
        ("an answer to another", |_| {
            Act::events(&[event(&json!({ "jsonrpc": "2.0", "id": 424_242, "result": {} }))])
        }),
    ];
    for (name, act) in wrong {
        match survives(name, act).await {
            // The stream ended: whether at once or by the clock is the SDK's matter.
            Err(CallError::Unavailable(_) | CallError::Timeout(_)) => {}
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn m21_an_answer_of_too_many_values_says_so() {
    type Large = (&'static str, fn(&Asked) -> Act);
    fn large(asked: &Asked) -> Value {
        asked.result(&json!({ "content": [], "structuredContent": { "zeros": vec![0; 500_000] } }))
    }
    let large: [Large; 2] = [
        ("in a body", |asked| Act::json(&large(asked))),
        ("in an event", |asked| Act::events(&[event(&large(asked))])),
    ];
    for (name, act) in large {
        match survives(name, act).await {
            Err(error) => assert!(
                error
                    .to_string()
                    .contains("the server's message holds more than 500000 values"),
                "{name}: {error}"
            ),
            Ok(outcome) => panic!("{name}: {outcome:?}"),
        }
    }
}

/// M33: the clock of a call holds whatever trickles in.
#[tokio::test(flavor = "multi_thread")]
async fn m33_an_answer_that_does_not_end_is_ended_by_the_clock() {
    let long = 1 << 20;
    let drip = std::time::Duration::from_secs(1);
    let comment = || b": still here\n\n".to_vec();
    for name in [
        "black hole",
        "a byte a second",
        "a byte a second of events",
        "held",
        "comments without end",
    ] {
        let result = survives(name, move |asked| match name {
            "black hole" => Act::hole(),
            "a byte a second" => {
                let answer = body(asked).to_string();
                let head = format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                    answer.len()
                );
                Act::dripped((head + &answer).into_bytes(), drip)
            }
            "a byte a second of events" => {
                Act::dripped([event_head(""), event(&body(asked)).into_bytes()].concat(), drip)
            }
            "held" => Act::held(&[]),
            _ => Act::repeated(event_head(""), comment(), Some(long)),
        })
        .await;
        match result {
            Err(CallError::Timeout(limit)) => assert_eq!(limit, CLOCK, "{name}"),
            // A stream that was read to its end before the clock.
            Err(CallError::Unavailable(_)) if name == "comments without end" => {}
            other => panic!("{name}: {other:?}"),
        }
    }
}

/// A flood of words that ask for nothing does not hold the answer up, nor the clock.
#[tokio::test(flavor = "multi_thread")]
async fn m33_notifications_without_end_are_ended_by_the_clock() {
    for method in [
        "notifications/progress",
        "notifications/message",
        "notifications/tools/list_changed",
    ] {
        let notice = json!({ "jsonrpc": "2.0", "method": method, "params": { "progressToken": 1, "progress": 1, "level": "info", "data": "x" } });
        let chunk = event(&notice).into_bytes();
        let result = survives(method, move |_| {
            Act::repeated(event_head(""), chunk.clone(), None)
        })
        .await;
        assert!(
            matches!(result, Err(CallError::Timeout(_) | CallError::Unavailable(_))),
            "{method}: {result:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn m21_an_answer_over_the_limit_is_refused() {
    let mebibyte = || vec![b'x'; 1 << 20];
    let json = |_: &Asked| {
        let head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n{\"a\":\""
            .to_vec();
        Act::repeated(head, vec![b'x'; 1 << 20], Some(100))
    };
    assert_unavailable("100 MB", survives("100 MB", json).await);
    let declared = |_: &Asked| {
        let head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 104857600\r\n\r\n{\"a\":\"".to_vec();
        Act::repeated(head, vec![b'x'; 1 << 20], Some(100))
    };
    assert_unavailable("100 MB, declared", survives("100 MB, declared", declared).await);
    let endless =
        move |_: &Asked| Act::repeated([event_head(""), b"data: ".to_vec()].concat(), mebibyte(), None);
    match survives("one event without end", endless).await {
        Err(CallError::Unavailable(_) | CallError::Timeout(_)) => {}
        other => panic!("{other:?}"),
    }
}

/// What is odd and right all the same.
#[tokio::test(flavor = "multi_thread")]
async fn m21_what_is_odd_and_an_answer_is_taken() {
    type Odd = (&'static str, fn(&Asked) -> Act);
    let odd: [Odd; 7] = [
        ("empty data lines", |asked| {
            Act::events(&[
                "data:\n\n".into(),
                "data: \n\n".into(),
                "id: 1\ndata:\n\n".into(),
                event(&body(asked)),
            ])
        }),
        ("comments", |asked| {
            Act::events(&[": hello\n\n".into(), ":\n".into(), event(&body(asked))])
        }),
        ("CRLF", |asked| {
            Act::events(&[format!("data: {}\r\n\r\n", body(asked))])
        }),
        ("several data lines", |asked| {
            let text = body(asked).to_string();
            let (one, two) = text.split_at(text.find(',').unwrap() + 1);
            Act::events(&[format!("data: {one}\ndata: {two}\n\n")])
        }),
        ("another kind of event before", |asked| {
            Act::events(&[
                "event: ping\ndata: {}\n\n".into(),
                format!("event: message\n{}", event(&body(asked))),
            ])
        }),
        ("a BOM", |asked| {
            Act::repeated(
                [event_head(""), b"\xef\xbb\xbf".to_vec()].concat(),
                event(&body(asked)).into_bytes(),
                Some(1),
            )
        }),
        ("the media type in capitals", |asked| {
            Act::text(200, "Application/JSON; charset=utf-8", body(asked).to_string())
        }),
    ];
    for (name, act) in odd {
        let outcome = survives(name, act)
            .await
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(outcome.text, "right", "{name}");
    }
}

/// gzip that stores without compressing (RFC 1952, RFC 1951 3.2.4).
fn gzip(data: &[u8]) -> Vec<u8> {
    let crc = data.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xEDB8_8320 & 0u32.wrapping_sub(crc & 1))
        })
    });
    let length = u16::try_from(data.len()).unwrap();
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255, 1];
    out.extend(length.to_le_bytes());
    out.extend((!length).to_le_bytes());
    out.extend(data);
    out.extend((!crc).to_le_bytes());
    out.extend(u32::from(length).to_le_bytes());
    out
}

/// A proxy on the way compresses what should be a stream. We say that we take gzip, so it has to be read.
#[tokio::test(flavor = "multi_thread")]
async fn m21_a_compressed_answer_is_read() {
    let coded = |asked: &Asked, kind: &str| {
        let accepted = asked.header("accept-encoding").unwrap_or_default();
        assert!(accepted.contains("gzip"), "{kind}: {accepted:?}");
    };
    let packed = move |asked: &Asked| {
        coded(asked, "events");
        let data = gzip(event(&body(asked)).as_bytes());
        Act::repeated(event_head("content-encoding: gzip\r\n"), data, Some(1))
    };
    let plain = move |asked: &Asked| {
        coded(asked, "JSON");
        Act::text(200, "application/json", gzip(body(asked).to_string().as_bytes()))
            .with("content-encoding", "gzip")
    };
    let outcomes = [survives("events", packed).await, survives("JSON", plain).await];
    assert_eq!(outcomes.map(|outcome| outcome.unwrap().text), ["right", "right"]);
}

/// What we did not say that we take, and what is not what it says: an error in words, soon.
#[tokio::test(flavor = "multi_thread")]
async fn m21_an_answer_in_an_unknown_or_broken_coding_is_refused_in_words() {
    let unknown = |asked: &Asked| {
        Act::text(200, "application/json", body(asked).to_string()).with("content-encoding", "lzma")
    };
    let broken = |asked: &Asked| {
        let mut data = gzip(body(asked).to_string().as_bytes());
        data.truncate(data.len() / 2);
        Act::text(200, "application/json", data).with("content-encoding", "gzip")
    };
    for (name, result) in [
        ("unknown", survives("unknown", unknown).await),
        ("broken", survives("broken", broken).await),
    ] {
        let Err(CallError::Unavailable(message)) = result else {
            panic!("{name}: {result:?}")
        };
        assert!(!message.chars().any(char::is_control), "{name}: {message:?}");
    }
}
