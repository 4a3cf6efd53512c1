//! One connection from its first request to its end: what it may cost, and when it ends by itself: drain, age,
//! idleness, a peer that is no longer listed.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agentd_base::drain::Watch;
use agentd_identity::SpiffeId;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};

use crate::http::{App, handle};
use crate::limit;
use crate::listener::Authentication;

/// How long a connection that was told to end may sit with nothing in flight.
const LINGER: Duration = Duration::from_secs(5);

/// What was agreed in the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    Http2,
}

/// Serves one connection to its end.
pub(crate) async fn serve<I>(app: Arc<App>, peer: Option<SpiffeId>, io: I, protocol: Protocol, drain: Watch)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let activity = Arc::new(Activity::default());
    let peer = Arc::new(peer);
    let service = {
        let (app, peer, activity) = (app.clone(), peer.clone(), activity.clone());
        service_fn(move |request: http::Request<Incoming>| {
            let (app, peer, guard) = (app.clone(), peer.clone(), activity.begin());
            async move {
                let response = handle(&app, peer.as_ref().as_ref(), request).await;
                drop(guard);
                Ok::<_, Infallible>(response)
            }
        })
    };
    let anonymous = peer.is_none();
    let end = End {
        app: &app,
        peer: peer.as_ref().as_ref(),
        activity: &activity,
    };
    let io = TokioIo::new(io);
    match protocol {
        Protocol::Http1 => {
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(if anonymous {
                    limit::IDLE_ANONYMOUS
                } else {
                    limit::HEAD
                })
                .max_buf_size(limit::HEAD_BYTES)
                .max_header_size(limit::HEAD_BYTES)
                .max_headers(limit::HEADERS)
                .serve_connection(io, service);
            end.drive(connection, drain).await;
        }
        Protocol::Http2 => {
            let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                .timer(TokioTimer::new())
                .max_concurrent_streams(limit::STREAMS)
                .max_header_list_size(limit::HEAD_BYTES as u32)
                .initial_connection_window_size(limit::WINDOW)
                .initial_stream_window_size(limit::WINDOW)
                .keep_alive_interval(limit::PING)
                .keep_alive_timeout(limit::PONG)
                .serve_connection(io, service);
            end.drive(connection, drain).await;
        }
    }
}

/// What ends a connection.
struct End<'a> {
    app: &'a App,
    peer: Option<&'a SpiffeId>,
    activity: &'a Activity,
}

impl End<'_> {
    async fn drive<C: GracefulConnection>(self, connection: C, mut drain: Watch) {
        let mut connection = pin!(connection);
        let mut unlisted = pin!(self.unlisted());
        let age = Instant::now() + limit::AGE;
        let mut idle = if self.peer.is_some() {
            limit::IDLE
        } else {
            limit::IDLE_ANONYMOUS
        };
        let mut ending = false;
        loop {
            tokio::select! {
                _ = connection.as_mut() => return,
                () = &mut unlisted => {
                    tracing::info!(event = "a2a.denied", reason = "PRINCIPAL_REMOVED", "connection closed");
                    return;
                }
                () = drain.signaled(), if !ending => {}
                () = sleep_until(age), if !ending => {}
                () = self.activity.idle(idle) => {
                    if ending {
                        return;
                    }
                }
            }
            ending = true;
            idle = LINGER;
            connection.as_mut().graceful_shutdown();
        }
    }

    /// Resolves when the peer was listed and no longer is.
    async fn unlisted(&self) {
        if let (Authentication::Principals(current), Some(peer)) = (&self.app.authentication, self.peer) {
            let mut current = current.clone();
            let listed = |current: &std::sync::Arc<crate::Principals>| current.caller(peer).is_some();
            if current.wait_for(listed).await.is_ok() && current.wait_for(|now| !listed(now)).await.is_ok() {
                return;
            }
        }
        std::future::pending().await
    }
}

/// Counts the requests in flight on one connection.
#[derive(Debug, Default)]
struct Activity {
    in_flight: AtomicUsize,
    changed: Notify,
}

impl Activity {
    fn begin(self: &Arc<Self>) -> InFlight {
        self.in_flight.fetch_add(1, Ordering::SeqCst);
        self.changed.notify_one();
        InFlight(self.clone())
    }

    /// Resolves when nothing was in flight for `time`.
    async fn idle(&self, time: Duration) {
        loop {
            if self.in_flight.load(Ordering::SeqCst) == 0 {
                tokio::select! {
                    () = sleep(time) => return,
                    () = self.changed.notified() => {}
                }
            } else {
                self.changed.notified().await;
            }
        }
    }
}

struct InFlight(Arc<Activity>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::SeqCst);
        self.0.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn idle_counts_from_the_end_of_the_last_request() {
        let activity = Arc::new(Activity::default());
        let guard = activity.begin();
        let second = Duration::from_secs(1);
        let waiting = tokio::spawn({
            let activity = activity.clone();
            async move { activity.idle(second * 10).await }
        });
        tokio::time::advance(second * 100).await;
        assert!(!waiting.is_finished());
        drop(guard);
        let before = Instant::now();
        waiting.await.unwrap();
        assert_eq!(before.elapsed(), second * 10);
    }
}
