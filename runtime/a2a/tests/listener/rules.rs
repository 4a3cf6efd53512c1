//! What the specification asks of every server of A2A 1.0 and the other files here do not go through: requests that are
//! not JSON-RPC, members that are not what they have to be, TLS that is too old.

use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::*;

#[tokio::test]
async fn s2_what_is_not_a_request_of_json_rpc_is_told_what_it_is() {
    let world = World::start().await;
    let mut alice = world.as_caller(ALICE).await;
    for path in ["/", "/agents/helper", "/agents/helper/"] {
        for (body, code) in [
            ("{", -32700),
            ("[]", -32600),
            ("{}", -32600),
            (
                r#"{"jsonrpc":"1.0","id":1,"method":"GetTask","params":{"id":"x"}}"#,
                -32600,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"Nothing","params":{}}"#,
                -32601,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{}}"#,
                -32602,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"x"}}"#,
                -32001,
            ),
        ] {
            let request = Request::post(path)
                .header("host", "localhost")
                .header("content-type", "application/json")
                .header("a2a-version", "1.0")
                .body(Full::from(body))
                .unwrap();
            let answer = alice.send(request).await.unwrap();
            assert_eq!((answer.status, answer.error_code()), (200, code), "{path} {body}");
        }
    }
    let mut typed = rpc("/", "GetTask", json!({ "id": "x" }));
    typed
        .headers_mut()
        .insert("content-type", "text/plain".parse().unwrap());
    assert_eq!(alice.send(typed).await.unwrap().error_code(), -32005);
}

#[tokio::test]
async fn s15_a_member_that_is_missing_or_not_of_its_kind_is_named() {
    let world = World::start().await;
    let mut alice = world.as_caller(ALICE).await;
    let with = |key: &str, value: Value| {
        let mut sent = message("echo hi");
        sent["message"][key] = value;
        ("SendMessage", sent)
    };
    let without = |key: &str| {
        let mut sent = message("echo hi");
        sent["message"].as_object_mut().unwrap().remove(key);
        ("SendMessage", sent)
    };
    for ((method, params), field) in [
        (("SendMessage", json!({})), "message"),
        (without("messageId"), "message.messageId"),
        (without("role"), "message.role"),
        (without("parts"), "message.parts"),
        (with("parts", json!([])), "message.parts"),
        (with("parts", json!([{}])), "message.parts[0]"),
        (
            with("parts", json!([{ "text": "a", "url": "https://a.example" }])),
            "message.parts[0]",
        ),
        (
            with("parts", json!([{ "raw": "no base64!" }])),
            "message.parts[0]",
        ),
        (with("role", json!("user")), "message.role"),
        (with("role", json!("ROLE_NOBODY")), "message.role"),
        (with("contextId", json!(7)), "message.contextId"),
        (("GetTask", json!({})), "id"),
        (
            ("GetTask", json!({ "id": "task-0", "historyLength": -1 })),
            "historyLength",
        ),
        (("ListTasks", json!({ "status": "working" })), "status"),
        (
            ("ListTasks", json!({ "statusTimestampAfter": "yesterday" })),
            "statusTimestampAfter",
        ),
        (("ListTasks", json!({ "pageSize": 101 })), "pageSize"),
    ] {
        let answer = alice.call(method, params.clone()).await.json();
        let error = &answer["error"];
        assert_eq!(error["code"], json!(-32602), "{params}: {answer}");
        let bad = &error["data"][0];
        assert_eq!(
            bad["@type"],
            json!("type.googleapis.com/google.rpc.BadRequest"),
            "{params}: {answer}"
        );
        let fields: Vec<&str> = bad["fieldViolations"]
            .as_array()
            .unwrap()
            .iter()
            .map(|violation| violation["field"].as_str().unwrap())
            .collect();
        assert_eq!(fields, [field], "{params}: {answer}");
    }
    assert!(world.agent.tasks.lock().unwrap().is_empty());
}

/// The first flight of a client that speaks this version of TLS at most, with a suite that the listener has in 1.2.
fn hello(version: [u8; 2]) -> Vec<u8> {
    let sized = |bytes: &[u8]| [&u16::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat();
    let extension = |kind: u8, body: &[u8]| [&[0, kind][..], &sized(body)].concat();
    let extensions = [
        extension(10, &sized(&[0, 0x17])), // supported_groups: secp256r1
        extension(11, &[1, 0]),            // ec_point_formats: uncompressed
        extension(13, &sized(&[4, 3])),    // signature_algorithms: ecdsa_secp256r1_sha256
        extension(23, &[]),                // extended_master_secret
    ]
    .concat();
    let suites = sized(&[0xc0, 0x2b, 0xc0, 0x09]); // ECDHE with ECDSA: AES-GCM, and CBC for what is older
    let body = [
        &version[..],
        &[7; 32],
        &[0],
        &suites,
        &[1, 0],
        &sized(&extensions),
    ]
    .concat();
    [&[22, 3, 1][..], &sized(&[&[1, 0][..], &sized(&body)].concat())].concat()
}

#[tokio::test]
async fn s12_tls_before_1_2_is_refused() {
    const ALERT: u8 = 21;
    const HANDSHAKE: u8 = 22;
    const PROTOCOL_VERSION: u8 = 70;
    let world = World::start().await;
    for (version, first, last) in [
        ([3, 3], HANDSHAKE, None),
        ([3, 2], ALERT, Some(PROTOCOL_VERSION)),
        ([3, 1], ALERT, Some(PROTOCOL_VERSION)),
    ] {
        let mut stream = TcpStream::connect(world.address).await.unwrap();
        stream.write_all(&hello(version)).await.unwrap();
        let mut record = [0; 7];
        stream.read_exact(&mut record).await.unwrap();
        assert_eq!(record[0], first, "{version:?}: {record:?}");
        if let Some(last) = last {
            assert_eq!(record[6], last, "{version:?}: {record:?}");
        }
    }
}
