//! The agent as in a pod: two halves of a document, an identity from an issuer, callers over mTLS, reports. Callers use
//! the program's own clients.

use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use agentd_base::report::ServerState;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

use crate::a2a::Caller;
use crate::install::{Install, mount};
use crate::mcp_server::McpServer;
use crate::model::Model;
use crate::process::{Agentd, PROGRAM};

/// A life of an SVID that a test can outlive; it is renewed every second.
pub const SHORT: Duration = Duration::from_secs(4);
/// Downward API.
const VARIABLES: [(&str, &str); 3] = [
    ("AGENTD_POD_NAME", "helper-agent-0"),
    ("AGENTD_POD_UID", "u7"),
    ("AGENTD_POD_NAMESPACE", "team"),
];

pub struct Pod {
    pub install: Install,
    model: Model,
    server: McpServer,
    pub folder: TempDir,
}

impl Pod {
    pub async fn new() -> Self {
        Self::of(Install::start().await).await
    }

    async fn of(install: Install) -> Self {
        Self {
            install,
            model: Model::start().await,
            server: McpServer::start().await,
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn live(&self) -> PathBuf {
        self.folder.path().join("live")
    }

    /// The reloadable half.
    pub fn reloadable(&self, principals: &[&str], key: &Path) -> Value {
        let principals: Vec<Value> = principals
            .iter()
            .map(|account| json!({ "name": account, "spiffe_id": self.install.id(account), "role": "user" }))
            .collect();
        json!({
            "agent": { "instruction": "Be brief." },
            "intelligence": {
                "model": "scripted",
                "endpoints": [{ "url": self.model.url(), "auth": { "static": { "bearer": format!("{{{{secret-file:{}}}}}", key.display()) } } }],
            },
            "mcp": { "servers": [{ "name": "fs", "endpoint": self.server.url(), "ns": "fs" }] },
            "a2a": { "principals": principals },
        })
    }

    pub fn mount(&self, dated: &str, half: &Value) {
        mount(
            &self.live(),
            dated,
            &[
                ("agentd.json", &half.to_string()),
                ("bundle.pem", &self.install.bundle()),
            ],
        );
    }

    async fn start(&self) -> (Agentd, String, Caller) {
        self.start_with(&self.configure()).await
    }

    /// Writes the restart-only half and the token.
    pub fn configure(&self) -> PathBuf {
        let mut document = self
            .install
            .document("helper-agent", self.folder.path(), &self.live());
        let own = json!({
            "agent": { "name": "helper" },
            "a2a": { "listen": "https://127.0.0.1:0" },
            "store": { "path": self.folder.path().join("state") },
            "observability": { "metrics_addr": "127.0.0.1:0" },
        });
        document
            .as_object_mut()
            .unwrap()
            .extend(own.as_object().unwrap().clone());
        let config = self.folder.path().join("agentd.json");
        std::fs::write(&config, document.to_string()).unwrap();
        config
    }

    pub async fn start_with(&self, config: &Path) -> (Agentd, String, Caller) {
        let mut agentd = Agentd::start(&["-c", config.to_str().unwrap()], &VARIABLES, self.folder.path());
        let a2a = agentd.address("a2a.listen").await;
        let admin = agentd.address("metrics.serving").await;
        (agentd, format!("https://{a2a}/"), Caller::new(&admin))
    }

    /// Runs the program to its end.
    async fn command(&self, arguments: &[&str]) -> Output {
        Command::new(PROGRAM)
            .args(arguments)
            .env_clear()
            .current_dir(self.folder.path())
            .output()
            .await
            .unwrap()
    }

    /// `agentd identity fetch` for an account; the folder.
    pub async fn identity(&self, account: &str) -> String {
        let path = |name: &str| {
            self.folder
                .path()
                .join(format!("{account}-{name}"))
                .to_str()
                .unwrap()
                .to_owned()
        };
        let (out, token, bundle) = (path("identity"), path("token"), path("bundle"));
        std::fs::write(&token, self.install.id(account).to_string()).unwrap();
        std::fs::write(&bundle, self.install.bundle()).unwrap();
        let (url, id) = (self.install.issuer_url(), self.install.issuer_id().to_string());
        let fetched = self
            .command(&[
                "identity",
                "fetch",
                "--issuer-url",
                &url,
                "--issuer-id",
                &id,
                "--bundle",
                &bundle,
                "--token-file",
                &token,
                "--out",
                &out,
            ])
            .await;
        assert_eq!(fetched.status.code(), Some(0), "{fetched:?}");
        assert_eq!(
            String::from_utf8(fetched.stdout).unwrap().trim(),
            self.install.id(account).to_string()
        );
        out
    }

    /// A subcommand of `agentd a2a` that needs no more than the agent.
    pub async fn ask(&self, verb: &str, url: &str, identity: &str) -> Output {
        let server = self.install.id("helper-agent").to_string();
        let known = ["--server-id", &server, "--identity", identity, "-o", "json"];
        self.command(&[["a2a", verb, url].as_slice(), &known].concat())
            .await
    }

    pub async fn send(&self, url: &str, text: &str, identity: &str, more: &[&str]) -> Output {
        let server = self.install.id("helper-agent").to_string();
        let mut arguments = vec![
            "a2a",
            "send",
            url,
            text,
            "--server-id",
            &server,
            "--identity",
            identity,
        ];
        arguments.extend(more);
        self.command(&arguments).await
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn m39_a_caller_with_an_identity_is_answered_and_one_that_is_taken_off_the_list_is_not() {
    let pod = Pod::new().await;
    let key = pod.folder.path().join("key");
    std::fs::write(&key, "canary-key\n").unwrap();
    pod.mount("..1", &pod.reloadable(&["boss"], &key));
    let (mut agentd, url, admin) = pod.start().await;
    agentd.event("identity.svid.renewed").await;
    agentd.event("mcp.connect").await;
    assert_eq!(admin.get("/readyz").await.unwrap(), (200, "ok\n".into()));

    let boss = pod.identity("boss").await;
    for file in ["key.pem", "svid.pem", "bundle.pem"] {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(Path::new(&boss).join(file))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    let answer = pod.send(&url, "hello", &boss, &[]).await;
    assert_eq!(
        (answer.status.code(), text(&answer.stdout).as_str()),
        (Some(0), "you said: hello\n"),
        "{answer:?}"
    );
    let task = pod.send(&url, "hello", &boss, &["-o", "json"]).await;
    let task: Value = serde_json::from_slice(&task.stdout).unwrap();
    assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED");

    // An identity that nobody listed is refused.
    let other = pod.identity("other").await;
    let refused = pod.send(&url, "hello", &other, &[]).await;
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        text(&refused.stderr).contains("403") && refused.stdout.is_empty(),
        "{refused:?}"
    );

    // The list changes; the process does not.
    pod.mount("..2", &pod.reloadable(&["other"], &key));
    agentd.event("config.reloaded").await;
    assert_eq!(pod.send(&url, "hello", &other, &[]).await.status.code(), Some(0));
    assert_eq!(pod.send(&url, "hello", &boss, &[]).await.status.code(), Some(1));

    // The key went to the model and nowhere else.
    agentd.signal(nix::sys::signal::Signal::SIGTERM);
    let (status, _, lines) = agentd.end().await;
    assert_eq!(status.code(), Some(0), "{lines:#?}");
    assert!(!json!(lines).to_string().contains("canary-key"));
}

#[tokio::test(flavor = "multi_thread")]
async fn it_reports_what_it_runs_with_and_what_it_refused() {
    let pod = Pod::new().await;
    let key = pod.folder.path().join("key");
    std::fs::write(&key, "k").unwrap();
    let good = pod.reloadable(&["boss"], &key);
    pod.mount("..1", &good);
    let (mut agentd, _, _) = pod.start().await;
    let (id, report) = pod
        .install
        .report(|report| {
            report
                .servers
                .first()
                .is_some_and(|server| server.state == ServerState::Connected)
        })
        .await;
    assert_eq!(id, pod.install.id("helper-agent"));
    assert_eq!(
        (report.pod_name.as_str(), report.pod_uid.as_str()),
        ("helper-agent-0", "u7")
    );
    assert_eq!(
        (report.tool_count, report.a2a_versions.clone()),
        (1, vec!["1.0".to_owned(), "0.3".to_owned()])
    );
    assert!(report.tool_digest.is_some() && report.rejected.is_none() && report.missing_secrets.is_empty());
    let first = agentd_config::live::read(&pod.live()).unwrap().digest;
    assert_eq!(report.running_digest.as_deref(), Some(first.as_str()));
    // Nothing was said before there was something to say.
    assert_eq!(pod.install.first_report().await, report);
    assert_eq!(agentd.inotify_instances(), 1);

    // What needs a restart, what is wrong, and what is half: refused, each with its key.
    let mut restart = good.clone();
    restart["store"] = json!({ "kind": "memory" });
    let mut wrong = good.clone();
    wrong["mcp"]["servers"][0]["endpoint"] = json!("ftp://x/");
    for (dated, half, key) in [
        ("..2", &restart, "store"),
        ("..3", &wrong, "mcp.servers[fs].endpoint"),
    ] {
        pod.mount(dated, half);
        agentd.event("config.reload.invalid").await;
        let digest = agentd_config::live::read(&pod.live()).unwrap().digest;
        let (_, report) = pod
            .install
            .report(|report| {
                report
                    .rejected
                    .as_ref()
                    .is_some_and(|rejected| rejected.digest == digest)
            })
            .await;
        assert_eq!(report.running_digest.as_deref(), Some(first.as_str()));
        let message = report.rejected.unwrap().message;
        assert!(message.contains(key), "{message}");
    }

    // The fix is taken up by itself: another server list, and the report says so.
    let mut fixed = good;
    fixed["mcp"]["servers"][0]["exclude"] = json!(["*"]);
    pod.mount("..4", &fixed);
    agentd.event("config.reloaded").await;
    let digest = agentd_config::live::read(&pod.live()).unwrap().digest;
    let (_, report) = pod
        .install
        .report(|report| report.running_digest.as_ref() == Some(&digest) && report.tool_count == 0)
        .await;
    assert!(report.rejected.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_issuer_it_is_up_and_says_why_it_is_not_ready() {
    let pod = Pod::new().await;
    let key = pod.folder.path().join("key");
    pod.mount("..1", &pod.reloadable(&["boss"], &key));
    let config = pod.configure();
    let token = pod.folder.path().join("token");
    let content = std::fs::read(&token).unwrap();
    std::fs::remove_file(&token).unwrap();
    let (mut agentd, url, admin) = pod.start_with(&config).await;
    agentd.event("identity.svid.fail").await;
    assert_eq!(admin.get("/healthz").await.unwrap().0, 200);
    let (status, why) = admin.get("/readyz").await.unwrap();
    assert!(
        status == 503 && why.contains("identity: no SVID yet") && why.contains("token file"),
        "{why}"
    );
    std::fs::write(&token, content).unwrap();
    agentd.event("identity.svid.renewed").await;
    assert_eq!(admin.get("/readyz").await.unwrap().0, 200);

    // The model's key is missing: that fails a turn truthfully, not the process.
    let boss = pod.identity("boss").await;
    let failed = pod.send(&url, "hello", &boss, &[]).await;
    assert_eq!(failed.status.code(), Some(1));
    let said = text(&failed.stdout);
    assert!(said.starts_with("failed: ") && said.contains("key"), "{said}");
    std::fs::write(&key, "k").unwrap();
    assert_eq!(
        pod.send(&url, "hello", &boss, &[]).await.status.code(),
        Some(0),
        "used as soon as it is there"
    );
    assert_eq!(admin.get("/healthz").await.unwrap().0, 200);
}

/// A server that takes connections and says nothing holds up the first report for a moment only.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_report_does_not_wait_for_a_server_that_hangs() {
    let pod = Pod::new().await;
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut half = pod.reloadable(&["boss"], Path::new("/does/not/exist"));
    half["mcp"]["servers"].as_array_mut().unwrap().push(
        json!({ "name": "silent", "endpoint": format!("http://{}/mcp", silent.local_addr().unwrap()) }),
    );
    pod.mount("..1", &half);
    let (_agentd, _, _) = pod.start().await;
    let states: Vec<ServerState> = pod
        .install
        .first_report()
        .await
        .servers
        .iter()
        .map(|server| server.state)
        .collect();
    assert_eq!(states, [ServerState::Connected, ServerState::Connecting]);
}

/// A node with no inotify instance left: the pod runs, says so, and looks at its folders when it is told to.
#[tokio::test(flavor = "multi_thread")]
async fn without_inotify_it_runs_and_looks_again_on_sighup() {
    let pod = Pod::new().await;
    let (mut agentd, mut half) = start_without_inotify(&pod).await;
    assert_eq!(agentd.inotify_instances(), 0);
    half["agent"]["instruction"] = json!("Be long.");
    pod.mount("..2", &half);
    agentd.signal(nix::sys::signal::Signal::SIGHUP);
    agentd.event("config.reloaded").await;
    let digest = agentd_config::live::read(&pod.live()).unwrap().digest;
    let reported = |report: &agentd_base::report::Report| report.running_digest.as_ref() == Some(&digest);
    pod.install.report(reported).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_inotify_it_looks_again_at_each_renewal_of_its_svid() {
    let pod = Pod::of(Install::with_svids_of(SHORT).await).await;
    let (mut agentd, mut half) = start_without_inotify(&pod).await;
    half["agent"]["instruction"] = json!("Be long.");
    pod.mount("..2", &half);
    agentd.event("config.reloaded").await;
}

async fn start_without_inotify(pod: &Pod) -> (Agentd, Value) {
    let half = pod.reloadable(&["boss"], Path::new("/does/not/exist"));
    pod.mount("..1", &half);
    let config = pod.configure();
    let arguments = ["-c", config.to_str().unwrap()];
    let mut agentd = Agentd::start_without_inotify(&arguments, &VARIABLES, pod.folder.path());
    let said = agentd.event("config.watch.error").await;
    assert!(said.to_string().contains("SIGHUP"), "{said}");
    agentd.event("proc.ready").await;
    pod.install.first_report().await;
    (agentd, half)
}
