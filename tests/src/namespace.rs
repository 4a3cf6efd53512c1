//! A namespace of a test's own, gone when the test is over.

use crate::cluster::cluster;

/// A namespace in which Pod Security enforces `restricted`. Deleted when dropped, also by a test that fails.
#[derive(Debug)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// Makes one, with a name that begins with `prefix` (at most 40 characters) and is no other test's.
    ///
    /// # Panics
    /// When the API server refuses it.
    #[must_use]
    pub fn new(prefix: &str) -> Self {
        let name = format!("{prefix}-{}", suffix());
        cluster()
            .apply(&format!(
                "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {name}\n  labels:\n    \
                 pod-security.kubernetes.io/enforce: restricted\n    pod-security.kubernetes.io/enforce-version: latest\n"
            ))
            .ok();
        Self { name }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs kubectl in it.
    pub fn kubectl(&self, arguments: &[&str]) -> crate::command::Finished {
        cluster().kubectl(["--namespace", &self.name].iter().chain(arguments))
    }

    /// Applies YAML in which every `NAMESPACE` is this one's name.
    ///
    /// # Panics
    /// When the API server refuses it.
    pub fn apply(&self, yaml: &str) {
        let _ = cluster().apply(&yaml.replace("NAMESPACE", &self.name)).ok();
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // Not waited for: the next test has a namespace of its own.
        let _ = cluster().kubectl(["delete", "namespace", &self.name, "--wait=false"]);
    }
}

/// Six characters that differ from test to test: the low digits of the clock.
fn suffix() -> String {
    let nanos = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos());
    format!("{:06x}", nanos & 0xff_ffff)
}
