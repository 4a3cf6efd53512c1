//! The HTTP+JSON binding: a method, a path and a query to a call. Pure.

use http::Method as Verb;
use serde_json::{Map, Value};

use crate::proto;

/// The media type of its bodies (1.0.1).
pub(crate) const MEDIA_TYPE: &str = "application/a2a+json";
/// Parameters of a query that are numbers.
const NUMBERS: [&str; 2] = ["historyLength", "pageSize"];
/// Parameters of a query that are true or false.
const FLAGS: [&str; 1] = ["includeArtifacts"];

/// What a path leads to.
#[derive(Debug, PartialEq)]
pub(crate) enum Found {
    /// A method of the protocol, its parameters so far, and whether the body has more of them.
    Call {
        method: &'static str,
        params: Map<String, Value>,
        has_body: bool,
    },
    /// It is reached in another way.
    WrongVerb(&'static str),
    /// There is nothing.
    Nothing,
}

/// Looks a path up, as it is below the agent's URL.
pub(crate) fn find(verb: &Verb, path: &str, query: Option<&str>) -> Found {
    use a2a::methods as m;
    let Some(path) = path.strip_prefix('/') else {
        return Found::Nothing;
    };
    let parts: Vec<&str> = path.split('/').collect();
    let (get, post) = (&[Verb::GET][..], &[Verb::POST][..]);
    let one = |verbs, method| (verbs, method, Vec::new());
    let (verbs, method, named): (&[Verb], &'static str, Vec<(&str, &str)>) = match parts.as_slice() {
        ["message:send"] => one(post, m::SEND_MESSAGE),
        ["message:stream"] => one(post, m::SEND_STREAMING_MESSAGE),
        ["extendedAgentCard"] => one(get, m::GET_EXTENDED_AGENT_CARD),
        ["tasks"] => one(get, m::LIST_TASKS),
        ["tasks", id] => match id.rsplit_once(':') {
            Some((id, "cancel")) => (post, m::CANCEL_TASK, vec![("id", id)]),
            // The text of the specification has POST, its proto GET.
            Some((id, "subscribe")) => (&[Verb::GET, Verb::POST], m::SUBSCRIBE_TO_TASK, vec![("id", id)]),
            Some(_) | None => (get, m::GET_TASK, vec![("id", *id)]),
        },
        ["tasks", id, "pushNotificationConfigs"] => {
            let method = if verb == Verb::POST {
                m::CREATE_PUSH_CONFIG
            } else {
                m::LIST_PUSH_CONFIGS
            };
            (&[Verb::GET, Verb::POST], method, vec![("taskId", *id)])
        }
        ["tasks", id, "pushNotificationConfigs", config] => {
            let method = if verb == Verb::DELETE {
                m::DELETE_PUSH_CONFIG
            } else {
                m::GET_PUSH_CONFIG
            };
            let named = vec![("taskId", *id), ("id", *config)];
            (&[Verb::GET, Verb::DELETE], method, named)
        }
        _ => return Found::Nothing,
    };
    if !verbs.contains(verb) {
        return Found::WrongVerb(match verbs {
            [Verb::GET] => "GET",
            [Verb::POST] => "POST",
            [Verb::GET, Verb::DELETE] => "GET, DELETE",
            _ => "GET, POST",
        });
    }
    let mut params = parameters(query.unwrap_or_default());
    params.extend(
        named
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.into())),
    );
    Found::Call {
        method,
        params,
        has_body: verb == Verb::POST,
    }
}

/// A query with the types that JSON has. What is no number stays a text, which is refused by its name.
fn parameters(query: &str) -> Map<String, Value> {
    let typed = |name: &str, text: &str| {
        let number = NUMBERS
            .contains(&name)
            .then(|| text.parse::<i64>().ok())
            .flatten();
        let flag = FLAGS.contains(&name).then(|| text.parse::<bool>().ok()).flatten();
        number.map(Value::from).or(flag.map(Value::from))
    };
    url::form_urlencoded::parse(query.as_bytes())
        .map(|(name, text)| {
            let name = proto::json_name(&name);
            let value = typed(&name, &text).unwrap_or_else(|| text.into_owned().into());
            (name, value)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(method: &'static str, params: Value, has_body: bool) -> Found {
        let Value::Object(params) = params else { panic!() };
        Found::Call {
            method,
            params,
            has_body,
        }
    }

    #[test]
    fn every_method_of_the_protocol_has_its_path() {
        for (verb, path, query, found) in [
            (
                Verb::POST,
                "/message:send",
                None,
                call("SendMessage", json!({}), true),
            ),
            (
                Verb::POST,
                "/message:stream",
                None,
                call("SendStreamingMessage", json!({}), true),
            ),
            (
                Verb::GET,
                "/tasks/t1",
                Some("historyLength=3&x=1"),
                call(
                    "GetTask",
                    json!({ "id": "t1", "historyLength": 3, "x": "1" }),
                    false,
                ),
            ),
            (
                Verb::GET,
                "/tasks",
                Some("pageSize=two&includeArtifacts=true&status=TASK_STATE_WORKING&contextId=a%20b"),
                call(
                    "ListTasks",
                    json!({ "pageSize": "two", "includeArtifacts": true, "status": "TASK_STATE_WORKING",
                            "contextId": "a b" }),
                    false,
                ),
            ),
            (
                Verb::POST,
                "/tasks/t1:cancel",
                None,
                call("CancelTask", json!({ "id": "t1" }), true),
            ),
            (
                Verb::POST,
                "/tasks/t1:subscribe",
                None,
                call("SubscribeToTask", json!({ "id": "t1" }), true),
            ),
            // A path says more than a query.
            (
                Verb::GET,
                "/tasks/t1:subscribe",
                Some("id=t2"),
                call("SubscribeToTask", json!({ "id": "t1" }), false),
            ),
            (
                Verb::GET,
                "/extendedAgentCard",
                None,
                call("GetExtendedAgentCard", json!({}), false),
            ),
            (
                Verb::POST,
                "/tasks/t1/pushNotificationConfigs",
                None,
                call(
                    "CreateTaskPushNotificationConfig",
                    json!({ "taskId": "t1" }),
                    true,
                ),
            ),
            (
                Verb::GET,
                "/tasks/t1/pushNotificationConfigs",
                None,
                call(
                    "ListTaskPushNotificationConfigs",
                    json!({ "taskId": "t1" }),
                    false,
                ),
            ),
            (
                Verb::GET,
                "/tasks/t1/pushNotificationConfigs/p",
                None,
                call(
                    "GetTaskPushNotificationConfig",
                    json!({ "taskId": "t1", "id": "p" }),
                    false,
                ),
            ),
            (
                Verb::DELETE,
                "/tasks/t1/pushNotificationConfigs/p",
                None,
                call(
                    "DeleteTaskPushNotificationConfig",
                    json!({ "taskId": "t1", "id": "p" }),
                    false,
                ),
            ),
            (Verb::GET, "/message:send", None, Found::WrongVerb("POST")),
            (Verb::POST, "/tasks", None, Found::WrongVerb("GET")),
            (
                Verb::DELETE,
                "/tasks/t1:subscribe",
                None,
                Found::WrongVerb("GET, POST"),
            ),
            (
                Verb::POST,
                "/tasks/t1/pushNotificationConfigs/p",
                None,
                Found::WrongVerb("GET, DELETE"),
            ),
            (Verb::GET, "//tasks", None, Found::Nothing),
            (Verb::GET, "/tasks/t1/", None, Found::Nothing),
            (Verb::GET, "tasks", None, Found::Nothing),
            (Verb::GET, "/v1/tasks", None, Found::Nothing),
        ] {
            assert_eq!(find(&verb, path, query), found, "{verb} {path}");
        }
    }
}
