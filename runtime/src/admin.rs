//! The admin port: `/healthz`, `/readyz`, `/metrics`, plain http. Anybody in the cluster may ask, so it says nothing that
//! was written by a caller, a model or a server, and no secret.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use agentd_a2a::server::{Bounds, Handler};
use agentd_base::clock::SharedClock;
use agentd_base::readiness::Readiness;
use agentd_identity::{IdentitySource, SpiffeId};
use agentd_net::issuer::Renewal;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use tokio::sync::watch;

use crate::metrics::{Levels, Metrics};

/// Probes and scrapes come from a few places, one request at a time.
pub const BOUNDS: Bounds = Bounds {
    connections: 64,
    of_one: 64,
    streams: 16,
    linger: Duration::from_secs(5),
};

/// Where the counters are.
const METRICS: &str = "/metrics";

/// Says so where the port is open to all who reach the machine, which in a pod is what it is for.
pub fn tell_reach(address: SocketAddr) {
    if address.ip().is_unspecified() {
        tracing::info!(event = "metrics.bound_all_interfaces", %address);
    }
}

/// The identity as `/readyz` sees it.
#[derive(Clone)]
pub struct IdentityHealth {
    /// The SVID.
    pub source: IdentitySource,
    /// What the renewal last saw.
    pub renewal: watch::Receiver<Renewal>,
    /// For expiry.
    pub clock: SharedClock,
}

impl IdentityHealth {
    /// Why there is no usable SVID; `None` when there is one. Asked at each probe, so nothing has to watch the clock.
    fn blocker(&self) -> Option<String> {
        let detail = self.renewal.borrow().last_error.clone();
        let because = |text: &str| match &detail {
            Some(error) => format!("identity: {text}: {error}"),
            None => format!("identity: {text}"),
        };
        match &self.source.current().svid {
            None => Some(because("no SVID yet")),
            Some(svid) if svid.is_expired(self.clock.now()) => Some(because("the SVID has expired")),
            Some(_) => None,
        }
    }
}

/// The handler of the admin port.
#[derive(Clone)]
pub struct Admin {
    /// What blocks readiness.
    pub readiness: Readiness,
    /// The identity, where there is one.
    pub identity: Option<IdentityHealth>,
    /// The counters.
    pub metrics: Metrics,
    /// What stands there at this moment; none in a process that has nothing of that kind.
    pub levels: Option<Arc<dyn Fn() -> Levels + Send + Sync>>,
}

impl Admin {
    /// What keeps this process from being ready, one line each.
    pub fn blockers(&self) -> Vec<String> {
        let mut blockers = self.readiness.blockers();
        blockers.extend(self.identity.as_ref().and_then(IdentityHealth::blocker));
        blockers
    }

    /// Not here: it asks the machine, which may take its time.
    async fn levels(&self) -> Option<Levels> {
        let levels = self.levels.clone()?;
        tokio::task::spawn_blocking(move || levels()).await.ok()
    }

    fn answer(&self, method: &Method, path: &str, levels: Option<&Levels>) -> Response<Full<Bytes>> {
        if method != Method::GET && method != Method::HEAD {
            return text(StatusCode::METHOD_NOT_ALLOWED, "only GET\n");
        }
        match path {
            "/healthz" => text(StatusCode::OK, "ok\n"),
            "/readyz" => {
                let blockers = self.blockers();
                if blockers.is_empty() {
                    return text(StatusCode::OK, "ok\n");
                }
                text(StatusCode::SERVICE_UNAVAILABLE, blockers.join("\n") + "\n")
            }
            METRICS => text(
                StatusCode::OK,
                self.metrics.render(self.blockers().is_empty(), levels),
            ),
            _ => text(
                StatusCode::NOT_FOUND,
                "there are /healthz, /readyz and /metrics\n",
            ),
        }
    }
}

impl Handler for Admin {
    type Body = Full<Bytes>;

    async fn handle(&self, _: Option<Arc<SpiffeId>>, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let path = request.uri().path();
        let levels = match path {
            METRICS => self.levels().await,
            _ => None,
        };
        self.answer(request.method(), path, levels.as_ref())
    }

    async fn revoked(&self, _: Option<Arc<SpiffeId>>) {
        std::future::pending().await
    }
}

fn text(status: StatusCode, text: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = status;
    let kind = header::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;
    use crate::metrics::Process;

    async fn get(admin: &Admin, path: &str) -> (u16, String) {
        let response = admin.answer(&Method::GET, path, None);
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn alive_is_not_ready_and_says_why() {
        let readiness = Readiness::new();
        let source = IdentitySource::new("td".parse().unwrap());
        let error = Renewal {
            last_error: Some("the issuer cannot be reached".into()),
            renewals: 0,
        };
        let identity = IdentityHealth {
            source,
            renewal: watch::Sender::new(error).subscribe(),
            clock: agentd_base::clock::system(),
        };
        let admin = Admin {
            readiness: readiness.clone(),
            identity: Some(identity),
            metrics: Metrics::new(Process::Agent).unwrap(),
            levels: None,
        };
        readiness.block("store", "not open yet");
        assert_eq!(get(&admin, "/healthz").await, (200, "ok\n".into()));
        let (status, body) = get(&admin, "/readyz").await;
        assert_eq!(status, 503);
        assert_eq!(
            body,
            "store: not open yet\nidentity: no SVID yet: the issuer cannot be reached\n"
        );
        assert!(get(&admin, "/metrics").await.1.contains("agent_ready 0"));
        readiness.release("store");
        let without = Admin {
            identity: None,
            ..admin
        };
        assert_eq!(get(&without, "/readyz").await, (200, "ok\n".into()));
        assert_eq!(get(&without, "/").await.0, 404);
        assert_eq!(without.answer(&Method::POST, "/healthz", None).status(), 405);
    }
}
