//! Answers of any bytes: the client's parsers of JSON-RPC, of event streams, of codings and of lists take what they can
//! read and refuse the rest in bounded time, and the connection is of use afterwards.

use std::time::Duration;

use agentd_interop::sane::{echo as tool, sane};
use agentd_interop::tap::{Act, Asked, Tap, event, event_head};
use agentd_interop::{hasty, soon, worker};
use futures::stream::{self, StreamExt as _};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

use crate::{echo, open};

/// A stream without its answer is given up after so long.
const CLOCK: Duration = Duration::from_secs(5);
/// For handshakes, and for a list that does not come.
const LIST: Duration = Duration::from_secs(20);
/// Connections at once.
const AT_ONCE: usize = 16;
/// Cases where `PROPTEST_CASES` does not say another number; each is a connection of its own.
const CASES: u32 = 96;

/// What is done to the right bytes, and how they are announced.
#[derive(Debug, Clone)]
struct Noise {
    edits: Vec<(Index, usize, Vec<u8>)>,
    kind: &'static str,
    coding: Option<&'static str>,
    is_list: bool,
    value: Value,
}

/// Small values of any kind, with the keys that the protocol has.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
        select(vec!["text", "image", "resource", "2.0", "object", "1"]).prop_map(Value::from),
    ];
    let key = select(vec![
        "content",
        "type",
        "text",
        "data",
        "mimeType",
        "isError",
        "structuredContent",
        "tools",
        "name",
        "inputSchema",
        "outputSchema",
        "nextCursor",
        "resource",
        "uri",
        "blob",
        "annotations",
        "_meta",
        "properties",
        "$ref",
        "resultType",
    ]);
    leaf.prop_recursive(4, 32, 6, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Value::from),
            vec((key.clone(), inner), 0..6)
                .prop_map(|pairs| pairs.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()),
        ]
    })
}

fn noise() -> impl Strategy<Value = Noise> {
    let bytes = prop_oneof![
        vec(any::<u8>(), 0..12),
        "[{}\\[\\]\",:0-9a-z\\\\\n\r ]{0,10}".prop_map(String::into_bytes),
        select(vec![
            "\n\n",
            "data:",
            "event: x\n",
            "id: \u{0}\n",
            "retry: 99999999999999999999\n",
            "\"id\":null",
            "\\ud800"
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
    ];
    let edits = vec((any::<Index>(), 0usize..30, bytes), 0..5);
    let kind = select(vec!["application/json", "text/event-stream"]);
    let coding = prop_oneof![6 => Just(None), 1 => select(vec![Some("gzip"), Some("br"), Some("zstd"), Some("deflate")])];
    (edits, kind, coding, any::<bool>(), value()).prop_map(|(edits, kind, coding, is_list, value)| Noise {
        edits,
        kind,
        coding,
        is_list,
        value,
    })
}

impl Noise {
    /// An answer whose result is either the right one or any value, in which bytes were written over.
    fn act(&self, asked: &Asked) -> Act {
        let right = if self.is_list {
            json!({ "tools": [tool()] })
        } else {
            json!({ "content": [{ "type": "text", "text": "right" }] })
        };
        let result = if self.edits.is_empty() {
            self.value.clone()
        } else {
            right
        };
        let message = asked.result(&result);
        let is_stream = self.kind == "text/event-stream";
        let mut body = if is_stream {
            event(&message)
        } else {
            message.to_string()
        }
        .into_bytes();
        for (at, cut, bytes) in &self.edits {
            let at = at.index(body.len() + 1);
            let end = (at + cut).min(body.len());
            body.splice(at..end, bytes.iter().copied());
        }
        let coding = self
            .coding
            .map(|coding| format!("content-encoding: {coding}\r\n"));
        if is_stream {
            return Act::repeated(event_head(&coding.unwrap_or_default()), body, Some(1));
        }
        let act = Act::text(200, self.kind, body);
        match self.coding {
            Some(coding) => act.with("content-encoding", coding),
            None => act,
        }
    }
}

async fn is_survived(noise: Noise) {
    let tap = Tap::server(sane).await;
    let mut declared = hasty(tap.address.port(), LIST);
    declared.call_timeout = Some(agentd_base::duration::Duration(CLOCK));
    let connection = open(&declared, worker()).await.unwrap();
    let what = if noise.is_list { "tools/list" } else { "tools/call" };
    let wrong = noise.clone();
    tap.rule(move |asked| {
        if asked.what() == what {
            wrong.act(asked)
        } else {
            sane(asked)
        }
    });
    let words = if noise.is_list {
        soon("the list", connection.tools())
            .await
            .err()
            .map(|error| error.to_string())
    } else {
        soon("the call", echo(&connection, "x"))
            .await
            .err()
            .map(|error| error.to_string())
    };
    if let Some(words) = words {
        assert!(!words.is_empty() && words.len() < 4096, "{noise:?}: {words:?}");
        assert!(!words.chars().any(char::is_control), "{noise:?}: {words:?}");
    }
    tap.rule(sane);
    let after = soon("the call after it", echo(&connection, "after")).await;
    let after = after.unwrap_or_else(|error| panic!("{noise:?}: of no use afterwards: {error}"));
    assert_eq!(after.text, "echo: after", "{noise:?}");
    connection.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn m21_answers_of_any_bytes_are_read_or_refused() {
    let cases = match std::env::var_os("PROPTEST_CASES") {
        Some(_) => Config::default().cases,
        None => CASES,
    };
    // The same at each run, as every test; a long run goes further.
    let mut runner = TestRunner::deterministic();
    let strategy = noise();
    let noises: Vec<Noise> = (0..cases)
        .map(|_| strategy.new_tree(&mut runner).unwrap().current())
        .collect();
    stream::iter(noises)
        .for_each_concurrent(AT_ONCE, is_survived)
        .await;
}
