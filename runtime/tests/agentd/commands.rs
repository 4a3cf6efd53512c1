//! Commands to the agent itself: by operators, users and agents that show tokens, in both bindings.

use std::net::SocketAddr;

use agentd_a2a::command::URI;
use agentd_net::tls::WebRoots;
use agentd_net::{Declared, Destination, HttpClient, Options, TlsMode};
use bytes::Bytes;
use serde_json::{Value, json};

use crate::model::Model;
use crate::process::Agentd;
use crate::world::World;

const PEOPLE: [(&str, &str); 4] = [
    ("boss", "operator"),
    ("ann", "user"),
    ("bob", "user"),
    ("peer", "agent"),
];

/// An agent with a principal of each role, who show their names as tokens.
pub struct Desk {
    pub agentd: Agentd,
    /// Where it listens.
    pub address: SocketAddr,
    client: HttpClient,
}

impl Desk {
    pub async fn start(world: &World) -> Self {
        let folder = world.folder.path();
        if !folder.join("cert.pem").exists() {
            let certificate = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
            std::fs::write(folder.join("cert.pem"), certificate.cert.pem()).unwrap();
            std::fs::write(folder.join("key.pem"), certificate.signing_key.serialize_pem()).unwrap();
        }
        let principals = PEOPLE.map(|(name, role)| {
            std::fs::write(folder.join(name), format!("token-of-{name}")).unwrap();
            json!({ "name": name, "role": role,
                    "bearer": format!("{{{{secret-file:{}}}}}", folder.join(name).display()) })
        });
        let document = json!({
            "agent": { "instruction": "Be brief." },
            "intelligence": { "endpoints": [{ "url": world.model.url() }], "model": "scripted" },
            "store": { "path": folder.join("state") },
            "a2a": { "listen": "https://127.0.0.1:0", "principals": principals,
                     "tls": { "cert": folder.join("cert.pem"), "key": folder.join("key.pem") } },
        });
        std::fs::write(folder.join("agent.json"), document.to_string()).unwrap();
        let mut agentd = Agentd::start(&["--config", "agent.json"], &[], folder);
        let address = agentd.address("a2a.listen").await;
        agentd.event("proc.ready").await;
        let address: SocketAddr = address.parse().unwrap();
        let url = format!("https://localhost:{}/", address.port());
        let roots = WebRoots {
            ca_files: vec![folder.join("cert.pem")],
            ..WebRoots::default()
        };
        let options = Options {
            tls: TlsMode::WebRoots(roots),
            ..Options::default()
        };
        let client = HttpClient::new(Destination::declared(&url, Declared::Mcp).unwrap(), options).unwrap();
        Self {
            agentd,
            address,
            client,
        }
    }

    async fn ask(&self, who: &str, path: &str, media_type: &str, body: &Value) -> Value {
        let request = http::Request::post(path)
            .header("content-type", media_type)
            .header("a2a-version", "1.0")
            .header("a2a-extensions", URI)
            .header("authorization", format!("Bearer token-of-{who}"))
            .body(Bytes::from(body.to_string()))
            .unwrap();
        let response = self.client.send(request).await.unwrap();
        serde_json::from_slice(&response.body.bytes().await.unwrap()).unwrap()
    }

    /// A call in JSON-RPC.
    pub async fn call(&self, who: &str, method: &str, params: Value) -> Value {
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        self.ask(who, "/", "application/json", &call).await
    }

    /// A message to the model.
    pub async fn says(&self, who: &str, context: &str, text: &str, at_once: bool) -> Value {
        let id = format!("{who}-{context}-{text}");
        let message = json!({ "messageId": id, "contextId": context, "role": "ROLE_USER", "parts": [{ "text": text }] });
        let params = json!({ "message": message, "configuration": { "returnImmediately": at_once } });
        let sent = self.call(who, "SendMessage", params).await;
        assert!(sent["result"]["task"].is_object(), "{sent:#}");
        sent["result"]["task"].clone()
    }

    /// A command in both bindings: the result, or the first field that is wrong or the code of the error.
    pub async fn command(&self, who: &str, command: Value) -> Result<Value, String> {
        let params = json!({ "message": { "messageId": "m", "role": "ROLE_USER",
                                          "parts": [{ "data": { "agentd": command } }] } });
        let by_path = self
            .ask(who, "/message:send", "application/a2a+json", &params)
            .await;
        let by_call = self.call(who, "SendMessage", params).await;
        let (by_path, by_call) = (outcome(&by_path, "details"), outcome(&by_call, "data"));
        assert_eq!(by_path, by_call, "{command}");
        by_call
    }
}

/// Of an answer of either binding.
fn outcome(answer: &Value, details: &str) -> Result<Value, String> {
    let Some(error) = answer.get("error") else {
        let result = answer.get("result").unwrap_or(answer);
        let told = &result["message"]["parts"][0]["data"]["agentd"]["result"];
        assert!(!told.is_null(), "{answer:#}");
        return Ok(told.clone());
    };
    let detail = &error[details][0];
    let field = detail["fieldViolations"][0]["field"].as_str();
    let said = field.and_then(|field| field.rsplit('.').next());
    Err(said.or(detail["reason"].as_str()).unwrap().to_owned())
}

fn failed(word: &str) -> Result<Value, String> {
    Err(word.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn s10_who_reads_what_by_command_and_nothing_is_kept_of_it() {
    let world = World::new().await;
    let desk = Desk::start(&world).await;
    let plan = json!([["plan_create", { "goal": "tea", "items": ["boil"] }]]);
    let task = desk.says("ann", "c", &format!("calls {plan}"), false).await;
    let run = task["id"].as_str().unwrap();
    let kept = kept(&world);

    let of = |name: &str| format!("bearer:{name}");
    for who in ["peer", "ann", "boss"] {
        let status = desk.command(who, json!({ "op": "status" })).await.unwrap();
        assert_eq!(
            (&status["state"], &status["model"]),
            (&json!("running"), &json!("scripted")),
            "{status:#}"
        );
        assert_eq!(status.get("turns").is_some(), who == "boss");
    }
    let config = desk.command("boss", json!({ "op": "config" })).await.unwrap();
    let reference = config["document"]["a2a"]["principals"][0]["bearer"]
        .as_str()
        .unwrap();
    assert!(reference.starts_with("{{secret-file:"), "{reference}");
    assert!(!config.to_string().contains("token-of-"));

    let told = desk
        .command("ann", json!({ "op": "run.get", "run": run }))
        .await
        .unwrap();
    assert_eq!(
        (&told["state"], &told["contextId"], &told["owner"]),
        (&json!("completed"), &json!("c"), &json!(of("ann")))
    );
    let said = desk
        .command("ann", json!({ "op": "conversation.get", "contextId": "c" }))
        .await
        .unwrap();
    assert_eq!(
        (
            &said["totalSize"],
            &said["tasks"][0]["run"],
            &said["nextPageToken"]
        ),
        (&json!(1), &json!(run), &json!(""))
    );
    assert_eq!(said["tasks"][0]["message"], json!(format!("calls {plan}")));
    let read = json!({ "op": "plan.get", "contextId": "c" });
    let planned = desk.command("ann", read.clone()).await.unwrap();
    assert_eq!(
        (&planned["goal"], &planned["exists"]),
        (&json!("tea"), &json!(true))
    );
    // An operator sees all, and need not say whose it is.
    assert_eq!(desk.command("boss", read.clone()).await, Ok(planned.clone()));
    let named = json!({ "op": "plan.get", "contextId": "c", "owner": of("ann") });
    assert_eq!(desk.command("boss", named).await, Ok(planned));
    for (command, expected) in [
        (json!({ "op": "run.get", "run": run }), told),
        (json!({ "op": "conversation.get", "contextId": "c" }), said),
    ] {
        assert_eq!(desk.command("boss", command).await, Ok(expected));
    }
    // For anybody else it is not there.
    for (mine, nobodys) in [
        (
            json!({ "op": "run.get", "run": run }),
            json!({ "op": "run.get", "run": "x" }),
        ),
        (
            json!({ "op": "conversation.get", "contextId": "c" }),
            json!({ "op": "conversation.get", "contextId": "x" }),
        ),
        (read, json!({ "op": "plan.get", "contextId": "x" })),
    ] {
        let refused = desk.command("bob", mine).await;
        assert_eq!(refused, desk.command("bob", nobodys).await);
        assert!(
            refused.is_err() || refused == Ok(json!({ "exists": false })),
            "{refused:?}"
        );
    }
    for who in ["peer", "ann"] {
        assert_eq!(desk.command(who, json!({ "op": "config" })).await, failed("op"));
    }
    assert_eq!(
        desk.command("peer", json!({ "op": "run.get", "run": run })).await,
        failed("op")
    );
    let workflows = desk.command("peer", json!({ "op": "workflow.status" })).await;
    assert_eq!(workflows, Ok(json!({ "workflows": [] })));
    let run = json!({ "op": "workflow.run", "name": "w" });
    assert_eq!(desk.command("peer", run).await, failed("name"));

    let listed = desk.call("boss", "ListTasks", json!({})).await;
    assert_eq!(listed["result"]["totalSize"], json!(1));
    assert_eq!(self::kept(&world), kept);
    assert!(desk.agentd.lines("a2a.failed").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subagent_is_there_for_whose_conversation_it_is_of() {
    let world = World::new().await;
    let desk = Desk::start(&world).await;
    let run = json!([["subagent_run", { "instruction": "hello" }]]);
    desk.says("ann", "c", &format!("calls {run}"), false).await;
    let handle = handle_of(&world.model);
    let status =
        |context: Option<&str>| json!({ "op": "subagent.status", "handle": handle, "contextId": context });
    for who in ["ann", "boss"] {
        let told = desk.command(who, status(Some("c"))).await.unwrap();
        assert_eq!(
            (&told["handle"], &told["status"]),
            (&json!(handle), &json!("completed"))
        );
    }
    for (who, context) in [("ann", None), ("ann", Some("x")), ("bob", Some("c"))] {
        assert_eq!(
            desk.command(who, status(context)).await,
            failed("handle"),
            "{who}"
        );
    }
    assert_eq!(desk.command("peer", status(Some("c"))).await, failed("op"));
}

/// The handle of the subagent that the last turn was told of.
pub fn handle_of(model: &Model) -> String {
    let requests = model.requests();
    let told = crate::model::tool_results(requests.last().unwrap()).into_iter();
    let told = told.filter_map(|text| serde_json::from_str::<Value>(text).ok());
    let mut handles = told.filter_map(|told| told["handle"].as_str().map(str::to_owned));
    handles.next_back().unwrap()
}

/// What the store takes.
fn kept(world: &World) -> Vec<(std::ffi::OsString, u64)> {
    let files = std::fs::read_dir(world.folder.path().join("state")).unwrap();
    let mut files: Vec<_> = files
        .map(|file| file.unwrap())
        .map(|file| (file.file_name(), file.metadata().unwrap().len()))
        .collect();
    files.sort();
    files
}
