//! The user's `kubectl`, asked for three things: a token of a ServiceAccount, the ConfigMap `agentd-bundle`, and a way to
//! a Service. Arguments are passed one by one, no shell; the token is kept in a file for the owner alone and removed.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::Stdio;
use std::time::Duration;

use agentd_base::class::{Class, Classified};
use agentd_base::text::clip;
use secrecy::{ExposeSecret as _, SecretString};
use tempfile::NamedTempFile;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdout, Command};

/// A slow API server over a slow link.
const ANSWER: Duration = Duration::from_secs(30);
/// Enough for one request to the issuer.
const TOKEN_LIFE: &str = "10m";
/// What `kubectl` says of a fault.
const SAID_CHARS: usize = 300;

/// Why `kubectl` did not do it.
#[derive(Debug, thiserror::Error)]
pub(super) enum KubectlError {
    #[error(
        "kubectl cannot be run: {0}; install it, or do without --namespace (use --issuer-url, --issuer-id, --bundle and \
         --token-file) and --port-forward"
    )]
    Missing(std::io::Error),
    #[error("kubectl {verb} failed: {said}")]
    Failed { verb: &'static str, said: String },
    #[error("kubectl {0} took longer than {ANSWER:?}")]
    Slow(&'static str),
    #[error("kubectl {verb} answered with something else: {problem}")]
    Answer { verb: &'static str, problem: String },
    #[error("{0}")]
    Service(String),
}

impl Classified for KubectlError {
    fn class(&self) -> Class {
        match self {
            Self::Missing(_) | Self::Slow(_) | Self::Failed { .. } => Class::Unavailable,
            Self::Answer { .. } => Class::Internal,
            Self::Service(_) => Class::Invalid,
        }
    }
}

/// What the ConfigMap `agentd-bundle` says.
pub(super) struct Installed {
    pub(super) bundle_pem: String,
    pub(super) issuer_url: String,
    pub(super) issuer_id: String,
    pub(super) audience: String,
}

/// `kubectl` for one namespace.
pub(super) struct Kubectl {
    namespace: String,
}

impl Kubectl {
    pub(super) fn new(namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
        }
    }

    /// A short-lived token of the ServiceAccount, in a file.
    pub(super) async fn token(
        &self,
        service_account: &str,
        audience: &str,
    ) -> Result<NamedTempFile, KubectlError> {
        let arguments = [
            "create",
            "token",
            // No `--` before it: kubectl takes the name of what it creates only from what stands before one.
            service_account,
            "--namespace",
            &self.namespace,
            "--audience",
            audience,
            "--duration",
            TOKEN_LIFE,
        ];
        let token = SecretString::from(run("create token", &arguments).await?);
        let kept = |error: std::io::Error| KubectlError::Answer {
            verb: "create token",
            problem: error.to_string(),
        };
        // Made with mode 0600.
        let mut file = NamedTempFile::new().map_err(kept)?;
        file.write_all(token.expose_secret().trim().as_bytes())
            .map_err(kept)?;
        Ok(file)
    }

    /// The ConfigMap `agentd-bundle` of a namespace.
    pub(super) async fn bundle(&self, namespace: &str) -> Result<Installed, KubectlError> {
        const VERB: &str = "get configmap agentd-bundle";
        let arguments = [
            "get",
            "configmap",
            "agentd-bundle",
            "--namespace",
            namespace,
            "--output",
            "json",
        ];
        let answer = run(VERB, &arguments).await?;
        installed(&answer).map_err(|problem| KubectlError::Answer { verb: VERB, problem })
    }
}

/// Forwards a free port of this machine to the Service that the URL names, with its namespace.
pub(super) async fn port_forward(url: &str) -> Result<Forward, KubectlError> {
    const VERB: &str = "port-forward";
    let (service, namespace, port) = service_of(url).ok_or_else(|| {
        KubectlError::Service(format!(
            "{url} names no Service to forward to, such as https://NAME.NAMESPACE.svc:8443"
        ))
    })?;
    let mut child = Command::new("kubectl")
        .args([
            "port-forward",
            "--namespace",
            &namespace,
            "--address",
            "127.0.0.1",
        ])
        .args([format!("service/{service}"), format!(":{port}")])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .spawn()
        .map_err(KubectlError::Missing)?;
    let mut output = child.stdout.take().map(BufReader::new);
    let mut line = String::new();
    let read = async {
        if let Some(output) = &mut output {
            // What it could not say is judged below.
            let _ = output.read_line(&mut line).await;
        }
    };
    tokio::time::timeout(ANSWER, read)
        .await
        .map_err(|_| KubectlError::Slow(VERB))?;
    let port = forwarded_port(&line).ok_or_else(|| KubectlError::Answer {
        verb: VERB,
        problem: clip(&line, SAID_CHARS),
    })?;
    Ok(Forward {
        port,
        _child: child,
        _output: output,
    })
}

/// A running port-forward. Dropping it ends it.
pub(super) struct Forward {
    port: u16,
    _child: Child,
    // Held open: kubectl says a word at each connection, and a closed pipe would end it there.
    _output: Option<BufReader<ChildStdout>>,
}

impl Forward {
    /// The Service from here: the SPIFFE ID of who answers says that it is the one.
    pub(super) fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }
}

async fn run(verb: &'static str, arguments: &[&str]) -> Result<String, KubectlError> {
    let command = Command::new("kubectl")
        .args(arguments)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(ANSWER, command)
        .await
        .map_err(|_| KubectlError::Slow(verb))?;
    let output = output.map_err(KubectlError::Missing)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(KubectlError::Failed {
            verb,
            said: clip(said.trim(), SAID_CHARS),
        });
    }
    String::from_utf8(output.stdout).map_err(|_| KubectlError::Answer {
        verb,
        problem: "not text".to_owned(),
    })
}

fn installed(answer: &str) -> Result<Installed, String> {
    #[derive(serde::Deserialize)]
    struct ConfigMap {
        #[serde(default)]
        data: BTreeMap<String, String>,
    }
    let mut map: ConfigMap = serde_json::from_str(answer).map_err(|error| agentd_base::json::why(&error))?;
    let mut take = |key: &str| map.data.remove(key).ok_or_else(|| format!("it has no key {key}"));
    Ok(Installed {
        bundle_pem: take("bundle.pem")?,
        issuer_url: take("issuer-url")?,
        issuer_id: take("issuer-id")?,
        audience: take("audience")?,
    })
}

/// Service, namespace and port of `https://<service>.<namespace>.svc…:<port>`.
fn service_of(url: &str) -> Option<(String, String, u16)> {
    let url = url::Url::parse(url).ok()?;
    let mut labels = url.host_str()?.split('.');
    let (service, namespace) = (labels.next()?, labels.next()?);
    (labels.next() == Some("svc")).then(|| {
        (
            service.to_owned(),
            namespace.to_owned(),
            url.port().unwrap_or(443),
        )
    })
}

/// The local port in `Forwarding from 127.0.0.1:40123 -> 8443`.
fn forwarded_port(line: &str) -> Option<u16> {
    let (_, rest) = line.split_once("127.0.0.1:")?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kubectl_says_is_understood() {
        assert_eq!(
            forwarded_port("Forwarding from 127.0.0.1:40123 -> 8443"),
            Some(40123)
        );
        assert_eq!(forwarded_port("error: lost connection"), None);
        assert_eq!(
            service_of("https://r-issuer.agentd.svc.cluster.local:8443"),
            Some(("r-issuer".into(), "agentd".into(), 8443))
        );
        assert_eq!(service_of("https://issuer.example.com"), None);
        let map = r#"{"data":{"bundle.pem":"B","issuer-url":"U","issuer-id":"I","audience":"A","trust-domain":"T"}}"#;
        assert_eq!(installed(map).unwrap().audience, "A");
        assert_eq!(installed("{}").err().unwrap(), "it has no key bundle.pem");
    }
}
