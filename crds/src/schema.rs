//! The CRDs, from the types. What the derive macro cannot say is said here: a status that begins as
//! `{observedGeneration: -1}` (so that nothing reads as reconciled before it was), and no `nullable` (an explicit null
//! is a value to a server-side apply; absent is the only way to be absent).

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde_json::{Value, json};

use crate::{Agent, McpServer};

/// `agents.agentd.io`.
pub fn agents() -> Value {
    finish(Agent::crd())
}

/// `mcpservers.agentd.io`.
pub fn mcp_servers() -> Value {
    finish(McpServer::crd())
}

/// Both, with the names of their files.
pub fn all() -> [(&'static str, Value); 2] {
    [
        ("agents.agentd.io.yaml", agents()),
        ("mcpservers.agentd.io.yaml", mcp_servers()),
    ]
}

fn finish(crd: CustomResourceDefinition) -> Value {
    let mut crd = serde_json::to_value(crd).unwrap_or_default();
    for version in crd
        .pointer_mut("/spec/versions")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if let Some(schema) = version.pointer_mut("/schema/openAPIV3Schema") {
            no_null(schema);
            if let Some(status) = schema
                .pointer_mut("/properties/status")
                .and_then(Value::as_object_mut)
            {
                status.insert("default".into(), json!({ "observedGeneration": -1 }));
            }
        }
    }
    crd
}

/// Takes `nullable`, and null as an enum value, out of a schema.
fn no_null(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if fields.get("nullable") == Some(&Value::Bool(true)) {
                fields.remove("nullable");
            }
            if let Some(Value::Array(values)) = fields.get_mut("enum") {
                values.retain(|value| !value.is_null());
            }
            fields.values_mut().for_each(no_null);
        }
        Value::Array(items) => items.iter_mut().for_each(no_null),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
