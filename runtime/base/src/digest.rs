//! SHA-256 digests in the one spelling used everywhere: `sha256:<64 hex>`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

/// Hex of a SHA-256.
pub fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .fold(String::with_capacity(64), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}

/// `sha256:<hex>` of some bytes.
pub fn of(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(bytes))
}

/// The digest of a folder of files, as the operator wrote it into a ConfigMap and the pod reads it from the mount:
/// names and contents in the order of names, each with its length, so that no two folders collide.
pub fn of_files<K: AsRef<str> + Ord, V: AsRef<[u8]>>(files: &BTreeMap<K, V>) -> String {
    let mut bytes = Vec::new();
    for (name, content) in files {
        for part in [name.as_ref().as_bytes(), content.as_ref()] {
            bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
            bytes.extend_from_slice(part);
        }
    }
    of(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moving_a_byte_between_name_and_content_changes_the_digest() {
        let one = BTreeMap::from([("ab", "c")]);
        let two = BTreeMap::from([("a", "bc")]);
        assert_ne!(of_files(&one), of_files(&two));
        assert!(of_files(&one).starts_with("sha256:"));
    }
}
