//! Bad input ends with exit code 2 and one line a fault, before any effect.

use std::net::TcpListener;
use std::process::{Command, Output};

use serde_json::Value;

use crate::process::PROGRAM;

/// Runs it to its end in an empty folder; nothing may be left in it.
fn run(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(PROGRAM)
        .args(arguments)
        .env_clear()
        .envs(variables.iter().copied())
        .env("HOME", folder.path())
        .env("AGENTD_STATE_DIR", folder.path().join("state"))
        .current_dir(folder.path())
        .output()
        .unwrap();
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    output
}

/// The faults: key and text of each line.
fn faults(output: &Output) -> Vec<(String, String)> {
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect(line))
        .collect();
    let text = |line: &Value, key: &str| line[key].as_str().unwrap_or_default().to_owned();
    for line in &lines {
        assert_eq!(line["event"], "config.invalid", "{line}");
    }
    lines
        .iter()
        .map(|line| (text(line, "key"), text(line, "message")))
        .collect()
}

#[test]
fn every_fault_on_a_line_of_its_own_with_key_and_remedy() {
    let output = run(
        &[
            "--prompt",
            "p",
            "--model",
            "m",
            "--intelligence",
            "https://gw.example/v1",
            "--mcp",
            "a=ftp://x/",
            "--mcp",
            "b=http://10.0.0.1/mcp",
        ],
        &[],
    );
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    let faults = faults(&output);
    assert_eq!(faults.len(), 2, "{faults:?}");
    for ((key, text), name) in faults.iter().zip(["a", "b"]) {
        assert_eq!(key, &format!("mcp.servers[{name}].endpoint"));
        assert!(text.starts_with(key.as_str()) && text.contains(';'), "{text}");
    }
}

#[test]
fn what_is_refused_before_any_effect() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let here = format!("http://{}/v1", listener.local_addr().unwrap());
    let good = ["--prompt", "p", "--model", "m", "--intelligence", &here];
    let with = |more: &[&'static str]| -> Vec<String> {
        good.iter()
            .map(|s| (*s).to_owned())
            .chain(more.iter().map(|s| (*s).to_owned()))
            .collect()
    };
    type Case<'a> = (Vec<String>, Vec<(&'a str, &'a str)>, &'a str);
    let cases: Vec<Case<'_>> = vec![
        (with(&["--mcp", "=https://x/"]), vec![], "mcp.servers[0].name"),
        (with(&["--mcp", "https://x/"]), vec![], "--mcp"),
        (with(&["--no-such-key", "1"]), vec![], "--no-such-key"),
        (with(&["--limits.run.steps", "many"]), vec![], "limits.run.steps"),
        (with(&[]), vec![("AGENTD_NO_SUCH_KEY", "1")], "AGENTD_NO_SUCH_KEY"),
        (
            with(&["-c", "/does/not/exist.yaml"]),
            vec![],
            "/does/not/exist.yaml",
        ),
        (
            with(&["--a2a.listen", "http://0.0.0.0:0", "--store.kind", "file"]),
            vec![],
            "a2a.listen",
        ),
    ];
    for (arguments, variables, key) in cases {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let output = run(&arguments, &variables);
        let faults = faults(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty());
        assert!(
            faults
                .iter()
                .any(|(found, text)| found.contains(key) && !text.is_empty()),
            "{key}: {faults:?}"
        );
    }
    // Nobody was dialled.
    assert_eq!(
        listener.accept().unwrap_err().kind(),
        std::io::ErrorKind::WouldBlock
    );
}

#[test]
fn nothing_to_do_is_a_fault_and_help_is_none() {
    let output = run(&[], &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(!faults(&output).is_empty());

    for (arguments, text) in [
        (&["--version"][..], "agentd 0."),
        (&["--help"], "--limits.run.steps"),
        (&["bridge", "--help"], "--config"),
    ] {
        let output = run(arguments, &[]);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert!(output.stderr.is_empty());
        assert!(
            String::from_utf8(output.stdout).unwrap().contains(text),
            "{arguments:?}"
        );
    }
}

#[test]
fn a_worker_by_hand_says_what_it_is_for() {
    let output = run(&["worker"], &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(faults(&output)[0].1.contains("agentd run"));
}

#[test]
fn a_bridge_checks_its_document_too() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bridge.json");
    std::fs::write(&file, r#"{"name":"fs","no_such_key":1}"#).unwrap();
    let output = run(&["bridge", "-c", file.to_str().unwrap()], &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        faults(&output)
            .iter()
            .any(|(_, text)| text.contains("no_such_key")),
        "{:?}",
        faults(&output)
    );
}

/// Answers go to stdout; nothing runs, nothing is dialled, nothing is left behind.
#[test]
fn what_can_be_asked_of_a_configuration_is_answered_on_standard_output() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let here = format!("http://{}/v1", listener.local_addr().unwrap());
    let ask = |ask: &'static str, more: &[&'static str]| {
        let mut arguments = vec![ask, "--prompt", "p", "--model", "m", "--intelligence", &here];
        arguments.extend(more);
        let output = run(&arguments, &[("AGENTD_AGENT_NAME", "asked")]);
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let json = |text: &str| -> Value { serde_json::from_str(text).expect(text) };

    assert_eq!(ask("--validate-config", &[]), (Some(0), String::new()));
    let bad = ["--a2a.listen", "http://0.0.0.0:0"];
    assert_eq!(ask("--validate-config", &bad), (Some(2), String::new()));

    let (code, text) = ask("--capabilities", &["--mcp", "fs=https://fs.example/mcp"]);
    let has = json(&text);
    assert_eq!(
        (
            code,
            &has["agent"]["name"],
            &has["mcp_servers"][0],
            &has["intelligence"]["model"]
        ),
        (Some(0), &"asked".into(), &"fs".into(), &"m".into()),
        "{has:#}"
    );
    assert!(!text.contains("fs.example") && !text.contains(&here), "{text}");

    let (code, text) = ask("--effective-config", &[]);
    let effective = json(&text);
    assert_eq!(
        (
            code,
            &effective["document"]["agent"]["name"],
            &effective["faults"]
        ),
        (Some(0), &"asked".into(), &serde_json::json!([])),
        "{effective:#}"
    );
    let origins = effective["origins"].to_string();
    assert!(
        origins.contains("AGENTD_AGENT_NAME") && origins.contains("--prompt"),
        "{origins}"
    );

    let (code, text) = ask("--config-schema", &[]);
    assert_eq!(
        (code, json(&text)["properties"]["agent"].is_object()),
        (Some(0), true)
    );
    for shell in ["bash", "zsh", "fish"] {
        let output = run(&["completions", shell], &[]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(0));
        assert!(text.contains("limits.run.steps"), "{shell}: {text}");
    }
    let output = run(&["reference"], &[]);
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        include_str!("../../CLI.md")
    );
    // Nobody was dialled.
    assert_eq!(
        listener.accept().unwrap_err().kind(),
        std::io::ErrorKind::WouldBlock
    );
}
