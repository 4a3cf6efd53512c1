//! What a turn is given and what becomes of its calls: tools and resources of real connections, through to the model.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::a2a::Caller;
use crate::mcp_rich::Rich;
use crate::mcp_server::McpServer;
use crate::model::{task_tools, tool_results};
use crate::process::Agentd;
use crate::world::World;

/// How a one-shot ended.
struct Ran {
    code: Option<i32>,
    output: String,
    lines: Vec<Value>,
    /// What the model was sent.
    requests: Vec<Value>,
}

impl World {
    async fn one_shot(&self, prompt: &str, servers: &[(&str, &str)], more: &str) -> Ran {
        let servers: Vec<Value> = servers
            .iter()
            .map(|(name, url)| json!({ "name": name, "endpoint": url, "call_timeout": "2s" }))
            .collect();
        let file = self.folder.path().join("agentd.json");
        let document = json!({
            "intelligence": { "endpoints": self.model.url(), "model": "scripted" },
            "agent": { "instruction": "Be brief.", "prompt": prompt },
            "mcp": { "servers": servers, "tools_refresh": more },
        });
        std::fs::write(&file, document.to_string()).unwrap();
        let agentd = Agentd::start(&["-c", file.to_str().unwrap()], &[], self.folder.path());
        let (status, output, lines) = agentd.end().await;
        Ran {
            code: status.code(),
            output,
            lines,
            requests: self.model.requests(),
        }
    }
}

impl Ran {
    fn tools(&self, round: usize) -> Vec<&str> {
        task_tools(&self.requests[round])
    }

    fn system(&self, round: usize) -> &str {
        self.requests[round]["messages"][0]["content"].as_str().unwrap()
    }

    /// The results that the model was told, in order.
    fn results(&self) -> Vec<&str> {
        tool_results(self.requests.last().unwrap())
    }

    fn events(&self, event: &str) -> Vec<&Value> {
        self.lines.iter().filter(|line| line["event"] == event).collect()
    }
}

fn calls(calls: Value) -> String {
    format!("calls {calls}")
}

#[tokio::test(flavor = "multi_thread")]
async fn m1_an_agent_without_servers_has_no_task_tool() {
    let world = World::new().await;
    let ran = world.one_shot("hi", &[], "reload").await;
    assert_eq!(
        (ran.code, ran.output.as_str()),
        (Some(0), "you said: hi\n"),
        "{:#?}",
        ran.lines
    );
    assert!(ran.tools(0).is_empty());
    assert_eq!(ran.system(0), "Be brief.");
}

#[tokio::test(flavor = "multi_thread")]
async fn m25_what_servers_say_and_list_stands_in_the_prompt_and_can_be_read() {
    let (world, rich, plain) = (World::new().await, Rich::start().await, McpServer::start().await);
    let read = |uri: &str| json!(["resource_read", { "uri": uri }]);
    let prompt = calls(json!([
        read("memo:///todo"),
        read("memo:///by/monday"),
        read("memo:///gone"),
        read("file:///etc/passwd"),
        ["long", {}],
    ]));
    let ran = world
        .one_shot(
            &prompt,
            &[("rich", &rich.url()), ("plain", &plain.url())],
            "reload",
        )
        .await;
    assert_eq!(ran.code, Some(0), "{:#?}", ran.lines);
    // m17: the servers' own words, marked as theirs.
    let system = ran.system(0);
    assert!(
        system.starts_with("Be brief.\n\n# Notes from the MCP servers"),
        "{system}"
    );
    assert!(
        system.contains("## rich\n\n> Rich server: ask before you act."),
        "{system}"
    );
    assert!(
        system.contains(
            "## rich\n\n> memo:///todo (What is to be done)\n> memo:///gone (gone)\n> memo:///by/{day} (of a day)"
        ),
        "{system}"
    );
    assert!(!system.contains("all of"), "no contents");
    // m04: it is there because something is readable.
    assert_eq!(ran.tools(0)[0], "resource_read");
    // m26, m27: contents and what is missing, as observations.
    let results = ran.results();
    assert_eq!(
        results[..4],
        [
            "- all of memo:///todo",
            "- all of memo:///by/monday",
            "ERROR: server rich has no resource memo:///gone",
            "ERROR: no server offers file:///etc/passwd; read a URI that is listed, or one of a template that is",
        ]
    );
    assert!(results[4].contains("?from=100000]"), "{}", results[4].len());
    // m20: reads carry who asks, each with a key of its own.
    let reads = rich.requests("resources/read");
    assert_eq!(reads.len(), 3);
    let run_id = &ran.events("turn.start")[0]["run_id"];
    for read in &reads {
        let meta = &read["params"]["_meta"];
        assert_eq!(&meta["agent/run_id"], run_id, "{read}");
        assert!(
            meta["agent/instance"].is_string() && meta["traceparent"].is_string(),
            "{read}"
        );
    }
    // Every read and call is in the audit.
    let audit: Vec<(&str, &str, &str)> = ran
        .events("audit")
        .iter()
        .map(|line| {
            let text = |field: &str| line[field].as_str().unwrap();
            (text("action"), text("target"), text("outcome"))
        })
        .collect();
    assert_eq!(
        audit,
        [
            ("resource.read", "rich", "ok"),
            ("tool.call", "resource.read", "ok"),
            ("resource.read", "rich", "ok"),
            ("tool.call", "resource.read", "ok"),
            ("resource.read", "rich", "tool_error"),
            ("tool.call", "resource.read", "tool_error"),
            ("tool.call", "resource.read", "tool_error"),
            ("tool.call", "rich/long", "ok")
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn m4_without_anything_readable_there_is_no_reading() {
    let (world, plain) = (World::new().await, McpServer::start().await);
    let ran = world.one_shot("hi", &[("plain", &plain.url())], "reload").await;
    assert_eq!(ran.tools(0), ["echo"]);
    assert!(!ran.system(0).contains("# Resources"));
}

#[tokio::test(flavor = "multi_thread")]
async fn m4_a_result_that_was_cut_is_read_on() {
    let (world, rich) = (World::new().await, Rich::start().await);
    // `$cut` is the URI that the last result names.
    let prompt = calls(json!([["long", {}], ["resource_read", { "uri": "$cut" }]]));
    let ran = world.one_shot(&prompt, &[("rich", &rich.url())], "reload").await;
    assert_eq!(ran.results()[1], "the end", "{:#?}", ran.lines);
    assert!(rich.requests("resources/read").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn m24_live_tools_change_between_rounds() {
    let (world, rich) = (World::new().await, Rich::start().await);
    let prompt = calls(json!([["grow", {}], ["fresh", {}], ["hang", {}]]));
    let ran = world.one_shot(&prompt, &[("rich", &rich.url())], "live").await;
    assert_eq!(ran.code, Some(0), "{:#?}", ran.lines);
    assert!(ran.tools(0).contains(&"grow"));
    assert_eq!(ran.tools(1), ["resource_read", "ask", "fresh"]);
    assert_eq!(
        ran.results(),
        [
            "grown",
            "fresh done",
            "ERROR: there is no tool hang now; use one of those you were given last"
        ]
    );
    assert!(!ran.events("mcp.tools_changed").is_empty());
    assert_eq!(ran.events("mcp.tools_refreshed").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn m24_otherwise_they_stay_until_the_next_configuration() {
    let (world, rich) = (World::new().await, Rich::start().await);
    let prompt = calls(json!([["grow", {}], ["fail", {}], ["fresh", {}]]));
    let ran = world.one_shot(&prompt, &[("rich", &rich.url())], "reload").await;
    assert_eq!(ran.tools(0), ran.tools(3));
    assert_eq!(
        ran.results(),
        [
            "grown",
            "ERROR: file not found",
            "ERROR: there is no tool fresh now; use one of those you were given last"
        ]
    );
    assert!(!ran.events("mcp.tools_changed").is_empty());
    assert!(ran.events("mcp.tools_refreshed").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn m33_a_call_of_a_turn_is_bounded_by_call_timeout() {
    let (world, rich) = (World::new().await, Rich::start().await);
    let ran = world
        .one_shot(&calls(json!([["hang", {}]])), &[("rich", &rich.url())], "reload")
        .await;
    let audit = ran.events("audit");
    assert_eq!((audit.len(), &audit[0]["outcome"]), (1, &json!("failed")));
    // `call_timeout` is 2 s here; the server's own clock (60 s) is for its handshake and its lists.
    let millis = audit[0]["dur_ms"].as_u64().unwrap();
    assert!((2_000..30_000).contains(&millis), "{millis}");
    assert_eq!(rich.request("notifications/cancelled").await["jsonrpc"], "2.0");
}

#[tokio::test(flavor = "multi_thread")]
async fn m34_a_call_that_hangs_is_an_observation_and_the_run_carries_on() {
    let (world, rich) = (World::new().await, Rich::start().await);
    let prompt = calls(json!([["hang", {}], ["fail", {}], ["crash", {}]]));
    let ran = world.one_shot(&prompt, &[("rich", &rich.url())], "reload").await;
    assert_eq!(ran.code, Some(0), "{:#?}", ran.lines);
    // m21: a failure is the tool's words, an error of the server is told by us.
    assert_eq!(
        ran.results(),
        [
            "ERROR: hang gave no result: the call took longer than 2s and was cancelled; it may have been carried out",
            "ERROR: file not found",
            "ERROR: crash gave no result: its server failed (error -32603); it may have been carried out",
        ]
    );
}

/// An agent that serves, with `mcp.tools_refresh` as given, and the names of the tools that a message was answered with.
struct Served {
    world: World,
    agentd: Agentd,
    caller: Caller,
}

impl Served {
    async fn start(rich: &Rich, refresh: &str) -> Self {
        let world = World::new().await;
        let (model, mcp) = (world.model.url(), format!("rich={}", rich.url()));
        let arguments = [
            "--intelligence",
            &model,
            "--model",
            "scripted",
            "--instruction",
            "Be brief.",
            "--mcp",
            &mcp,
            "--mcp.tools_refresh",
            refresh,
            "--a2a.listen",
            "http://127.0.0.1:0",
            "--a2a.dev",
            "--store.kind",
            "memory",
        ];
        let mut agentd = Agentd::start(&arguments, &[], world.folder.path());
        let a2a = agentd.address("a2a.listen").await;
        let caller = Caller::new(&a2a);
        agentd.event("mcp.connect").await;
        Self {
            world,
            agentd,
            caller,
        }
    }

    /// The tools of the last round of this message's turn.
    async fn tools(&self, id: &str, context: &str, text: &str) -> Vec<String> {
        self.caller.send(id, text, json!({ "contextId": context })).await;
        let requests = self.world.model.requests();
        let names = task_tools(requests.last().unwrap());
        names.into_iter().map(str::to_owned).collect()
    }
}

const GROWN: [&str; 3] = ["resource_read", "ask", "fresh"];

/// A conversation that begins after a change of the tools has no others than one that began before.
#[tokio::test(flavor = "multi_thread")]
async fn m24_the_tools_of_every_conversation_are_the_catalogues_until_a_reload() {
    let rich = Rich::start().await;
    let mut agent = Served::start(&rich, "reload").await;
    let before = agent.tools("m1", "one", &calls(json!([["grow", {}]]))).await;
    assert!(before.contains(&"grow".to_owned()), "{before:?}");
    assert_eq!(agent.tools("m2", "one", "hi").await, before);
    assert_eq!(agent.tools("m3", "two", "hi").await, before);
    agent.agentd.signal(Signal::SIGHUP);
    agent.agentd.event("config.reloaded").await;
    assert_eq!(agent.tools("m4", "one", "hi").await, GROWN);
    // The supervisor lists for those that are new.
    let listed = async {
        for number in 0.. {
            let context = format!("new{number}");
            if agent.tools(&context, &context, "hi").await == GROWN {
                break;
            }
        }
    };
    tokio::time::timeout(crate::process::PATIENCE, listed)
        .await
        .unwrap();
}

/// One conversation is told of other tools by its own connection; the others, which have connections of their own, and the
/// supervisor hear of it through it.
#[tokio::test(flavor = "multi_thread")]
async fn m24_live_tools_that_one_conversation_is_told_of_reach_the_others() {
    let rich = Rich::start().await;
    let agent = Served::start(&rich, "live").await;
    let before = agent.tools("m1", "warm", "hi").await;
    assert!(before.contains(&"grow".to_owned()), "{before:?}");
    assert_eq!(
        agent.tools("m2", "one", &calls(json!([["grow", {}]]))).await,
        GROWN
    );
    let told = async {
        for number in 0.. {
            if agent.tools(&format!("again{number}"), "warm", "hi").await == GROWN {
                break;
            }
        }
    };
    tokio::time::timeout(crate::process::PATIENCE, told)
        .await
        .unwrap();
}
