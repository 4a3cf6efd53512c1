//! From the errors of reqwest, hyper, rustls and the system to a sentence that guesses the cause.

use std::error::Error;
use std::io;
use std::time::Duration;

use rustls::CertificateError;

use crate::error::{NetError, Phase};

/// How the peer is trusted: what helps depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Roots and names.
    Web,
    /// A SPIFFE ID and the trust bundle.
    Spiffe,
}

/// What went wrong with a request. `connect` is the clock of new connections.
pub(crate) fn of_request(error: &reqwest::Error, host: &str, trust: Trust, connect: Duration) -> NetError {
    let host = host.to_owned();
    let causes = causes(error);
    if let Some(own) = find::<NetError>(&causes) {
        return own.clone();
    }
    if let Some(detail) = tls_fault(&causes, trust) {
        return NetError::Tls { host, detail };
    }
    if error.is_builder() {
        return NetError::Invalid("the URL cannot be sent".into());
    }
    if error.is_timeout() && error.is_connect() {
        return NetError::Timeout {
            host,
            phase: Phase::Connect,
            limit: connect,
        };
    }
    let detail = find::<io::Error>(&causes).map_or_else(|| last(&causes), io_detail);
    if error.is_connect() {
        return NetError::Connect { host, detail };
    }
    NetError::Interrupted { host, detail }
}

/// What went wrong while connecting by ourselves, which is by SPIFFE ID.
pub(crate) fn of_connect(error: &io::Error, host: &str) -> NetError {
    let causes = causes(error);
    let host = host.to_owned();
    match tls_fault(&causes, Trust::Spiffe) {
        Some(detail) => NetError::Tls { host, detail },
        None => NetError::Connect {
            host,
            detail: io_detail(error),
        },
    }
}

/// What went wrong on an open connection.
pub(crate) fn of_exchange(error: &hyper::Error, host: &str) -> NetError {
    let causes = causes(error);
    let host = host.to_owned();
    match tls_fault(&causes, Trust::Spiffe) {
        Some(detail) => NetError::Tls { host, detail },
        None => NetError::Interrupted {
            host,
            detail: find::<io::Error>(&causes).map_or_else(|| last(&causes), io_detail),
        },
    }
}

/// The error and everything below it. `io::Error` hides what it wraps from `source`.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> Vec<&'a (dyn Error + 'static)> {
    /// Deeper than any chain of these libraries.
    const DEPTH: usize = 16;
    std::iter::successors(Some(error), |error| below(*error))
        .take(DEPTH)
        .collect()
}

fn below<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(wrapped) => Some(wrapped),
        None => error.source(),
    }
}

fn find<'a, T: Error + 'static>(causes: &[&'a (dyn Error + 'static)]) -> Option<&'a T> {
    causes.iter().rev().find_map(|cause| cause.downcast_ref())
}

fn last(causes: &[&(dyn Error + 'static)]) -> String {
    causes.last().map(ToString::to_string).unwrap_or_default()
}

fn io_detail(error: &io::Error) -> String {
    let hint = match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused; is it running, and is the port right?",
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
            "unreachable; is the address right, and does a NetworkPolicy let it through?"
        }
        io::ErrorKind::ConnectionReset => "connection reset; does it speak this protocol on this port?",
        io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof => "it hung up",
        io::ErrorKind::TimedOut => "no answer; does a NetworkPolicy or firewall drop the packets?",
        _ => return error.to_string(),
    };
    hint.to_owned()
}

/// What TLS had to say, if it was TLS. Under HTTP/2 an alert that comes after the handshake, as the refusal of a client
/// certificate does in TLS 1.3, is left as text alone.
fn tls_fault(causes: &[&(dyn Error + 'static)], trust: Trust) -> Option<String> {
    if let Some(error) = find::<rustls::Error>(causes) {
        return Some(tls_detail(error, trust));
    }
    causes
        .iter()
        .find_map(|cause| cause.to_string().strip_prefix(ALERT).map(alert_detail))
}

/// How rustls begins the text of [`rustls::Error::AlertReceived`]; the alert's name follows.
const ALERT: &str = "received fatal alert: ";

fn alert_detail(name: &str) -> String {
    match name {
        "CertificateRequired" => "it demands a client certificate and got none".into(),
        "UnknownCA"
        | "BadCertificate"
        | "CertificateUnknown"
        | "CertificateExpired"
        | "CertificateRevoked"
        | "UnsupportedCertificate"
        | "DecryptError" => format!("it refused our client certificate ({name})"),
        "AccessDenied" | "HandshakeFailure" => {
            "it refused the handshake; it may have no certificate yet, or not accept ours".into()
        }
        name => format!("it ended the handshake ({name})"),
    }
}

fn tls_detail(error: &rustls::Error, trust: Trust) -> String {
    match error {
        rustls::Error::InvalidCertificate(fault) => match fault {
            CertificateError::UnknownIssuer | CertificateError::BadSignature if trust == Trust::Spiffe => {
                "its certificate was not signed by an authority in our trust bundle".into()
            }
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                "its certificate is signed by a CA that is not trusted; name the CA in tls.ca_file".into()
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "its certificate is for another name; if that is right, name it in tls.server_name".into()
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "its certificate has expired".into()
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "its certificate is not valid yet; are the clocks right?".into()
            }
            CertificateError::Other(other) => other.to_string(),
            fault => format!("its certificate is not acceptable: {fault}"),
        },
        rustls::Error::AlertReceived(alert) => alert_detail(&format!("{alert:?}")),
        rustls::Error::InvalidMessage(_) => "it does not speak TLS on this port".into(),
        other => other.to_string(),
    }
}
