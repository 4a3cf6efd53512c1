//! What the suites share: the cluster that a suite runs on, namespaces of a test's own, waiting by watches, commands.
//!
//! A suite is run by `make test-api` or `make test-e2e`, which start its cluster and say in `KUBE_TEST_STATE` where it
//! is. A test without its cluster fails: it can't show what it is there for.

pub mod caller;
pub mod cluster;
pub mod command;
pub mod install;
pub mod model;
pub mod namespace;
pub mod outside;
pub mod probes;
pub mod samples;
pub mod wait;
