//! The rounds of a turn as whoever listens hears them: as one answer. What a round says takes the place of what an earlier
//! one said, and not before it says something, so that what was heard last is what the turn would end with.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use agentd_llm::Sink;

/// See the module.
pub(crate) struct Voice {
    listener: Arc<dyn Sink>,
    /// Something was heard that is not void.
    was_heard: AtomicBool,
    /// It is of an earlier round.
    is_old: AtomicBool,
}

impl Voice {
    pub(crate) fn new(listener: Arc<dyn Sink>) -> Self {
        Self {
            listener,
            was_heard: AtomicBool::new(false),
            is_old: AtomicBool::new(false),
        }
    }

    /// The model is asked again.
    pub(crate) fn next_round(&self) {
        let was_heard = self.was_heard.load(Ordering::Relaxed);
        self.is_old.store(was_heard, Ordering::Relaxed);
    }
}

impl Sink for Voice {
    fn text(&self, delta: &str) {
        if self.is_old.swap(false, Ordering::Relaxed) {
            self.listener.restart();
        }
        self.was_heard.store(true, Ordering::Relaxed);
        self.listener.text(delta);
    }

    fn restart(&self) {
        // Of this round nothing was heard: there is nothing to take back.
        if !self.is_old.load(Ordering::Relaxed) {
            self.was_heard.store(false, Ordering::Relaxed);
            self.listener.restart();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[derive(Default)]
    struct Ear(Mutex<String>);

    impl Sink for Ear {
        fn text(&self, delta: &str) {
            self.0.lock().unwrap().push_str(delta);
        }

        fn restart(&self) {
            self.0.lock().unwrap().push('|');
        }
    }

    #[test]
    fn a_round_that_speaks_takes_the_place_of_those_before() {
        let ear = Arc::new(Ear::default());
        let voice = Voice::new(ear.clone());
        for round in [
            &["a", "b"][..],
            // Nothing is said, and tried again.
            &["|"],
            &[],
            // A try that failed, and one that did not.
            &["c", "|", "d"],
            &["|", "e"],
        ] {
            voice.next_round();
            for said in round {
                match *said {
                    "|" => voice.restart(),
                    text => voice.text(text),
                }
            }
        }
        assert_eq!(*ear.0.lock().unwrap(), "ab|c|d|e");
    }
}
