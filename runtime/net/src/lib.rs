//! The one way out. Only this crate opens a socket to the outside: a destination is vetted before it is dialled, by its
//! URL, by every DNS answer and by every redirect (`guard`), then reached over TLS whose roots are ours or by SPIFFE ID.
//! It knows nothing of MCP, models or A2A, and nothing of the document: callers hand it closures for secrets.

mod again;
pub mod body;
pub mod client;
mod decode;
pub mod destination;
pub mod error;
mod fault;
#[cfg(test)]
mod fuzz;
mod guard;
pub mod issuer;
pub mod options;
pub mod pace;
pub mod redact;
mod resolve;
pub mod session;
pub mod sign;
pub mod tls;

#[cfg(test)]
mod tests;

pub use body::Body;
pub use client::{HttpClient, Response, StreamedBody};
pub use destination::{Declared, Destination, DestinationError};
pub use error::{NetError, Phase};
pub use options::{Limits, Options, Redirects, Replay, Timeouts};
pub use pace::{Backoff, Pace};
pub use redact::Redactor;
pub use sign::{Refusal, RequestSigner, SecretValue, StaticSigner};
pub use tls::TlsMode;
