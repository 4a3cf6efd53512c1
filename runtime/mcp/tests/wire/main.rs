//! What the MCP client does on the wire, against a scripted server that writes down everything it is sent.

mod calls;
mod everything;
mod handshake;
mod lists;
mod peer;
mod requests;
mod supervised;
