//! Keys behind the tools of an MCP server: `state.put/get/list/delete`, or what the document maps onto them. A connection
//! of its own, dialled again when it is lost; the server's answers are untrusted and bounded by the transport.

use std::time::Duration;

use agentd_base::text::clip;
use agentd_config::document::{McpOp, McpServer, McpStore};
use agentd_mcp::{CallError, CallMeta, Connection, Hooks, Kind, Outbound};
use agentd_state::StoreError;
use async_trait::async_trait;
use futures::FutureExt as _;
use serde_json::{Map, Value, json};
use tokio::sync::Mutex;

use super::template::{Values, keys_at, text_at};
use crate::kv::{KeyPage, Kv, KvError};

/// Words of a server in a message of ours.
const WORDS: usize = 256;
/// How a tool says that somebody else wrote the key, and that there is none.
const CONFLICT: &str = "conflict";
const NOT_FOUND: &str = "not found";
/// How it says that a value is more than it takes.
const TOO_LARGE: &str = "too large";
/// A value is a text in `structuredContent` and again in a text of the content, and longer in each: what a message may
/// have is shared by all that.
const VALUE: usize = 2 * 1024 * 1024;

/// An operation as the document or the profile says.
struct Op {
    tool: String,
    arguments: Value,
    value: String,
    keys: String,
    next: String,
    conflict: String,
}

/// A tool's failure. Errors of the protocol and of the connection are none: whatever their words are, they tell nothing
/// of a key.
struct Said {
    /// In the words for what is not there.
    is_none: bool,
    error: KvError,
}

/// The keys of an MCP server.
pub struct McpKv {
    server: McpServer,
    kind: Kind,
    instance: String,
    outbound: Outbound,
    timeout: Duration,
    put: Op,
    get: Op,
    list: Op,
    delete: Option<Op>,
    connection: Mutex<Option<Connection>>,
}

impl Op {
    fn of(given: Option<&McpOp>, tool: &str, arguments: Value) -> Self {
        let given = given.cloned().unwrap_or_else(|| McpOp {
            tool: tool.to_owned(),
            ..McpOp::default()
        });
        Self {
            tool: given.tool,
            arguments: given.args.unwrap_or(arguments),
            value: given.value.unwrap_or_else(|| "/value".to_owned()),
            keys: given.keys.unwrap_or_else(|| "/keys".to_owned()),
            next: given.next.unwrap_or_else(|| "/next".to_owned()),
            conflict: given
                .conflict
                .unwrap_or_else(|| CONFLICT.to_owned())
                .to_lowercase(),
        }
    }
}

impl McpKv {
    /// Connects, and looks whether the tools are there.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: the server's name and what is wrong with it.
    pub async fn connect(
        store: &McpStore,
        mut server: McpServer,
        instance: String,
        outbound: Outbound,
        timeout: Duration,
    ) -> Result<Self, StoreError> {
        server.connection.timeout = Some(agentd_base::duration::Duration(timeout));
        server.call_timeout = Some(agentd_base::duration::Duration(timeout));
        let written = json!({ "key": "{{key}}", "seq": "{{seq}}", "value": "{{value}}" });
        let listed = json!({ "prefix": "{{prefix}}", "after": "{{after}}" });
        let deleted = json!({ "key": "{{key}}", "seq": "{{seq}}" });
        let mut kv = Self {
            kind: Kind::Store {
                instance: instance.clone(),
            },
            put: Op::of(store.put.as_ref(), McpStore::PUT, written),
            get: Op::of(store.get.as_ref(), McpStore::GET, json!({ "key": "{{key}}" })),
            list: Op::of(store.list.as_ref(), McpStore::LIST, listed),
            delete: Some(Op::of(store.delete.as_ref(), McpStore::DELETE, deleted)),
            server,
            instance,
            outbound,
            timeout,
            connection: Mutex::new(None),
        };
        let place = kv.place();
        let unusable = |why: String| StoreError::Unavailable(format!("{place}: {why}"));
        let connection = kv
            .connection()
            .await
            .map_err(|error| unusable(error.to_string()))?;
        let tools = connection
            .tools()
            .await
            .map_err(|error| unusable(error.to_string()))?;
        let has = |op: &Op| tools.iter().any(|tool| tool.name == op.tool);
        for (name, op) in [("put", &kv.put), ("get", &kv.get), ("list", &kv.list)] {
            if !has(op) {
                return Err(unusable(format!(
                    "it has no tool `{}`; name the one that it has for this in store.mcp.{name}",
                    op.tool
                )));
            }
        }
        match &kv.delete {
            Some(op) if !has(op) && store.delete.is_some() => {
                return Err(unusable(format!(
                    "it has no tool `{}` (store.mcp.delete)",
                    op.tool
                )));
            }
            Some(op) if !has(op) => kv.delete = None,
            _ => {}
        }
        Ok(kv)
    }

    /// The open connection, or a new one. Nothing was sent when there is none.
    async fn connection(&self) -> Result<Connection, KvError> {
        let mut held = self.connection.lock().await;
        if let Some(connection) = held.as_ref()
            && connection.lost().now_or_never().is_none()
        {
            return Ok(connection.clone());
        }
        let opened = Connection::open(
            &self.server,
            None,
            self.kind.clone(),
            &self.outbound,
            Hooks::default(),
        );
        let connection = opened.await.map_err(|error| KvError::Unsent(error.to_string()))?;
        *held = Some(connection.clone());
        Ok(connection)
    }

    async fn call(&self, op: &Op, values: Values<'_>, idempotency_key: String) -> Result<Value, KvError> {
        let answer = self.answer(op, values, idempotency_key).await?;
        answer.map_err(|said| said.error)
    }

    /// What the tool says, be it that it failed.
    async fn answer(
        &self,
        op: &Op,
        values: Values<'_>,
        idempotency_key: String,
    ) -> Result<Result<Value, Said>, KvError> {
        let arguments: Map<String, Value> = match values.fill(&op.arguments) {
            Value::Object(arguments) => arguments,
            _ => Map::new(),
        };
        let meta = CallMeta {
            run_id: "store".to_owned(),
            instance: self.instance.clone(),
            traceparent: None,
            idempotency_key,
            ordinal: 0,
        };
        let exchange = async {
            let connection = self.connection().await?;
            let called = connection.call_whole(&op.tool, arguments, &meta).await;
            let called = called.map_err(|error| failed(&error, |words| connection.cleaned(words)))?;
            Ok((connection, called))
        };
        let (connection, outcome) = match tokio::time::timeout(self.timeout, exchange).await {
            Ok(outcome) => outcome?,
            Err(_) => return Err(KvError::Unknown(format!("no answer in {:?}", self.timeout))),
        };
        if !outcome.is_error {
            return Ok(Ok(outcome.value));
        }
        let words = match outcome.value {
            Value::String(words) => words,
            other => other.to_string(),
        };
        let text = format!("{}: {}", op.tool, clip(&connection.cleaned(&words), WORDS));
        // A key that is repeated has words of callers in it.
        let said = match values.key.or(values.prefix) {
            Some(key) => words.replace(key, "").to_lowercase(),
            None => words.to_lowercase(),
        };
        let error = if said.contains(&op.conflict) {
            KvError::Conflict(text)
        } else if said.contains(TOO_LARGE) {
            KvError::TooLarge(text)
        } else {
            KvError::Refused(text)
        };
        Ok(Err(Said {
            is_none: said.contains(NOT_FOUND),
            error,
        }))
    }

    async fn put_as(&self, key: &str, seq: u64, text: &str, idempotency: String) -> Result<(), KvError> {
        let values = Values {
            key: Some(key),
            seq: Some(seq),
            value: Some(text),
            ..Values::default()
        };
        self.call(&self.put, values, idempotency).await.map(drop)
    }
}

/// A call without an outcome.
fn failed(error: &CallError, cleaned: impl Fn(&str) -> String) -> KvError {
    let words = cleaned(&error.to_string());
    match error {
        CallError::Timeout(_) | CallError::Unavailable(_) => KvError::Unknown(words),
        _ => KvError::Refused(words),
    }
}

#[async_trait]
impl Kv for McpKv {
    async fn put(&self, key: &str, seq: u64, text: &str) -> Result<(), KvError> {
        self.put_as(key, seq, text, format!("{key}#{seq}")).await
    }

    async fn put_instead(&self, key: &str, seq: u64, text: &str) -> Result<(), KvError> {
        self.put_as(key, seq, text, format!("{key}#{seq}#instead")).await
    }

    fn limit(&self) -> usize {
        VALUE
    }

    async fn get(&self, key: &str) -> Result<Option<String>, KvError> {
        let values = Values {
            key: Some(key),
            ..Values::default()
        };
        match self.answer(&self.get, values, format!("get {key}")).await? {
            Ok(answer) => Ok(text_at(&answer, &self.get.value)),
            Err(said) if said.is_none => Ok(None),
            Err(said) => Err(said.error),
        }
    }

    async fn list(&self, prefix: &str, next: Option<&str>) -> Result<KeyPage, KvError> {
        let values = Values {
            prefix: Some(prefix),
            after: next,
            ..Values::default()
        };
        let answer = self.call(&self.list, values, format!("list {prefix}")).await?;
        let keys = keys_at(&answer, &self.list.keys).ok_or_else(|| {
            KvError::Refused(format!(
                "the answer of `{}` has no list of texts at `{}`; say where it is in store.mcp.list.keys",
                self.list.tool, self.list.keys
            ))
        })?;
        Ok(KeyPage {
            keys,
            next: text_at(&answer, &self.list.next),
        })
    }

    fn deletes(&self) -> bool {
        self.delete.is_some()
    }

    async fn delete(&self, key: &str, seq: u64) -> Result<(), KvError> {
        let Some(op) = &self.delete else {
            return Err(KvError::Refused("the server deletes nothing".to_owned()));
        };
        let values = Values {
            key: Some(key),
            seq: Some(seq),
            ..Values::default()
        };
        match self.answer(op, values, format!("delete {key}#{seq}")).await? {
            Err(said) if !said.is_none => Err(said.error),
            _ => Ok(()),
        }
    }

    fn place(&self) -> String {
        format!("MCP server `{}` (store.mcp.server)", self.server.name)
    }
}
