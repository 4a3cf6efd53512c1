//! One call of an authorised caller, whatever the binding: from the request to what it asks for, and from that to its
//! answer or its stream.

use std::sync::Arc;
use std::time::Instant;

use agentd_base::trace::TraceContext;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method as Verb, Response, StatusCode, header};
use hyper::body::Body;
use serde_json::{Map, Value};
use tracing::Instrument as _;

use crate::access::Refusal;
use crate::binding::{Binding, JSON};
use crate::body::{Answer, held, read};
use crate::caller::Caller;
use crate::command::Command;
use crate::extension::Active;
use crate::fault::{Fault, QUOTA};
use crate::http::{App, Route, answer_of, not_allowed, route};
use crate::list::Listing;
use crate::operation::Operation;
use crate::rest::Found;
use crate::service::{GetTask, Sent, ServiceError, Subscription};
use crate::stream::Shown;
use crate::version::Version;
use crate::{command, limit, list, message, proto, push, rest, rpc, stream, v03, wire};

/// The media type of a stream.
pub(crate) const EVENTS: &str = "text/event-stream";

/// What was asked for, so far done that only the answer is to be made.
enum Asked {
    Task(Wanted),
    List(Box<Listing>),
    /// It is there already.
    Whole(Value),
    Message(Box<wire::Message>),
    Stream(Box<Shown>),
}

/// A task that a caller asked for, in one way or the other.
struct Wanted {
    operation: Operation,
    task_id: String,
    /// Not before its end.
    wait: bool,
    history: Option<usize>,
}

/// A call that is answered at once.
struct Unmet {
    binding: Binding,
    fault: Fault,
}

/// Carries a call out.
pub(crate) async fn call<B>(
    app: &Arc<App>,
    caller: Caller,
    head: Parts,
    body: B,
) -> Result<Response<Answer>, Refusal>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let reads_events = v03::reads_events_alone(&head);
    // What was sent is not kept while the task runs: the head and the body end with this.
    let (binding, asked, active) = match take(app, &caller, head, body).await? {
        Ok(taken) => taken,
        Err(Unmet {
            binding: binding @ Binding::JsonRpc(..),
            fault,
        }) if reads_events => {
            let event = Answer::whole(Bytes::from(binding.line(Err(fault))));
            return Ok(answer_of(StatusCode::OK, EVENTS, event));
        }
        Err(Unmet { binding, fault }) => return Ok(at_once(&binding, fault)),
    };
    if let Asked::Stream(shown) = asked {
        let key = caller.key().to_owned();
        let version = binding.version();
        let mut answer = answer_of(StatusCode::OK, EVENTS, stream::open(app, key, binding, *shown));
        active.tell(version, answer.headers_mut());
        return Ok(answer);
    }
    if let Asked::Task(Wanted {
        wait: true, task_id, ..
    }) = &asked
    {
        app.service.ended(task_id).await;
    }
    let Ok(Ok(room)) = tokio::time::timeout(
        limit::TURN,
        app.answering.reserve(caller.key(), limit::ANSWER_BYTES),
    )
    .await
    else {
        return Ok(at_once(&binding, Fault::busy()));
    };
    let (status, bytes) = binding.answer(show(app, &caller, &binding, asked).await);
    let mut answer = answer_of(status, binding.media_type(), Answer::whole(held(bytes, room)));
    active.tell(binding.version(), answer.headers_mut());
    Ok(answer)
}

fn at_once(binding: &Binding, fault: Fault) -> Response<Answer> {
    let retry = fault.retry_after().map(HeaderValue::from);
    let (status, bytes) = binding.answer(Err(fault));
    let mut answer = answer_of(status, binding.media_type(), Answer::whole(Bytes::from(bytes)));
    answer
        .headers_mut()
        .extend(retry.map(|seconds| (header::RETRY_AFTER, seconds)));
    answer
}

/// Reads a request and does what it asks for, so far that only its answer has to be made.
async fn take<B>(
    app: &App,
    caller: &Caller,
    head: Parts,
    body: B,
) -> Result<Result<(Binding, Asked, Active), Unmet>, Refusal>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let understood = match route(head.uri.path(), app.card.base_paths()) {
        Route::Rpc => understand_rpc(app, caller, &head, body).await?,
        Route::Rest(path) => understand_rest(app, caller, &head, path, body).await?,
        Route::Card => return Err(nothing_there()),
    };
    let (binding, operation, params) = match understood {
        Ok(understood) => understood,
        Err(unmet) => return Ok(Err(unmet)),
    };
    operation.rule().admits(caller)?;
    let extensions = app.card.extensions();
    let active = match extensions.negotiate(caller, &head.headers, binding.version()) {
        Ok(active) => active,
        Err(fault) => return Ok(Err(Unmet { binding, fault })),
    };
    if operation == Operation::GetExtendedAgentCard {
        let card = app
            .card
            .extended(caller, &head.headers, &head.uri, binding.version());
        return Ok(match encoded(card) {
            Ok(card) => Ok((binding, Asked::Whole(card), active)),
            Err(fault) => Err(Unmet { binding, fault }),
        });
    }
    let span = tracing::info_span!("a2a", peer.spiffe_id = caller.key(), operation = operation.name());
    let trace = within(&head.headers);
    let begun = begin(
        app,
        caller,
        operation,
        params,
        (binding.version(), &active),
        trace,
    )
    .instrument(span)
    .await;
    Ok(match begun {
        Ok(asked) => Ok((binding, asked, active)),
        Err(fault) => Err(Unmet { binding, fault }),
    })
}

type Understood = Result<(Binding, Operation, Value), Unmet>;

async fn understand_rpc<B>(app: &App, caller: &Caller, head: &Parts, body: B) -> Result<Understood, Refusal>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    if head.method != Verb::POST {
        return Err(not_allowed("POST", "calls are sent with POST"));
    }
    if !has_media_type(&head.headers, &[JSON]) {
        return Ok(Err(Unmet {
            binding: Binding::JsonRpc(a2a::JsonRpcId::Null, Version::One),
            fault: Fault::content_type("send the call with Content-Type: application/json"),
        }));
    }
    let (bytes, _reserved) = read(&app.reading, caller.key(), body).await?;
    Ok(match rpc::parse(&bytes, version(head).as_deref()) {
        Ok(rpc::Call {
            id,
            version,
            operation,
            params,
        }) => Ok((Binding::JsonRpc(id, version), operation, params)),
        Err(rpc::Refused { id, fault }) => Err(Unmet {
            binding: Binding::JsonRpc(id, Version::One),
            fault,
        }),
    })
}

async fn understand_rest<B>(
    app: &App,
    caller: &Caller,
    head: &Parts,
    path: &str,
    body: B,
) -> Result<Understood, Refusal>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let unmet = |fault| {
        Ok(Err(Unmet {
            binding: Binding::HttpJson,
            fault,
        }))
    };
    let (method, mut params, has_body) = match rest::find(&head.method, path, head.uri.query()) {
        Found::Call {
            method,
            params,
            has_body,
        } => (method, params, has_body),
        Found::WrongVerb(verbs) => return Err(not_allowed(verbs, "this path is reached in another way")),
        Found::Nothing => return Err(nothing_there()),
    };
    let version = version(head);
    if Version::of(version.as_deref()) != Some(Version::One) {
        return unmet(Fault::version_of_rest(version.as_deref()));
    }
    let operation = match rpc::operation(method) {
        Ok(operation) => operation,
        Err(fault) => return unmet(fault),
    };
    if has_body {
        let (bytes, _reserved) = read(&app.reading, caller.key(), body).await?;
        // To cancel and to subscribe nothing more need be said than the path does.
        if !bytes.is_empty() {
            if !has_media_type(&head.headers, &[rest::MEDIA_TYPE, JSON]) {
                return unmet(Fault::content_type(
                    "send the call with Content-Type: application/a2a+json",
                ));
            }
            params = match with_body(params, &bytes) {
                Ok(params) => params,
                Err(fault) => return unmet(fault),
            };
        }
    }
    Ok(Ok((Binding::HttpJson, operation, Value::Object(params))))
}

/// The parameters of a call whose body says some of them; what its path and its query say counts more.
pub(crate) fn with_body(mut params: Map<String, Value>, bytes: &[u8]) -> Result<Map<String, Value>, Fault> {
    let mut fields = object(bytes)?;
    fields.append(&mut params);
    Ok(fields)
}

fn object(bytes: &[u8]) -> Result<Map<String, Value>, Fault> {
    if agentd_base::json::values(bytes) > limit::VALUES {
        let problem = format!("it holds more than {} values", limit::VALUES);
        return Err(Fault::params(vec![crate::fault::violation("body", problem)]));
    }
    match serde_json::from_slice(bytes) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err(Fault::params(vec![crate::fault::violation(
            "body",
            "must be an object",
        )])),
        Err(error) => Err(Fault::parse(&agentd_base::json::why(&error))),
    }
}

/// What the caller says that its call is part of. What is no `traceparent`, and more than one, is none: a call is not
/// refused for it.
fn within(headers: &HeaderMap) -> Option<TraceContext> {
    let mut said = headers.get_all("traceparent").iter();
    match (said.next(), said.next()) {
        (Some(only), None) => only.to_str().ok()?.parse().ok(),
        _ => None,
    }
}

/// Does what is asked for.
async fn begin(
    app: &App,
    caller: &Caller,
    operation: Operation,
    mut params: Value,
    (version, active): (Version, &Active),
    trace: Option<TraceContext>,
) -> Result<Asked, Fault> {
    proto::json_names(&mut params);
    let wanted = |task_id, wait, history| {
        Asked::Task(Wanted {
            operation,
            task_id,
            wait,
            history,
        })
    };
    match operation {
        Operation::SendMessage | Operation::SendStreamingMessage => {
            let message::Parsed { mut request, history } = message::send(params, version)?;
            if request.push.is_some() && app.service.push().is_none() {
                return Err(Fault::push_not_supported());
            }
            let command = match active.has_commands() {
                true => command::parse(caller, &request)?,
                false => None,
            };
            allowed(app, caller)?;
            let is_stream = operation == Operation::SendStreamingMessage;
            if let Some(command) = command {
                let answered = carry_out(app, caller, command, request.context_id).await?;
                return Ok(match is_stream {
                    true => Asked::Stream(Box::new(Shown::Message(answered))),
                    false => Asked::Message(Box::new(answered)),
                });
            }
            request.trace = trace;
            tracing::info!(event = "a2a.message", message.id = request.message_id);
            let wait = !request.return_immediately;
            let (service, sender) = (app.service.clone(), caller.clone());
            let sent = to_its_end(app, async move { service.send_message(&sender, request).await }).await?;
            match sent {
                Sent::Task(task_id) if is_stream => {
                    let mut subscription = follow(app, caller, task_id, history).await?;
                    // Nothing happens before somebody says something, which begins a stream of its own.
                    if stream::ends(&subscription.task.status.state) {
                        subscription.events = None;
                    }
                    Ok(Asked::Stream(Box::new(Shown::Task(subscription))))
                }
                Sent::Task(task_id) => Ok(wanted(task_id, wait, history)),
                Sent::Message(message) if is_stream => Ok(Asked::Stream(Box::new(Shown::Message(*message)))),
                Sent::Message(message) => Ok(Asked::Message(message)),
            }
        }
        Operation::GetTask => {
            let parsed = message::get(params)?;
            Ok(wanted(parsed.request.id, false, parsed.history))
        }
        Operation::ListTasks => Ok(Asked::List(Box::new(list::parse(&params)?))),
        Operation::CancelTask => {
            let id = message::id(&params)?;
            tracing::info!(event = "a2a.cancel", run.id = id);
            let (service, canceller, task_id) = (app.service.clone(), caller.clone(), id.clone());
            to_its_end(
                app,
                async move { service.cancel_task(&canceller, &task_id).await },
            )
            .await?;
            Ok(wanted(id, false, None))
        }
        Operation::SubscribeToTask => {
            let subscription = follow(app, caller, message::id(&params)?, None).await?;
            if subscription.task.status.state.is_terminal() {
                return Err(Fault::nothing_to_follow());
            }
            Ok(Asked::Stream(Box::new(Shown::Task(subscription))))
        }
        Operation::CreatePushConfig
        | Operation::GetPushConfig
        | Operation::ListPushConfigs
        | Operation::DeletePushConfig => pushing(app, caller.clone(), operation, params, version).await,
        // Made before, of the card alone.
        Operation::GetExtendedAgentCard => Err(Fault::internal()),
    }
}

/// The answer to a command.
async fn carry_out(
    app: &App,
    caller: &Caller,
    command: Command,
    context_id: Option<String>,
) -> Result<wire::Message, Fault> {
    let op = command.op();
    tracing::debug!(event = "a2a.command", op = op.name());
    let (service, sender) = (app.service.clone(), caller.clone());
    let done = to_its_end(app, async move { service.command(&sender, command).await }).await?;
    Ok(command::answer(op, context_id, done))
}

/// What is asked about push notifications, to its end as [`to_its_end`] has it.
async fn pushing(
    app: &App,
    caller: Caller,
    operation: Operation,
    params: Value,
    version: Version,
) -> Result<Asked, Fault> {
    let service = app.service.clone();
    let work = async move {
        match service.push() {
            Some(configs) => push::call(configs, &caller, operation, params, version).await,
            None => Err(Fault::push_not_supported().into()),
        }
    };
    match tokio::spawn(work.in_current_span()).await {
        Ok(Ok(answer)) => Ok(Asked::Whole(answer)),
        Ok(Err(push::Failed::Fault(fault))) => Err(fault),
        Ok(Err(push::Failed::Service(error))) => Err(told(app, &error)),
        Err(ended) => Err(told(app, &ServiceError::Internal(ended.to_string()))),
    }
}

/// Whether the caller may send one more message now.
fn allowed(app: &App, caller: &Caller) -> Result<(), Fault> {
    let now = Instant::now();
    app.quotas.take(caller.allowances(), now).map_err(|wait| {
        if let Some(left_out) = app.denials.pass(now) {
            tracing::warn!(
                event = "a2a.denied",
                peer.spiffe_id = caller.key(),
                reason = QUOTA,
                left_out
            );
        }
        Fault::quota(wait)
    })
}

async fn follow(
    app: &App,
    caller: &Caller,
    id: String,
    history: Option<usize>,
) -> Result<Subscription, Fault> {
    let subscribed = app.service.subscribe(caller, &id).await;
    let mut subscription = subscribed.map_err(|error| told(app, &error))?;
    message::cut_history(&mut subscription.task, history);
    Ok(subscription)
}

/// On a task of its own: a caller that goes away must not stop what it began half-way.
async fn to_its_end<T: Send + 'static>(
    app: &App,
    work: impl Future<Output = Result<T, ServiceError>> + Send + 'static,
) -> Result<T, Fault> {
    tokio::spawn(work.in_current_span())
        .await
        .unwrap_or_else(|ended| Err(ServiceError::Internal(ended.to_string())))
        .map_err(|error| told(app, &error))
}

/// The result of a call.
async fn show(app: &App, caller: &Caller, binding: &Binding, asked: Asked) -> Result<Value, Fault> {
    match asked {
        Asked::Task(wanted) => {
            let request = GetTask { id: wanted.task_id };
            let found = app.service.get_task(caller, request).await;
            let mut task = found.map_err(|error| told(app, &error))?;
            message::cut_history(&mut task, wanted.history);
            encoded(binding.task(wanted.operation, task))
        }
        Asked::List(listing) => {
            let listed = app.service.list_tasks(caller, listing.request.clone()).await;
            let page = listing.page(listed.map_err(|error| told(app, &error))?);
            encoded(serde_json::to_value(page))
        }
        Asked::Whole(card) => Ok(card),
        Asked::Message(message) => encoded(binding.message(*message)),
        // A stream is no one result.
        Asked::Stream(_) => Err(Fault::internal()),
    }
}

/// What the caller is told; what it is not told goes to the log.
fn told(app: &App, error: &ServiceError) -> Fault {
    if matches!(
        error,
        ServiceError::Unavailable { .. } | ServiceError::Internal(_)
    ) && let Some(left_out) = app.failures.pass(Instant::now())
    {
        tracing::error!(event = "a2a.failed", err = %error, left_out);
    }
    Fault::from(error)
}

fn encoded(result: serde_json::Result<Value>) -> Result<Value, Fault> {
    result.map_err(|error| {
        tracing::error!(event = "a2a.task.encode.fail", err = %error);
        Fault::internal()
    })
}

fn nothing_there() -> Refusal {
    Refusal::new(
        StatusCode::NOT_FOUND,
        "NOT_FOUND",
        "there is nothing at this path",
    )
}

pub(crate) fn has_media_type(headers: &HeaderMap, types: &[&str]) -> bool {
    let value = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let essence = value.split(';').next().unwrap_or_default().trim();
    types.iter().any(|one| essence.eq_ignore_ascii_case(one))
}

/// What the caller named in the header, else in the query.
pub(crate) fn version(head: &Parts) -> Option<String> {
    let named = head.headers.get_all(wire::VERSION_HEADER).iter();
    let named: Vec<_> = named
        .map(|value| String::from_utf8_lossy(value.as_bytes()))
        .collect();
    if !named.is_empty() {
        // Several are what a proxy makes one of, and no version.
        return Some(named.join(", "));
    }
    url::form_urlencoded::parse(head.uri.query()?.as_bytes())
        .find(|(name, _)| name.eq_ignore_ascii_case(wire::VERSION_HEADER))
        .map(|(_, value)| value.into_owned())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn content_types() {
        let json = |value: &str| {
            let value = HeaderValue::from_str(value).unwrap();
            has_media_type(&HeaderMap::from_iter([(header::CONTENT_TYPE, value)]), &[JSON])
        };
        assert!(json("application/json"));
        assert!(json("Application/JSON; charset=utf-8"));
        for wrong in [
            "text/plain",
            "application/jsonp",
            "",
            "text/plain; application/json",
        ] {
            assert!(!json(wrong), "{wrong}");
        }
        assert!(!has_media_type(&HeaderMap::new(), &[JSON]));
    }
}
