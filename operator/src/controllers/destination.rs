//! From what a spec says of a destination to what the document says: credentials become references to mounted files.
//! Pure; collects every problem.

use std::collections::BTreeMap;

use agentd_base::duration::Duration;
use agentd_config::document::{self, Auth, ClientTls, Connection};
use agentd_config::header;
use agentd_crds::shared;
use agentd_crds::shared::{KeyReference, OAuth2Auth, SecretSource, StaticAuth, ToolTags};

use super::mounts::{Mounts, template};
use crate::problem::Problem;

/// What a spec says of a destination, wherever it says it.
#[derive(Debug, Clone, Copy)]
pub struct Parts<'a> {
    /// Headers.
    pub headers: &'a [shared::Header],
    /// Credentials.
    pub auth: Option<&'a shared::Auth>,
    /// TLS.
    pub tls: Option<&'a shared::ClientTls>,
    /// A request, or an MCP handshake and each list page.
    pub timeout: Option<&'a shared::Duration>,
    /// TCP and TLS.
    pub connect_timeout: Option<&'a shared::Duration>,
}

impl<'a> From<&'a shared::Destination> for Parts<'a> {
    fn from(destination: &'a shared::Destination) -> Self {
        let shared::Destination {
            headers,
            auth,
            tls,
            timeout,
            connect_timeout,
        } = destination;
        Self {
            headers,
            auth: auth.as_ref(),
            tls: tls.as_ref(),
            timeout: timeout.as_ref(),
            connect_timeout: connect_timeout.as_ref(),
        }
    }
}

/// What a conversion makes beside the document.
#[derive(Debug, Default)]
pub struct Findings {
    /// Files to mount.
    pub mounts: Mounts,
    /// What is wrong.
    pub problems: Vec<Problem>,
}

impl Findings {
    /// The value, or its problem among the others.
    pub fn take<T>(&mut self, result: Result<T, Problem>) -> Option<T> {
        result.map_err(|problem| self.problems.push(problem)).ok()
    }

    /// A duration of the spec.
    pub fn duration(&mut self, path: &str, text: Option<&shared::Duration>) -> Option<Duration> {
        let parsed = text?.0.parse();
        self.take(parsed.map_err(|error| Problem::invalid(format!("spec.{path}: {error}"))))
    }

    /// The connection that `parts`, which stand at `path`, ask for.
    pub fn connection(&mut self, path: &str, parts: Parts<'_>) -> Connection {
        let headers = parts.headers.iter().enumerate().filter_map(|(at, header)| {
            let before = parts.headers.get(..at).unwrap_or_default();
            (!self.repeats(path, header, before))
                .then(|| self.header(path, header))
                .flatten()
        });
        Connection {
            headers: headers.collect(),
            auth: parts.auth.and_then(|auth| self.auth(path, auth)),
            tls: parts.tls.map(|tls| self.tls(&format!("{path}tls"), tls)),
            timeout: self.duration(&format!("{path}timeout"), parts.timeout),
            connect_timeout: self.duration(&format!("{path}connectTimeout"), parts.connect_timeout),
        }
    }

    /// One of two names that differ in case only would be sent, and nobody could say which.
    fn repeats(&mut self, path: &str, header: &shared::Header, before: &[shared::Header]) -> bool {
        let same = before
            .iter()
            .find(|before| before.name.eq_ignore_ascii_case(&header.name));
        self.problems.extend(same.map(|same| {
            Problem::invalid(format!(
                "spec.{path}headers[{}]: is the same header as {}, whatever the case; keep one of the two",
                header.name, same.name
            ))
        }));
        same.is_some()
    }

    fn header(&mut self, path: &str, header: &shared::Header) -> Option<(String, String)> {
        let shared::Header {
            name,
            value,
            value_from,
        } = header;
        let path = format!("{path}headers[{name}]");
        if let Some(source) = value_from {
            let file = self.mounts.secret(&path, &source.secret_key_ref);
            return self.take(file).map(|file| (name.clone(), template(&file)));
        }
        let value = value.clone().unwrap_or_default();
        if header::is_credential(name) {
            self.problems.push(Problem::invalid(format!(
                "spec.{path}.value: is a literal under a name that holds credentials; put it into a Secret and use valueFrom.secretKeyRef"
            )));
            return None;
        }
        // A reference written by a person could name any file of the pod, its token included.
        if value.contains("{{") {
            self.problems.push(Problem::invalid(format!(
                "spec.{path}.value: holds `{{{{`; use valueFrom.secretKeyRef for a secret"
            )));
            return None;
        }
        Some((name.clone(), value))
    }

    /// Kinds that are not built are refused by name elsewhere.
    fn auth(&mut self, path: &str, auth: &shared::Auth) -> Option<Auth> {
        if let Some(StaticAuth { bearer }) = &auth.fixed {
            let bearer = self.credential(&format!("{path}auth.static.bearer"), &bearer.value_from)?;
            return Some(Auth::Static(document::StaticAuth { bearer }));
        }
        let OAuth2Auth {
            client_id,
            client_secret,
            scopes,
            token_endpoint,
            issuer,
        } = auth.oauth2.as_ref()?;
        let path = format!("{path}auth.oauth2.clientSecret");
        Some(Auth::OAuth2(document::OAuth2Auth {
            client_id: client_id.clone(),
            client_secret: Some(self.credential(&path, &client_secret.value_from)?),
            client_key: None,
            scopes: scopes.clone(),
            token_endpoint: token_endpoint.clone(),
            issuer: issuer.clone(),
            resource: None,
        }))
    }

    fn credential(&mut self, path: &str, source: &SecretSource) -> Option<String> {
        let file = self.mounts.secret(path, &source.secret_key_ref);
        self.take(file).map(|file| template(&file))
    }

    fn tls(&mut self, path: &str, tls: &shared::ClientTls) -> ClientTls {
        let shared::ClientTls {
            ca_bundle,
            client_certificate,
            server_name,
        } = tls;
        let ca_file = ca_bundle.as_ref().and_then(|source| {
            let file = self.mounts.source(&format!("{path}.caBundle"), source);
            self.take(file).flatten()
        });
        let mut pair = client_certificate.as_ref().map(|certificate| {
            ["tls.crt", "tls.key"].map(|key| {
                let reference = KeyReference {
                    name: certificate.secret_name.clone(),
                    key: key.to_owned(),
                };
                let file = self
                    .mounts
                    .secret(&format!("{path}.clientCertificate"), &reference);
                self.take(file)
            })
        });
        let [client_cert_file, client_key_file] = pair.take().unwrap_or_default();
        ClientTls {
            ca_file,
            client_cert_file,
            client_key_file,
            server_name: server_name.clone(),
            spiffe_id: None,
        }
    }
}

/// What a server's tools are, by glob: all of them, and some.
pub fn tags(all: &[shared::Tag], some: &[ToolTags]) -> BTreeMap<String, Vec<document::Tag>> {
    let mut tags: BTreeMap<String, Vec<document::Tag>> = BTreeMap::new();
    let all = (!all.is_empty()).then_some(("*", all));
    let some = some
        .iter()
        .map(|ToolTags { name, tags }| (name.as_str(), tags.as_slice()));
    for (glob, given) in all.into_iter().chain(some) {
        let known = tags.entry(glob.to_owned()).or_default();
        known.extend(given.iter().map(|tag| match tag {
            shared::Tag::UntrustedInput => document::Tag::UntrustedInput,
            shared::Tag::Sensitive => document::Tag::Sensitive,
            shared::Tag::Egress => document::Tag::Egress,
        }));
        known.sort();
        known.dedup();
    }
    tags
}
