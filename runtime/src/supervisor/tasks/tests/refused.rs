//! What a store never takes, and what it takes beside it: the task ends, the conversation goes on, the agent stays ready.

use super::*;

/// What is never taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Never {
    /// Refused: conversations.
    Conversations,
    /// Refused: tasks with an answer.
    Answers,
    /// Refused: a task that begins.
    Begins,
    /// Unreadable, and not to be written over: conversations.
    Unreadable,
    /// Refused: all of it.
    Everything,
}

impl Never {
    pub(super) fn says_of(self, batch: &[Write]) -> Option<StoreError> {
        let refused = || StoreError::Refused("HTTP 422".into());
        let talks = batch.iter().any(|write| matches!(write, Write::Conversation(_)));
        let is_task = |is: fn(&Task) -> bool| {
            batch
                .iter()
                .any(|write| matches!(write, Write::Task(task) if is(task)))
        };
        match self {
            Self::Conversations => talks.then(refused),
            Self::Answers => is_task(|task| !task.artifacts.is_empty()).then(refused),
            Self::Begins => is_task(|task| task.state == TaskState::Working).then(refused),
            Self::Unreadable => talks.then(|| StoreError::Corrupt("conversation c: no JSON".into())),
            Self::Everything => Some(refused()),
        }
    }
}

/// A turn that ended well is stored; what the task is in the store afterwards, and how long that took.
async fn settled(world: &World, never: Never) -> (Task, Duration) {
    let mut task = submitted(
        "t".into(),
        String::new,
        ALICE,
        message("m", "c", "hi"),
        world.tasks.clock.now(),
    );
    task.state = TaskState::Working;
    world.store.write(vec![Write::Task(task.clone())]).await.unwrap();
    world.store.set(Trouble::Never(never));
    task.state = TaskState::Completed;
    task.artifacts = vec![json!("the answer")];
    let conversation = Conversation {
        id: "c".into(),
        owner: ALICE.into(),
        created_at: world.tasks.clock.now(),
        transcript: json!(["hi", "the answer"]),
    };
    let began = tokio::time::Instant::now();
    world.tasks.settle(task, Some(conversation)).await;
    (world.task("t").await, began.elapsed())
}

const HALF_A_MINUTE: Duration = Duration::from_secs(1 + 2 + 4 + 8 + 16);

#[tokio::test(start_paused = true)]
async fn a_conversation_that_the_store_refuses_is_given_up_and_its_task_keeps_its_answer() {
    for (never, why, took) in [
        (
            Never::Conversations,
            "the store does not take this: HTTP 422",
            HALF_A_MINUTE,
        ),
        (
            Never::Unreadable,
            "what is stored cannot be read: conversation c: no JSON",
            Duration::ZERO,
        ),
    ] {
        let world = world(Trouble::Nothing);
        let (task, slept) = settled(&world, never).await;
        assert_eq!(task.state, TaskState::Completed);
        assert_eq!(task.artifacts, [json!("the answer")]);
        let says = format!("what was said in this turn will not be remembered: {why}");
        assert_eq!(task.status_message, Some(says));
        assert_eq!(slept.as_secs(), took.as_secs());
        assert_eq!(world.readiness.blockers(), Vec::<String>::new());
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_the_store_refuses_fails_its_task_with_the_reason() {
    let world = world(Trouble::Nothing);
    let (task, slept) = settled(&world, Never::Answers).await;
    assert_eq!(task.state, TaskState::Failed);
    assert_eq!(task.artifacts, Vec::<serde_json::Value>::new());
    assert_eq!(
        task.status_message.as_deref(),
        Some("what came of this turn could not be stored: the store does not take this: HTTP 422")
    );
    assert_eq!(slept.as_secs(), 2 * HALF_A_MINUTE.as_secs());
    assert_eq!(world.readiness.blockers(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_turn_whose_beginning_the_store_refuses_does_not_begin_and_the_next_message_is_done() {
    let world = world(Trouble::Never(Never::Begins));
    let id = world.send("m1", "hi").await.unwrap();
    world.tasks.ended(&id).await;
    let task = world.task(&id).await;
    assert_eq!(
        (task.state, task.status_message.as_deref()),
        (
            TaskState::Failed,
            Some("the turn did not begin: the store does not take this: HTTP 422")
        )
    );
    world.store.set(Trouble::Nothing);
    let id = world.send("m2", "hi").await.unwrap();
    world.tasks.ended(&id).await;
    let says = world.task(&id).await.status_message.unwrap();
    assert!(says.contains("no worker process"), "its turn began: {says}");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_refuses_everything_is_away_and_is_waited_for() {
    let world = world(Trouble::Nothing);
    let waits = tokio::time::timeout(Duration::from_secs(3600), settled(&world, Never::Everything));
    assert!(waits.await.is_err());
    assert_eq!(world.task("t").await.state, TaskState::Working);
    assert_eq!(world.readiness.blockers().len(), 1);
    let refused = world.send("m1", "hi").await.unwrap_err();
    assert_eq!(refused, away(Away::Store, "the store is unavailable: HTTP 422"));
    world.store.set(Trouble::Nothing);
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert_eq!(world.readiness.blockers(), Vec::<String>::new());
}
