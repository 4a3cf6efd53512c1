//! One connection from its first request to its end: what it may cost, and when it ends by itself: drain, age,
//! idleness, a peer that is revoked.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use agentd_base::drain::Watch;
use agentd_identity::SpiffeId;
use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};

use crate::limit;
use crate::server::{Bounds, Handler};

/// How long a connection that was told to end may sit with nothing in flight.
const CLOSING: Duration = Duration::from_secs(5);

/// What was agreed in the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    Http2,
}

/// A connection whose peer is known.
pub(crate) struct Connection<H> {
    pub(crate) handler: H,
    pub(crate) bounds: Bounds,
    pub(crate) peer: Option<Arc<SpiffeId>>,
    /// It could have shown a certificate and did not.
    pub(crate) stranger: bool,
}

/// How long a connection may take for what.
#[derive(Clone, Copy)]
struct Time {
    head: Duration,
    idle: Duration,
    age: Duration,
    linger: Duration,
}

impl Time {
    const KNOWN: Self = Self {
        head: limit::HEAD,
        idle: limit::IDLE,
        age: limit::AGE,
        linger: Duration::ZERO,
    };
    const STRANGER: Self = Self {
        head: limit::IDLE_STRANGER,
        idle: limit::IDLE_STRANGER,
        age: limit::AGE_STRANGER,
        linger: CLOSING,
    };
}

impl<H: Handler> Connection<H> {
    /// Serves it to its end.
    pub(crate) async fn serve<I>(self, io: I, protocol: Protocol, drain: Watch)
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Self {
            handler,
            bounds,
            peer,
            stranger,
        } = self;
        let activity = Arc::new(Activity::default());
        let service = {
            let (handler, peer, activity) = (handler.clone(), peer.clone(), activity.clone());
            service_fn(move |mut request: http::Request<Incoming>| {
                if stranger {
                    request.extensions_mut().insert(Recognition(activity.clone()));
                }
                let (handler, peer, guard) = (handler.clone(), peer.clone(), activity.begin());
                async move {
                    let response = handler.handle(peer, request).await;
                    Ok::<_, Infallible>(response.map(|body| Tracked { body, _guard: guard }))
                }
            })
        };
        let known = Time {
            linger: bounds.linger,
            ..Time::KNOWN
        };
        let time = if stranger { Time::STRANGER } else { known };
        let end = End {
            revoked: handler.revoked(peer),
            activity: &activity,
            time,
            known,
        };
        let io = TokioIo::new(io);
        match protocol {
            Protocol::Http1 => {
                let connection = hyper::server::conn::http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(end.time.head)
                    .max_buf_size(limit::HEAD_BYTES)
                    .max_header_size(limit::HEAD_BYTES)
                    .max_headers(limit::HEADERS)
                    .serve_connection(io, service);
                end.drive(connection, drain).await;
            }
            Protocol::Http2 => {
                let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                    .timer(TokioTimer::new())
                    .max_concurrent_streams(bounds.streams)
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
}

/// What ends a connection.
struct End<'a, R> {
    revoked: R,
    activity: &'a Activity,
    time: Time,
    /// What counts from when its caller has proved who it is.
    known: Time,
}

impl<R: Future<Output = ()>> End<'_, R> {
    async fn drive<C: GracefulConnection>(self, connection: C, mut drain: Watch) {
        let mut connection = pin!(connection);
        let mut revoked = pin!(self.revoked);
        let begun = Instant::now();
        let mut clock = pin!(sleep_until(begun + self.time.age));
        let (mut idle, mut linger) = (self.time.idle, self.time.linger);
        let mut ending = false;
        loop {
            tokio::select! {
                _ = connection.as_mut() => return,
                () = revoked.as_mut() => return,
                () = self.activity.recognised.notified(), if !ending => {
                    (idle, linger) = (self.known.idle, self.known.linger);
                    clock.as_mut().reset(begun + self.known.age);
                    continue;
                }
                () = drain.signaled(), if !ending => {}
                () = clock.as_mut() => if ending { return },
                () = self.activity.idle(idle) => if ending { return },
            }
            ending = true;
            idle = CLOSING;
            clock.as_mut().reset(Instant::now() + linger);
            connection.as_mut().graceful_shutdown();
        }
    }
}

/// Counts the requests in flight on one connection.
#[derive(Debug, Default)]
struct Activity {
    in_flight: AtomicUsize,
    changed: Notify,
    recognised: Notify,
}

/// With each request of a connection without a certificate: who answers it says by this that its caller proved in
/// another way who it is.
#[derive(Clone)]
pub(crate) struct Recognition(Arc<Activity>);

impl Recognition {
    pub(crate) fn tell(&self) {
        self.0.recognised.notify_one();
    }
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

/// A body that keeps its request in flight until it has been sent, a stream to its last byte.
struct Tracked<B> {
    body: B,
    _guard: InFlight,
}

impl<B: Body<Data = Bytes> + Unpin> Body for Tracked<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
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
