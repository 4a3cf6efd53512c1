//! Our tools against the list of contract/runtime.md section 5: names, parameters, which of them are required, who has
//! them without being named to. What differs stands below the list, with the reason.

use std::collections::{BTreeMap, BTreeSet};

use crate::grants::{self, Holder};
use crate::minted::Held;

/// Everybody; conversations and workflows; conversations; who has an end to declare.
const ALL: &[Holder] = &[Holder::Root, Holder::Workflow, Holder::Subagent];
const RW: &[Holder] = &[Holder::Root, Holder::Workflow];
const R: &[Holder] = &[Holder::Root];
const ENDING: &[Holder] = &[Holder::Root, Holder::Subagent];

/// Tool, parameters with `*` behind those that are required, who has it.
const SECTION: &[(&str, &str, &[Holder])] = &[
    ("instruction.read", "", ALL),
    ("instruction.subscribe", "uri", R),
    (
        "subagent.run",
        "instruction* mode tools servers limits priority context output_contract output_schema skills workflow",
        RW,
    ),
    ("subagent.send", "handle* message*", RW),
    ("subagent.kill", "handle* reason", RW),
    ("subagent.status", "handle*", RW),
    ("subagent.await", "handle* timeout", RW),
    ("subagent.list", "", RW),
    ("subagent.retire", "handle*", RW),
    ("memory.get", "key*", ALL),
    ("memory.set", "key* value* ttl", ALL),
    ("memory.list", "prefix limit", ALL),
    ("memory.delete", "key*", ALL),
    ("memory.push", "key* value*", ALL),
    ("memory.shift", "key*", ALL),
    ("memory.pop", "key*", ALL),
    ("artifact.create", "name* mime content from_step sensitive", ALL),
    ("artifact.get", "id*", ALL),
    ("artifact.delete", "id*", ALL),
    ("artifact.list", "prefix limit", ALL),
    ("workflow.run", "name* inputs start wait timeout", RW),
    ("workflow.create", "definition* arm", R),
    ("workflow.update", "name* definition*", R),
    ("workflow.delete", "name*", R),
    ("workflow.list", "", ALL),
    ("workflow.status", "run name", ALL),
    ("workflow.cancel", "run* reason", RW),
    ("workflow.wait", "run* timeout", RW),
    ("workflow.pause", "run name before_step", R),
    ("workflow.resume", "run name before_step", R),
    ("workflow.signal", "name* payload run", ALL),
    ("plan.create", "goal* items*", ALL),
    ("plan.get", "", ALL),
    (
        "plan.update",
        "item status note title detail bind insert reorder",
        ALL,
    ),
    ("plan.clear", "", ALL),
    ("skills.list", "", ALL),
    ("skills.load", "name* version arguments", ALL),
    ("skills.unload", "name*", ALL),
    ("ask_human", "question* schema to timeout recommend", ALL),
    ("think", "prompt* output_schema reads skills", ALL),
    ("sleep", "duration*", ALL),
    ("await", "condition* on timeout", ALL),
    ("context.compact", "target_tokens keep_last", ALL),
    ("finish", "status* output reason exit", ENDING),
    ("status", "", ALL),
    ("message.send", "to* text parts wait", RW),
    ("resource.read", "uri*", ALL),
    ("knowledge.search", "query* top_k filters", ALL),
    ("knowledge.get", "id uri", ALL),
    ("knowledge.list", "prefix", ALL),
    ("search.query", "query* kind limit freshness", ALL),
    ("search.fetch", "url* max_bytes", ALL),
    ("code.run", "language* code* files timeout", RW),
    ("exec", "cmd* args cwd stdin timeout", ALL),
];

/// Where ours differs: tool, what the section has, what ours has.
const DIFFERS: &[(&str, &str, &str)] = &[
    // To wait for subagents by `on` alone needs no expression.
    ("await", "condition*", "condition"),
    // A conversation of one caller does not end the process of all.
    ("finish", "exit", ""),
    // The section itself says that it is ignored; what is ignored is refused here.
    ("subagent.run", "workflow", ""),
];

/// The parameters, as the section would write them.
fn ours() -> BTreeMap<&'static str, BTreeSet<String>> {
    let tools = super::all();
    let named = tools.iter().map(|tool| {
        let of = |key: &str| tool.parameters().get(key).cloned().unwrap_or_default();
        let (properties, required) = (of("properties"), of("required"));
        let is_required = |name: &str| {
            required
                .as_array()
                .is_some_and(|all| all.iter().any(|one| one == name))
        };
        let names = properties.as_object().into_iter().flat_map(|all| all.keys());
        let marked = names.map(|name| match is_required(name) {
            true => format!("{name}*"),
            false => name.clone(),
        });
        (tool.name, marked.collect())
    });
    named.collect()
}

fn expected() -> BTreeMap<&'static str, BTreeSet<String>> {
    let mut all: BTreeMap<_, BTreeSet<String>> = SECTION
        .iter()
        .map(|(name, parameters, _)| (*name, parameters.split_whitespace().map(str::to_owned).collect()))
        .collect();
    for (tool, theirs, ours) in DIFFERS {
        let parameters = all.get_mut(tool).unwrap();
        assert!(parameters.remove(*theirs), "{tool} {theirs}");
        parameters.extend((!ours.is_empty()).then(|| (*ours).to_owned()));
    }
    all
}

#[test]
fn m2_every_tool_of_the_section_is_there_with_its_parameters() {
    let (ours, expected) = (ours(), expected());
    let names = |of: &BTreeMap<&'static str, _>| of.keys().copied().collect::<Vec<_>>();
    assert_eq!(names(&ours), names(&expected));
    for (name, parameters) in &expected {
        assert_eq!(&ours[name], parameters, "{name}");
    }
}

#[test]
fn m2_every_tool_of_the_section_is_granted_as_it_says() {
    let mut listed: Vec<_> = SECTION.iter().map(|(name, ..)| *name).collect();
    let mut granted: Vec<_> = grants::names().collect();
    listed.sort_unstable();
    granted.sort_unstable();
    assert_eq!(granted, listed);
    for (name, _, holders) in SECTION {
        let has = |holder: &&Holder| grants::may(**holder, &Held::All, name);
        let has: Vec<Holder> = ALL.iter().filter(has).copied().collect();
        assert_eq!(has, *holders, "{name}");
    }
}
