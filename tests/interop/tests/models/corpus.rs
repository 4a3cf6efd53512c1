//! The corpus of conversations with providers, judged by the providers' own SDKs: a request is of their types and what they
//! would send, an answer is read as they read it.

use std::path::{Path, PathBuf};

use agentd_interop::peers;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../runtime/llm/tests/corpus")
}

#[test]
fn field_l03_l06_the_sdks_of_providers_send_what_we_send_and_read_what_we_read() {
    let said = peers::judged(&corpus()).unwrap_or_else(|faults| panic!("{faults}"));
    let judged: usize = said.split(' ').next().unwrap().parse().unwrap();
    assert!(judged >= 119, "{said}");
}

/// They find what they are asked for: a conversation of each dialect, with one thing changed.
#[test]
fn a_request_or_an_answer_that_is_not_as_the_sdk_has_it_is_a_fault() {
    let changes = [
        (
            "openai",
            "request",
            "\"tool_call_id\"",
            "\"call_id\"",
            "request.messages[3]",
        ),
        (
            "openai",
            "request",
            "\"arguments\":\"",
            "\"parameters\":\"",
            "lacks arguments",
        ),
        (
            "openai",
            "request",
            "/chat/completions",
            "/completions",
            "the SDK sends",
        ),
        ("openai", "reply.json", "calc_add", "calc", "the SDK reads"),
        (
            "openai-responses",
            "request",
            "\"instructions\"",
            "\"system\"",
            "system is not in",
        ),
        (
            "openai-responses",
            "request",
            "\"call_id\"",
            "\"id\"",
            "request.input[",
        ),
        (
            "openai-responses",
            "response",
            "_tokens\": 30",
            "_tokens\": 31",
            "the SDK reads",
        ),
        (
            "openai-responses",
            "response",
            "\"created_at\": 1, ",
            "",
            "created_at",
        ),
        (
            "anthropic",
            "request",
            "\"input_schema\"",
            "\"parameters\"",
            "request.tools[0]",
        ),
        (
            "anthropic",
            "request",
            "\"max_tokens\":500,",
            "",
            "lacks max_tokens",
        ),
        (
            "anthropic",
            "response",
            "\"tool_use\", \"stop",
            "\"max_tokens\", \"stop",
            "the SDK reads",
        ),
        ("bedrock", "request", "\"toolUseId\"", "\"id\"", "\"toolUseId\""),
        (
            "bedrock",
            "request",
            "\"status\":\"success\"",
            "\"status\":1",
            "toolResult.status",
        ),
        (
            "bedrock",
            "response",
            "\"inputTokens\": 10",
            "\"inputTokens\": 11",
            "the SDK reads",
        ),
    ];
    let folder = tempfile::tempdir().unwrap();
    for (n, (dialect, changed, from, to, _)) in changes.iter().enumerate() {
        std::fs::create_dir_all(folder.path().join(dialect)).unwrap();
        for kind in ["ask.json", "request", "response", "reply.json"] {
            let file = corpus().join(format!("{dialect}/conversation.{kind}"));
            let mut text = std::fs::read_to_string(file).unwrap();
            if kind == *changed {
                assert!(text.contains(from), "{dialect} {kind} has {from}");
                text = text.replace(from, to);
            }
            std::fs::write(folder.path().join(format!("{dialect}/changed_{n}.{kind}")), text).unwrap();
        }
    }
    let faults = peers::judged(folder.path()).expect_err("each is a fault");
    for (n, (dialect, kind, _, to, fault)) in changes.iter().enumerate() {
        let about = format!("{dialect}/changed_{n}: ");
        let is_found = faults
            .lines()
            .any(|line| line.starts_with(&about) && line.contains(fault));
        assert!(is_found, "{dialect} {kind} {to}: {faults}");
    }
}
