//! What results leave to be read. Those that were too long for a model's sight: it sees their beginning, the whole is kept
//! for a while as `agentd://results/<run>/<number of the call>` and read on in pieces. And the resources that a result
//! pointed to, which its server need not list. Bounded in sum; the oldest goes first.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::observation::Observation;
use crate::offer::is_uri;

/// What a model is told of one result: about 25,000 tokens. More would push everything else out of its sight.
const OBSERVATION_CHARS: usize = 100_000;
/// All that is kept: some ten results of the size that a server may send.
const KEPT_BYTES: usize = 4 * 1024 * 1024;
/// Links that are known: more than a conversation holds.
const LINKS: usize = 1024;
/// Before the run and the number.
const RESULTS: &str = "agentd://results/";
/// Before the character to begin with.
const FROM: &str = "?from=";

/// See the module.
#[derive(Debug, Default)]
pub struct Kept {
    results: Mutex<VecDeque<Result>>,
    links: Mutex<VecDeque<Link>>,
    /// The supervisor has said that it keeps something to read.
    own: AtomicBool,
}

/// A resource that a server's result pointed to.
#[derive(Debug)]
struct Link {
    uri: String,
    server: String,
}

#[derive(Debug)]
struct Result {
    uri: String,
    text: String,
}

impl Kept {
    /// Whether there is something to read.
    pub fn is_empty(&self) -> bool {
        lock(&self.results).is_empty() && lock(&self.links).is_empty() && !self.own.load(Ordering::Relaxed)
    }

    /// The supervisor keeps something to read.
    pub(crate) fn note_own(&self) {
        self.own.store(true, Ordering::Relaxed);
    }

    /// Takes note of the resources that a result of a server pointed to. Who pointed to one first stays its owner.
    pub(crate) fn link(&self, server: &str, uris: &[String]) {
        let mut links = lock(&self.links);
        for uri in uris {
            if !is_uri(uri) || links.iter().any(|link| link.uri == *uri) {
                continue;
            }
            links.push_back(Link {
                uri: uri.clone(),
                server: server.to_owned(),
            });
            if links.len() > LINKS {
                links.pop_front();
            }
        }
    }

    /// The server whose result pointed to this URI.
    pub(crate) fn linked(&self, uri: &str) -> Option<String> {
        let links = lock(&self.links);
        let link = links.iter().find(|link| link.uri == uri)?;
        Some(link.server.clone())
    }

    /// What the model is told of a result: all of it, or its beginning and where the rest is.
    pub(crate) fn admit(&self, run_id: &str, ordinal: u32, mut seen: Observation) -> Observation {
        let uri = place(run_id, ordinal);
        let text = match piece(&seen.text, 0) {
            Piece::Rest(_) => return seen,
            Piece::Head(head) => {
                let (head, length) = (head.to_owned(), seen.text.chars().count());
                match self.keep(uri.clone(), std::mem::take(&mut seen.text)) {
                    true => cut(head, length, OBSERVATION_CHARS, &uri),
                    false => format!("{head}\n[cut here: the result has {length} characters]"),
                }
            }
        };
        Observation { text, ..seen }
    }

    /// Keeps a result; false when it is too large for that.
    fn keep(&self, uri: String, text: String) -> bool {
        if text.len() > KEPT_BYTES {
            return false;
        }
        let mut kept = lock(&self.results);
        let mut bytes = text.len() + kept.iter().map(|one| one.text.len()).sum::<usize>();
        while bytes > KEPT_BYTES
            && let Some(oldest) = kept.pop_front()
        {
            bytes -= oldest.text.len();
        }
        kept.push_back(Result { uri, text });
        true
    }

    /// Reads one of them, from the character that `?from=` names.
    pub(crate) fn read(&self, uri: &str) -> Observation {
        let (name, from) = uri.split_once(FROM).unwrap_or((uri, "0"));
        let Ok(from) = from.parse::<usize>() else {
            return Observation::error(format!("{FROM} takes the number of a character"));
        };
        let kept = lock(&self.results);
        let Some(result) = kept.iter().find(|one| one.uri == name) else {
            return Observation::error(
                "nothing is kept under this URI; a result is kept for a while only: make the call again",
            );
        };
        Observation::result(match piece(&result.text, from) {
            Piece::Rest("") => "[the result ends before this character]".to_owned(),
            Piece::Rest(rest) => rest.to_owned(),
            Piece::Head(head) => {
                let length = result.text.chars().count();
                cut(
                    head.to_owned(),
                    length,
                    from.saturating_add(OBSERVATION_CHARS),
                    name,
                )
            }
        })
    }
}

/// Where the whole of a result is read.
pub(crate) fn place(run_id: &str, ordinal: u32) -> String {
    format!("{RESULTS}{run_id}/{ordinal}")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A text from a character on.
enum Piece<'a> {
    /// As much as a model is told, and there is more.
    Head(&'a str),
    /// All of it.
    Rest(&'a str),
}

fn piece(text: &str, from: usize) -> Piece<'_> {
    let begin = text.char_indices().nth(from).map_or(text.len(), |(at, _)| at);
    let rest = text.get(begin..).unwrap_or_default();
    match rest.char_indices().nth(OBSERVATION_CHARS) {
        Some((end, _)) => Piece::Head(rest.get(..end).unwrap_or_default()),
        None => Piece::Rest(rest),
    }
}

fn cut(head: String, length: usize, next: usize, uri: &str) -> String {
    format!(
        "{head}\n[cut here: the result has {length} characters; read on with resource_read and the URI {uri}{FROM}{next}]"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn long(letter: char, chars: usize) -> Observation {
        Observation::result(letter.to_string().repeat(chars))
    }

    #[test]
    fn a_short_result_is_told_whole_and_not_kept() {
        let kept = Kept::default();
        let seen = long('ä', OBSERVATION_CHARS);
        assert_eq!(kept.admit("r", 0, seen.clone()), seen);
        assert!(kept.is_empty());
    }

    #[test]
    fn a_long_result_is_read_to_its_end() {
        let kept = Kept::default();
        let whole = format!(
            "{}{}end",
            "ä".repeat(OBSERVATION_CHARS),
            "b".repeat(OBSERVATION_CHARS)
        );
        let failed = Observation {
            is_error: true,
            ..Observation::result(whole.clone())
        };
        let mut seen = kept.admit("r", 3, failed);
        assert!(seen.is_error, "a failure stays one");
        let mut read = String::new();
        let mut uris = Vec::new();
        while let Some((head, notice)) = seen.text.split_once("\n[cut here: ") {
            read.push_str(head);
            let uri = notice.rsplit_once("the URI ").unwrap().1.trim_end_matches(']');
            uris.push(uri.to_owned());
            seen = kept.read(uri);
        }
        read.push_str(&seen.text);
        assert_eq!(read, whole);
        assert_eq!(
            uris,
            [
                "agentd://results/r/3?from=100000",
                "agentd://results/r/3?from=200000"
            ]
        );
        assert_eq!(
            kept.read("agentd://results/r/3?from=900000").text,
            "[the result ends before this character]"
        );
    }

    #[test]
    fn what_is_not_kept_is_said() {
        let kept = Kept::default();
        let limit = KEPT_BYTES - 1;
        for (run, letter) in [("one", 'a'), ("two", 'b')] {
            kept.admit(run, 0, long(letter, limit));
        }
        assert!(
            kept.read("agentd://results/one/0")
                .text
                .contains("make the call again")
        );
        assert!(kept.read("agentd://results/two/0").text.starts_with('b'));
        assert!(kept.read("agentd://results/two/0?from=x").is_error);
        let huge = kept.admit("three", 0, long('c', KEPT_BYTES + 1)).text;
        assert!(huge.ends_with("\n[cut here: the result has 4194305 characters]"));
        assert!(
            kept.read("agentd://results/two/0").text.starts_with('b'),
            "and pushes nothing out"
        );
    }
}
