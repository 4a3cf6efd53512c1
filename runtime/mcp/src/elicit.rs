//! A server's question to a person, and the seam to whoever can ask one.

use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Puts a server's question to a person. The clock (300 s), the defaults and the check against the schema are not its
/// business: it gives what the person said.
#[async_trait]
pub trait Elicitor: Send + Sync {
    /// Asks. Dropped when nobody waits for the answer any more.
    async fn ask(&self, question: Question) -> Answer;

    /// Whether it can send a person to a URL. Declared on connections of the stateless revision alone.
    fn opens_urls(&self) -> bool {
        false
    }
}

/// What a server asks. Untrusted text, cut.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// The server's name in the document.
    pub server: String,
    /// Its words.
    pub message: String,
    /// How it wants to be answered.
    pub ask: Ask,
}

/// How a question is answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// By values.
    Form {
        /// A flat object of strings, numbers, booleans and choices; nothing else gets here.
        schema: Value,
    },
    /// By visiting a page.
    Url {
        /// Untrusted: it is shown, never opened by us.
        url: String,
        /// The server's name for this question; empty where it has none.
        id: String,
    },
}

impl Ask {
    /// Whether a person can be asked this.
    pub fn is_answerable(&self) -> bool {
        match self {
            Self::Form { schema } => crate::form::is_answerable(schema),
            Self::Url { .. } => true,
        }
    }

    /// What was given, with the form's defaults and only if the form admits it.
    pub fn shape(&self, given: Map<String, Value>) -> Option<Map<String, Value>> {
        match self {
            Self::Form { schema } => crate::form::shape(schema, given),
            Self::Url { .. } => Some(given),
        }
    }
}

/// What a person said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Yes, with these values; a page was visited: no values.
    Accept(Map<String, Value>),
    /// No.
    Decline,
    /// Nothing that counts.
    Cancel,
}

/// What the holder of a connection does for its server.
#[derive(Clone, Default)]
pub struct Hooks {
    /// Without one every question is cancelled at once.
    pub elicitor: Option<Arc<dyn Elicitor>>,
}
