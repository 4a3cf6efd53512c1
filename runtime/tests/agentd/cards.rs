//! What the card of an agent says as its configuration has it, and that a call is held to it.

use std::process::Output;

use serde_json::{Value, json};

use crate::pod::Pod;

/// A pod whose listener has these keys too.
async fn configured(more: Value) -> (Pod, std::path::PathBuf) {
    let pod = Pod::new().await;
    let key = pod.folder.path().join("key");
    std::fs::write(&key, "key\n").unwrap();
    pod.mount("..1", &pod.reloadable(&["boss"], &key));
    let config = pod.configure();
    let mut document: Value = serde_json::from_slice(&std::fs::read(&config).unwrap()).unwrap();
    let a2a = document["a2a"].as_object_mut().unwrap();
    a2a.extend(more.as_object().unwrap().clone());
    std::fs::write(&config, document.to_string()).unwrap();
    (pod, config)
}

fn said(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_card_says_what_the_configuration_has_and_is_signed_when_asked() {
    let (pod, config) = configured(json!({
        "external": { "url": "https://agents.example/helper", "tls": { "cert": "/missing/tls.crt", "key": "/missing/tls.key" } },
        "skills": [
            { "id": "sum", "name": "Sums", "description": "Adds numbers.", "tags": ["n"] },
            { "id": "purge", "name": "Purge", "description": "Deletes.", "role": "operator" },
        ],
        "extensions": [{ "uri": "urn:example:traced", "params": { "level": 1 } }],
        "sign_card": true,
    }))
    .await;
    let (mut agentd, url, _) = pod.start_with(&config).await;
    let missing = agentd.event("a2a.tls").await;
    assert!(
        missing["err"].as_str().unwrap().contains("/missing/tls.crt"),
        "{missing}"
    );
    agentd.event("identity.svid.renewed").await;
    let boss = pod.identity("boss").await;
    let card = said(&pod.ask("card", &url, &boss).await);
    let listed = |urls: &Value| -> Vec<String> {
        let all = urls.as_array().unwrap().iter();
        all.map(|one| one["url"].as_str().unwrap().to_owned()).collect()
    };
    // Asked for by the name that it has where it runs.
    let urls = listed(&card["supportedInterfaces"]);
    assert_eq!(urls[0], url);
    assert!(
        urls.contains(&"https://agents.example/helper".to_owned()),
        "{urls:?}"
    );
    assert_eq!(card["skills"].as_array().unwrap().len(), 1, "{card:#}");
    assert_eq!(card["skills"][0]["id"], "sum");
    assert_eq!(
        card["capabilities"]["extensions"],
        json!([{ "uri": "urn:example:traced", "params": { "level": 1 } }])
    );
    assert_eq!(card["signatures"].as_array().unwrap().len(), 1, "{card:#}");
    assert_eq!(pod.send(&url, "hello", &boss, &[]).await.status.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn s11_a_caller_that_does_not_name_a_required_extension_is_refused() {
    let (pod, config) = configured(json!({
        "extensions": [{ "uri": "urn:example:needed", "required": true }],
    }))
    .await;
    let (mut agentd, url, _) = pod.start_with(&config).await;
    agentd.event("identity.svid.renewed").await;
    let boss = pod.identity("boss").await;
    let card = said(&pod.ask("card", &url, &boss).await);
    assert_eq!(card["capabilities"]["extensions"][0]["required"], true);
    assert_eq!(card.get("signatures"), None);
    let refused = pod.send(&url, "hello", &boss, &[]).await;
    let told = String::from_utf8(refused.stderr.clone()).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(told.contains("urn:example:needed"), "{told}");
}
