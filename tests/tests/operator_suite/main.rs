//! The controllers against a real API server with its own controllers, with the rights that the chart gives. They run
//! in this process; what a kubelet and pods would say is written by the tests.

#![allow(clippy::disallowed_methods)] // The controllers under test are on loopback.

mod callers;
mod drift;
mod examples;
mod folders;
mod harness;
mod oauth;
mod objects;
mod references;
mod reports;
mod status;
mod unreadable;
