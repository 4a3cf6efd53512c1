//! A gate that exchanges with scripted peers pass, one number each. It lets a test stop the world at any of them: what
//! comes after that point waits, whether it had begun or not, until the test goes on or says that it never will.

use std::future::Future;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State as Extract};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use tokio::sync::watch;

use crate::process::PATIENCE;

/// Where in an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Moment {
    /// It is asked for and not carried out.
    Before,
    /// It is carried out, and nobody has heard of it.
    After,
}

/// The number of an exchange, from 0, and where in it.
pub type Point = (usize, Moment);

#[derive(Default)]
struct State {
    /// Conversations so far.
    epoch: u64,
    /// What waits in conversations up to this one waits for ever.
    dead: Option<u64>,
    events: Vec<String>,
    /// Exchanges that were carried out, of all conversations.
    done: usize,
    stop: Option<Point>,
    reached: bool,
}

/// See the module.
#[derive(Clone)]
pub struct Gate(Arc<watch::Sender<State>>);

impl Gate {
    pub fn new() -> Self {
        Self(Arc::new(watch::Sender::new(State::default())))
    }

    /// Begins to count anew; the world will stop at `stop`.
    pub fn renew(&self, stop: Option<Point>) {
        self.0.send_modify(|state| {
            state.epoch += 1;
            state.events.clear();
            state.reached = false;
            state.stop = stop;
        });
    }

    /// Lets everything go on, up to another point if there is one.
    pub fn open(&self, next: Option<Point>) {
        self.0.send_modify(|state| {
            state.reached = false;
            state.stop = next;
        });
    }

    /// Whoever asked is dead: what waits is never carried out, nor answered.
    pub fn bury(&self) {
        self.0.send_modify(|state| {
            state.dead = Some(state.epoch);
            state.epoch += 1;
            state.reached = false;
            state.stop = None;
        });
    }

    /// What passed since the count began.
    pub fn events(&self) -> Vec<String> {
        self.0.borrow().events.clone()
    }

    /// Returns when the world has stopped.
    pub async fn reached(&self) {
        self.until(|state| state.reached).await;
    }

    /// Returns when `condition` holds, which is looked at after each exchange; false when whoever asked was buried.
    pub async fn quiet(&self, condition: impl Fn() -> bool) -> bool {
        let mut following = self.0.subscribe();
        let epoch = following.borrow().epoch;
        let quiet = async {
            loop {
                if following.borrow_and_update().epoch != epoch {
                    return false;
                }
                if condition() {
                    return true;
                }
                following.changed().await.unwrap();
            }
        };
        let waited = tokio::time::timeout(PATIENCE, quiet).await;
        waited.unwrap_or_else(|_| panic!("it does not become quiet; so far: {:#?}", self.events()))
    }

    async fn until(&self, condition: impl FnMut(&State) -> bool) {
        let mut following = self.0.subscribe();
        let waited = tokio::time::timeout(PATIENCE, following.wait_for(condition)).await;
        if waited.is_err() {
            panic!("the point is not reached; so far: {:#?}", self.events());
        }
    }

    /// An exchange of this name.
    pub async fn pass<T>(&self, what: String, carried_out: impl Future<Output = T>) -> T {
        let mut place = (0, 0);
        self.0.send_modify(|state| {
            place = (state.epoch, state.events.len());
            state.events.push(what);
        });
        self.hold(place, Moment::Before).await;
        let done = carried_out.await;
        self.0.send_modify(|state| state.done += 1);
        self.hold(place, Moment::After).await;
        done
    }

    async fn hold(&self, (epoch, number): (u64, usize), moment: Moment) {
        let here = (number, moment);
        let is_held =
            move |state: &State| state.epoch == epoch && state.stop.is_some_and(|stop| here >= stop);
        let mut following = self.0.subscribe();
        let is_dead = loop {
            // The stop may come to where this has waited already.
            self.0.send_if_modified(|state| {
                let at = state.epoch == epoch && state.stop == Some(here) && !state.reached;
                state.reached |= at;
                at
            });
            {
                let state = following.borrow_and_update();
                if !is_held(&state) {
                    break state.dead.is_some_and(|dead| epoch <= dead);
                }
            }
            following.changed().await.unwrap();
        };
        if is_dead {
            std::future::pending::<()>().await;
        }
    }

    /// Puts the gate before the changes of a server that keeps keys.
    pub fn before_changes(&self, router: Router) -> Router {
        router.layer(from_fn_with_state(self.clone(), change))
    }

    /// Puts the gate before everything that a model is asked.
    pub fn before_all(&self, router: Router) -> Router {
        router.layer(from_fn_with_state(self.clone(), request))
    }

    /// Puts the gate before the calls of an MCP server's tools.
    pub fn before_calls(&self, router: Router) -> Router {
        router.layer(from_fn_with_state(self.clone(), call))
    }
}

async fn change(Extract(gate): Extract<Gate>, request: Request, next: Next) -> Response {
    let method = request.method().as_str();
    if !["PUT", "DELETE"].contains(&method) {
        return next.run(request).await;
    }
    // /base/PREFIX/AGENT/KIND/ID
    let kind = request.uri().path().rsplit('/').nth(1).unwrap_or_default();
    gate.pass(format!("{method} {kind}"), next.run(request)).await
}

async fn request(Extract(gate): Extract<Gate>, request: Request, next: Next) -> Response {
    gate.pass("model".to_owned(), next.run(request)).await
}

async fn call(Extract(gate): Extract<Gate>, request: Request, next: Next) -> Response {
    let (head, body) = request.into_parts();
    let Ok(bytes) = axum::body::to_bytes(body, usize::MAX).await else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let is_call = String::from_utf8_lossy(&bytes).contains("\"tools/call\"");
    let request = Request::from_parts(head, Body::from(bytes));
    if !is_call {
        return next.run(request).await;
    }
    gate.pass("tool".to_owned(), next.run(request)).await
}
