//! The handler of all tools that only the supervisor can carry out: the arguments are the request.

use async_trait::async_trait;

use crate::internal::{Call, Came, Handler};
use crate::observation::{Effect, Observation};
use crate::request::{Reply, Request};
use crate::status::Status;

/// See the module.
pub(crate) struct Supervised;

#[async_trait]
impl Handler for Supervised {
    async fn call(&self, call: Call<'_>) -> Came {
        let request = match Request::of_tool(call.tool, call.arguments) {
            Ok(request) => request,
            Err(fault) => return Came::error(format!("the arguments of {} do not fit: {fault}", call.tool)),
        };
        let reply = call.desk.supervisor.request(request).await;
        if let Reply::Done(value) = &reply
            && value.get("uri").is_some()
        {
            call.desk.kept.note_own();
        }
        came(reply)
    }
}

/// What the supervisor says, for the model.
pub(crate) fn came(reply: Reply) -> Came {
    match reply {
        Reply::Done(value) => Came::Value(value),
        Reply::Refused(why) => Came::error(why),
        Reply::Later => {
            let effect = Effect::Finish {
                status: Status::Waiting,
                text: None,
                reason: None,
            };
            Came::Seen(Observation::result("nobody has answered yet").with_effect(effect))
        }
        Reply::Reserved(_) => Came::error("the supervisor gave no result"),
    }
}
