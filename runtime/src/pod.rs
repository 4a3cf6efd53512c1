//! What the downward API says of the pod. Role: read the four reserved variables once; outside a cluster all are absent.

use std::net::IpAddr;

/// The pod's own facts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pod {
    /// `AGENTD_POD_NAME`.
    pub name: Option<String>,
    /// `AGENTD_POD_UID`.
    pub uid: Option<String>,
    /// `AGENTD_POD_IP`; absent too when it is no address.
    pub ip: Option<IpAddr>,
}

impl Pod {
    /// From the process's environment.
    pub fn from_env() -> Self {
        Self::from_vars(|name| std::env::var(name).ok())
    }

    /// From any source of variables.
    pub fn from_vars(var: impl Fn(&str) -> Option<String>) -> Self {
        let some = |name| var(name).filter(|value| !value.is_empty());
        Self {
            name: some("AGENTD_POD_NAME"),
            uid: some("AGENTD_POD_UID"),
            ip: some("AGENTD_POD_IP").and_then(|ip| ip.parse().ok()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_variable_is_an_absent_one() {
        let pod = Pod::from_vars(|name| match name {
            "AGENTD_POD_NAME" => Some("a-0".into()),
            "AGENTD_POD_IP" => Some("10.0.0.7".into()),
            _ => Some(String::new()),
        });
        assert_eq!(
            pod,
            Pod {
                name: Some("a-0".into()),
                uid: None,
                ip: Some("10.0.0.7".parse().unwrap())
            }
        );
    }
}
