//! `agentd mcp` at a terminal and in a pipe: no server's text steers the terminal, an output that nobody reads on ends
//! the command, and a large one is whole.

use std::process::Stdio;

use serde_json::Value;
use tokio::process::Command;

use crate::notes::Notes;
use crate::process::{PATIENCE, PROGRAM};

/// Colours, a title, the clipboard, one-character commands, marks of direction, tags, a bell and a backspace.
const HOSTILE: &str = "x\u{1b}[31m\u{1b}]0;t\u{7}\u{1b}]52;c;AAAA\u{1b}\\\u{9b}2J\u{90}q\u{9c}\u{8}\u{7f}\u{202e}\u{200b}\u{e0041}\r\u{b}y";

/// Whether a terminal shows it as it stands.
fn steers(text: &str) -> Option<char> {
    text.chars()
        .find(|c| (c.is_control() && !"\n\t".contains(*c)) || agentd_base::text::is_unseen(*c))
}

/// The command under this line of a shell, in which `"$@"` stands for it: exit code, standard output, standard error.
async fn shell(line: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new("/bin/bash");
    command
        .args(["-c", line, "bash", PROGRAM, "mcp"])
        .args(arguments)
        .env_clear()
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = tokio::time::timeout(PATIENCE, command.output()).await;
    let output = output
        .unwrap_or_else(|_| panic!("{arguments:?} does not end"))
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[tokio::test(flavor = "multi_thread")]
async fn m23_no_text_of_a_server_steers_the_terminal() {
    let notes = Notes::start().await;
    notes.say_everywhere(HOSTILE);
    let url = notes.url();
    for verb in [
        &["tools", &url][..],
        &["resources", &url],
        &["read", &url, "note://one"],
        &["call", &url, "echo"],
        &["ping", &url],
        // There is no such tool, and the error names what there is.
        &["call", &url, HOSTILE],
        &["read", &url, HOSTILE],
    ] {
        for format in [&[][..], &["-o", "json"]] {
            let arguments = [verb, format].concat();
            let (_, stdout, stderr) = shell(r#""$@""#, &arguments).await;
            assert!(
                !stdout.is_empty() || !stderr.is_empty(),
                "{arguments:?} says nothing"
            );
            for said in [&stdout, &stderr] {
                assert_eq!(steers(said), None, "{arguments:?}: {said:?}");
            }
            if !format.is_empty() && !stdout.is_empty() {
                let _: Value = serde_json::from_str(&stdout).unwrap();
            }
        }
    }
}

/// The command ends, and not with a signal or an error, when a reader such as `head` has seen enough.
#[tokio::test(flavor = "multi_thread")]
async fn an_output_that_is_closed_ends_every_verb() {
    let notes = Notes::start().await;
    notes.change(&"a line\n".repeat(200_000));
    let url = notes.url();
    let closed = r#"set -o pipefail; "$@" | head -c 1"#;
    for arguments in [
        &["read", &url, "note://one"][..],
        &["read", &url, "note://one", "-o", "json"],
        &["watch", &url, "note://one"],
    ] {
        let (code, stdout, stderr) = shell(closed, arguments).await;
        assert_eq!((code, stderr.as_str()), (Some(0), ""), "{arguments:?}: {stdout}");
    }
    let full = r#"exec "$@" > /dev/full"#;
    for verb in ["tools", "ping"] {
        let (code, _, stderr) = shell(full, &[verb, &url]).await;
        assert_eq!(code, Some(1), "{verb}: {stderr}");
        assert!(stderr.contains("No space left"), "{verb}: {stderr}");
    }
}

/// Some megabytes, through a pipe that is read slowly: nothing is lost at the end.
#[tokio::test(flavor = "multi_thread")]
async fn a_large_answer_is_written_whole() {
    let notes = Notes::start().await;
    let note = "0123456789abcde\n".repeat(250_000);
    notes.change(&note);
    let url = notes.url();
    let (code, stdout, _) = shell(
        r#"set -o pipefail; "$@" | dd bs=64 2>/dev/null"#,
        &["read", &url, "note://one"],
    )
    .await;
    assert_eq!(code, Some(0));
    assert!(
        stdout == format!("{note}\n"),
        "{} bytes of {}",
        stdout.len(),
        note.len() + 1
    );
}
