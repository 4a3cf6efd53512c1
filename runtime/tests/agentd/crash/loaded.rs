//! The agent is killed while sixteen callers send it messages as fast as it takes them. Each sends the message again that
//! was not acknowledged, to the next process. Every message has one task in the end, and that has its answer; or, where
//! its turn was in the middle, the word that nobody knows what was done in it.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::is_soak;
use crate::a2a::{Caller, answer, said};
use crate::a2a_tasks::{agent_in, state};
use crate::model::Model;

const CALLERS: usize = 16;
/// Times that it is killed, and when there is time.
const KILLS: usize = 3;
const SOAK_KILLS: usize = 30;
/// It is killed after one to so many messages of a process.
const MOST: u64 = 200;
/// Of a caller who is told that too many messages wait.
const AGAIN: Duration = Duration::from_millis(20);
/// Messages of one conversation.
const TALK: usize = 10;

/// What a caller has in hand.
#[derive(Clone, Copy)]
struct Said {
    caller: usize,
    number: usize,
}

impl Said {
    fn id(self) -> String {
        format!("m-{}-{}", self.caller, self.number)
    }

    /// Sends it, again where too many wait; its task, none when the agent has ended.
    async fn send(self, to: &Caller) -> Option<String> {
        let context = format!("c-{}-{}", self.caller, self.number / TALK);
        let more = json!({ "contextId": context, "returnImmediately": true });
        loop {
            let answer = to.try_send(&self.id(), &self.id(), more.clone()).await.ok()?;
            if let Some(task) = answer["result"]["task"]["id"].as_str() {
                return Some(task.to_owned());
            }
            assert_eq!(
                answer["error"]["data"][1]["reason"], "TOO_MANY_MESSAGES",
                "{answer:#}"
            );
            tokio::time::sleep(AGAIN).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_is_killed_under_load_answers_or_explains_every_message_that_it_acknowledged() {
    let (model, folder) = (Model::start().await, TempDir::new().unwrap());
    let mut tasks = BTreeMap::new();
    let mut next = [0; CALLERS];
    let kills = if is_soak() { SOAK_KILLS } else { KILLS };
    for _ in 0..kills {
        killed(&model, &folder, &mut next, &mut tasks).await;
    }
    let (_agentd, address) = agent_in(&folder, &model.url(), &[]).await;
    let caller = Caller::new(&address);
    let known = tasks.len();
    let mut cut_off = 0;
    for (message, task) in &tasks {
        let ended = caller.ended(task).await;
        match state(&ended) {
            "TASK_STATE_FAILED" => {
                let word = "the agent was restarted while it worked on this message";
                assert!(said(&ended).starts_with(word), "{ended:#}");
                cut_off += 1;
            }
            _ => assert_eq!(answer(&ended), format!("you said: {message}"), "{ended:#}"),
        }
    }
    // One turn of a caller at a time.
    assert!(cut_off <= kills * CALLERS, "{cut_off} were cut off");
    // No message became two tasks.
    let listed = caller.call("ListTasks", json!({ "pageSize": 1 })).await.unwrap();
    let listed = listed["result"]["totalSize"].as_u64().unwrap();
    let unacknowledged = listed.checked_sub(known as u64);
    assert!(
        unacknowledged.is_some_and(|some| some <= CALLERS as u64),
        "{listed} for {known}"
    );
}

/// A process from its start until it is killed; what it acknowledged.
async fn killed(
    model: &Model,
    folder: &TempDir,
    next: &mut [usize; CALLERS],
    tasks: &mut BTreeMap<String, String>,
) {
    let (agentd, address) = agent_in(folder, &model.url(), &[]).await;
    let moment = 1 + RandomState::new().hash_one(0) % MOST;
    let (told, mut heard) = mpsc::unbounded_channel();
    let mut calling = JoinSet::new();
    for (caller, number) in next.iter().copied().enumerate() {
        let (to, told) = (Caller::new(&address), told.clone());
        calling.spawn(async move {
            let mut said = Said { caller, number };
            while let Some(task) = said.send(&to).await {
                told.send((said.id(), task)).unwrap();
                said.number += 1;
            }
            said
        });
    }
    drop(told);
    let mut acknowledged = 0;
    while let Some((message, task)) = heard.recv().await {
        let other = tasks.insert(message.clone(), task.clone());
        assert!(other.is_none_or(|other| other == task), "{message} has two tasks");
        acknowledged += 1;
        if acknowledged == moment {
            agentd.signal(Signal::SIGKILL);
        }
    }
    assert!(
        acknowledged >= moment,
        "only {acknowledged} of {moment}: they were refused"
    );
    for said in calling.join_all().await {
        next[said.caller] = said.number;
    }
    agentd.end().await;
}
