//! A minimal A2A caller over loopback http.

use agentd_net::{Declared, Destination, HttpClient, NetError, Options, Timeouts};
use bytes::Bytes;
use serde_json::{Value, json};

use crate::process::PATIENCE;

/// A caller of one agent.
#[derive(Clone)]
pub struct Caller(HttpClient);

impl Caller {
    pub fn new(address: &str) -> Self {
        let destination = Destination::declared(&format!("http://{address}/"), Declared::Mcp).unwrap();
        let timeouts = Timeouts {
            response: Some(PATIENCE),
            total: Some(PATIENCE),
            ..Timeouts::default()
        };
        Self(
            HttpClient::new(
                destination,
                Options {
                    timeouts,
                    ..Options::default()
                },
            )
            .unwrap(),
        )
    }

    pub async fn get(&self, path: &str) -> Result<(u16, String), NetError> {
        let request = http::Request::get(path).body(Bytes::new()).unwrap();
        let response = self.0.send(request).await?;
        let status = response.status.as_u16();
        Ok((
            status,
            String::from_utf8(response.body.bytes().await?.to_vec()).unwrap(),
        ))
    }

    /// Asks for the metrics until one of them is this line.
    pub async fn metric(&self, line: &str) {
        let mut last = String::new();
        let wait = async {
            while !last.lines().any(|found| found == line) {
                last = self.get("/metrics").await.unwrap().1;
                tokio::task::yield_now().await;
            }
        };
        assert!(
            tokio::time::timeout(PATIENCE, wait).await.is_ok(),
            "no {line} in\n{last}"
        );
    }

    /// A call by path; the status and the answer.
    pub async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        let request = http::Request::post(path)
            .header("content-type", "application/a2a+json")
            .header("a2a-version", "1.0")
            .body(Bytes::from(body.to_string()))
            .unwrap();
        let response = self.0.send(request).await.unwrap();
        let status = response.status.as_u16();
        let answer = response.body.bytes().await.unwrap();
        (status, serde_json::from_slice(&answer).unwrap())
    }

    pub async fn call(&self, method: &str, params: Value) -> Result<Value, NetError> {
        self.call_with(&[], method, params).await
    }

    /// As [`Self::call`], with more headers.
    pub async fn call_with(
        &self,
        headers: &[(&str, &str)],
        method: &str,
        params: Value,
    ) -> Result<Value, NetError> {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let mut request = http::Request::post("/")
            .header("content-type", "application/json")
            .header("a2a-version", "1.0");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Bytes::from(body.to_string())).unwrap();
        let response = self.0.send(request).await?;
        Ok(serde_json::from_slice(&response.body.bytes().await?).unwrap())
    }

    /// `SendMessage`; the task.
    pub async fn send(&self, message_id: &str, text: &str, more: Value) -> Value {
        let answer = self.try_send(message_id, text, more).await.unwrap();
        answer["result"]["task"].clone()
    }

    /// `SendMessage`; the whole answer.
    pub async fn try_send(&self, message_id: &str, text: &str, more: Value) -> Result<Value, NetError> {
        let mut message =
            json!({ "messageId": message_id, "role": "ROLE_USER", "parts": [{ "text": text }] });
        let mut configuration = json!({});
        for (key, value) in more.as_object().unwrap() {
            let target = if key == "returnImmediately" {
                &mut configuration
            } else {
                &mut message
            };
            target[key] = value.clone();
        }
        self.call(
            "SendMessage",
            json!({ "message": message, "configuration": configuration }),
        )
        .await
    }

    pub async fn task(&self, id: &str) -> Value {
        self.call("GetTask", json!({ "id": id })).await.unwrap()["result"].clone()
    }

    /// Asks for the task until it has ended.
    pub async fn ended(&self, id: &str) -> Value {
        let wait = async {
            loop {
                let task = self.task(id).await;
                let state = task["status"]["state"].as_str().unwrap_or_default().to_owned();
                if !["TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"].contains(&state.as_str()) {
                    return task;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, wait)
            .await
            .expect("the task does not end")
    }
}

/// The text of a task's answer.
pub fn answer(task: &Value) -> &str {
    task["artifacts"][0]["parts"][0]["text"]
        .as_str()
        .unwrap_or_default()
}

/// What the status says.
pub fn said(task: &Value) -> &str {
    task["status"]["message"]["parts"][0]["text"]
        .as_str()
        .unwrap_or_default()
}
