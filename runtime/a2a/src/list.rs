//! Parameters and result of `ListTasks`. Pure.

use serde_json::{Map, Value};

use crate::fault::{Fault, violation};
use crate::limit;
use crate::message::{check_history, check_id, cut_history};
use crate::service::{ListTasks, Listed};
use crate::wire::{ListTasksResponse, TaskState};

/// Tasks on a page when nobody says how many, and the most that may be asked for (3.1.4).
const PAGE: usize = 50;
const PAGE_MAX: i64 = 100;
/// What the tasks of a page may take: the answer has room for the rest of itself.
const PAGE_BYTES: usize = limit::ANSWER_BYTES - 64 * 1024;

/// A parsed call.
#[derive(Debug, PartialEq)]
pub(crate) struct Listing {
    pub(crate) request: ListTasks,
    /// Of each task: `None` all, `Some(n)` the last n.
    pub(crate) history: Option<usize>,
    /// They may be large: only when asked for.
    pub(crate) artifacts: bool,
}

/// `ListTasks`.
pub(crate) fn parse(params: &Value) -> Result<Listing, Fault> {
    let mut found = Vec::new();
    let empty = Map::new();
    let fields = params.as_object().unwrap_or(&empty);
    check_id(fields, "contextId", "contextId", false, &mut found);
    check_id(fields, "pageToken", "pageToken", false, &mut found);
    let text = |name: &str| {
        let text = fields.get(name).and_then(Value::as_str);
        text.filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let history = check_history(fields, "historyLength", &mut found);
    let state = match fields.get("status") {
        None | Some(Value::Null) => None,
        Some(status) => match serde_json::from_value::<TaskState>(status.clone()) {
            Ok(state) => Some(state).filter(|state| *state != TaskState::Unspecified),
            Err(_) => {
                found.push(violation("status", "must be a state such as TASK_STATE_WORKING"));
                None
            }
        },
    };
    let page_size = match fields.get("pageSize") {
        None | Some(Value::Null) => PAGE,
        Some(size) => match size.as_i64() {
            Some(size @ 1..=PAGE_MAX) => usize::try_from(size).unwrap_or(PAGE),
            _ => {
                found.push(violation("pageSize", "must be a whole number from 1 to 100"));
                PAGE
            }
        },
    };
    let since = match fields.get("statusTimestampAfter") {
        None | Some(Value::Null) => None,
        Some(since) => {
            let parsed = since.as_str().and_then(|since| since.parse().ok());
            if parsed.is_none() {
                let problem = "must be a time such as 2026-12-01T10:00:00Z";
                found.push(violation("statusTimestampAfter", problem));
            }
            parsed
        }
    };
    let artifacts = match fields.get("includeArtifacts") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(include)) => *include,
        Some(_) => {
            found.push(violation("includeArtifacts", "must be true or false"));
            false
        }
    };
    if !found.is_empty() {
        return Err(Fault::params(found));
    }
    Ok(Listing {
        request: ListTasks {
            context_id: text("contextId"),
            state,
            since,
            page_size,
            page_token: text("pageToken"),
        },
        history,
        artifacts,
    })
}

impl Listing {
    /// The page, cut to what was asked for, and to what an answer may take: a task that has no place is the first of
    /// the next page.
    pub(crate) fn page(&self, listed: Listed) -> ListTasksResponse {
        let (mut tasks, mut bytes, mut next) = (Vec::new(), 0, None);
        let mut more = listed.more;
        for (mut task, token) in listed.tasks {
            cut_history(&mut task, self.history);
            if !self.artifacts {
                task.artifacts = None;
            }
            bytes += serde_json::to_vec(&task).map_or(0, |text| text.len());
            if bytes > PAGE_BYTES && !tasks.is_empty() {
                more = true;
                break;
            }
            tasks.push(task);
            next = Some(token);
        }
        ListTasksResponse {
            tasks,
            next_page_token: next.filter(|_| more).unwrap_or_default(),
            page_size: i32::try_from(self.request.page_size).unwrap_or(i32::MAX),
            total_size: i32::try_from(listed.total).unwrap_or(i32::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::wire::{Artifact, Part, Task, TaskStatus};

    #[test]
    fn everything_that_can_be_asked_for() {
        assert_eq!(
            parse(&json!({
                "contextId": "c", "status": "TASK_STATE_WORKING", "pageSize": 7, "pageToken": "t", "historyLength": 0,
                "statusTimestampAfter": "2026-12-01T10:00:00Z", "includeArtifacts": true, "more": 1,
            }))
            .unwrap(),
            Listing {
                request: ListTasks {
                    context_id: Some("c".into()),
                    state: Some(TaskState::Working),
                    since: Some("2026-12-01T10:00:00Z".parse().unwrap()),
                    page_size: 7,
                    page_token: Some("t".into()),
                },
                history: Some(0),
                artifacts: true,
            }
        );
        let nothing = json!({ "contextId": "", "status": "TASK_STATE_UNSPECIFIED", "pageToken": "" });
        for params in [json!({}), nothing] {
            assert_eq!(
                parse(&params).unwrap(),
                Listing {
                    request: ListTasks {
                        context_id: None,
                        state: None,
                        since: None,
                        page_size: 50,
                        page_token: None,
                    },
                    history: None,
                    artifacts: false,
                }
            );
        }
    }

    #[test]
    fn every_fault_is_named_at_once() {
        let fault = parse(&json!({
            "contextId": 1, "pageToken": 2, "historyLength": -1, "status": "working", "pageSize": 0,
            "statusTimestampAfter": "yesterday", "includeArtifacts": "yes",
        }))
        .unwrap_err();
        let wire = fault.to_wire();
        let named: Vec<&str> = wire.data.as_ref().unwrap()[0]["fieldViolations"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["field"].as_str().unwrap())
            .collect();
        assert_eq!(wire.code, -32602);
        assert_eq!(
            named,
            [
                "contextId",
                "pageToken",
                "historyLength",
                "status",
                "pageSize",
                "statusTimestampAfter",
                "includeArtifacts"
            ]
        );
        assert!(parse(&json!({ "pageSize": 101 })).is_err());
    }

    fn listed(sizes: &[usize], more: bool) -> Listed {
        let task = |(n, size): (usize, &usize)| {
            let artifact = Artifact {
                artifact_id: "a".into(),
                name: None,
                description: None,
                parts: vec![Part::text("x".repeat(*size))],
                metadata: None,
                extensions: None,
            };
            let task = Task {
                id: n.to_string(),
                context_id: "c".into(),
                status: TaskStatus {
                    state: TaskState::Completed,
                    message: None,
                    timestamp: None,
                },
                artifacts: Some(vec![artifact]),
                history: Some(Vec::new()),
                metadata: None,
            };
            (task, format!("after {n}"))
        };
        Listed {
            tasks: sizes.iter().enumerate().map(task).collect(),
            more,
            total: 9,
        }
    }

    #[test]
    fn a_page_fits_into_an_answer_and_says_where_the_next_begins() {
        let mut listing = parse(&json!({})).unwrap();
        let large = 1_200_000;
        let page = listing.page(listed(&[large, large], false));
        assert_eq!((page.tasks.len(), page.next_page_token.as_str()), (2, ""));
        assert!(page.tasks.iter().all(|task| task.artifacts.is_none()));
        assert_eq!((page.page_size, page.total_size), (50, 9));
        listing.artifacts = true;
        for (sizes, more, expected) in [
            (vec![1, 1], false, (2, "")),
            (vec![1, 1], true, (2, "after 1")),
            (vec![large, large], false, (1, "after 0")),
            (vec![4 * large], false, (1, "")),
            (vec![], false, (0, "")),
        ] {
            let page = listing.page(listed(&sizes, more));
            assert_eq!((page.tasks.len(), page.next_page_token.as_str()), expected);
        }
    }
}
