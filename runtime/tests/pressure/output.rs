//! The answer of a task that is run once cannot be written.

use serde_json::Value;

use crate::process::Agentd;
use crate::world::World;

async fn run(line: &str) -> (Option<i32>, String, Vec<Value>) {
    let world = World::new().await;
    let arguments = world.arguments(&["--prompt", "\u{1b}[31mhi"]);
    let agentd = Agentd::start_by_shell(line, &arguments, &[], world.folder.path());
    let (status, output, lines) = agentd.end().await;
    (status.code(), output, lines)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_cannot_be_written_is_a_failure_that_is_logged() {
    let (code, _, lines) = run(r#"exec "$0" "$@" > /dev/full"#).await;
    assert_eq!(code, Some(1), "{lines:#?}");
    let failed: Vec<&Value> = lines.iter().filter(|line| line["event"] == "proc.fail").collect();
    assert_eq!(failed.len(), 1, "{lines:#?}");
    assert!(
        failed[0]["err"].as_str().unwrap().contains("No space left"),
        "{failed:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_nobody_reads_is_none() {
    let line = r#"{ "$0" "$@"; echo "{\"event\":\"ended\",\"code\":$?}" >&2; } | true"#;
    let (_, _, lines) = run(line).await;
    let ended: Vec<&Value> = lines.iter().filter(|line| line["event"] == "ended").collect();
    assert_eq!(ended.len(), 1, "{lines:#?}");
    assert_eq!(ended[0]["code"], 0);
    assert!(
        lines.iter().all(|line| line["event"] != "proc.fail"),
        "{lines:#?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_gets_no_control_characters_and_a_pipe_the_answer_as_it_is() {
    let (code, output, lines) = run(r#"exec "$0" "$@""#).await;
    assert_eq!(
        (code, output.as_str()),
        (Some(0), "you said: \u{1b}[31mhi\n"),
        "{lines:#?}"
    );
    // `script` gives it a terminal. Its own lines of JSON are on that terminal too.
    let (_, output, _) =
        run(r#"SHELL=/bin/bash exec script -qec "$(printf '%q ' "$0" "$@")" /dev/null"#).await;
    assert!(output.contains("you said: [31mhi"), "{output}");
    assert!(!output.contains('\u{1b}'), "{output}");
}
