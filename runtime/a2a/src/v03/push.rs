//! Configurations of push notifications as 0.3 has them: in a member of their own, with a list of schemes of which the
//! first is used, and named beside the task's `id`.

use a2a::{FieldViolation, TaskPushNotificationConfig};
use serde_json::{Map, Value, json};

use super::request::{carry, check_object, check_texts};
use crate::fault::violation;
use crate::message::check_id;
use crate::operation::Operation;

const CONFIG: &str = "pushNotificationConfig";

/// Parameters that give one.
pub(super) fn create(mut params: Map<String, Value>, found: &mut Vec<FieldViolation>) -> Map<String, Value> {
    check_id(&params, "taskId", "taskId", true, found);
    if !matches!(params.get(CONFIG), Some(Value::Object(_))) {
        found.push(violation(CONFIG, "is required and must be an object"));
        return Map::new();
    }
    let mut out = config(&mut params, "", found).unwrap_or_default();
    carry(&mut params, &mut out, &[("taskId", "taskId")]);
    out
}

/// Parameters that name a task, and one of its configurations; without that, the one with the id of the task.
pub(super) fn named(
    mut params: Map<String, Value>,
    operation: Operation,
    found: &mut Vec<FieldViolation>,
) -> Map<String, Value> {
    let id = "pushNotificationConfigId";
    check_id(&params, "id", "id", true, found);
    check_id(&params, id, id, operation == Operation::DeletePushConfig, found);
    check_object(&params, "metadata", "metadata", found);
    let mut out = Map::new();
    if operation != Operation::ListPushConfigs {
        let of_task = params.get("id").cloned().unwrap_or_default();
        out.insert("id".to_owned(), of_task);
        carry(&mut params, &mut out, &[(id, "id")]);
    }
    carry(&mut params, &mut out, &[("id", "taskId")]);
    out
}

/// The configuration that is a member of these fields, which stand at `prefix`.
pub(super) fn config(
    fields: &mut Map<String, Value>,
    prefix: &str,
    found: &mut Vec<FieldViolation>,
) -> Option<Map<String, Value>> {
    let path = format!("{prefix}{CONFIG}");
    check_object(fields, CONFIG, &path, found);
    let Some(Value::Object(mut given)) = fields.remove(CONFIG) else {
        return None;
    };
    let mut out = Map::new();
    check_object(&given, "authentication", &format!("{path}.authentication"), found);
    if let Some(Value::Object(mut authentication)) = given.remove("authentication") {
        let schemes = format!("{path}.authentication.schemes");
        check_texts(&authentication, "schemes", &schemes, found);
        let mut as_one = Map::new();
        match authentication.get("schemes").and_then(|all| all.get(0)).cloned() {
            Some(first) => drop(as_one.insert("scheme".to_owned(), first)),
            None => found.push(violation(
                schemes,
                "is required and must hold at least one scheme",
            )),
        }
        carry(
            &mut authentication,
            &mut as_one,
            &[("credentials", "credentials")],
        );
        out.insert("authentication".to_owned(), Value::Object(as_one));
    }
    let same = ["id", "url", "token"];
    carry(&mut given, &mut out, &same.map(|name| (name, name)));
    Some(out)
}

/// One, as an answer.
pub(crate) fn shown(config: &TaskPushNotificationConfig) -> Value {
    let mut inner = json!({ "id": config.id, "url": config.url });
    if let (Some(given), Some(inner)) = (&config.authentication, inner.as_object_mut()) {
        inner.insert("authentication".to_owned(), json!({ "schemes": [given.scheme] }));
    }
    json!({ "taskId": config.task_id, CONFIG: inner })
}

#[cfg(test)]
mod tests {
    use super::super::params;
    use super::*;
    use crate::wire;

    fn read(operation: Operation, value: Value) -> Result<Value, Option<Value>> {
        let Value::Object(fields) = value else { panic!() };
        params(operation, fields).map_err(|fault| fault.to_wire().data)
    }

    #[test]
    fn parameters_become_those_of_1_0() {
        for (operation, given, expected) in [
            (
                Operation::CreatePushConfig,
                json!({ "taskId": "t", "pushNotificationConfig": {
                    "id": "a", "url": "https://x", "token": "k",
                    "authentication": { "schemes": ["Bearer", "Basic"], "credentials": "c" },
                } }),
                json!({ "taskId": "t", "id": "a", "url": "https://x", "token": "k",
                    "authentication": { "scheme": "Bearer", "credentials": "c" } }),
            ),
            (
                Operation::GetPushConfig,
                json!({ "id": "t", "pushNotificationConfigId": "a", "metadata": {} }),
                json!({ "taskId": "t", "id": "a" }),
            ),
            (
                Operation::GetPushConfig,
                json!({ "id": "t" }),
                json!({ "taskId": "t", "id": "t" }),
            ),
            (
                Operation::ListPushConfigs,
                json!({ "id": "t" }),
                json!({ "taskId": "t" }),
            ),
            (
                Operation::DeletePushConfig,
                json!({ "id": "t", "pushNotificationConfigId": "a" }),
                json!({ "taskId": "t", "id": "a" }),
            ),
        ] {
            assert_eq!(read(operation, given).unwrap(), expected, "{operation:?}");
        }
        for (operation, wrong) in [
            (Operation::CreatePushConfig, json!({ "taskId": "t" })),
            (
                Operation::CreatePushConfig,
                json!({ "pushNotificationConfig": {} }),
            ),
            (
                Operation::CreatePushConfig,
                json!({ "taskId": "t", "pushNotificationConfig": { "authentication": { "schemes": [] } } }),
            ),
            (Operation::DeletePushConfig, json!({ "id": "t" })),
            (Operation::ListPushConfigs, json!({})),
        ] {
            assert!(read(operation, wrong.clone()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_answer_is_that_of_0_3() {
        let config = wire::TaskPushNotificationConfig {
            url: "https://x".into(),
            id: Some("a".into()),
            task_id: "t".into(),
            token: None,
            authentication: Some(a2a::AuthenticationInfo {
                scheme: "Bearer".into(),
                credentials: None,
            }),
            tenant: None,
        };
        assert_eq!(
            shown(&config),
            json!({ "taskId": "t", "pushNotificationConfig": {
                "id": "a", "url": "https://x", "authentication": { "schemes": ["Bearer"] } } })
        );
    }
}
