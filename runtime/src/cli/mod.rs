//! The command line. Flags of the document are made from its leaves, so that no flag exists that no key has. Pure:
//! parsing only, no effect.

mod a2a;
mod completions;
mod identity;
mod mcp;
mod reference;

use std::path::PathBuf;

use agentd_config::load::Layers;
use agentd_config::paths::{self, Leaf};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

pub use self::a2a::{A2a, A2aVerb, STATES};
pub use self::identity::{FetchFrom, IdentityFetch};
use self::identity::{identity_fetch, identity_fetch_command};
pub use self::mcp::{Mcp, Verb};

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Invocation {
    /// Run the agent: layers without the environment.
    Run {
        /// `-c`, repeatable.
        files: Vec<PathBuf>,
        /// `--<key>`, in the order given.
        flags: Vec<(String, String)>,
        /// `--mcp`, repeatable.
        servers: Vec<String>,
    },
    /// Be a worker: started by `run`, never by hand.
    Worker,
    /// Stand in front of an MCP server.
    Bridge {
        /// `-c`, repeatable.
        files: Vec<PathBuf>,
    },
    /// Get an SVID.
    IdentityFetch(IdentityFetch),
    /// Talk to an agent.
    A2a(A2a),
    /// Talk to an MCP server.
    Mcp(Mcp),
    /// Say something about the agent, and run nothing: layers as in `run`.
    Ask {
        /// What.
        ask: Ask,
        /// `-c`, repeatable.
        files: Vec<PathBuf>,
        /// `--<key>`, in the order given.
        flags: Vec<(String, String)>,
        /// `--mcp`, repeatable.
        servers: Vec<String>,
    },
    /// Print a script that completes this command line in a shell.
    Completions(Shell),
    /// Print the reference of this command line.
    Reference,
    /// Look into a store: the verb, and the layers of `run`.
    Store {
        /// What to do.
        verb: StoreVerb,
        /// `-c`, repeatable.
        files: Vec<PathBuf>,
        /// `--<key>`, in the order given.
        flags: Vec<(String, String)>,
        /// `--mcp`, repeatable.
        servers: Vec<String>,
    },
}

/// What can be asked of a configuration (contract/runtime.md section 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// What the agent has.
    Capabilities,
    /// Whether it could run.
    ValidateConfig,
    /// The schema of the document.
    ConfigSchema,
    /// The document, and which layer set each key.
    EffectiveConfig,
}

/// By the names of their flags.
const ASKS: [(&str, Ask, &str); 4] = [
    (
        "capabilities",
        Ask::Capabilities,
        "Prints what the agent has, as JSON, and ends",
    ),
    (
        "validate-config",
        Ask::ValidateConfig,
        "Names every fault of the configuration and ends: 0 when there is none, else 2",
    ),
    (
        "config-schema",
        Ask::ConfigSchema,
        "Prints the JSON Schema of the configuration and ends",
    ),
    (
        "effective-config",
        Ask::EffectiveConfig,
        "Prints the configuration, its faults and which layer set each key, as JSON, and ends; secrets as references",
    ),
];

/// A shell that can complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shell {
    /// GNU Bash.
    Bash,
    /// Zsh.
    Zsh,
    /// fish.
    Fish,
}

/// A verb of `agentd store`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreVerb {
    /// Is it sound, and what is in it?
    Check,
    /// Every record as a line of JSON.
    Export,
}

impl Invocation {
    /// The layers of `run`, with the environment between files and flags.
    pub fn layers(
        files: Vec<PathBuf>,
        flags: Vec<(String, String)>,
        servers: Vec<String>,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Layers {
        let variables = environment
            .into_iter()
            .filter(|(name, _)| name.starts_with(paths::PREFIX))
            .collect();
        Layers {
            files,
            variables,
            flags,
            servers,
            ..Layers::default()
        }
    }
}

/// What `run` starts workers by.
const WORKER: &str = "worker";

/// Parses the arguments, the program's name first.
///
/// # Errors
/// With the text for the user, or with help or version, which are no faults.
pub fn parse<I, T>(arguments: I) -> Result<Invocation, clap::Error>
where
    I: IntoIterator<Item = T>,
    T: Into<std::ffi::OsString> + Clone,
{
    let arguments: Vec<std::ffi::OsString> = arguments.into_iter().map(Into::into).collect();
    // Most processes are workers, and building the whole command line leaves some 200 KiB with each of them.
    if let [_, verb] = arguments.as_slice()
        && verb == WORKER
    {
        return Ok(Invocation::Worker);
    }
    let matches = command().try_get_matches_from(arguments)?;
    Ok(match matches.subcommand() {
        Some((WORKER, _)) => Invocation::Worker,
        Some(("bridge", bridge)) => Invocation::Bridge {
            files: many(bridge, "config"),
        },
        Some(("identity", identity)) => match identity.subcommand() {
            Some((_, fetch)) => Invocation::IdentityFetch(identity_fetch(fetch)),
            None => return Err(no_verb("identity")),
        },
        Some(("a2a", verb)) => Invocation::A2a(a2a::a2a(verb).ok_or_else(|| no_verb("a2a"))?),
        Some(("completions", given)) => {
            Invocation::Completions(match given.get_one::<String>("shell").map(String::as_str) {
                Some("zsh") => Shell::Zsh,
                Some("fish") => Shell::Fish,
                _ => Shell::Bash,
            })
        }
        Some(("reference", _)) => Invocation::Reference,
        Some(("store", store)) => match store.subcommand() {
            Some(("check", given)) => of_store(StoreVerb::Check, given),
            Some((_, given)) => of_store(StoreVerb::Export, given),
            None => return Err(no_verb("store")),
        },
        Some(("mcp", verb)) => Invocation::Mcp(mcp::mcp(verb).ok_or_else(|| no_verb("mcp"))?),
        Some((_, run_matches)) => run(run_matches),
        None => run(&matches),
    })
}

/// The whole command line.
pub fn command() -> Command {
    let leaves = paths::leaves();
    Command::new("agentd")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Runs one AI agent: it acts through MCP servers and is reached over A2A")
        .args_conflicts_with_subcommands(true)
        .args(ask_args())
        .args(run_args(&leaves))
        .subcommand(
            Command::new("run")
                .about("Runs the agent (the default)")
                .args(ask_args())
                .args(run_args(&leaves)),
        )
        .subcommand(Command::new(WORKER).hide(true))
        .subcommand(Command::new("reference").hide(true))
        .subcommand(
            Command::new("completions")
                .about("Prints a script that completes this command line in a shell")
                .arg(
                    Arg::new("shell")
                        .value_name("SHELL")
                        .required(true)
                        .value_parser(["bash", "zsh", "fish"])
                        .help("The shell"),
                ),
        )
        .subcommand(
            Command::new("bridge")
                .about("Stands in front of an MCP server on loopback: mTLS, allowed callers only")
                .arg(config_arg().required(true)),
        )
        .subcommand(
            Command::new("identity")
                .about("SPIFFE identities")
                .subcommand_required(true)
                .subcommand(identity_fetch_command()),
        )
        .subcommand(a2a::command())
        .subcommand(mcp::command())
        .subcommand(
            Command::new("store")
                .about("Looks into an agent's store, which may be in use; changes nothing")
                .subcommand_required(true)
                .subcommand(
                    Command::new("check")
                        .about("Says whether it is sound, how many records are in it and which cannot be read (exit 1)")
                        .args(run_args(&leaves)),
                )
                .subcommand(
                    Command::new("export")
                        .about("Every record as a line of JSON on stdout")
                        .args(run_args(&leaves)),
                ),
        )
}

fn no_verb(noun: &str) -> clap::Error {
    clap::Error::raw(
        clap::error::ErrorKind::MissingSubcommand,
        format!("{noun} needs a verb; see --help\n"),
    )
}

fn config_arg() -> Arg {
    Arg::new("config")
        .short('c')
        .long("config")
        .value_name("FILE")
        .action(ArgAction::Append)
        .value_parser(value_parser!(PathBuf))
        .help("A configuration file, YAML or JSON; repeatable, later ones win")
}

fn output_arg(help: &'static str) -> Arg {
    Arg::new("output")
        .short('o')
        .long("output")
        .value_name("FORMAT")
        .value_parser(["text", "json"])
        .default_value("text")
        .help(help)
}

fn servers_arg() -> Arg {
    Arg::new("mcp")
        .long("mcp")
        .value_name("NAME=ENDPOINT")
        .action(ArgAction::Append)
        .help("Adds one MCP server; repeatable")
}

/// The script that completes this command line.
pub fn completions(shell: Shell) -> String {
    completions::script(&command(), shell)
}

/// The reference of this command line, in Markdown.
pub fn reference() -> String {
    reference::text(&command())
}

/// What is asked in the place of running.
fn ask_args() -> impl Iterator<Item = Arg> {
    ASKS.into_iter().map(|(name, _, help)| {
        let others = ASKS.into_iter().map(|(other, _, _)| other);
        Arg::new(name)
            .long(name)
            .action(ArgAction::SetTrue)
            .conflicts_with_all(others.filter(|other| *other != name))
            .help(help)
    })
}

fn run_args(leaves: &[Leaf]) -> Vec<Arg> {
    let mut args = vec![config_arg(), servers_arg()];
    for (alias, path) in paths::ALIASES {
        args.push(leaf_arg(
            alias,
            &format!("The same as --{path}"),
            leaves.iter().find(|leaf| leaf.path == path),
        ));
    }
    args.extend(
        leaves
            .iter()
            .map(|leaf| leaf_arg(&leaf.path, &leaf.help, Some(leaf))),
    );
    args
}

fn leaf_arg(name: &str, help: &str, leaf: Option<&Leaf>) -> Arg {
    let spellings = [
        name.replace('_', "-"),
        name.replace(['.', '_'], "-"),
        name.replace(['.', '-'], "_"),
    ];
    let mut aliases: Vec<String> = spellings
        .into_iter()
        .filter(|spelling| spelling != name)
        .collect();
    aliases.dedup();
    let arg = Arg::new(name.to_owned())
        .long(name.to_owned())
        .aliases(aliases)
        .help(help.to_owned());
    match leaf.map(|leaf| &leaf.kind) {
        Some(paths::Kind::Boolean) => arg
            .value_name("BOOL")
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true"),
        Some(paths::Kind::Choice(words)) => arg.value_name(words.join("|")),
        Some(paths::Kind::Integer | paths::Kind::Number) => arg.value_name("N"),
        Some(paths::Kind::Duration) => arg.value_name("DURATION"),
        Some(paths::Kind::List | paths::Kind::Map | paths::Kind::Any) => arg.value_name("LIST"),
        Some(paths::Kind::Text) | None => arg.value_name("TEXT"),
    }
}

fn run(matches: &ArgMatches) -> Invocation {
    let (files, flags, servers) = layered(matches);
    let asked = ASKS.into_iter().find(|(name, _, _)| matches.get_flag(name));
    if let Some((_, ask, _)) = asked {
        return Invocation::Ask {
            ask,
            files,
            flags,
            servers,
        };
    }
    Invocation::Run {
        files,
        flags,
        servers,
    }
}

fn of_store(verb: StoreVerb, matches: &ArgMatches) -> Invocation {
    let (files, flags, servers) = layered(matches);
    Invocation::Store {
        verb,
        files,
        flags,
        servers,
    }
}

/// Files, flags in their order, and servers.
fn layered(matches: &ArgMatches) -> (Vec<PathBuf>, Vec<(String, String)>, Vec<String>) {
    let mut flags: Vec<(usize, String, String)> = Vec::new();
    let names = paths::ALIASES.iter().map(|(alias, _)| (*alias).to_owned());
    for name in names.chain(paths::leaves().into_iter().map(|leaf| leaf.path)) {
        if let (Some(value), Some(at)) = (matches.get_one::<String>(&name), matches.index_of(&name)) {
            flags.push((at, name, value.clone()));
        }
    }
    flags.sort_by_key(|(at, _, _)| *at);
    (
        many(matches, "config"),
        flags.into_iter().map(|(_, name, value)| (name, value)).collect(),
        many(matches, "mcp"),
    )
}

fn many<T: Clone + Send + Sync + 'static>(matches: &ArgMatches, name: &str) -> Vec<T> {
    matches
        .get_many::<T>(name)
        .map(|values| values.cloned().collect())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Invocation {
        parse(std::iter::once("agentd").chain(line.split_whitespace())).unwrap()
    }

    #[test]
    fn clap_finds_no_fault_in_it() {
        command().debug_assert();
    }

    #[test]
    fn a_flag_in_every_spelling_and_with_or_without_the_verb() {
        for line in [
            "--limits.run.steps 5 --mcp a=https://a/ -c x.yaml",
            "--limits-run-steps=5 --mcp a=https://a/ --config x.yaml",
            "run --limits_run_steps 5 --mcp a=https://a/ -c x.yaml",
        ] {
            assert_eq!(
                parsed(line),
                Invocation::Run {
                    files: vec!["x.yaml".into()],
                    flags: vec![("limits.run.steps".into(), "5".into())],
                    servers: vec!["a=https://a/".into()],
                },
                "{line}"
            );
        }
    }

    #[test]
    fn what_is_asked_in_the_place_of_running() {
        for (name, ask, _) in ASKS {
            let given = Invocation::Ask {
                ask,
                files: vec!["x.yaml".into()],
                flags: vec![("model".into(), "m".into())],
                servers: vec!["a=https://a/".into()],
            };
            for verb in ["", "run "] {
                let line = format!("{verb}--{name} -c x.yaml --model m --mcp a=https://a/");
                assert_eq!(parsed(&line), given, "{line}");
            }
        }
        for (shell, expected) in [("bash", Shell::Bash), ("zsh", Shell::Zsh), ("fish", Shell::Fish)] {
            assert_eq!(
                parsed(&format!("completions {shell}")),
                Invocation::Completions(expected)
            );
        }
    }

    #[test]
    fn a_switch_needs_no_value_and_takes_one() {
        for (line, value) in [
            ("--a2a.dev --model m", "true"),
            ("--a2a.dev=false --model m", "false"),
        ] {
            let Invocation::Run { flags, .. } = parsed(line) else {
                panic!()
            };
            assert_eq!(
                flags,
                [("a2a.dev".into(), value.into()), ("model".into(), "m".into())]
            );
        }
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        for line in [
            "--no-such-flag 1",
            "identity fetch --out o",
            "identity fetch --out o --namespace n",
            "identity fetch --out o --issuer-url u",
            "identity fetch --out o --namespace n --service-account s --issuer-url u --issuer-id i --bundle b --token-file t",
            "identity",
            "a2a",
            "bridge",
            "store",
            "store check --capabilities",
            "--capabilities --config-schema",
            "completions",
            "completions tcsh",
            "store check --no-such-flag 1",
        ] {
            let error = parse(std::iter::once("agentd").chain(line.split_whitespace())).unwrap_err();
            assert!(error.use_stderr(), "{line}");
        }
    }

    #[test]
    fn the_two_ways_to_an_identity() {
        let Invocation::IdentityFetch(fetch) =
            parsed("identity fetch --namespace n --service-account s --port-forward --out o")
        else {
            panic!()
        };
        assert_eq!(
            fetch.from,
            FetchFrom::Kubectl {
                namespace: "n".into(),
                service_account: "s".into(),
                install_namespace: None,
                port_forward: true
            }
        );
        let Invocation::IdentityFetch(fetch) =
            parsed("identity fetch --issuer-url u --issuer-id i --bundle b --token-file t --out o")
        else {
            panic!()
        };
        assert!(matches!(fetch.from, FetchFrom::Issuer { url, .. } if url == "u"));
    }

    #[test]
    fn a_store_is_named_as_the_agent_names_it() {
        for (word, verb) in [("check", StoreVerb::Check), ("export", StoreVerb::Export)] {
            assert_eq!(
                parsed(&format!("store {word} -c x.yaml --store.path /s")),
                Invocation::Store {
                    verb,
                    files: vec!["x.yaml".into()],
                    flags: vec![("store.path".into(), "/s".into())],
                    servers: vec![],
                }
            );
        }
    }

    #[test]
    fn only_our_variables_reach_the_layers() {
        let environment = [
            ("PATH".to_owned(), "/bin".to_owned()),
            ("AGENTD_A2A_DEV".to_owned(), "true".to_owned()),
        ];
        let layers = Invocation::layers(vec![], vec![], vec![], environment);
        assert_eq!(
            layers.variables,
            [("AGENTD_A2A_DEV".to_owned(), "true".to_owned())]
        );
    }
}
