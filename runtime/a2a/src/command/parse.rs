//! From a message to a command: every fault is named at once, by its field, before anything is done. Pure.

use a2a::FieldViolation;
use serde_json::{Map, Value};

use super::{Command, Context, MEMBER, Op, at};
use crate::caller::Caller;
use crate::fault::{Fault, violation};
use crate::limit;
use crate::service::SendMessage;
use crate::wire::PartContent;

/// Tasks on a page where the caller names no number.
const PAGE: usize = 20;
/// The most: they go into one answer.
const PAGE_MOST: u64 = 100;

/// The command that a message is; none when it is a message to the model.
pub(crate) fn parse(caller: &Caller, message: &SendMessage) -> Result<Option<Command>, Fault> {
    let mut said = message.parts.iter().filter_map(|part| match &part.content {
        PartContent::Data(Value::Object(data)) => data.get(MEMBER).map(|command| (data, command)),
        _ => None,
    });
    let Some((data, command)) = said.next() else {
        return Ok(None);
    };
    let mut found = Vec::new();
    if message.parts.len() > 1 {
        found.push(violation(
            "message.parts",
            "a command is the only part of its message",
        ));
    }
    if message.task_id.is_some() {
        found.push(violation(
            "message.taskId",
            "a command belongs to no task; leave it out",
        ));
    }
    if data.len() > 1 {
        found.push(violation(
            "message.parts[0].data",
            format!("holds members beside `{MEMBER}`"),
        ));
    }
    let Value::Object(fields) = command else {
        found.push(violation("message.parts[0].data.agentd", "must be an object"));
        return Err(Fault::params(found));
    };
    let op = match fields.get("op") {
        Some(Value::String(name)) => Op::named(name).filter(|op| op.is_for(caller)),
        _ => None,
    };
    let Some(op) = op else {
        let own = Op::names_for(caller).join(", ");
        found.push(violation(
            at!("op"),
            format!("is required and must be one of: {own}"),
        ));
        return Err(Fault::params(found));
    };
    let mut reader = Reader {
        fields,
        known: vec!["op"],
        found,
    };
    let command = read(op, caller, &mut reader);
    let found = reader.finish();
    match command {
        Some(command) if found.is_empty() => Ok(Some(command)),
        _ => Err(Fault::params(found)),
    }
}

/// None when something that is required is not there.
fn read(op: Op, caller: &Caller, reader: &mut Reader<'_>) -> Option<Command> {
    match op {
        Op::Status => Some(Command::Status),
        Op::Config => Some(Command::Config),
        Op::RunGet => Some(Command::RunGet {
            run: reader.required("run")?,
        }),
        Op::ConversationGet => {
            let context = reader.context(caller, true);
            let page_size = reader.page_size();
            let page_token = reader.optional("pageToken");
            Some(Command::ConversationGet {
                context: context?,
                page_size,
                page_token,
            })
        }
        Op::PlanGet => Some(Command::PlanGet {
            context: reader.context(caller, true)?,
        }),
        Op::SubagentStatus => {
            let handle = reader.required("handle");
            let context = reader.context(caller, false);
            Some(Command::SubagentStatus {
                handle: handle?,
                context,
            })
        }
        Op::WorkflowRun => {
            reader.object("inputs");
            workflow(op, at!("name"), reader.required("name"))
        }
        Op::WorkflowStatus => match (reader.optional("name"), reader.optional("run")) {
            (None, None) => Some(Command::Workflows),
            (Some(_), _) => workflow(op, at!("name"), Some(String::new())),
            (None, Some(_)) => workflow(op, at!("run"), Some(String::new())),
        },
        Op::WorkflowCancel => {
            reader.optional("reason");
            workflow(op, at!("run"), reader.required("run"))
        }
        Op::WorkflowSignal => {
            reader.any("payload");
            reader.optional("run");
            workflow(op, at!("name"), reader.required("name"))
        }
    }
}

fn workflow(op: Op, named: &'static str, name: Option<String>) -> Option<Command> {
    name.map(|_| Command::Workflow { op, named })
}

/// The members of a command, and what is wrong with them.
struct Reader<'a> {
    fields: &'a Map<String, Value>,
    known: Vec<&'static str>,
    found: Vec<FieldViolation>,
}

impl Reader<'_> {
    fn any(&mut self, name: &'static str) -> Option<&Value> {
        self.known.push(name);
        self.fields.get(name).filter(|value| !value.is_null())
    }

    fn fault(&mut self, name: &str, problem: impl Into<String>) {
        self.found
            .push(violation(format!("message.parts[0].data.agentd.{name}"), problem));
    }

    fn optional(&mut self, name: &'static str) -> Option<String> {
        match self.any(name)?.clone() {
            Value::String(text) if text.is_empty() || text.chars().count() > limit::ID_CHARS => {
                let problem = format!("must have 1 to {} characters", limit::ID_CHARS);
                self.fault(name, problem);
                None
            }
            Value::String(text) => Some(text),
            _ => {
                self.fault(name, "must be a string");
                None
            }
        }
    }

    fn required(&mut self, name: &'static str) -> Option<String> {
        if self.any(name).is_none() {
            self.fault(name, "is required");
            return None;
        }
        self.optional(name)
    }

    fn object(&mut self, name: &'static str) {
        if self.any(name).is_some_and(|value| !value.is_object()) {
            self.fault(name, "must be an object");
        }
    }

    /// Nobody but an operator names another owner: for anybody else the member is one that there is not.
    fn context(&mut self, caller: &Caller, is_required: bool) -> Option<Context> {
        let id = match is_required {
            true => self.required("contextId"),
            false => self.optional("contextId"),
        };
        let owner = match caller.only() {
            None => self.optional("owner"),
            Some(_) => None,
        };
        Some(Context { id: id?, owner })
    }

    fn page_size(&mut self) -> usize {
        match self.any("pageSize").map(Value::as_u64) {
            None => PAGE,
            Some(Some(size @ 1..=PAGE_MOST)) => usize::try_from(size).unwrap_or(PAGE),
            Some(_) => {
                self.fault(
                    "pageSize",
                    format!("must be a whole number from 1 to {PAGE_MOST}"),
                );
                PAGE
            }
        }
    }

    fn finish(mut self) -> Vec<FieldViolation> {
        let unknown: Vec<String> = self
            .fields
            .keys()
            .filter(|name| !self.known.contains(&name.as_str()))
            .map(|name| agentd_base::text::clip(name, 64).to_string())
            .collect();
        for name in unknown {
            self.fault(&name, "is not a member of this command");
        }
        self.found
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::caller::Role;
    use crate::wire::Part;

    fn message(parts: Vec<Part>) -> SendMessage {
        SendMessage {
            message_id: "m".into(),
            context_id: None,
            task_id: None,
            parts,
            return_immediately: false,
            push: None,
            trace: None,
        }
    }

    fn parsed(role: Role, command: Value) -> Result<Command, Vec<String>> {
        let message = message(vec![Part::data(json!({ "agentd": command }))]);
        parse(&Caller::of("k", &[role]), &message)
            .map(Option::unwrap)
            .map_err(|fault| fields(&fault))
    }

    fn fields(fault: &Fault) -> Vec<String> {
        let data = fault.to_wire().data.unwrap();
        let all = data[0]["fieldViolations"].as_array().unwrap().iter();
        all.map(|one| {
            let field = one["field"].as_str().unwrap();
            field
                .strip_prefix("message.parts[0].data.agentd.")
                .unwrap_or(field)
                .to_owned()
        })
        .collect()
    }

    #[test]
    fn what_is_no_command_is_a_message_to_the_model() {
        let caller = Caller::of("k", &[Role::Operator]);
        for parts in [
            vec![Part::text("{\"agentd\": {\"op\": \"status\"}}")],
            vec![Part::data(json!({ "op": "status" }))],
            vec![Part::data(json!([{ "agentd": {} }]))],
        ] {
            assert_eq!(parse(&caller, &message(parts)), Ok(None));
        }
    }

    #[test]
    fn commands_with_their_members() {
        let context = |owner: Option<&str>| Context {
            id: "c".into(),
            owner: owner.map(str::to_owned),
        };
        for (command, expected) in [
            (json!({ "op": "status" }), Command::Status),
            (json!({ "op": "config" }), Command::Config),
            (
                json!({ "op": "run.get", "run": "r" }),
                Command::RunGet { run: "r".into() },
            ),
            (
                json!({ "op": "conversation.get", "contextId": "c", "pageToken": "t", "pageSize": 7, "owner": null }),
                Command::ConversationGet {
                    context: context(None),
                    page_size: 7,
                    page_token: Some("t".into()),
                },
            ),
            (
                json!({ "op": "plan.get", "contextId": "c", "owner": "o" }),
                Command::PlanGet {
                    context: context(Some("o")),
                },
            ),
            (
                json!({ "op": "subagent.status", "handle": "h" }),
                Command::SubagentStatus {
                    handle: "h".into(),
                    context: None,
                },
            ),
            (json!({ "op": "workflow.status" }), Command::Workflows),
            (
                json!({ "op": "workflow.run", "name": "w", "inputs": {} }),
                Command::Workflow {
                    op: Op::WorkflowRun,
                    named: "message.parts[0].data.agentd.name",
                },
            ),
        ] {
            assert_eq!(parsed(Role::Operator, command.clone()), Ok(expected), "{command}");
        }
    }

    #[test]
    fn every_fault_is_named_and_nothing_is_left_out() {
        for (command, expected) in [
            (json!(1), vec!["message.parts[0].data.agentd"]),
            (json!({}), vec!["op"]),
            (json!({ "op": 1 }), vec!["op"]),
            (json!({ "op": "stat" }), vec!["op"]),
            (json!({ "op": "status", "x": 1, "y": 2 }), vec!["x", "y"]),
            (json!({ "op": "run.get" }), vec!["run"]),
            (json!({ "op": "run.get", "run": "", "x": 1 }), vec!["run", "x"]),
            (json!({ "op": "run.get", "run": "x".repeat(257) }), vec!["run"]),
            (
                json!({ "op": "conversation.get", "contextId": 1, "pageSize": 0 }),
                vec!["contextId", "pageSize"],
            ),
            (
                json!({ "op": "workflow.run", "name": "w", "inputs": [] }),
                vec!["inputs"],
            ),
        ] {
            assert_eq!(
                parsed(Role::Operator, command.clone()),
                Err(expected.iter().map(|s| (*s).to_owned()).collect()),
                "{command}"
            );
        }
        let caller = Caller::of("k", &[Role::Operator]);
        let mut mixed = message(vec![
            Part::data(json!({ "agentd": { "op": "status" }, "more": 1 })),
            Part::text("hi"),
        ]);
        mixed.task_id = Some("t".into());
        assert_eq!(
            fields(&parse(&caller, &mixed).unwrap_err()),
            ["message.parts", "message.taskId", "message.parts[0].data"]
        );
    }

    #[test]
    fn what_is_below_a_role_is_what_there_is_not() {
        let refused = |role, op: &str| {
            let message = message(vec![Part::data(json!({ "agentd": { "op": op } }))]);
            let fault = parse(&Caller::of("k", &[role]), &message).unwrap_err();
            serde_json::to_value(fault.to_wire()).unwrap()
        };
        for role in [Role::Agent, Role::User] {
            assert_eq!(refused(role, "config"), refused(role, "no.such.thing"));
        }
        assert_eq!(
            parsed(
                Role::User,
                json!({ "op": "plan.get", "contextId": "c", "owner": "o" })
            ),
            Err(vec!["owner".to_owned()])
        );
    }
}
