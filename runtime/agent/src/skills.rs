//! Skills: texts of declared servers that a conversation takes up when it needs them and puts away again. They are the
//! servers' words: bounded, marked as theirs in the prompt, and only of servers that the turn holds. What is loaded goes
//! from turn to turn with the transcript.

mod discovery;
mod loading;
mod prompt;

use std::sync::{Mutex, MutexGuard, PoisonError};

use agentd_base::text::clip;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::desk::Shown;

#[cfg(test)]
pub(crate) use discovery::of;
pub(crate) use discovery::{available, missing};
#[cfg(test)]
pub(crate) use loading::references;
pub(crate) use loading::{fetch, follow, load, servers_of};
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
    /// Bytes of all that are loaded: a part of what the model reads.
    pub max_total: usize,
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
    /// What a text of this turn refers to and is not loaded, and why.
    left_out: Vec<(String, String)>,
    revision: u64,
}

impl Settings {
    /// Whether one more of this name may be loaded beside these.
    fn place(&self, loaded: &[Loaded], name: &str) -> Result<(), String> {
        if loaded.iter().filter(|one| one.name != name).count() < self.max_loaded {
            return Ok(());
        }
        Err(format!(
            "{} skills are loaded, which is all that may be; put one away with skills_unload",
            self.max_loaded
        ))
    }

    /// Whether this is a skill as the sources have it now: what was taken out of them may be in a transcript still.
    fn has(&self, server: &str, name: &str) -> bool {
        let mut sources = self.sources.iter();
        sources.any(|source| source.server == server && source.filter.takes(name))
    }
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
        loaded.retain(|one| one.text.len() <= settings.max_bytes && settings.has(&one.server, &one.name));
        loaded.truncate(settings.max_loaded);
        let mut left = settings.max_total;
        loaded.retain(|one| {
            let rest = left.checked_sub(one.text.len());
            left = rest.unwrap_or(left);
            rest.is_some()
        });
        let state = State {
            loaded,
            ..State::default()
        };
        Self {
            settings,
            state: Mutex::new(state),
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

    /// Bytes of all together.
    pub(crate) fn max_total(&self) -> usize {
        self.settings.max_total
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

    /// Whether one of this name has a place, whatever its length.
    fn has_place(&self, name: &str) -> Result<(), String> {
        self.settings.place(&self.state().loaded, name)
    }

    /// Calls of one round are made side by side, so that the bounds are looked at when it counts.
    fn admit(&self, skill: Loaded) -> Result<(), String> {
        let mut state = self.state();
        self.settings.place(&state.loaded, &skill.name)?;
        let others = state.loaded.iter().filter(|one| one.name != skill.name);
        let taken: usize = others.map(|one| one.text.len()).sum();
        let left = self.settings.max_total.saturating_sub(taken);
        if skill.text.len() > left {
            return Err(format!(
                "the skill {} has {} bytes, and {left} are left of the {} of all that are loaded; put one away with \
                 skills_unload",
                clip(&skill.name, NAME_CHARS),
                skill.text.len(),
                self.settings.max_total
            ));
        }
        state.loaded.retain(|one| one.name != skill.name);
        state.loaded.push(skill);
        state.revision += 1;
        Ok(())
    }

    /// What a text refers to and is not there, for the model to know.
    fn leave_out(&self, left_out: Vec<(String, String)>) {
        let mut state = self.state();
        if state.left_out != left_out {
            state.left_out = left_out;
            state.revision += 1;
        }
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
        let source = |filter: Shown| Source {
            server: "s".into(),
            prompts: true,
            resources: true,
            filter,
        };
        let settings = |max_loaded, max_bytes, max_total| Settings {
            sources: vec![source(Shown::default())],
            max_loaded,
            max_bytes,
            max_total,
            ..Settings::default()
        };
        let skills = Skills::restored(settings(2, 4, 6), &Value::Null);
        let one = |name: &str, text: &str| Loaded {
            name: name.into(),
            server: "s".into(),
            text: text.into(),
        };
        skills.admit(one("a", "1234")).unwrap();
        assert!(
            skills
                .admit(one("b", "123"))
                .unwrap_err()
                .contains("has 3 bytes, and 2 are left of the 6")
        );
        skills.admit(one("b", "12")).unwrap();
        skills.admit(one("a", "123")).unwrap();
        assert!(skills.admit(one("c", "1")).unwrap_err().starts_with("2 skills"));
        assert!(skills.has_place("a").is_ok() && skills.has_place("c").is_err());
        let mut stored = serde_json::json!({"version": 1, "items": []});
        skills.keep(&mut stored);
        let again = |settings| Skills::restored(settings, &stored).state().loaded.clone();
        let of = |max_loaded, max_bytes, max_total| again(settings(max_loaded, max_bytes, max_total));
        assert_eq!(of(2, 4, 6), [one("b", "12"), one("a", "123")]);
        assert_eq!(of(1, 4, 6), [one("b", "12")]);
        assert_eq!(of(2, 2, 6), [one("b", "12")]);
        assert_eq!(of(2, 4, 4), [one("b", "12")]);
        // What the operator takes away is gone from where it was loaded.
        let filtered = Settings {
            sources: vec![source(Shown::by(|name| name != "b"))],
            ..settings(2, 4, 6)
        };
        assert_eq!(again(filtered), [one("a", "123")]);
        let unsourced = Settings {
            sources: Vec::new(),
            ..settings(2, 4, 6)
        };
        assert_eq!(again(unsourced), []);
        assert!(skills.unload("a") && !skills.unload("a"));
        assert!(!skills.is_loaded("a") && skills.is_loaded("b"));
    }
}
