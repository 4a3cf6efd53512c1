//! What the issuer counts. Labels are outcomes, never names of objects.

use std::time::Duration;

use agentd_identity::Authority;
use prometheus::{Histogram, HistogramOpts, IntCounterVec, IntGauge, Opts, Registry};

/// Buckets in seconds: a handful of reads of the API server and a signature.
const SECONDS: [f64; 7] = [0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 5.0];

/// The issuer's metrics.
#[derive(Debug, Clone)]
pub struct Metrics {
    requests: IntCounterVec,
    seconds: Histogram,
    connections: IntGauge,
    root_expires: IntGauge,
}

impl Metrics {
    /// Registered in `registry`.
    ///
    /// # Errors
    /// When a name is taken there.
    pub fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let requests = IntCounterVec::new(
            Opts::new(
                "agentd_issuer_requests_total",
                "Requests by outcome: workload, caller, or the reason of a refusal.",
            ),
            &["outcome"],
        )?;
        let seconds = Histogram::with_opts(
            HistogramOpts::new("agentd_issuer_request_seconds", "Time of one request.")
                .buckets(SECONDS.to_vec()),
        )?;
        let connections = IntGauge::new("agentd_issuer_connections", "Open connections.")?;
        let root_expires = IntGauge::new(
            "agentd_issuer_root_expiry_timestamp_seconds",
            "When the root certificate ends.",
        )?;
        registry.register(Box::new(requests.clone()))?;
        registry.register(Box::new(seconds.clone()))?;
        registry.register(Box::new(connections.clone()))?;
        registry.register(Box::new(root_expires.clone()))?;
        Ok(Self {
            requests,
            seconds,
            connections,
            root_expires,
        })
    }

    /// A request was answered.
    pub fn answered(&self, outcome: &str, took: Duration) {
        self.requests.with_label_values(&[outcome]).inc();
        self.seconds.observe(took.as_secs_f64());
    }

    /// A connection opened; counted until the guard is dropped.
    pub fn connection(&self) -> Open {
        self.connections.inc();
        Open(self.connections.clone())
    }

    /// The root in use.
    pub fn root(&self, authority: &Authority) {
        self.root_expires.set(authority.not_after().as_second());
    }
}

/// One open connection.
#[derive(Debug)]
pub struct Open(IntGauge);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.dec();
    }
}
