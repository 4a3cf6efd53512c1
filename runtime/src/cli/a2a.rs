//! The command line of `agentd a2a`. Pure.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use super::output_arg;

/// `agentd a2a VERB`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct A2a {
    /// The agent's URL.
    pub url: String,
    /// The SPIFFE ID that the agent must have.
    pub server_id: Option<String>,
    /// A folder written by `identity fetch`.
    pub identity: Option<PathBuf>,
    /// Reach the agent, whose Service the URL names, through `kubectl port-forward`.
    pub port_forward: bool,
    /// JSON instead of text.
    pub json: bool,
    /// What to do there.
    pub verb: A2aVerb,
}

/// What to do at an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum A2aVerb {
    /// Show its card.
    Card,
    /// Send it a message.
    Send {
        /// The message.
        text: String,
        /// The conversation to go on in.
        context: Option<String>,
        /// The task that waits for the message.
        task: Option<String>,
        /// Do not wait for the answer.
        no_wait: bool,
    },
    /// List the tasks that we may see there, or show one.
    Tasks {
        /// The one to show.
        id: Option<String>,
        /// Of this conversation.
        context: Option<String>,
        /// In this state, by the word of [`STATES`].
        state: Option<String>,
        /// At most so many.
        limit: u16,
    },
    /// Follow a task to its end.
    Watch {
        /// Which.
        id: String,
    },
    /// Cancel a task.
    Cancel {
        /// Which.
        id: String,
    },
}

/// States of a task, as a user writes them.
pub const STATES: [&str; 8] = [
    "submitted",
    "working",
    "input-required",
    "auth-required",
    "completed",
    "failed",
    "canceled",
    "rejected",
];

pub(super) fn command() -> Command {
    let id = || required("id", "ID", "The task");
    Command::new("a2a")
        .about("Talks to an agent")
        .subcommand_required(true)
        .subcommand(
            verb("send", "Sends a message, waits, and prints the answer")
                .arg(required("text", "TEXT", "The message"))
                .arg(option("context", "ID", "The conversation to go on in"))
                .arg(option("task", "ID", "The task that waits for the message"))
                .arg(
                    Arg::new("no-wait")
                        .long("no-wait")
                        .action(ArgAction::SetTrue)
                        .help("Print the task as it is once the agent has taken it"),
                ),
        )
        .subcommand(verb("card", "Prints what the agent says of itself"))
        .subcommand(
            verb("tasks", "Lists the caller's tasks, or prints one")
                .arg(Arg::new("id").value_name("ID").help("The task to print"))
                .arg(option("context", "ID", "Tasks of this conversation").conflicts_with("id"))
                .arg(
                    option("state", "STATE", "Tasks in this state")
                        .value_parser(STATES)
                        .conflicts_with("id"),
                )
                .arg(
                    option("limit", "N", "At most so many, those that changed last")
                        .value_parser(value_parser!(u16).range(1..=10_000))
                        .default_value("50"),
                ),
        )
        .subcommand(
            verb(
                "watch",
                "Prints what happens to a task until it ends or waits for somebody",
            )
            .arg(id()),
        )
        .subcommand(verb("cancel", "Cancels a task").arg(id()))
}

fn verb(name: &'static str, about: &'static str) -> Command {
    Command::new(name)
        .about(about)
        .arg(required("url", "URL", "The agent's URL"))
        .arg(option("server-id", "SPIFFE-ID", "Who the agent must be").requires("identity"))
        .arg(
            option("identity", "DIR", "A folder written by agentd identity fetch")
                .value_parser(value_parser!(PathBuf))
                .requires("server-id"),
        )
        .arg(
            Arg::new("port-forward")
                .long("port-forward")
                .action(ArgAction::SetTrue)
                .requires("identity")
                .help("Reach the agent's Service (https://NAME.NAMESPACE.svc:PORT) through kubectl port-forward"),
        )
        .arg(output_arg("text: for people; json: for programs"))
}

fn required(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).value_name(value).required(true).help(help)
}

fn option(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

/// None when there is no verb.
pub(super) fn a2a(matches: &ArgMatches) -> Option<A2a> {
    let (name, matches) = matches.subcommand()?;
    let given = |name: &str| matches.get_one::<String>(name).cloned();
    let text = |name: &str| given(name).unwrap_or_default();
    let verb = match name {
        "card" => A2aVerb::Card,
        "send" => A2aVerb::Send {
            text: text("text"),
            context: given("context"),
            task: given("task"),
            no_wait: matches.get_flag("no-wait"),
        },
        "tasks" => A2aVerb::Tasks {
            id: given("id"),
            context: given("context"),
            state: given("state"),
            limit: matches.get_one::<u16>("limit").copied().unwrap_or_default(),
        },
        "watch" => A2aVerb::Watch { id: text("id") },
        "cancel" => A2aVerb::Cancel { id: text("id") },
        _ => return None,
    };
    Some(A2a {
        url: text("url"),
        server_id: given("server-id"),
        identity: matches.get_one::<PathBuf>("identity").cloned(),
        port_forward: matches.get_flag("port-forward"),
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
        let parsed = |line: &str| match parse(["agentd", "a2a"].into_iter().chain(line.split(' '))).unwrap() {
            Invocation::A2a(a2a) => a2a,
            other => panic!("{other:?}"),
        };
        let plain = |verb| A2a {
            url: "https://a/".into(),
            server_id: None,
            identity: None,
            port_forward: false,
            json: false,
            verb,
        };
        assert_eq!(parsed("card https://a/"), plain(A2aVerb::Card));
        let send = |context: Option<&str>, task: Option<&str>, no_wait| A2aVerb::Send {
            text: "hi".into(),
            context: context.map(Into::into),
            task: task.map(Into::into),
            no_wait,
        };
        assert_eq!(parsed("send https://a/ hi"), plain(send(None, None, false)));
        assert_eq!(
            parsed("send https://a/ hi --context c --task t --no-wait"),
            plain(send(Some("c"), Some("t"), true))
        );
        let tasks = |id: Option<&str>, context: Option<&str>, state: Option<&str>, limit| A2aVerb::Tasks {
            id: id.map(Into::into),
            context: context.map(Into::into),
            state: state.map(Into::into),
            limit,
        };
        assert_eq!(parsed("tasks https://a/"), plain(tasks(None, None, None, 50)));
        assert_eq!(
            parsed("tasks https://a/ t"),
            plain(tasks(Some("t"), None, None, 50))
        );
        assert_eq!(
            parsed("tasks https://a/ --context c --state input-required --limit 3"),
            plain(tasks(None, Some("c"), Some("input-required"), 3))
        );
        let id = || "t".to_owned();
        assert_eq!(parsed("watch https://a/ t"), plain(A2aVerb::Watch { id: id() }));
        assert_eq!(
            parsed("cancel https://a/ t --server-id spiffe://td/a --identity d --port-forward -o json"),
            A2a {
                server_id: Some("spiffe://td/a".into()),
                identity: Some("d".into()),
                port_forward: true,
                json: true,
                ..plain(A2aVerb::Cancel { id: id() })
            }
        );
        for wrong in [
            "send https://a/",
            "send https://a/ hello --server-id spiffe://td/a",
            "tasks https://a/ t --state working",
            "tasks https://a/ --state done",
            "tasks https://a/ --limit 0",
            "watch https://a/",
            "list https://a/",
            "card",
        ] {
            let error = parse(["agentd", "a2a"].into_iter().chain(wrong.split(' '))).unwrap_err();
            assert!(error.use_stderr(), "{wrong}");
        }
    }
}
