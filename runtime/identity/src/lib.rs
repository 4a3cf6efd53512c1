//! Who a peer is: SPIFFE IDs, trust bundles, SVIDs and their verification, rustls configs that read the current
//! identity at each handshake, key requests, and the built-in authority that signs. Any provider may feed an
//! [`IdentitySource`]. No I/O: bytes come in, configs and decisions go out. Rules: the SPIFFE ID and X509-SVID
//! specifications.

pub mod authority;
pub mod bundle;
pub mod from_pem;
pub mod id;
mod leaf;
pub mod request;
pub mod source;
pub mod svid;
pub mod tls;
pub mod verify;

pub use authority::Authority;
pub use bundle::Bundle;
pub use id::{IdError, SpiffeId, TrustDomain};
pub use source::{IdentitySource, Snapshot};
pub use svid::Svid;

use std::sync::{Arc, LazyLock};

use rustls::crypto::CryptoProvider;

/// The one provider, so that no config here depends on which process-wide default was installed.
fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: LazyLock<Arc<CryptoProvider>> =
        LazyLock::new(|| Arc::new(rustls::crypto::aws_lc_rs::default_provider()));
    PROVIDER.clone()
}

/// A point in time as webpki wants it. Times before 1970 become 1970: nothing is valid then.
fn unix_time(now: jiff::Timestamp) -> rustls_pki_types::UnixTime {
    let seconds = u64::try_from(now.as_second()).unwrap_or(0);
    rustls_pki_types::UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds))
}
