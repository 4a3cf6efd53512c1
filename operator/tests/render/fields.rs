//! Every field of both specs either changes what comes out or is refused with its name: nothing is ignored. The tables
//! of fields are read by the contract tests too.

mod agent;
mod mcp_server;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::agent::agent as agent_with;
use crate::mcp_server::server as server_with;
use crate::world::{World, install, messages, render_agent, render_server};

pub(crate) use self::agent::AGENT;
pub(crate) use self::mcp_server::SERVER;

/// One field.
pub(crate) struct Field {
    /// Its path in the schema.
    pub(crate) path: &'static str,
    /// The spec without it.
    pub(crate) without: &'static str,
    /// The spec with it.
    pub(crate) with: &'static str,
    /// Refused as `spec.<this>`; honoured where absent.
    pub(crate) refused: Option<&'static str>,
    /// Refused in the runtime's words, under this key of its document, as long as it does not read it.
    pub(crate) awaited: Option<&'static str>,
}

const fn honoured(path: &'static str, without: &'static str, with: &'static str) -> Field {
    Field {
        path,
        without,
        with,
        refused: None,
        awaited: None,
    }
}

/// Refused or honoured, as the runtime is.
const fn awaited(path: &'static str, without: &'static str, with: &'static str, key: &'static str) -> Field {
    Field {
        path,
        without,
        with,
        refused: None,
        awaited: Some(key),
    }
}

const fn refused(path: &'static str, with: &'static str, name: &'static str) -> Field {
    Field {
        path,
        without: "{}",
        with,
        refused: Some(name),
        awaited: None,
    }
}

/// What comes out: objects and what is told, or the problems.
type Outcome = Result<Value, Vec<String>>;

fn agent_outcome(spec: Value) -> Outcome {
    render_agent(&agent_with(spec), &install()).map_err(|rejected| messages(&rejected.problems))
}

/// What an McpServer becomes, and what an Agent that uses it becomes.
fn server_outcome(spec: Value) -> Outcome {
    let world = server_with(spec);
    let made = render_server(&world, &install()).map_err(|rejected| messages(&rejected.problems))?;
    let seen = render_agent(
        &World {
            servers: world.servers.clone(),
            agents: world.agents.clone(),
            ..World::default()
        },
        &install(),
    );
    Ok(json!({ "made": made, "seen": seen.map_err(|rejected| messages(&rejected.problems)).unwrap() }))
}

fn check(table: &[Field], outcome: fn(Value) -> Outcome) {
    let read = |text: &str| -> Value { serde_saphyr::from_str(text).unwrap() };
    let mut faults = Vec::new();
    for field in table {
        let with = outcome(read(field.with));
        if let (Some(key), Err(problems)) = (field.awaited, &with)
            && problems.contains(&format!(
                "InvalidSpec: {key}: is not supported by this version; take it out"
            ))
        {
            continue;
        }
        match (field.refused, with) {
            (Some(name), Err(problems)) => {
                let expected = format!("NotSupportedYet: spec.{name} is not supported yet; remove it");
                if !problems.contains(&expected) {
                    faults.push(format!("{}: {problems:?}", field.path));
                }
            }
            (Some(_), Ok(_)) => faults.push(format!("{}: is not refused", field.path)),
            (None, Err(problems)) => faults.push(format!("{}: refused: {problems:?}", field.path)),
            (None, Ok(with)) => {
                let without = outcome(read(field.without))
                    .unwrap_or_else(|problems| panic!("{}: {problems:?}", field.path));
                if with == without {
                    faults.push(format!("{}: changes nothing", field.path));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

/// Leaves of a schema as paths. Types that are one value to us end a path.
fn leaves(path: &str, schema: &Value, found: &mut BTreeSet<String>) {
    let inner = schema.get("items").unwrap_or(schema);
    match inner.get("properties").and_then(Value::as_object) {
        Some(properties) => {
            for (name, property) in properties {
                let path = if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}.{name}")
                };
                leaves(&path, property, found);
            }
        }
        None => {
            found.insert(path.to_owned());
        }
    }
}

fn covered(crd: &Value, table: &[Field]) {
    let mut all = BTreeSet::new();
    let spec = crd
        .pointer("/spec/versions/0/schema/openAPIV3Schema/properties/spec")
        .unwrap();
    leaves("", spec, &mut all);
    let missing: Vec<&String> = all
        .iter()
        .filter(|leaf| {
            !table
                .iter()
                .any(|field| *leaf == field.path || leaf.starts_with(&format!("{}.", field.path)))
        })
        .collect();
    assert!(missing.is_empty(), "no case for {missing:#?}");
    let unknown: Vec<&str> = table
        .iter()
        .map(|field| field.path)
        .filter(|path| {
            !all.iter()
                .any(|leaf| leaf == path || leaf.starts_with(&format!("{path}.")))
        })
        .collect();
    assert!(unknown.is_empty(), "the schema has no {unknown:#?}");
}

#[test]
fn every_field_of_an_agent_is_honoured_or_refused() {
    covered(&agentd_crds::schema::agents(), AGENT);
    check(AGENT, agent_outcome);
}

#[test]
fn every_field_of_an_mcp_server_is_honoured_or_refused() {
    covered(&agentd_crds::schema::mcp_servers(), SERVER);
    check(SERVER, server_outcome);
}
