//! The list of tasks: whose they are, which of them, a page at a time, the one that changed last first.

use jiff::Timestamp;

use crate::entry::PAGE_BYTES;
use crate::record::{Task, TaskState};

/// A part of the list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskQuery {
    /// Of this principal; `None`: of all.
    pub owner: Option<String>,
    /// Of this context.
    pub context_id: Option<String>,
    /// In this state.
    pub state: Option<TaskState>,
    /// Only those that changed last at this time or later.
    pub since: Option<Timestamp>,
    /// Only those after this one: the last one of the page before.
    pub after: Option<TaskMark>,
    /// At most so many.
    pub limit: usize,
}

/// A place in the list; times count in microseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskMark {
    /// When the task changed last.
    pub updated_at: Timestamp,
    /// Its id.
    pub id: String,
}

/// A page of the list.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TaskPage {
    /// Fewer than the limit when they are large: together they are not much more than [`PAGE_BYTES`].
    pub tasks: Vec<Task>,
    /// Whether there are more after the last one.
    pub more: bool,
    /// How many there are on all pages together.
    pub total: u64,
}

impl TaskPage {
    /// Whether a page of so many and of so many bytes takes another one; if not, it says that there are more.
    pub fn has_room(&mut self, limit: usize, bytes: u64) -> bool {
        self.more = self.tasks.len() >= limit || bytes >= PAGE_BYTES;
        !self.more
    }
}

impl TaskMark {
    /// The place of a task.
    pub fn of(task: &Task) -> Self {
        Self {
            updated_at: task.updated_at,
            id: task.id.clone(),
        }
    }
}
