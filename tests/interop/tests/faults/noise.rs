//! Answers of any bytes: the client's parsers of JSON-RPC, of event streams, of codings and of lists take what they can
//! read and refuse the rest in bounded time, and the connection is of use afterwards.

use std::time::Duration;

use agentd_interop::sane::{echo as tool, sane};
use agentd_interop::tap::{Act, Asked, Tap, event, event_head};
use agentd_interop::{hasty, soon, worker};
use agentd_noise::{Edits, value};
use futures::stream::{self, StreamExt as _};
use proptest::prelude::*;
use proptest::sample::select;
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
    edits: Edits,
    kind: &'static str,
    coding: Option<&'static str>,
    is_list: bool,
    value: Value,
}

/// The keys that the protocol has.
const KEYS: &[&str] = &[
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
];

fn noise() -> impl Strategy<Value = Noise> {
    let edits = Edits::any(0..5);
    let kind = select(vec!["application/json", "text/event-stream"]);
    let coding = prop_oneof![6 => Just(None), 1 => select(vec![Some("gzip"), Some("br"), Some("zstd"), Some("deflate")])];
    (edits, kind, coding, any::<bool>(), value(KEYS)).prop_map(|(edits, kind, coding, is_list, value)| {
        Noise {
            edits,
            kind,
            coding,
            is_list,
            value,
        }
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
        self.edits.apply(&mut body);
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
        agentd_noise::words(&words);
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
