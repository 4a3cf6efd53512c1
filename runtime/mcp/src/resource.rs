//! Resources as their users see them: what a server lists, what a read gives, and why a read gives nothing. The texts
//! are a server's: cut and cleaned, never trusted.

use agentd_base::class::{Class, Classified};
use agentd_base::digest;
use serde::{Deserialize, Serialize};

use crate::call::CallError;

/// A line of `resources/list`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resource {
    /// As the server wrote it; one that is too long or holds control characters is not listed.
    pub uri: String,
    /// The server's name for it.
    pub name: String,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The media type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

/// A line of `resources/templates/list`. For information: a template is never read or subscribed to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceTemplate {
    /// RFC 6570.
    pub uri_template: String,
    /// The server's name for it.
    pub name: String,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The media type of what it makes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
}

/// One part of what a URI holds. A read gives any number of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    /// Text as it is.
    Text {
        /// Of this part.
        uri: String,
        /// The media type.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mime_type: Option<String>,
        /// The text.
        text: String,
    },
    /// Anything else.
    Blob {
        /// Of this part.
        uri: String,
        /// The media type.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mime_type: Option<String>,
        /// As it came.
        base64: String,
    },
}

/// Over all parts of a read, in their order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Digest(String);

impl Digest {
    /// Of what was read.
    pub fn of(contents: &[Content]) -> Self {
        // Two texts in a row are not their concatenation, so the parts are told apart by their JSON.
        Self(digest::of(&serde_json::to_vec(contents).unwrap_or_default()))
    }

    /// `sha256:…`
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for Digest {
    fn from(kept: String) -> Self {
        Self(kept)
    }
}

impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a read gives nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// There is no such resource (-32002, or -32602 from the stateless revision on): an observation.
    #[error("there is no resource {uri}")]
    NotFound {
        /// What was asked for.
        uri: String,
    },
    /// As of a call.
    #[error(transparent)]
    Call(#[from] CallError),
}

impl Classified for ReadError {
    fn class(&self) -> Class {
        match self {
            Self::NotFound { .. } => Class::Invalid,
            Self::Call(error) => error.class(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_tells_parts_kinds_and_places_apart() {
        let text = |uri: &str, text: &str| Content::Text {
            uri: uri.into(),
            mime_type: None,
            text: text.into(),
        };
        let blob = Content::Blob {
            uri: "a:1".into(),
            mime_type: None,
            base64: "ab".into(),
        };
        let all = [
            Digest::of(&[]),
            Digest::of(&[text("a:1", "ab")]),
            Digest::of(&[text("a:1", "a"), text("a:1", "b")]),
            Digest::of(&[text("a:2", "ab")]),
            Digest::of(&[blob]),
        ];
        for (index, one) in all.iter().enumerate() {
            assert!(all.iter().skip(index + 1).all(|other| one != other), "{one}");
        }
        assert_eq!(all[1], Digest::of(&[text("a:1", "ab")]));
        assert_eq!(Digest::from(all[1].as_str().to_owned()), all[1]);
    }
}
