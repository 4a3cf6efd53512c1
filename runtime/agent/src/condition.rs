//! Conditions of `await`: expressions in CEL over what a turn can observe. A model writes them, so they are fenced: their
//! length, how deep they are, what they name; and they are read and evaluated here, in the worker of the turn, on a
//! thread whose stack has room. Pure but for that thread.

use std::sync::Arc;

use agentd_base::text::clip;
use cel::common::ast::{EntryExpr, Expr, IdedExpr, LiteralValue, operators};
use cel::{Context, ExecutionError, Program};
use serde_json::Value;
use tokio::sync::oneshot;

use crate::request::{Observe, Observed};

/// More than a condition needs, and little enough for any number of operators in it.
const BYTES: usize = 1024;
/// Brackets within brackets: a reader that goes down for each of them has room.
const BRACKETS: usize = 16;
/// Comprehensions within one another: each is one more factor in what an evaluation takes.
const COMPREHENSIONS: usize = 2;
/// What the reader of the library goes down in, which is deep in a build for tests.
const STACK: usize = 8 * 1024 * 1024;
/// A fault of a condition, for the model.
const FAULT_CHARS: usize = 300;
/// The names of CEL's types, which are names as any.
const TYPES: [&str; 11] = [
    "bool",
    "bytes",
    "double",
    "dyn",
    "int",
    "list",
    "map",
    "null_type",
    "string",
    "type",
    "uint",
];

/// A condition that can be evaluated.
#[derive(Debug)]
pub(crate) struct Condition {
    program: Program,
    needs: Observe,
}

impl Condition {
    /// Reads it.
    pub(crate) async fn read(text: &str) -> Result<Arc<Self>, String> {
        fence(text)?;
        let text = text.to_owned();
        on_a_deep_stack(move || {
            let program = Program::compile(&text).map_err(|errors| {
                let first = errors.errors.first().map(|error| error.msg.clone());
                clip(&first.unwrap_or_else(|| errors.to_string()), FAULT_CHARS)
            })?;
            let mut walk = Walk::default();
            walk.expression(program.expression(), 0)?;
            let needs = walk.needs;
            Ok(Arc::new(Self { program, needs }))
        })
        .await?
    }

    /// What has to be known to evaluate it.
    pub(crate) fn needs(&self) -> &Observe {
        &self.needs
    }

    /// Whether it holds. What is not there yet makes it no fault: it does not hold.
    pub(crate) async fn holds(self: &Arc<Self>, observed: Observed) -> Result<bool, String> {
        let this = self.clone();
        on_a_deep_stack(move || this.evaluate(&observed.state)).await?
    }

    fn evaluate(&self, state: &Value) -> Result<bool, String> {
        let mut context = Context::default();
        for (name, value) in state.as_object().into_iter().flatten() {
            let value = cel::to_value(value).map_err(|error| error.to_string())?;
            context.add_variable_from_value(name, value);
        }
        match self.program.execute(&context) {
            Ok(cel::Value::Bool(holds)) => Ok(holds),
            Ok(_) => Err("gives neither true nor false".to_owned()),
            Err(ExecutionError::NoSuchKey(_) | ExecutionError::IndexOutOfBounds(_)) => Ok(false),
            Err(error) => Err(clip(&error.to_string(), FAULT_CHARS)),
        }
    }
}

/// The reader of the library goes down for every bracket: what is too deep it never sees.
fn fence(text: &str) -> Result<(), String> {
    if text.len() > BYTES {
        return Err(format!("is longer than {BYTES} bytes"));
    }
    let mut depth = 0_usize;
    for byte in text.bytes() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > BRACKETS {
            return Err(format!("has brackets more than {BRACKETS} deep"));
        }
    }
    Ok(())
}

/// Looks through an expression.
#[derive(Default)]
struct Walk {
    /// The names that comprehensions have given so far.
    given: Vec<String>,
    needs: Observe,
}

impl Walk {
    /// `depth` counts the comprehensions around it.
    fn expression(&mut self, expression: &IdedExpr, depth: usize) -> Result<(), String> {
        match &expression.expr {
            Expr::Unspecified | Expr::Literal(_) => Ok(()),
            Expr::Ident(name) => self.name(name),
            Expr::Select(select) => match self.is_key(&select.operand, &select.field) {
                true => Ok(()),
                false => self.expression(&select.operand, depth),
            },
            Expr::Call(call) => {
                if let (operators::INDEX, [of, index]) = (call.func_name.as_str(), call.args.as_slice())
                    && let Expr::Literal(LiteralValue::String(key)) = &index.expr
                    && self.is_key(of, key.inner())
                {
                    return Ok(());
                }
                let target = call.target.iter().map(AsRef::as_ref);
                self.all(target.chain(&call.args), depth)
            }
            Expr::List(list) => self.all(&list.elements, depth),
            Expr::Map(map) => self.entries(map.entries.iter().map(|entry| &entry.expr), depth),
            Expr::Struct(of) => self.entries(of.entries.iter().map(|entry| &entry.expr), depth),
            Expr::Comprehension(of) => {
                if depth >= COMPREHENSIONS {
                    return Err(format!(
                        "has more than {COMPREHENSIONS} of all, exists, map and filter within one another"
                    ));
                }
                // One that goes through what another gave is within it: it takes what that one made.
                self.expression(&of.iter_range, depth + 1)?;
                let known = self.given.len();
                self.given.push(of.iter_var.clone());
                self.given.push(of.accu_var.clone());
                self.given.extend(of.iter_var2.clone());
                let parts = [&of.accu_init, &of.loop_cond, &of.loop_step, &of.result];
                self.all(parts, depth + 1)?;
                self.given.truncate(known);
                Ok(())
            }
        }
    }

    fn all<'a>(
        &mut self,
        expressions: impl IntoIterator<Item = &'a IdedExpr>,
        depth: usize,
    ) -> Result<(), String> {
        expressions
            .into_iter()
            .try_for_each(|one| self.expression(one, depth))
    }

    fn entries<'a>(
        &mut self,
        entries: impl Iterator<Item = &'a EntryExpr>,
        depth: usize,
    ) -> Result<(), String> {
        for entry in entries {
            match entry {
                EntryExpr::StructField(field) => self.expression(&field.value, depth)?,
                EntryExpr::MapEntry(entry) => self.all([&entry.key, &entry.value], depth)?,
            }
        }
        Ok(())
    }

    fn is_given(&self, name: &str) -> bool {
        self.given.iter().any(|given| given == name)
    }

    /// Takes note of one key of the memory, which is all that is needed of it then; false where it is none.
    fn is_key(&mut self, of: &IdedExpr, key: &str) -> bool {
        let is_memory = matches!(&of.expr, Expr::Ident(name) if name == "memory" && !self.is_given(name));
        if is_memory {
            self.needs.keys.insert(key.to_owned());
        }
        is_memory
    }

    fn name(&mut self, name: &str) -> Result<(), String> {
        match name {
            name if self.is_given(name) || TYPES.contains(&name) => {}
            "plan" => self.needs.plan = true,
            "memory" => self.needs.memory = true,
            "subagents" => self.needs.subagents = true,
            "servers" => self.needs.servers = true,
            other => {
                return Err(format!(
                    "names {}, which is not known; there are plan, memory, subagents and servers",
                    clip(other, 64)
                ));
            }
        }
        Ok(())
    }
}

/// Runs it where the stack has room.
async fn on_a_deep_stack<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    let (done, result) = oneshot::channel();
    let thread = std::thread::Builder::new().stack_size(STACK);
    thread
        .spawn(move || {
            // Nobody may wait any more.
            let _ = done.send(work());
        })
        .map_err(|error| format!("cannot be evaluated now: {error}"))?;
    result.await.map_err(|_| "cannot be evaluated".to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    async fn holds(text: &str, state: Value) -> Result<bool, String> {
        let observed = Observed {
            digest: String::new(),
            state,
        };
        Condition::read(text).await?.holds(observed).await
    }

    #[tokio::test]
    async fn m2_a_condition_is_about_what_the_turn_can_observe() {
        let state = || {
            json!({
                "memory": {"count": 3, "who": "Ann", "list": [1, 2]},
                "plan": {"exists": true, "items": [{"status": "done"}, {"status": "pending"}]},
                "subagents": {"h-1": {"status": "completed"}, "h-2": {"status": "running"}},
                "servers": {"kb": "connected"},
            })
        };
        for (text, expected) in [
            ("memory.count >= 3", true),
            ("memory[\"count\"] == 3 && memory.who.startsWith(\"A\")", true),
            ("memory.missing == 1", false),
            ("has(memory.missing)", false),
            ("has(memory.count)", true),
            ("size(memory.list) == 2", true),
            ("memory.list[5] == 1", false),
            ("plan.items.all(i, i.status == \"done\")", false),
            ("plan.items.exists(i, i.status == \"done\")", true),
            ("subagents[\"h-1\"].status == \"completed\"", true),
            ("subagents.all(h, subagents[h].status != \"running\")", false),
            ("servers.kb == \"connected\"", true),
            ("type(memory.who) == string", true),
        ] {
            assert_eq!(holds(text, state()).await, Ok(expected), "{text}");
        }
    }

    #[tokio::test]
    async fn m2_of_the_memory_no_more_is_needed_than_the_keys_that_are_named() {
        for (text, keys, memory) in [
            ("memory.a == 1 && memory[\"b c\"] == 2", vec!["a", "b c"], false),
            ("has(memory.a)", vec!["a"], false),
            ("memory.exists(k, k == \"a\")", vec![], true),
            ("plan.items.exists(memory, memory.a == 1)", vec![], false),
        ] {
            let condition = Condition::read(text).await.unwrap();
            let expected = Observe {
                memory,
                keys: keys.into_iter().map(str::to_owned).collect(),
                plan: text.contains("plan"),
                ..Observe::default()
            };
            assert_eq!(condition.needs(), &expected, "{text}");
        }
    }

    #[tokio::test]
    async fn m2_a_condition_is_fenced_and_a_bad_one_says_what_is_wrong() {
        let deep = format!("{}1{} == 1", "(".repeat(17), ")".repeat(17));
        let long = format!("memory.a == \"{}\"", "x".repeat(1024));
        let nested = "plan.items.all(a, plan.items.all(b, plan.items.all(c, true)))";
        let chain = "memory.map(a, a + a).map(b, b + b).map(c, c + c).size() > 0";
        for (text, problem) in [
            (deep.as_str(), "brackets more than 16 deep"),
            (long.as_str(), "longer than 1024 bytes"),
            (nested, "within one another"),
            (chain, "within one another"),
            ("memory.a ==", "Syntax error"),
            (
                "conversation.owner == \"x\"",
                "names conversation, which is not known",
            ),
            ("memory.a", "gives neither true nor false"),
            ("memory.a.nothing(1)", "nothing"),
        ] {
            let fault = holds(text, json!({"memory": {"a": "x"}})).await.unwrap_err();
            assert!(fault.contains(problem), "{text}: {fault}");
        }
    }
}
