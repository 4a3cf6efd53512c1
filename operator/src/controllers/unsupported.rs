//! Fields that the schema has and that nothing honours yet: found by path in the serialised spec, refused by name.
//! The table is the one place where a field becomes supported.

use serde_json::Value;

use crate::problem::Problem;

/// A field that is not built yet.
#[derive(Debug, Clone, Copy)]
pub struct Unsupported {
    /// Its path below `spec`; `[]` stands for each entry of a list.
    pub path: &'static str,
    /// Which values of it.
    pub when: When,
}

/// Which values are refused.
#[derive(Debug, Clone, Copy)]
pub enum When {
    /// Any, also an empty one.
    Given,
    /// Any that says something: an empty object or list asks for nothing.
    Filled,
    /// All but this one, which is built.
    Not(&'static str),
}

const fn given(path: &'static str) -> Unsupported {
    Unsupported {
        path,
        when: When::Given,
    }
}

const fn filled(path: &'static str) -> Unsupported {
    Unsupported {
        path,
        when: When::Filled,
    }
}

const fn not(path: &'static str, built: &'static str) -> Unsupported {
    Unsupported {
        path,
        when: When::Not(built),
    }
}

/// Of an Agent.
pub const AGENT: &[Unsupported] = &[
    given("intelligence.endpoints[].auth.oauth2"),
    given("intelligence.endpoints[].auth.aws"),
    given("intelligence.endpoints[].auth.aauth"),
    given("intelligence.endpoints[].auth.spiffe"),
    given("intelligence.ref"),
    given("mcpServers[].auth.aws"),
    given("mcpServers[].auth.aauth"),
    given("mcpServers[].auth.spiffe"),
    filled("mcpServers[].tools.requireApproval"),
    filled("workflows"),
    not("run.mode", "Service"),
    given("run.prompt"),
    given("run.rerun"),
    given("run.backoffLimit"),
    given("run.ttlAfterFinished"),
    given("run.schedule"),
    given("run.timeZone"),
    given("run.concurrencyPolicy"),
    given("run.startingDeadline"),
    given("run.historyLimit"),
    given("a2a.principals[].oidc"),
    filled("a2a.principals[].grants"),
    filled("a2a.peers"),
    given("store.http.auth.oauth2"),
    given("store.http.auth.aws"),
    given("store.http.auth.aauth"),
    given("store.http.auth.spiffe"),
    given("store.http.connectTimeout"),
    filled("settings"),
    given("serviceAccount.name"),
    filled("podTemplate"),
    given("updatePolicy"),
];

/// Of an McpServer.
pub const MCP_SERVER: &[Unsupported] = &[
    given("auth.aws"),
    given("auth.aauth"),
    given("auth.spiffe"),
    not("deployment.transport", "http"),
    filled("deployment.podTemplate"),
    given("tools.pin"),
    not("allowedAgents.namespaces.from", "Same"),
    given("allowedAgents.namespaces.selector"),
];

/// What of `spec` is in the table, in the table's order.
pub fn find(spec: &Value, table: &[Unsupported]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for field in table {
        let mut refuse = |path: String, value: &Value| {
            if field.when.refuses(value) {
                problems.push(Problem::unsupported(path));
            }
        };
        visit(spec, field.path, String::new(), &mut refuse);
    }
    problems
}

impl When {
    fn refuses(self, value: &Value) -> bool {
        match self {
            Self::Given => !value.is_null(),
            Self::Filled => match value {
                Value::Null => false,
                Value::Array(items) => !items.is_empty(),
                Value::Object(fields) => !fields.is_empty(),
                Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
            },
            Self::Not(built) => !value.is_null() && value != built,
        }
    }
}

/// Calls `found` with every value at `rest` below `value`, and with its path, entries of lists by their name.
fn visit(value: &Value, rest: &str, walked: String, found: &mut dyn FnMut(String, &Value)) {
    let (step, rest) = rest
        .split_once('.')
        .map_or((rest, None), |(step, rest)| (step, Some(rest)));
    let (key, each) = step.strip_suffix("[]").map_or((step, false), |key| (key, true));
    let Some(inner) = value.get(key) else { return };
    let path = if walked.is_empty() {
        key.to_owned()
    } else {
        format!("{walked}.{key}")
    };
    let mut go = |value: &Value, path: String| match rest {
        Some(rest) => visit(value, rest, path, found),
        None => found(path, value),
    };
    if each {
        for (index, entry) in inner.as_array().into_iter().flatten().enumerate() {
            let label = entry
                .get("name")
                .and_then(Value::as_str)
                .map_or_else(|| index.to_string(), str::to_owned);
            go(entry, format!("{path}[{label}]"));
        }
    } else {
        go(inner, path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_named_and_empty_things_ask_for_nothing() {
        let spec = serde_json::json!({
            "mcpServers": [
                { "name": "a", "tools": { "requireApproval": [] } },
                { "name": "b", "tools": { "requireApproval": ["x"] }, "auth": { "aws": {} } },
            ],
            "settings": {},
            "run": { "mode": "Service" },
            "store": { "http": { "connectTimeout": "1s" } },
        });
        let found: Vec<String> = find(&spec, AGENT)
            .into_iter()
            .map(|problem| problem.message)
            .collect();
        assert_eq!(
            found,
            [
                "spec.mcpServers[b].auth.aws is not supported yet; remove it",
                "spec.mcpServers[b].tools.requireApproval is not supported yet; remove it",
                "spec.store.http.connectTimeout is not supported yet; remove it",
            ]
        );
    }
}
