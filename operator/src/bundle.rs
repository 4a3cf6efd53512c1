//! Bundle.
/// The name of the published ConfigMap.
pub const NAME: &str = "agentd-bundle";
