//! Tells the operator what this pod runs with: in full when the connection is made, and again whenever it changes.
//! Changes that come together go as one report, and the first waits until there is something to say. A report that cannot be sent harms nothing: it is tried again.

use std::time::Duration;

use agentd_base::report::{PATH, Report, body};
use agentd_config::document;
use agentd_identity::{IdentitySource, SpiffeId};
use agentd_net::session::{Closed, Session, connect};
use agentd_net::{Backoff, Declared, Destination, NetError, Pace, Timeouts};
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Uri, header};
use tokio::sync::watch;

/// Servers come up in bursts: what changes within this time goes as one report.
const COALESCE: Duration = Duration::from_millis(250);
/// The operator is away for as long as it takes to elect a leader; with many pods nobody should hammer it.
const PACE: Pace = Pace {
    first: Duration::from_millis(500),
    max: Duration::from_secs(30),
};
/// Most servers have answered by now; one that has not is told as what it is.
const SETTLE: Duration = Duration::from_secs(3);
/// One report and its answer.
const EXCHANGE: Duration = Duration::from_secs(15);

/// Why a report did not arrive.
#[derive(Debug, thiserror::Error)]
enum Unsent {
    #[error(transparent)]
    Net(#[from] NetError),
    #[error("the operator answered with HTTP {0}")]
    Status(u16),
    #[error("the report cannot be written: {0}")]
    Content(#[from] serde_json::Error),
    #[error("the operator closed the connection")]
    Closed,
}

/// Sends reports to one place.
pub struct Reporter {
    destination: Destination,
    server: SpiffeId,
    source: IdentitySource,
}

impl Reporter {
    /// To the place that the document names.
    ///
    /// # Errors
    /// When its URL or ID is none.
    pub fn new(to: &document::Report, source: IdentitySource) -> Result<Self, String> {
        let destination =
            Destination::declared(&to.url, Declared::Internal).map_err(|error| error.to_string())?;
        let server: SpiffeId = to
            .server_id
            .parse()
            .map_err(|error: agentd_identity::IdError| error.to_string())?;
        Ok(Self {
            destination,
            server,
            source,
        })
    }

    /// Sends the latest value of `report` for as long as somebody can change it.
    pub async fn run(self, mut report: watch::Receiver<Report>) {
        let mut identity = self.source.subscribe();
        let mut backoff = Backoff::new(PACE);
        let mut told = false;
        loop {
            // Without an SVID the operator would not know who reports.
            let identified = identity
                .wait_for(|identity| identity.svid.is_some())
                .await
                .is_ok();
            if !identified {
                return;
            }
            let (sent, ended) = session(&self.destination, &self.server, &self.source, &mut report).await;
            let Err(error) = ended else { return };
            if sent {
                backoff.reset();
                told = false;
            }
            let wait = backoff.wait();
            // Operators come and go: the first failure after a success is worth a line, the others are not.
            if told || matches!(error, Unsent::Closed) {
                tracing::debug!(event = "report.fail", err = %error);
            } else {
                tracing::warn!(event = "report.fail", err = %error, next_s = wait.as_secs_f32());
                told = true;
            }
            tokio::time::sleep(wait).await;
        }
    }
}

/// Waits until every server has been tried, but not for ever: a report that says "connecting" of all of them, as each
/// does after a restart, would take a truth back for a moment.
pub async fn settled<T>(servers: &mut watch::Receiver<T>, are_settled: impl FnMut(&T) -> bool) {
    let _ = tokio::time::timeout(SETTLE, servers.wait_for(are_settled)).await;
}

/// One connection to its end: whether a report was sent on it, and why it ended; `Ok` when there is nothing left to
/// report.
async fn session(
    destination: &Destination,
    server: &SpiffeId,
    source: &IdentitySource,
    report: &mut watch::Receiver<Report>,
) -> (bool, Result<(), Unsent>) {
    let mut sent = false;
    let exchange = async {
        let tls = agentd_identity::tls::client_config(source, server.clone());
        let timeouts = Timeouts {
            total: Some(EXCHANGE),
            ..Timeouts::default()
        };
        let (mut session, mut closed) = connect(destination, tls, timeouts).await?;
        loop {
            let current = report.borrow_and_update().clone();
            send(&mut session, &current).await?;
            tracing::debug!(event = "report.sent", digest = current.running_digest);
            sent = true;
            if !next_change(report, &mut closed).await? {
                return Ok(());
            }
        }
    };
    let ended = exchange.await;
    (sent, ended)
}

/// Waits for a change and for what comes with it; false when no more can come.
async fn next_change(report: &mut watch::Receiver<Report>, closed: &mut Closed) -> Result<bool, Unsent> {
    tokio::select! {
        changed = report.changed() => if changed.is_err() { return Ok(false) },
        () = &mut *closed => return Err(Unsent::Closed),
    }
    tokio::time::sleep(COALESCE).await;
    Ok(true)
}

async fn send(session: &mut Session, report: &Report) -> Result<(), Unsent> {
    let mut request = Request::new(Bytes::from(body(report)?));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = Uri::from_static(PATH);
    request
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let response = session.send(request).await?;
    if response.status().is_success() {
        Ok(())
    } else {
        Err(Unsent::Status(response.status().as_u16()))
    }
}
