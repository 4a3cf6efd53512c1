//! Tells the supervisor the text of an answer while it is written. Guarantees: what is told, put together, is what was
//! said, in its order; a few frames a second at most, however small the pieces are that it comes in; nothing of the turn
//! waits for it, and no more waits in it than one answer.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agentd_llm::Sink;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use super::frame::FromWorker;

/// Between two frames: what comes faster looks the same to people.
const PAUSE: Duration = Duration::from_millis(50);
/// So much is told at once.
const ENOUGH: usize = 4 * 1024;
/// More is told in pieces: an answer that came as a whole may be megabytes.
const FRAME_TEXT: usize = 64 * 1024;

/// See the module.
#[derive(Debug, Default)]
pub struct Speaker {
    unsaid: Mutex<Unsaid>,
    changed: Notify,
}

/// What was not told yet.
#[derive(Debug, Default, PartialEq)]
struct Unsaid {
    /// What was told is void.
    restart: bool,
    text: String,
}

impl Unsaid {
    fn restart(&mut self) {
        self.restart = true;
        self.text.clear();
    }

    fn is_empty(&self) -> bool {
        !self.restart && self.text.is_empty()
    }

    /// When some of it is to be told, if anything is.
    fn due(&self, last: Instant) -> Option<Instant> {
        match self.text.len() {
            ENOUGH.. => Some(last),
            _ if self.is_empty() => None,
            _ => Some(last + PAUSE),
        }
    }

    /// What goes into one frame.
    fn take(&mut self) -> Self {
        let rest = self.text.split_off(self.text.floor_char_boundary(FRAME_TEXT));
        let rest = Self {
            restart: false,
            text: rest,
        };
        std::mem::replace(self, rest)
    }
}

impl Speaker {
    /// Tells until it is dropped; what was not told by then is left for [`Speaker::rest`].
    pub async fn tell(&self, run_id: &str, frames: &mpsc::Sender<FromWorker>) {
        let mut last = Instant::now();
        loop {
            let changed = self.changed.notified();
            let due = self.unsaid().due(last);
            match due {
                None => changed.await,
                Some(due) if due > Instant::now() => tokio::select! {
                    () = tokio::time::sleep_until(due) => {}
                    () = changed => {}
                },
                Some(_) => {
                    if !self.frame(run_id, frames).await {
                        return std::future::pending().await;
                    }
                    last = Instant::now();
                }
            }
        }
    }

    /// Tells all that is left.
    pub async fn rest(&self, run_id: &str, frames: &mpsc::Sender<FromWorker>) {
        while !self.unsaid().is_empty() && self.frame(run_id, frames).await {}
    }

    /// Sends a frame; false when nobody is there to read it. Dropped, it has sent all that it took.
    async fn frame(&self, run_id: &str, frames: &mpsc::Sender<FromWorker>) -> bool {
        let Ok(place) = frames.reserve().await else {
            return false;
        };
        let Unsaid { restart, text } = self.unsaid().take();
        place.send(FromWorker::Text {
            run_id: run_id.to_owned(),
            text,
            restart,
        });
        true
    }

    fn unsaid(&self) -> MutexGuard<'_, Unsaid> {
        self.unsaid.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink for Speaker {
    fn text(&self, delta: &str) {
        self.unsaid().text.push_str(delta);
        self.changed.notify_one();
    }

    fn restart(&self) {
        self.unsaid().restart();
        self.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::worker::framing::{FrameReader, FrameWriter};

    /// What whoever hears the frames has in the end.
    fn heard(frames: &[FromWorker]) -> String {
        frames.iter().fold(String::new(), |before, frame| match frame {
            FromWorker::Text {
                run_id,
                text,
                restart,
            } => {
                assert_eq!(run_id, "r");
                assert!(text.len() <= FRAME_TEXT && (*restart || !text.is_empty()));
                match restart {
                    true => text.clone(),
                    false => before + text,
                }
            }
            other => panic!("{other:?}"),
        })
    }

    fn drained(queue: &mut mpsc::Receiver<FromWorker>) -> Vec<FromWorker> {
        std::iter::from_fn(|| queue.try_recv().ok()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn many_small_pieces_are_a_few_frames() {
        let speaker = Arc::new(Speaker::default());
        let (frames, mut queue) = mpsc::channel(1024);
        let telling = tokio::spawn({
            let (speaker, frames) = (speaker.clone(), frames.clone());
            async move { speaker.tell("r", &frames).await }
        });
        // A second of a model that is quick.
        for nth in 0..1000 {
            speaker.text(&format!("{nth} "));
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tokio::time::sleep(PAUSE).await;
        let first = drained(&mut queue);
        assert!((18..=22).contains(&first.len()), "{}", first.len());
        let expected: String = (0..1000).map(|nth| format!("{nth} ")).collect();
        assert_eq!(heard(&first), expected);
        // Nothing more to tell: nothing is told, and nothing wakes.
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(queue.try_recv().is_err());
        // Much at once does not wait, and goes in pieces.
        speaker.text(&"ä".repeat(FRAME_TEXT));
        tokio::time::sleep(Duration::from_millis(1)).await;
        let pieces = drained(&mut queue);
        assert_eq!(pieces.len(), 2);
        assert_eq!(heard(&pieces), "ä".repeat(FRAME_TEXT));
        telling.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_supervisor_that_does_not_read_is_told_what_counts_in_the_end() {
        let speaker = Arc::new(Speaker::default());
        let (frames, mut queue) = mpsc::channel(1);
        let telling = tokio::spawn({
            let (speaker, frames) = (speaker.clone(), frames.clone());
            async move { speaker.tell("r", &frames).await }
        });
        for _ in 0..100 {
            speaker.restart();
            speaker.text(&"x".repeat(ENOUGH));
            tokio::time::sleep(PAUSE).await;
        }
        assert_eq!(speaker.unsaid().text.len(), ENOUGH, "what is void does not wait");
        telling.abort();
        let _ = telling.await;
        let first = drained(&mut queue);
        speaker.rest("r", &frames).await;
        let all: Vec<_> = first.into_iter().chain(drained(&mut queue)).collect();
        assert_eq!((all.len(), heard(&all)), (2, "x".repeat(ENOUGH)));
        // Nobody is there any more.
        drop(queue);
        speaker.text("lost");
        speaker.rest("r", &frames).await;
    }

    proptest! {
        /// Whatever is said, and whenever it is told: what is heard in the end is what was said since the last restart.
        #[test]
        fn what_is_told_is_what_was_said(
            said in proptest::collection::vec(
                prop_oneof![
                    6 => "[a-zäöü𝄞\\\\\"\\x00-\\x1f]{0,6}".prop_map(Some),
                    1 => Just(None),
                ],
                0..60,
            ),
            taken in proptest::collection::vec(any::<bool>(), 60),
            long in 0..3_usize,
        ) {
            let mut unsaid = Unsaid::default();
            let mut frames = Vec::new();
            let mut now = String::new();
            let mut tell = |unsaid: &mut Unsaid| {
                let Unsaid { restart, text } = unsaid.take();
                frames.push(FromWorker::Text { run_id: "r".into(), text, restart });
            };
            let last = Instant::now();
            for (said, take) in said.iter().zip(taken) {
                match said {
                    Some(text) => {
                        let text = text.repeat(1 + long * FRAME_TEXT / 4);
                        unsaid.text.push_str(&text);
                        now.push_str(&text);
                    }
                    None => {
                        unsaid.restart();
                        now.clear();
                    }
                }
                prop_assert_eq!(unsaid.due(last).is_none(), unsaid.is_empty());
                if take && !unsaid.is_empty() {
                    tell(&mut unsaid);
                }
            }
            while !unsaid.is_empty() {
                tell(&mut unsaid);
            }
            prop_assert_eq!(heard(&frames), now);
        }

        /// The frame crosses as it is.
        #[test]
        fn a_text_crosses_to_the_supervisor(text in any::<String>(), restart in any::<bool>()) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(async {
                let (here, there) = tokio::io::duplex(64 * 1024);
                let frame = FromWorker::Text { run_id: "r".into(), text: text.clone(), restart };
                FrameWriter::new(here).send(&frame).await.unwrap();
                match FrameReader::new(there).next().await.unwrap() {
                    Some(FromWorker::Text { run_id, text: read, restart: again }) => {
                        assert_eq!((run_id.as_str(), read, again), ("r", text, restart));
                    }
                    other => panic!("{other:?}"),
                }
            });
        }
    }
}
