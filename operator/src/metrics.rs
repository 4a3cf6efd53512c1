//! What the operator counts. One registry per process, passed in; no label holds the name of an object.

use std::time::Duration;

use agentd_base::class::Class;
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, IntGauge, Opts, Registry};

/// Buckets of a reconcile, in seconds: a few reads take milliseconds, a slow API server seconds.
const SECONDS: [f64; 8] = [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0];

/// The metrics of one process.
#[derive(Debug, Clone)]
pub struct Metrics {
    reconciles: IntCounterVec,
    seconds: HistogramVec,
    writes: IntCounterVec,
    statuses: IntCounterVec,
    reports: IntCounterVec,
    connections: IntGauge,
    leader: IntGauge,
}

impl Metrics {
    /// Registered in `registry`.
    ///
    /// # Errors
    /// When the registry has metrics of these names already.
    pub fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counters =
            |name: &str, help: &str, labels: &[&str]| -> Result<IntCounterVec, prometheus::Error> {
                let vector = IntCounterVec::new(Opts::new(name, help), labels)?;
                registry.register(Box::new(vector.clone()))?;
                Ok(vector)
            };
        let gauge = |name: &str, help: &str| -> Result<IntGauge, prometheus::Error> {
            let gauge = IntGauge::new(name, help)?;
            registry.register(Box::new(gauge.clone()))?;
            Ok(gauge)
        };
        let seconds = HistogramVec::new(
            HistogramOpts::new("agentd_operator_reconcile_seconds", "Time of one reconcile.")
                .buckets(SECONDS.to_vec()),
            &["controller"],
        )?;
        registry.register(Box::new(seconds.clone()))?;
        Ok(Self {
            reconciles: counters(
                "agentd_operator_reconciles_total",
                "Reconciles by controller and result: ok or the class of the error.",
                &["controller", "result"],
            )?,
            writes: counters(
                "agentd_operator_object_writes_total",
                "Writes of owned objects, by kind.",
                &["kind"],
            )?,
            statuses: counters(
                "agentd_operator_status_writes_total",
                "Writes of a status, by kind and field manager.",
                &["kind", "manager"],
            )?,
            reports: counters(
                "agentd_operator_reports_total",
                "Reports of pods, by result.",
                &["result"],
            )?,
            connections: gauge("agentd_operator_report_connections", "Open report connections.")?,
            leader: gauge("agentd_operator_leader", "1 while this process is the leader.")?,
            seconds,
        })
    }

    /// A reconcile ended.
    pub fn reconciled(&self, controller: &str, took: Duration, result: Result<(), Class>) {
        let result = result.map_or_else(Class::label, |()| "ok");
        self.reconciles.with_label_values(&[controller, result]).inc();
        self.seconds
            .with_label_values(&[controller])
            .observe(took.as_secs_f64());
    }

    /// An owned object was written.
    pub fn wrote(&self, kind: &str) {
        self.writes.with_label_values(&[kind]).inc();
    }

    /// A status was written.
    pub fn wrote_status(&self, kind: &str, manager: &str) {
        self.statuses.with_label_values(&[kind, manager]).inc();
    }

    /// A report was answered.
    pub fn reported(&self, result: &str) {
        self.reports.with_label_values(&[result]).inc();
    }

    /// A report connection opened; it is counted until the guard is dropped.
    pub fn connection(&self) -> ConnectionGuard {
        self.connections.inc();
        ConnectionGuard(self.connections.clone())
    }

    /// Whether this process leads.
    pub fn set_leader(&self, leads: bool) {
        self.leader.set(i64::from(leads));
    }
}

/// Counts one connection while it lives.
#[derive(Debug)]
pub struct ConnectionGuard(IntGauge);

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_is_shown() {
        let registry = Registry::new();
        let metrics = Metrics::new(&registry).unwrap();
        let text = || crate::server::text(&registry).unwrap();
        metrics.reconciled("agent", Duration::from_millis(5), Ok(()));
        metrics.reconciled("agent", Duration::from_millis(5), Err(Class::Conflict));
        metrics.wrote("Deployment");
        metrics.wrote_status("Agent", "agentd");
        let guard = metrics.connection();
        metrics.set_leader(true);
        let shown = text();
        for line in [
            "agentd_operator_reconciles_total{controller=\"agent\",result=\"ok\"} 1",
            "agentd_operator_reconciles_total{controller=\"agent\",result=\"conflict\"} 1",
            "agentd_operator_object_writes_total{kind=\"Deployment\"} 1",
            "agentd_operator_status_writes_total{kind=\"Agent\",manager=\"agentd\"} 1",
            "agentd_operator_report_connections 1",
            "agentd_operator_leader 1",
        ] {
            assert!(shown.contains(line), "{line} in {shown}");
        }
        drop(guard);
        assert!(text().contains("agentd_operator_report_connections 0"));
    }
}
