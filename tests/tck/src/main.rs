//! `tck-agent`: prints the URL of a loopback listener and serves until it is killed. The listener is agentd's own; what
//! stands behind it follows the message ids of the TCK (its `scenarios/*.feature`) and is in no program that is shipped.
#![allow(clippy::print_stdout)]

mod executor;
mod scenario;

use std::error::Error;
use std::sync::Arc;

use agentd_a2a::{Authentication, Card, CardConfig, Listener, Transport, card};
use agentd_base::drain::Drain;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let loopback = ([127, 0, 0, 1], 0).into();
    let listener = Listener::bind(loopback, Transport::Plain, Authentication::Dev).await?;
    let url = card::url_of("http", listener.local_addr())?;
    println!("{url}");
    let card = Card::new(CardConfig {
        name: "tck-agent".to_owned(),
        description: "Does as the message ids of the TCK say".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        url,
        external: None,
        skills: Vec::new(),
        extensions: Vec::new(),
        push_notifications: true,
        mutual_tls: false,
    })?;
    let drain = Drain::new();
    listener
        .serve(Arc::new(executor::Executor::new()), Arc::new(card), drain.watch())
        .await;
    Ok(())
}
