//! The command line of both processes, and what a process needs before it may start: the crypto provider, logs, the
//! signals that end it. Every flag is also an environment variable.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration as Std;

use agentd_base::class::{Class, Classified, exit};
use agentd_base::clock::system;
use agentd_base::drain::{Drain, Watch};
use agentd_base::duration::Duration;
use agentd_base::{issuance, report};
use agentd_identity::TrustDomain;
use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use kube::Client;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use crate::app::{self, AppError, ControllersArgs};
use crate::issuer::{self, IssuerArgs, IssuerError};
use crate::server;

/// From SIGTERM to the end; the pods' grace is 30 s.
const DRAIN: Std = Std::from_secs(25);
/// The shortest and the longest life of an SVID.
const SVID_TTL: (Std, Std) = (Std::from_secs(3600), Std::from_secs(24 * 3600));
/// To the API server.
const CONNECT_DEADLINE: Std = Std::from_secs(10);
/// Longer than a watch lasts (290 s), so that only a connection that went dead ends by it.
const READ_DEADLINE: Std = Std::from_secs(310);

/// The operator of agentd.
#[derive(Debug, Parser)]
#[command(name = "agentd-operator", version, about)]
struct Cli {
    /// How much is logged.
    #[arg(
        long,
        env = "AGENTD_LOG_LEVEL",
        value_enum,
        default_value = "info",
        global = true
    )]
    log_level: LogLevel,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Reconcile Agents and McpServers, and take the reports of pods.
    Controllers(Controllers),
    /// Issue SPIFFE identities.
    Issuer(Issuer),
}

/// What both processes are told.
#[derive(Debug, Args)]
struct Common {
    /// The Helm release: every object of the install is named by it.
    #[arg(long, env = "AGENTD_RELEASE")]
    release: String,
    /// The namespace of the install.
    #[arg(long, env = "AGENTD_NAMESPACE")]
    namespace: String,
    /// The trust domain. Without it one is drawn once, and kept with the CA.
    #[arg(long, env = "AGENTD_TRUST_DOMAIN")]
    trust_domain: Option<TrustDomain>,
    /// The cluster's DNS domain.
    #[arg(long, env = "AGENTD_CLUSTER_DOMAIN", default_value = "cluster.local")]
    cluster_domain: String,
    /// How long an SVID lives, from 1h to 24h.
    #[arg(long, env = "AGENTD_SVID_TTL", default_value = "8h", value_parser = svid_ttl)]
    svid_ttl: Std,
    /// The plain port of /healthz, /readyz and /metrics.
    #[arg(long, env = "AGENTD_ADMIN_ADDRESS", default_value_t = every(server::PORT))]
    admin: SocketAddr,
    /// The name of this pod.
    #[arg(long, env = "POD_NAME")]
    pod_name: Option<String>,
}

#[derive(Debug, Args)]
struct Controllers {
    #[command(flatten)]
    common: Common,
    /// The image of agent pods and bridges.
    #[arg(long, env = "AGENTD_AGENT_IMAGE")]
    agent_image: String,
    /// Always, IfNotPresent or Never; without it Kubernetes decides by the tag.
    #[arg(long, env = "AGENTD_IMAGE_PULL_POLICY", value_parser = ["Always", "IfNotPresent", "Never"])]
    image_pull_policy: Option<String>,
    /// Secrets that pull images, where a spec names none.
    #[arg(long, env = "AGENTD_DEFAULT_IMAGE_PULL_SECRETS", value_delimiter = ',')]
    default_image_pull_secrets: Vec<String>,
    /// Whether pods with a claim say fsGroup; false where the platform assigns it.
    #[arg(long, env = "AGENTD_FS_GROUP", default_value_t = true, action = ArgAction::Set)]
    fs_group: bool,
    /// The port of reports.
    #[arg(long, env = "AGENTD_REPORT_ADDRESS", default_value_t = every(report::PORT))]
    reports: SocketAddr,
}

#[derive(Debug, Args)]
struct Issuer {
    #[command(flatten)]
    common: Common,
    /// The port where SVIDs are issued.
    #[arg(long, env = "AGENTD_ISSUER_ADDRESS", default_value_t = every(issuance::PORT))]
    listen: SocketAddr,
}

/// Why a process ended.
#[derive(Debug, thiserror::Error)]
enum CliError {
    #[error("the runtime cannot start: {0}")]
    Runtime(#[from] std::io::Error),
    #[error("the API server: {0}")]
    Client(String),
    #[error(transparent)]
    Controllers(#[from] AppError),
    #[error(transparent)]
    Issuer(#[from] IssuerError),
}

impl Classified for CliError {
    fn class(&self) -> Class {
        match self {
            Self::Runtime(_) => Class::Internal,
            Self::Client(_) => Class::Unavailable,
            Self::Controllers(error) => error.class(),
            Self::Issuer(error) => error.class(),
        }
    }
}

/// The process: parses, runs until a signal or a failure, and gives the exit code: 0 after a clean drain, 2 for what
/// the installer has to change, 1 for the rest.
pub fn main() -> ExitCode {
    // Before anything makes a TLS config.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let cli = Cli::parse();
    log(cli.log_level);
    match run(cli.command) {
        Ok(()) => ExitCode::from(exit::DONE),
        Err(error) => {
            let class = error.class();
            tracing::error!(event = "proc.exit", error = %error, error.class = class.label());
            ExitCode::from(if class == Class::Invalid {
                exit::CONFIG
            } else {
                exit::FAILURE
            })
        }
    }
}

fn run(command: Command) -> Result<(), CliError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let drain = Drain::new();
        let watch = drain.watch();
        let (mut terminate, mut interrupt) =
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let process = tokio::spawn(process(command, watch));
        let ended = process.abort_handle();
        let mut process = Box::pin(async {
            process
                .await
                .map_err(|error| CliError::Client(error.to_string()))?
        });
        tokio::select! {
            result = &mut process => return result,
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!(event = "drain.start");
        if drain.run(DRAIN).await {
            tracing::info!(event = "drain.done");
            return process.await;
        }
        tracing::warn!(event = "drain.abandon");
        ended.abort();
        Ok(())
    })
}

async fn process(command: Command, drain: Watch) -> Result<(), CliError> {
    let mut config = kube::Config::infer()
        .await
        .map_err(|error| CliError::Client(error.to_string()))?;
    config.connect_timeout = Some(CONNECT_DEADLINE);
    config.read_timeout = Some(READ_DEADLINE);
    let client = Client::try_from(config).map_err(|error| CliError::Client(error.to_string()))?;
    match command {
        Command::Controllers(Controllers {
            common:
                Common {
                    release,
                    namespace,
                    trust_domain,
                    cluster_domain,
                    svid_ttl,
                    admin,
                    pod_name,
                },
            agent_image,
            image_pull_policy,
            default_image_pull_secrets,
            fs_group,
            reports,
        }) => {
            let args = ControllersArgs {
                client,
                release,
                namespace,
                trust_domain,
                cluster_domain,
                agent_image,
                image_pull_policy,
                image_pull_secrets: default_image_pull_secrets
                    .into_iter()
                    .filter(|name| !name.is_empty())
                    .collect(),
                fs_group,
                svid_ttl,
                reports,
                admin,
                pod_name,
                clock: system(),
            };
            Ok(app::run(args, drain).await?)
        }
        Command::Issuer(Issuer {
            // The trust domain is read with the CA.
            common:
                Common {
                    release,
                    namespace,
                    trust_domain: _,
                    cluster_domain,
                    svid_ttl,
                    admin,
                    pod_name,
                },
            listen,
        }) => {
            let args = IssuerArgs {
                client,
                release,
                namespace,
                cluster_domain,
                svid_ttl,
                listen,
                admin,
                pod_name,
                clock: system(),
            };
            Ok(issuer::run(args, drain).await?)
        }
    }
}

fn log(level: LogLevel) {
    let level = match level {
        LogLevel::Error => "error",
        LogLevel::Warn => "warn",
        LogLevel::Info => "info",
        LogLevel::Debug => "debug",
    };
    // The libraries' own words help at debug only; the lease library logs each renewal.
    let filter = format!("warn,agentd_operator={level}");
    let filter = if level == "debug" {
        "info,agentd_operator=debug".to_owned()
    } else {
        filter
    };
    tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_env_filter(EnvFilter::new(filter))
        .with_writer(std::io::stderr)
        .init();
}

fn every(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))
}

fn svid_ttl(text: &str) -> Result<Std, String> {
    let Duration(ttl) = text
        .parse()
        .map_err(|error: agentd_base::duration::ParseError| error.to_string())?;
    if ttl < SVID_TTL.0 || ttl > SVID_TTL.1 {
        return Err("an SVID lives from 1h to 24h".to_owned());
    }
    Ok(ttl)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_sound_and_takes_what_the_chart_gives() {
        Cli::command().debug_assert();
        let cli = Cli::try_parse_from([
            "agentd-operator",
            "controllers",
            "--release=r",
            "--namespace=n",
            "--cluster-domain=cluster.local",
            "--svid-ttl=2h",
            "--agent-image=registry/agentd:1",
            "--image-pull-policy=Never",
            "--default-image-pull-secrets=a,b",
            "--fs-group=false",
        ]);
        let Command::Controllers(args) = cli.unwrap().command else {
            panic!("another command")
        };
        assert_eq!(args.common.svid_ttl, Std::from_secs(7200));
        assert_eq!(
            (args.fs_group, args.default_image_pull_secrets),
            (false, vec!["a".to_owned(), "b".to_owned()])
        );
        assert_eq!(args.reports, every(8444));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let parse = |flag: &str| {
            let args = ["agentd-operator", "issuer", "--release=r", "--namespace=n", flag];
            Cli::try_parse_from(args).unwrap_err().to_string()
        };
        assert!(parse("--svid-ttl=5m").contains("from 1h to 24h"));
        assert!(parse("--trust-domain=UPPER").contains("trust-domain"));
        assert!(parse("--no-such-flag").contains("--no-such-flag"));
    }
}
