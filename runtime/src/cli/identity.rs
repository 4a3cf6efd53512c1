//! The command line of `agentd identity`. Pure.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

/// `agentd identity fetch`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentityFetch {
    /// Where key, SVID and bundle go.
    pub out: PathBuf,
    /// From where they come.
    pub from: FetchFrom,
}

/// How the issuer is found and what shows who we are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FetchFrom {
    /// Everything is given.
    Issuer {
        /// `https://…:8443`.
        url: String,
        /// The issuer's SPIFFE ID.
        id: String,
        /// Roots, PEM.
        bundle: PathBuf,
        /// A ServiceAccount token with the issuer's audience.
        token_file: PathBuf,
    },
    /// By `kubectl` with the user's own rights.
    Kubectl {
        /// Of the ServiceAccount.
        namespace: String,
        /// A labelled one.
        service_account: String,
        /// Where agentd is installed, when the namespace has no ConfigMap `agentd-bundle`.
        install_namespace: Option<String>,
        /// Reach the issuer through `kubectl port-forward`.
        port_forward: bool,
    },
}

pub(super) fn identity_fetch_command() -> Command {
    let text = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help)
    };
    let path = |name, value, help| text(name, value, help).value_parser(value_parser!(PathBuf));
    let given = ["issuer-url", "issuer-id", "bundle", "token-file"];
    let kubectl = [
        "namespace",
        "service-account",
        "install-namespace",
        "port-forward",
    ];
    Command::new("fetch")
        .about("Gets an X.509-SVID with the token of a ServiceAccount: key.pem, svid.pem and bundle.pem")
        .arg(path("out", "DIR", "Where the three files go").required(true))
        .arg(text("issuer-url", "URL", "The issuer").requires_all(["issuer-id", "bundle", "token-file"]))
        .arg(text("issuer-id", "SPIFFE-ID", "Who the issuer must be").requires("issuer-url"))
        .arg(path("bundle", "FILE", "Roots of the trust domain, PEM").requires("issuer-url"))
        .arg(path("token-file", "FILE", "A token with the issuer's audience").requires("issuer-url"))
        .arg(
            text(
                "namespace",
                "NAME",
                "Of the ServiceAccount; everything else comes by kubectl",
            )
            .short('n')
            .requires("service-account")
            .conflicts_with_all(given),
        )
        .arg(text("service-account", "NAME", "Labelled agentd.io/caller: \"true\"").requires("namespace"))
        .arg(
            text(
                "install-namespace",
                "NAME",
                "Where agentd is installed; absent: the ServiceAccount's namespace",
            )
            .requires("namespace"),
        )
        .arg(
            Arg::new("port-forward")
                .long("port-forward")
                .action(ArgAction::SetTrue)
                .requires("namespace")
                .help("Reach the issuer through kubectl port-forward"),
        )
        .group(
            clap::ArgGroup::new("source")
                .args(["issuer-url", "namespace"])
                .required(true),
        )
        .mut_args(move |arg| {
            let kind = arg.get_id().to_string();
            if kubectl.contains(&kind.as_str()) {
                arg.help_heading("With kubectl")
            } else {
                arg
            }
        })
}

pub(super) fn identity_fetch(matches: &ArgMatches) -> IdentityFetch {
    let from = match matches.get_one::<String>("namespace") {
        Some(namespace) => FetchFrom::Kubectl {
            namespace: namespace.clone(),
            service_account: text(matches, "service-account"),
            install_namespace: matches.get_one::<String>("install-namespace").cloned(),
            port_forward: matches.get_flag("port-forward"),
        },
        None => FetchFrom::Issuer {
            url: text(matches, "issuer-url"),
            id: text(matches, "issuer-id"),
            bundle: path(matches, "bundle"),
            token_file: path(matches, "token-file"),
        },
    };
    IdentityFetch {
        out: path(matches, "out"),
        from,
    }
}

/// An argument that the rules above require.
fn text(matches: &ArgMatches, name: &str) -> String {
    matches.get_one::<String>(name).cloned().unwrap_or_default()
}

fn path(matches: &ArgMatches, name: &str) -> PathBuf {
    matches.get_one::<PathBuf>(name).cloned().unwrap_or_default()
}
