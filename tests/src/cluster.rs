//! The cluster that the suite runs on: started by `tests/scripts/test.sh`, named by `KUBE_TEST_STATE`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use crate::command::{Finished, run, run_with};

static CLUSTER: LazyLock<Cluster> = LazyLock::new(Cluster::find);

/// A running test cluster.
#[derive(Debug)]
pub struct Cluster {
    state: PathBuf,
    tools: PathBuf,
}

/// The root of the repository.
#[must_use]
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("tests/ has a parent")
        .to_path_buf()
}

/// The cluster of this suite.
///
/// # Panics
/// When there is none.
#[must_use]
pub fn cluster() -> &'static Cluster {
    &CLUSTER
}

/// Whether this is the long run of `make soak`.
#[must_use]
pub fn is_soak() -> bool {
    std::env::var_os("SOAK").is_some()
}

impl Cluster {
    fn find() -> Self {
        let state = std::env::var_os("KUBE_TEST_STATE").map(PathBuf::from).unwrap_or_else(|| {
            panic!("this test needs a cluster: run it by `make test-api` or `make test-e2e`, or start one with tests/cluster/cluster.sh and set KUBE_TEST_STATE")
        });
        assert!(
            state.join("kubeconfig").exists(),
            "no cluster is up in {}: see tests/cluster/cluster.sh",
            state.display()
        );
        let tools = run(Command::new(repository().join("tests/cluster/cluster.sh")).arg("tools")).ok();
        Self {
            state,
            tools: PathBuf::from(tools.trim()),
        }
    }

    /// An administrator's kubeconfig.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.state.join("kubeconfig")
    }

    /// An administrator's client. It works in the runtime that it was made in.
    ///
    /// # Panics
    /// When the kubeconfig can't be read.
    pub async fn client(&self) -> kube::Client {
        kube::Client::try_from(self.config().await).expect("a client from the test cluster's kubeconfig")
    }

    /// What an administrator's client is made from.
    ///
    /// # Panics
    /// When the kubeconfig can't be read.
    pub async fn config(&self) -> kube::Config {
        // Another test may have installed it already.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let file =
            kube::config::Kubeconfig::read_from(self.kubeconfig()).expect("the test cluster's kubeconfig");
        kube::Config::from_custom_kubeconfig(file, &kube::config::KubeConfigOptions::default())
            .await
            .expect("a config from the test cluster's kubeconfig")
    }

    /// The folder of kubectl and helm.
    #[must_use]
    pub fn tools(&self) -> &Path {
        &self.tools
    }

    fn tool(&self, name: &str) -> Command {
        let mut command = Command::new(self.tools.join(name));
        command
            .env("KUBECONFIG", self.kubeconfig())
            .env("KUBECACHEDIR", self.state.join("kubectl-cache"))
            .env("HELM_CACHE_HOME", self.state.join("helm"))
            .env("HELM_CONFIG_HOME", self.state.join("helm"))
            .env("HELM_DATA_HOME", self.state.join("helm"));
        command
    }

    /// Runs kubectl.
    pub fn kubectl<I: IntoIterator<Item: AsRef<OsStr>>>(&self, arguments: I) -> Finished {
        run(self.tool("kubectl").args(arguments))
    }

    /// Runs `kubectl apply` on YAML, server-side so that nothing depends on what was applied before.
    pub fn apply(&self, yaml: &str) -> Finished {
        run_with(
            self.tool("kubectl")
                .args(["apply", "--server-side", "--force-conflicts", "-f", "-"]),
            yaml.as_bytes(),
        )
    }

    /// Runs helm.
    pub fn helm<I: IntoIterator<Item: AsRef<OsStr>>>(&self, arguments: I) -> Finished {
        run(self.tool("helm").args(arguments))
    }

    /// A program in the network of node `node`, where Service and Pod addresses and the cluster's names work; with
    /// kubectl on its path.
    #[must_use]
    pub fn on_node(&self, node: u8, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(repository().join("tests/cluster/cluster.sh"));
        command.env("KUBE_TEST_STATE", &self.state);
        command
            .args(["exec", "--node", &node.to_string(), "--"])
            .arg(program);
        command
    }

    /// A program in the network of the control plane: outside of the nodes, and pods reach it.
    #[must_use]
    pub fn in_control_plane(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(repository().join("tests/cluster/cluster.sh"));
        command.env("KUBE_TEST_STATE", &self.state);
        command.args(["exec", "--"]).arg(program);
        command
    }
}
