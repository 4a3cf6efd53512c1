//! The command line of `agentd mcp`. Pure.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use super::{config_arg, many, output_arg, servers_arg};

/// `agentd mcp VERB`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mcp {
    /// `-c`, repeatable.
    pub files: Vec<PathBuf>,
    /// `--mcp`, repeatable.
    pub servers: Vec<String>,
    /// A server's name in the configuration, or a URL.
    pub target: String,
    /// `--header`, repeatable: `Name: value`.
    pub headers: Vec<String>,
    /// JSON instead of text.
    pub json: bool,
    /// What to do there.
    pub verb: Verb,
}

/// What to do at a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verb {
    /// List its tools.
    Tools,
    /// List its resources and templates.
    Resources,
    /// Read a resource.
    Read {
        /// Which.
        uri: String,
    },
    /// Ask whether it is there.
    Ping,
    /// Call a tool.
    Call {
        /// By the server's own name.
        tool: String,
        /// A JSON object.
        arguments: String,
    },
    /// Print a resource each time it changes.
    Watch {
        /// Which.
        uri: String,
        /// End after so many changes.
        count: Option<u64>,
    },
}

pub(super) fn command() -> Command {
    let uri = || required("uri", "URI", "The resource");
    Command::new("mcp")
        .about("Talks to one MCP server, as the agent would")
        .subcommand_required(true)
        .subcommand(verb("tools", "Lists the tools: names, descriptions, digests"))
        .subcommand(verb(
            "resources",
            "Lists the resources and the resource templates",
        ))
        .subcommand(verb("read", "Reads a resource").arg(uri()))
        .subcommand(verb("ping", "Asks the server whether it is there"))
        .subcommand(
            verb("call", "Calls a tool; its questions are asked on the terminal")
                .arg(required("tool", "TOOL", "The server's own name of the tool"))
                .arg(
                    Arg::new("arguments")
                        .value_name("JSON")
                        .default_value("{}")
                        .help("The arguments, a JSON object"),
                ),
        )
        .subcommand(
            verb(
                "watch",
                "Prints a resource now and each time it changes, until SIGINT or SIGTERM",
            )
            .arg(uri())
            .arg(
                Arg::new("count")
                    .long("count")
                    .value_name("N")
                    .value_parser(value_parser!(u64).range(1..))
                    .help("End after so many"),
            ),
        )
}

fn verb(name: &'static str, about: &'static str) -> Command {
    Command::new(name)
        .about(about)
        .arg(required(
            "target",
            "NAME|URL",
            "A server of the configuration, or https://… or loopback http://…",
        ))
        .arg(config_arg())
        .arg(servers_arg())
        .arg(
            Arg::new("header")
                .long("header")
                .value_name("NAME: VALUE")
                .action(ArgAction::Append)
                .help("Sent with every request; a credential as {{secret:NAME}} or {{secret-file:PATH}}"),
        )
        .arg(output_arg("text: for people; json: for programs"))
}

fn required(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).value_name(value).required(true).help(help)
}

/// None when there is no verb.
pub(super) fn mcp(matches: &ArgMatches) -> Option<Mcp> {
    let (name, matches) = matches.subcommand()?;
    let text = |name: &str| matches.get_one::<String>(name).cloned().unwrap_or_default();
    let verb = match name {
        "tools" => Verb::Tools,
        "resources" => Verb::Resources,
        "read" => Verb::Read { uri: text("uri") },
        "ping" => Verb::Ping,
        "call" => Verb::Call {
            tool: text("tool"),
            arguments: text("arguments"),
        },
        "watch" => Verb::Watch {
            uri: text("uri"),
            count: matches.get_one::<u64>("count").copied(),
        },
        _ => return None,
    };
    Some(Mcp {
        files: many(matches, "config"),
        servers: many(matches, "mcp"),
        target: text("target"),
        headers: many(matches, "header"),
        json: text("output") == "json",
        verb,
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Invocation, parse};
    use super::*;

    #[test]
    fn every_verb() {
        let parsed = |words: &[&str]| match parse(["agentd", "mcp"].iter().chain(words)).unwrap() {
            Invocation::Mcp(mcp) => mcp,
            other => panic!("{other:?}"),
        };
        let plain = |verb| Mcp {
            files: vec![],
            servers: vec![],
            target: "fs".into(),
            headers: vec![],
            json: false,
            verb,
        };
        assert_eq!(parsed(&["tools", "fs"]), plain(Verb::Tools));
        assert_eq!(parsed(&["resources", "fs"]), plain(Verb::Resources));
        assert_eq!(
            parsed(&["read", "fs", "a:1"]),
            plain(Verb::Read { uri: "a:1".into() })
        );
        assert_eq!(parsed(&["ping", "fs"]), plain(Verb::Ping));
        let call = |arguments: &str| {
            plain(Verb::Call {
                tool: "echo".into(),
                arguments: arguments.into(),
            })
        };
        assert_eq!(parsed(&["call", "fs", "echo"]), call("{}"));
        assert_eq!(parsed(&["call", "fs", "echo", r#"{"a":1}"#]), call(r#"{"a":1}"#));
        let watch = |count| {
            plain(Verb::Watch {
                uri: "a:1".into(),
                count,
            })
        };
        assert_eq!(parsed(&["watch", "fs", "a:1"]), watch(None));
        assert_eq!(parsed(&["watch", "fs", "a:1", "--count", "2"]), watch(Some(2)));
        let full = parsed(&[
            "ping",
            "fs",
            "-c",
            "x.yaml",
            "--mcp",
            "fs=https://a/",
            "--header",
            "X-A: 1",
            "-o",
            "json",
        ]);
        assert_eq!(
            full,
            Mcp {
                files: vec!["x.yaml".into()],
                servers: vec!["fs=https://a/".into()],
                headers: vec!["X-A: 1".into()],
                json: true,
                ..plain(Verb::Ping)
            }
        );
        for wrong in [
            &["tools"][..],
            &["read", "fs"],
            &["watch", "fs", "a:1", "--count", "0"],
            &["list", "fs"],
            &[],
        ] {
            let error = parse(["agentd", "mcp"].iter().chain(wrong)).unwrap_err();
            assert!(error.use_stderr(), "{wrong:?}");
        }
    }
}
