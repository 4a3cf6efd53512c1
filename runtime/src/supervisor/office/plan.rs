//! The plan of a conversation. Pure: what a change makes of it, and how it is told.

use agentd_agent::request::{Bind, ItemStatus, PlanCreate, PlanItem, PlanUpdate};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A plan, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Plan {
    goal: String,
    items: Vec<Item>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Item {
    title: String,
    status: ItemStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bind: Option<Bind>,
}

impl Item {
    fn new(item: PlanItem) -> Self {
        let (title, detail) = match item {
            PlanItem::Title(title) => (title, None),
            PlanItem::Item { title, detail } => (title, detail),
        };
        Self {
            title,
            status: ItemStatus::Pending,
            detail,
            note: None,
            bind: None,
        }
    }
}

impl Plan {
    /// A new one of at most `max` items.
    pub(super) fn new(made: PlanCreate, max: usize) -> Result<Self, String> {
        bounded(made.items.len(), max)?;
        Ok(Self {
            goal: made.goal,
            items: made.items.into_iter().map(Item::new).collect(),
        })
    }

    /// Carries a change out, whole or not at all.
    pub(super) fn change(&self, change: PlanUpdate, max: usize) -> Result<Self, String> {
        let mut next = self.clone();
        let at = match change.item {
            None => None,
            Some(number) => Some(next.index(number)?),
        };
        let says_something = change.status.is_some()
            || change.note.is_some()
            || change.title.is_some()
            || change.detail.is_some()
            || change.bind.is_some();
        if says_something {
            let item = at.and_then(|at| next.items.get_mut(at));
            let item = item.ok_or("name the item by its number")?;
            if let Some(status) = change.status {
                item.status = status;
            }
            item.title = change.title.unwrap_or_else(|| item.title.clone());
            item.detail = change.detail.or_else(|| item.detail.take());
            item.note = change.note.or_else(|| item.note.take());
            item.bind = change.bind.or_else(|| item.bind.take());
        } else if change.insert.is_none() && change.reorder.is_none() {
            return Err("say what is to change".to_owned());
        }
        if let Some(order) = change.reorder {
            let mut seen: Vec<usize> = Vec::new();
            for number in order {
                seen.push(next.index(number)?);
            }
            let mut sorted = seen.clone();
            sorted.sort_unstable();
            sorted.dedup();
            if sorted.len() != next.items.len() || seen.len() != next.items.len() {
                return Err("reorder names every item once".to_owned());
            }
            let items = seen.into_iter().filter_map(|at| next.items.get(at).cloned());
            next.items = items.collect();
        } else if let Some(insert) = change.insert {
            bounded(next.items.len() + insert.len(), max)?;
            let at = at.map_or(next.items.len(), |at| at + 1);
            next.items.splice(at..at, insert.into_iter().map(Item::new));
        }
        Ok(next)
    }

    /// The same after work that items are bound to has gone on: begun, or ended well or not. None when no item is.
    pub(super) fn follow(&self, subagent: &str, status: ItemStatus) -> Option<Self> {
        let mut next = self.clone();
        for item in &mut next.items {
            let bound = item.bind.as_ref().and_then(|bind| bind.subagent.as_deref());
            if bound == Some(subagent) {
                item.status = status;
            }
        }
        (next != *self).then_some(next)
    }

    /// For the model.
    pub(super) fn told(&self) -> Value {
        let items = self.items.iter().zip(1_u32..).map(|(item, number)| {
            let mut told = serde_json::to_value(item).unwrap_or_default();
            if let Some(told) = told.as_object_mut() {
                told.insert("number".to_owned(), number.into());
            }
            told
        });
        json!({"exists": true, "goal": self.goal, "items": items.collect::<Vec<_>>()})
    }

    fn index(&self, number: u32) -> Result<usize, String> {
        let at = usize::try_from(number)
            .ok()
            .and_then(|number| number.checked_sub(1));
        at.filter(|at| *at < self.items.len())
            .ok_or_else(|| format!("there is no item {number}"))
    }
}

fn bounded(items: usize, max: usize) -> Result<(), String> {
    match items {
        items if items > max => Err(format!("a plan has at most {max} items (context.plan.max_items)")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        let made = json!({"goal": "tea", "items": ["boil", {"title": "pour", "detail": "slowly"}]});
        Plan::new(serde_json::from_value(made).unwrap(), 4).unwrap()
    }

    fn changed(change: Value) -> Result<Vec<String>, String> {
        let next = plan().change(serde_json::from_value(change).unwrap(), 4)?;
        Ok(next
            .items
            .iter()
            .map(|item| format!("{} {:?}", item.title, item.status))
            .collect())
    }

    #[test]
    fn m2_a_plan_is_changed_whole_or_not_at_all() {
        for (change, titles) in [
            (
                json!({"item": 1, "status": "done"}),
                vec!["boil Done", "pour Pending"],
            ),
            (
                json!({"item": 1, "insert": ["wait"]}),
                vec!["boil Pending", "wait Pending", "pour Pending"],
            ),
            (
                json!({"insert": ["drink"]}),
                vec!["boil Pending", "pour Pending", "drink Pending"],
            ),
            (json!({"reorder": [2, 1]}), vec!["pour Pending", "boil Pending"]),
            (
                json!({"item": 2, "title": "pour it"}),
                vec!["boil Pending", "pour it Pending"],
            ),
        ] {
            assert_eq!(changed(change.clone()).unwrap(), titles, "{change}");
        }
        for change in [
            json!({}),
            json!({"status": "done"}),
            json!({"item": 3, "status": "done"}),
            json!({"item": 0, "status": "done"}),
            json!({"reorder": [1]}),
            json!({"reorder": [1, 1]}),
            json!({"insert": ["a", "b", "c"]}),
        ] {
            assert!(changed(change.clone()).is_err(), "{change}");
        }
    }

    #[test]
    fn m2_an_item_follows_the_subagent_that_it_is_bound_to() {
        let bound = plan().change(
            serde_json::from_value(json!({"item": 2, "bind": {"subagent": "h"}})).unwrap(),
            4,
        );
        let bound = bound.unwrap();
        assert_eq!(bound.follow("other", ItemStatus::Done), None);
        let done = bound.follow("h", ItemStatus::Done).unwrap();
        assert_eq!(done.told()["items"][1]["status"], "done");
        assert_eq!(done.follow("h", ItemStatus::Done), None);
    }
}
