//! Golden files: the bytes of requests, and what replies of real servers, quirks included, are read as.

use serde_json::{Map, Value, json};

use super::{read, write};
use crate::message::{
    Arguments, Block, Message, ModelReply, ModelRequest, Stop, ToolCall, ToolResult, ToolSpec, Usage,
};

fn object(value: Value) -> Map<String, Value> {
    serde_json::from_value(value).unwrap()
}

fn call(id: &str, name: &str, arguments: Value) -> Block {
    let arguments = Arguments::Object(object(arguments));
    Block::ToolCall(ToolCall {
        id: id.into(),
        name: name.into(),
        arguments,
    })
}

fn result(id: &str, content: &str, is_error: bool) -> ToolResult {
    ToolResult {
        call_id: id.into(),
        content: content.into(),
        is_error,
    }
}

fn pretty(request: &ModelRequest) -> String {
    let bytes = write::request("my-model", request);
    let value: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(
        value.to_string().into_bytes(),
        bytes,
        "the bytes are the value's, in its order"
    );
    serde_json::to_string_pretty(&value).unwrap()
}

#[test]
fn the_smallest_request() {
    let request = ModelRequest {
        messages: vec![Message::User("hello".into())],
        ..ModelRequest::default()
    };
    assert_eq!(
        String::from_utf8(write::request("m", &request)).unwrap(),
        r#"{"model":"m","messages":[{"role":"user","content":"hello"}],"stream":false}"#
    );
}

#[test]
fn a_conversation_with_tools() {
    let request = ModelRequest {
        system: "Be kind.".into(),
        messages: vec![
            Message::User("What is 1 + 2, and the weather in Köln?".into()),
            Message::Assistant(vec![
                Block::Text("Let me see.".into()),
                call("call_1", "calc_add", json!({"a": 1, "b": 2})),
                call("call_2", "weather", json!({"city": "Köln"})),
            ]),
            Message::Results(vec![
                result("call_1", "3", false),
                result("call_2", "ERROR: no such city", true),
            ]),
            Message::Assistant(vec![call("call_3", "weather", json!({}))]),
            Message::Results(vec![result("call_3", "rain", false)]),
            Message::Assistant(vec![Block::Text("3, and rain.".into())]),
            Message::User("Thanks".into()),
        ],
        tools: vec![
            ToolSpec {
                name: "calc_add".into(),
                description: "Adds.\nTwo numbers.".into(),
                input_schema: object(
                    json!({"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]}),
                ),
            },
            ToolSpec {
                name: "weather".into(),
                description: String::new(),
                input_schema: Map::new(),
            },
        ],
        ..ModelRequest::default()
    };
    insta::assert_snapshot!(pretty(&request));
}

#[test]
fn arguments_that_were_no_json_go_back_as_an_empty_object() {
    let bad = Arguments::Invalid("{\"a\": ".into());
    let wish = ToolCall {
        id: "c".into(),
        name: "t".into(),
        arguments: bad,
    };
    let request = ModelRequest {
        messages: vec![
            Message::User("go".into()),
            Message::Assistant(vec![Block::ToolCall(wish)]),
            Message::Results(vec![result(
                "c",
                "ERROR: the arguments are not a JSON object: {\"a\": ",
                true,
            )]),
        ],
        ..ModelRequest::default()
    };
    insta::assert_snapshot!(pretty(&request));
}

fn read(body: &Value) -> ModelReply {
    read::reply(body.to_string().as_bytes(), "ä".repeat(400).as_bytes()).unwrap()
}

fn choice(message: &Value, finish: &str) -> Value {
    json!({"id": "x", "object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}})
}

const USAGE: Usage = Usage {
    input: 10,
    output: 2,
    cached: 0,
};

#[test]
fn text() {
    let reply = read(&choice(
        &json!({"role": "assistant", "content": "hi", "annotations": []}),
        "stop",
    ));
    assert_eq!(
        reply,
        ModelReply {
            blocks: vec![Block::Text("hi".into())],
            stop: Stop::End,
            usage: USAGE
        }
    );
}

#[test]
fn l06_empty_text_with_stop_is_a_valid_answer() {
    for content in [json!(""), Value::Null, json!([])] {
        let reply = read(&choice(&json!({"role": "assistant", "content": content}), "stop"));
        assert_eq!(
            reply,
            ModelReply {
                blocks: vec![],
                stop: Stop::End,
                usage: USAGE
            }
        );
    }
    assert_eq!(
        read(&choice(&json!({"role": "assistant"}), "stop")).blocks,
        vec![]
    );
}

#[test]
fn two_calls_at_once_in_their_order() {
    let message = json!({"role": "assistant", "content": null, "tool_calls": [
        {"index": 0, "id": "a", "type": "function", "function": {"name": "one", "arguments": "{\"x\":1}"}},
        {"index": 1, "id": "b", "type": "function", "function": {"name": "two", "arguments": "{}"}}]});
    let expected = vec![call("a", "one", json!({"x": 1})), call("b", "two", json!({}))];
    assert_eq!(read(&choice(&message, "tool_calls")).blocks, expected);
    // Some servers say "stop" all the same.
    assert_eq!(read(&choice(&message, "stop")).blocks, expected);
}

#[test]
fn arguments_in_every_form_that_servers_send() {
    for (wire, expected) in [
        (json!(null), Arguments::Object(Map::new())),
        (json!(""), Arguments::Object(Map::new())),
        (json!("null"), Arguments::Object(Map::new())),
        (json!({"a": 1}), Arguments::Object(object(json!({"a": 1})))),
        (json!("{\"a\": 1"), Arguments::Invalid("{\"a\": 1".into())),
        (json!("[1]"), Arguments::Invalid("[1]".into())),
        (json!([1]), Arguments::Invalid("[1]".into())),
        (json!(7), Arguments::Invalid("7".into())),
    ] {
        let message = json!({"tool_calls": [{"id": "a", "function": {"name": "t", "arguments": wire}}]});
        let wish = ToolCall {
            id: "a".into(),
            name: "t".into(),
            arguments: expected,
        };
        assert_eq!(
            read(&choice(&message, "tool_calls")).blocks,
            vec![Block::ToolCall(wish)],
            "{message}"
        );
    }
    let message = json!({"tool_calls": [{"function": {"name": "t"}}]});
    assert_eq!(
        read(&choice(&message, "tool_calls")).blocks,
        vec![call("", "t", json!({}))]
    );
}

#[test]
fn arguments_of_any_depth_cost_no_answer() {
    for levels in [60, 70, 120, 125, 128, 1000, 100_000] {
        let deep = format!(r#"{{"a":{}{}}}"#, "[".repeat(levels), "]".repeat(levels));
        for wire in [deep.clone(), Value::from(deep.clone()).to_string()] {
            let body = format!(
                r#"{{"choices":[{{"message":{{"tool_calls":[{{"id":"a","function":{{"name":"t","arguments":{wire}}}}}]}}}}]}}"#
            );
            let reply = read::reply(body.as_bytes(), b"").unwrap();
            let [Block::ToolCall(wish)] = reply.blocks.as_slice() else {
                panic!("{reply:?}")
            };
            match &wish.arguments {
                Arguments::Object(_) => assert!(levels < 64, "{levels}"),
                Arguments::Invalid(text) => assert!(levels > 64 && *text == deep, "{levels}"),
            }
        }
    }
}

#[test]
fn a_count_that_is_missing_or_none_is_estimated() {
    for usage in [
        json!(null),
        json!({}),
        json!({"prompt_tokens": -1, "completion_tokens": 2.5}),
        json!({"prompt_tokens": "10", "completion_tokens": null}),
        json!({"prompt_tokens": [1], "completion_tokens": {"n": 1}}),
        json!([1, 2]),
        json!("none"),
        json!(7),
    ] {
        let mut body = choice(&json!({"content": "hällo"}), "stop");
        body["usage"] = usage;
        let length = body.to_string().chars().count();
        let expected = Usage {
            input: 100,
            output: u64::try_from(length.div_ceil(4)).unwrap(),
            cached: 0,
        };
        assert_eq!(read(&body).usage, expected, "{body}");
    }
    let mut body = choice(&json!({"content": "x"}), "stop");
    body["usage"] = json!({"prompt_tokens": 7, "completion_tokens": -1, "details": {"cached": "no"}});
    assert_eq!(read(&body).usage.input, 7);
}

#[test]
fn what_an_answer_can_be_without_costs_no_answer() {
    let message = json!({"content": "hi", "refusal": false, "tool_calls": [
        {"id": 7, "type": 1, "function": {"name": "t", "arguments": {}}},
        {"id": {"x": 1}, "function": {"name": "u", "arguments": "{}"}}]});
    let mut body = choice(&message, "stop");
    body["choices"][0]["finish_reason"] = json!({"type": "stop"});
    let expected = ModelReply {
        blocks: vec![
            Block::Text("hi".into()),
            call("7", "t", json!({})),
            call("", "u", json!({})),
        ],
        stop: Stop::Other,
        usage: USAGE,
    };
    assert_eq!(read(&body), expected);
}

#[test]
fn parts_refusals_and_reasons() {
    let parts = json!([{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]);
    assert_eq!(read(&choice(&json!({"content": parts}), "stop")).text(), "a\nb");
    let refusal = read(&choice(&json!({"content": null, "refusal": "No."}), "stop"));
    assert_eq!((refusal.text().as_str(), refusal.stop), ("No.", Stop::Refused));
    for (finish, stop) in [
        ("length", Stop::Length),
        ("content_filter", Stop::Refused),
        ("eos", Stop::Other),
    ] {
        assert_eq!(read(&choice(&json!({"content": "x"}), finish)).stop, stop);
    }
}

#[test]
fn what_is_no_answer_says_why() {
    for (body, part) in [
        ("<html>", "expected value"),
        ("", "EOF"),
        ("{}", "holds no choice"),
        (r#"{"choices": []}"#, "holds no choice"),
        (
            r#"{"choices": null, "error": {"message": "overloaded"}}"#,
            "overloaded",
        ),
        (r#"{"error": "overloaded"}"#, "overloaded"),
        (r#"{"choices": [{"message": null}]}"#, "null"),
        (
            r#"{"choices": [{"message": {"tool_calls": [{"function": {}}]}}]}"#,
            "name",
        ),
    ] {
        let error = read::reply(body.as_bytes(), b"").unwrap_err();
        assert!(error.contains(part), "{body}: {error}");
    }
}
