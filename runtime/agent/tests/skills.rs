//! Skills on a desk of scripted servers: what is discovered, loaded, bounded, and given away.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod desk;

use agentd_agent::request::Request;
use agentd_agent::skills::{Settings, Source};
use agentd_agent::{Observation, Reply, Shown, ToolRunner as _};
use agentd_mcp::{Prompt, Resource};
use serde_json::{Value, json};

use desk::held::minted;
use desk::{Desk, Served, context, server, skill_settings};

/// The server `sk` with prompts and resources of these names.
fn shelf(prompts: &[&str], resources: &[&str]) -> Served {
    let (entry, tools, mut offer) = server("sk", None, &[]);
    let prompt = |name: &&str| Prompt {
        name: (*name).to_owned(),
        description: Some("What it is for".into()),
    };
    offer.prompts = prompts.iter().map(prompt).collect();
    let resource = |name: &&str| Resource {
        uri: format!("file:///{name}/text"),
        name: (*name).to_owned(),
        title: Some("A title".into()),
        description: None,
        mime_type: None,
        size: None,
    };
    offer.resources = resources.iter().map(resource).collect();
    (entry, tools, offer)
}

fn library(prompts: &[&str]) -> Served {
    shelf(prompts, &[])
}

#[tokio::test]
async fn m2_skills_are_those_of_servers_that_the_turn_holds_within_their_number() {
    let desk = Desk::of(vec![library(&["a", "b", "c", "hidden", "gone"])], context());
    for (name, result) in [
        ("gone", Err("server sk is not connected now")),
        ("a", Ok(json!({"name": "a", "server": "sk", "bytes": 9}))),
        ("b", Ok(json!({"name": "b", "server": "sk", "bytes": 9}))),
        ("c", Err("2 skills are loaded")),
        ("hidden", Err("there is no skill hidden")),
    ] {
        let seen = desk.call("skills_load", json!({"name": name})).await;
        match result {
            Ok(value) => assert_eq!(seen, Observation::result(value.to_string())),
            Err(why) => assert!(seen.is_error && seen.text.contains(why), "{seen:?}"),
        }
    }
    let prompt = desk.router.view().await.servers.clone();
    assert!(
        prompt.contains("## a of sk\n\n> How to a.") && prompt.contains("## b of sk"),
        "{prompt}"
    );
    let seen = desk.call("skills_unload", json!({"name": "a"})).await;
    assert_eq!(
        seen,
        Observation::result(json!({"name": "a", "unloaded": true}).to_string())
    );
    assert!(!desk.router.view().await.servers.contains("How to a."));
    desk.router.follow(&["@skill:c and @skill:d"]).await;
    assert!(desk.router.view().await.servers.contains("How to c."));

    // A subagent that was not given the server sees none of it.
    let desk = Desk::of(
        vec![library(&["a"])],
        minted(&[("other", &[])], &["skills.list", "skills.load"]),
    );
    let seen = desk.call("skills_list", json!({})).await;
    assert_eq!(seen, Observation::result(json!({"skills": []}).to_string()));
    let seen = desk.call("skills_load", json!({"name": "a"})).await;
    assert!(seen.text.contains("there is no skill a"), "{seen:?}");
    desk.router.follow(&["@skill:a"]).await;
    let prompt = desk.router.view().await.servers.clone();
    assert!(
        desk.servers.is_untouched() && prompt.starts_with("# Skills that were not loaded"),
        "{prompt}"
    );
}

#[tokio::test]
async fn m2_skills_are_prompts_or_resources_as_the_source_says_and_resources_where_there_are_no_prompts() {
    let source = |prompts, resources| Settings {
        sources: vec![Source {
            server: "sk".into(),
            prompts,
            resources,
            filter: Shown::default(),
        }],
        ..skill_settings()
    };
    let listed = async |settings, prompts: &[&str], resources: &[&str]| {
        let desk = Desk::skilled(vec![shelf(prompts, resources)], context(), settings);
        let seen = desk.call("skills_list", json!({})).await;
        let listed: Value = serde_json::from_str(&seen.text).unwrap();
        let skills = listed["skills"].as_array().unwrap();
        let told = skills
            .iter()
            .map(|one| (one["name"].clone(), one["description"].clone()));
        let told: Vec<String> = told.map(|(name, label)| format!("{name} {label}")).collect();
        told.join(", ").replace('"', "")
    };
    let (prompt, resource) = ("p What it is for", "r A title");
    for (prompts, resources, both, without) in [
        (true, false, prompt, ""),
        (false, true, resource, resource),
        (true, true, prompt, resource),
    ] {
        assert_eq!(listed(source(prompts, resources), &["p"], &["r"]).await, both);
        assert_eq!(listed(source(prompts, resources), &[], &["r"]).await, without);
    }
    // The words of a resource are read by its URI, and it takes no arguments.
    let desk = Desk::skilled(vec![shelf(&[], &["r"])], context(), source(true, true));
    let arguments = json!({"name": "r", "arguments": {"a": "b"}});
    let seen = desk.call("skills_load", arguments).await;
    assert_eq!(seen, Observation::error("the skill r takes no arguments"));
    assert!(desk.servers.is_untouched());
    desk.router.follow(&["@skill:r"]).await;
    let (of, what, uri, _) = desk.servers.seen();
    assert_eq!(
        (of.as_str(), what.as_str(), uri),
        ("sk", "read", json!("file:///r/text"))
    );
    let prompt = desk.router.view().await.servers.clone();
    assert!(prompt.contains("## r of sk\n\n> - ship it"), "{prompt}");
}

#[tokio::test]
async fn m2_what_is_loaded_takes_no_place_of_what_a_text_refers_to_and_what_is_left_out_is_told() {
    let desk = Desk::of(vec![library(&["a", "b", "c"])], context());
    desk.router.follow(&["@skill:a"]).await;
    // In the order of the text: the first that is not loaded yet has the place that is left.
    desk.router
        .follow(&["@skill:a @skill:c", "@skill:b @skill:c"])
        .await;
    let prompt = desk.router.view().await.servers.clone();
    assert!(
        prompt.contains("How to a.") && prompt.contains("How to c.") && !prompt.contains("How to b."),
        "{prompt}"
    );
    assert!(
        prompt.contains("# Skills that were not loaded") && prompt.contains("> b: 2 skills are loaded"),
        "{prompt}"
    );
    // Of this turn alone.
    desk.router.follow(&["hi"]).await;
    assert!(!desk.router.view().await.servers.contains("not loaded"));
    desk.router.follow(&["@skill:nowhere"]).await;
    let prompt = desk.router.view().await.servers.clone();
    assert!(
        prompt.contains("> nowhere: there is no skill nowhere"),
        "{prompt}"
    );
}

#[tokio::test]
async fn m2_all_that_is_loaded_is_a_part_of_what_the_model_reads() {
    // "How to a." has 9 bytes.
    let settings = Settings {
        max_total: 10,
        ..skill_settings()
    };
    let desk = Desk::skilled(vec![library(&["a", "b"])], context(), settings);
    assert!(!desk.call("skills_load", json!({"name": "a"})).await.is_error);
    let seen = desk.call("skills_load", json!({"name": "b"})).await;
    let why = "the skill b has 9 bytes, and 1 are left of the 10 of all that are loaded; put one away with skills_unload";
    assert_eq!(seen, Observation::error(why));
    // A thought reads no more of them.
    let asked = json!({"prompt": "Is it?", "skills": ["a", "b"]});
    let seen = desk.call("think", asked).await;
    let why = "the skills have more than 10 bytes together; name fewer of them";
    assert_eq!(seen, Observation::error(why));
    assert!(desk.model.asked.lock().unwrap().is_empty());
    desk.model.answers.lock().unwrap().push("Yes.".into());
    let seen = desk
        .call("think", json!({"prompt": "Is it?", "skills": ["b"]}))
        .await;
    assert_eq!(seen, Observation::result(json!({"answer": "Yes."}).to_string()));
}

#[tokio::test]
async fn m2_a_skill_that_is_not_there_is_not_given_to_a_subagent() {
    let other = || {
        let (mut entry, tools, mut offer) = library(&["elsewhere"]);
        (entry.name, offer.server) = ("other".into(), "other".into());
        (entry, tools, offer)
    };
    let mut settings = skill_settings();
    settings.sources.push(Source {
        server: "other".into(),
        ..settings.sources[0].clone()
    });
    let desk = |context| Desk::skilled(vec![library(&["a", "b"]), other()], context, settings.clone());
    let run = |skills: Value, more: Value| {
        let mut run = json!({"instruction": "Go.", "skills": skills});
        run.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        run
    };
    let narrow = minted(&[("sk", &[])], &["subagent.run", "skills.load"]);
    for (context, asked, why) in [
        (
            context(),
            run(json!(["a", "nope"]), json!({})),
            "there is no skill nope; there are a, b, elsewhere",
        ),
        (
            context(),
            run(json!(["hidden"]), json!({"servers": ["sk"]})),
            "there is no skill hidden; there are a, b",
        ),
        (
            context(),
            run(json!(["a"]), json!({"servers": ["none"]})),
            "there is no skill a; none can be given",
        ),
        (
            context(),
            run(json!(["a", "b", "elsewhere"]), json!({})),
            "3 skills are too many; name at most 2",
        ),
        (
            narrow,
            run(json!(["elsewhere"]), json!({})),
            "there is no skill elsewhere; there are a, b",
        ),
    ] {
        let desk = desk(context);
        let seen = desk.call("subagent_run", asked).await;
        assert_eq!(seen, Observation::error(why));
        assert!(desk.supervisor.requests.lock().unwrap().is_empty(), "{why}");
    }
    let desk = desk(context());
    let told = json!({"handle": "h", "mode": "sync", "status": "completed"});
    desk.supervisor
        .replies
        .lock()
        .unwrap()
        .push(Reply::Done(told.clone()));
    let seen = desk
        .call("subagent_run", run(json!(["b", "elsewhere"]), json!({})))
        .await;
    assert_eq!(seen, Observation::result(told.to_string()));
    let asked = desk.supervisor.requests.lock().unwrap().pop();
    let Some(Request::SubagentRun(asked)) = asked else {
        panic!("{asked:?}");
    };
    assert_eq!(asked.skills, ["b", "elsewhere"]);
    assert_eq!(asked.skill_servers, ["other", "sk"]);
}
