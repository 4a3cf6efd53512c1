//! Skills: texts of declared servers that a conversation takes up when it needs them and puts away again. They are the
//! servers' words: bounded, marked as theirs in the prompt, and only of servers that the turn holds. What is loaded goes
//! from turn to turn with the transcript.

mod discovery;
mod loading;
mod prompt;

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::desk::Shown;

pub(crate) use discovery::{available, missing};
pub(crate) use loading::{fetch, follow, load};
pub(crate) use prompt::prompt;

/// The tool that loads: who does not have it loads nothing by a reference either.
pub const LOAD: &str = "skills.load";
/// Where the loaded ones stand beside the items of a transcript.
const KEY: &str = "skills";
/// A name that is longer is none.
const NAME_CHARS: usize = 128;

/// What the configuration says.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// In their order: of two skills of one name the first counts.
    pub sources: Vec<Source>,
    /// What refers to a skill in a text.
    pub prefix: String,
    /// Loaded at a time.
    pub max_loaded: usize,
    /// Of one.
    pub max_bytes: usize,
}

/// One source.
#[derive(Debug, Clone)]
pub struct Source {
    /// The server's name in the document.
    pub server: String,
    /// Its prompts count.
    pub prompts: bool,
    /// Its resources count; with its prompts, where it has none.
    pub resources: bool,
    /// By name.
    pub filter: Shown,
}

/// The skills of a conversation.
#[derive(Debug, Default)]
pub struct Skills {
    settings: Settings,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    loaded: Vec<Loaded>,
    revision: u64,
}

/// One that is loaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loaded {
    /// Its name.
    pub name: String,
    /// Whose words it is.
    pub server: String,
    /// The words.
    pub text: String,
}

impl Skills {
    /// Those that were loaded when the transcript was stored.
    pub fn restored(settings: Settings, transcript: &Value) -> Self {
        let stored = transcript.get(KEY).cloned().unwrap_or_default();
        let mut loaded: Vec<Loaded> = serde_json::from_value(stored).unwrap_or_default();
        loaded.retain(|one| one.text.len() <= settings.max_bytes);
        loaded.truncate(settings.max_loaded);
        Self {
            settings,
            state: Mutex::new(State { loaded, revision: 0 }),
        }
    }

    /// Writes what is loaded into a transcript that is stored.
    pub fn keep(&self, transcript: &mut Value) {
        let state = self.state();
        if let (false, Some(stored), Ok(loaded)) = (
            state.loaded.is_empty(),
            transcript.as_object_mut(),
            serde_json::to_value(&state.loaded),
        ) {
            stored.insert(KEY.to_owned(), loaded);
        }
    }

    /// Whether there is anything to load.
    pub(crate) fn has_sources(&self) -> bool {
        !self.settings.sources.is_empty()
    }

    /// Another number whenever something was loaded or put away.
    pub(crate) fn revision(&self) -> u64 {
        self.state().revision
    }

    pub(crate) fn is_loaded(&self, name: &str) -> bool {
        self.state().loaded.iter().any(|one| one.name == name)
    }

    /// Puts one away; false where it was not loaded.
    pub(crate) fn unload(&self, name: &str) -> bool {
        let mut state = self.state();
        let before = state.loaded.len();
        state.loaded.retain(|one| one.name != name);
        let unloaded = state.loaded.len() != before;
        state.revision += u64::from(unloaded);
        unloaded
    }

    /// Calls of one round are made side by side, so that the bound is looked at when it counts.
    fn admit(&self, skill: Loaded) -> Result<(), String> {
        let mut state = self.state();
        state.loaded.retain(|one| one.name != skill.name);
        if state.loaded.len() >= self.settings.max_loaded {
            return Err(format!(
                "{} skills are loaded, which is all that may be; put one away with skills_unload",
                self.settings.max_loaded
            ));
        }
        state.loaded.push(skill);
        state.revision += 1;
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m2_what_is_loaded_goes_with_the_transcript_within_the_bounds() {
        let settings = |max_loaded, max_bytes| Settings {
            max_loaded,
            max_bytes,
            ..Settings::default()
        };
        let skills = Skills::restored(settings(2, 4), &Value::Null);
        let one = |name: &str, text: &str| Loaded {
            name: name.into(),
            server: "s".into(),
            text: text.into(),
        };
        skills.admit(one("a", "1234")).unwrap();
        skills.admit(one("b", "12")).unwrap();
        skills.admit(one("a", "123")).unwrap();
        assert!(skills.admit(one("c", "1")).unwrap_err().starts_with("2 skills"));
        let mut stored = serde_json::json!({"version": 1, "items": []});
        skills.keep(&mut stored);
        let again = |max_loaded, max_bytes| {
            let skills = Skills::restored(settings(max_loaded, max_bytes), &stored);
            skills.state().loaded.clone()
        };
        assert_eq!(again(2, 4), [one("b", "12"), one("a", "123")]);
        assert_eq!(again(1, 4), [one("b", "12")]);
        assert_eq!(again(2, 2), [one("b", "12")]);
        assert!(skills.unload("a") && !skills.unload("a"));
        assert!(!skills.is_loaded("a") && skills.is_loaded("b"));
    }
}
