//! What every engine must do with the list of tasks.

use agentd_state::{Store, Task, TaskMark, TaskPage, TaskQuery, TaskState, Write};

use crate::New;
use crate::support::{ALL, task};

const OWNERS: [&str; 3] = ["alice", "alice2", "bob"];
const STATES: [TaskState; 3] = [TaskState::Submitted, TaskState::Completed, TaskState::Failed];

/// In the order of their last change, the last first: 60 of three principals in two contexts, some at the same time.
fn tasks() -> Vec<Task> {
    let one = |n: usize| Task {
        owner: OWNERS[n % 3].into(),
        context_id: ["c", "d"][n / 3 % 2].into(),
        state: STATES[n / 6 % 3],
        ..task(&format!("list-{n:02}"), TaskState::Working, (n / 4) as i64)
    };
    let mut tasks: Vec<Task> = (0..60).map(one).collect();
    tasks.sort_by_key(|task| std::cmp::Reverse((task.updated_at, task.id.clone())));
    tasks
}

pub(crate) async fn conformance(new: New<'_>) {
    let store = new(ALL).await;
    assert_eq!(
        store
            .tasks(TaskQuery {
                limit: 9,
                ..TaskQuery::default()
            })
            .await
            .unwrap(),
        TaskPage::default()
    );
    // Written as they are not ordered, and some were something else before.
    let mut written = tasks();
    written.sort_by_key(|task| task.id.chars().rev().collect::<String>());
    for (n, task) in written.iter().enumerate() {
        let before = Task {
            owner: "alice".into(),
            context_id: "d".into(),
            ..crate::support::task(&task.id, TaskState::Working, 99)
        };
        let mut batch = vec![Write::Task(task.clone())];
        if n % 5 == 0 {
            batch.insert(0, Write::Task(before));
        }
        store.write(batch).await.unwrap();
    }
    for owner in [None, Some("alice"), Some("bob"), Some("ali"), Some("nobody")] {
        for context in [None, Some("c"), Some("e")] {
            for (state, since) in [
                (None, None),
                (Some(TaskState::Completed), None),
                (Some(TaskState::Working), None),
                (None, Some(tasks()[20].updated_at)),
                (Some(TaskState::Completed), Some(tasks()[20].updated_at)),
            ] {
                let query = TaskQuery {
                    owner: owner.map(str::to_owned),
                    context_id: context.map(str::to_owned),
                    state,
                    since,
                    ..TaskQuery::default()
                };
                let asked = |task: &Task| {
                    owner.is_none_or(|owner| owner == task.owner)
                        && context.is_none_or(|context| context == task.context_id)
                        && state.is_none_or(|state| state == task.state)
                        && since.is_none_or(|since| task.updated_at >= since)
                };
                let expected: Vec<Task> = tasks().into_iter().filter(asked).collect();
                let total = expected.len() as u64;
                for limit in [1, 7, 100] {
                    assert_eq!(
                        pages(&*store, &query, limit, total).await,
                        expected,
                        "{query:?} by {limit}"
                    );
                }
            }
        }
    }
    large_tasks_come_a_few_at_a_time(new).await;
}

async fn pages(store: &dyn Store, query: &TaskQuery, limit: usize, total: u64) -> Vec<Task> {
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = store
            .tasks(TaskQuery {
                after,
                limit,
                ..query.clone()
            })
            .await
            .unwrap();
        assert!(page.tasks.len() <= limit);
        assert_eq!(page.total, total);
        found.extend(page.tasks);
        if !page.more {
            return found;
        }
        after = found.last().map(TaskMark::of);
    }
}

async fn large_tasks_come_a_few_at_a_time(new: New<'_>) {
    let store = new(ALL).await;
    for n in 0..5 {
        let mut large = task(&n.to_string(), TaskState::Completed, n);
        large.artifacts = vec!["x".repeat(1_500_000).into()];
        store.write(vec![Write::Task(large)]).await.unwrap();
    }
    let page = store
        .tasks(TaskQuery {
            limit: 100,
            ..TaskQuery::default()
        })
        .await
        .unwrap();
    assert_eq!((page.tasks.len(), page.more), (3, true));
}
