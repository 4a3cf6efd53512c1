//! What both kinds use: destinations, references, quantities and durations, network policy, facts of a status.

mod destination;
mod network;
mod opaque;
mod reference;
mod resources;
mod status;
mod text;

pub use destination::{
    Auth, Bearer, ClientCertificate, ClientSecret, ClientTls, Destination, Header, OAuth2Auth, SecretSource,
    StaticAuth,
};
pub use network::{NetworkPolicy, NetworkPolicyMode};
pub use opaque::{Anything, Opaque};
pub use reference::{AgentReference, KeyReference, LocalReference, McpServerReference, TextSource};
pub use resources::Resources;
pub use status::{Rejected, Reported, ReportedServer, ReportedState};
pub use text::{Duration, Quantity, Tag, ToolTags};

pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
