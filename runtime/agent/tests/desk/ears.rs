//! A witness that remembers what it hears.

use std::sync::{Arc, Mutex};

use agentd_agent::{Attending, Outcome, Witness};
use async_trait::async_trait;

/// What it heard of: server, tool, ordinal, and the outcome where the call was not given up.
pub type Heard = (Option<String>, String, u32, Option<Outcome>);

/// Remembers what it hears.
#[derive(Default)]
pub struct Ears(pub Arc<Mutex<Vec<Heard>>>);

struct Ear {
    ears: Arc<Mutex<Vec<Heard>>>,
    call: Heard,
}

impl Witness for Ears {
    fn begin(&self, server: Option<&str>, tool: &str, ordinal: u32) -> Box<dyn Attending> {
        let call = (server.map(str::to_owned), tool.to_owned(), ordinal, None);
        let ears = self.0.clone();
        Box::new(Ear { ears, call })
    }
}

#[async_trait]
impl Attending for Ear {
    async fn end(mut self: Box<Self>, outcome: Outcome) {
        self.call.3 = Some(outcome);
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        self.ears.lock().unwrap().push(self.call.clone());
    }
}
