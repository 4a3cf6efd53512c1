//! The four operations, whatever the binding and the version: from parameters of 1.0 to the answer.

use serde_json::{Map, Value, json};

use super::{PushConfig, PushConfigs, config};
use crate::caller::Caller;
use crate::fault::Fault;
use crate::message::check_id;
use crate::operation::Operation;
use crate::service::ServiceError;
use crate::v03;
use crate::version::Version;

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Failed {
    /// The caller is told this.
    Fault(Fault),
    /// The agent's side did not do it.
    Service(ServiceError),
}

impl From<Fault> for Failed {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<ServiceError> for Failed {
    fn from(error: ServiceError) -> Self {
        Self::Service(error)
    }
}

impl From<serde_json::Error> for Failed {
    fn from(error: serde_json::Error) -> Self {
        Self::Service(ServiceError::Internal(error.to_string()))
    }
}

/// What is asked for.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) task_id: String,
    /// Of the one that is named.
    pub(crate) id: String,
    /// The one that is given.
    pub(crate) config: Option<PushConfig>,
}

/// Reads the parameters of one of the four.
pub(crate) fn understand(operation: Operation, params: &Value, version: Version) -> Result<Asked, Fault> {
    let empty = Map::new();
    let fields = params.as_object().unwrap_or(&empty);
    let mut found = Vec::new();
    check_id(fields, "taskId", "taskId", true, &mut found);
    if matches!(operation, Operation::GetPushConfig | Operation::DeletePushConfig) {
        check_id(fields, "id", "id", true, &mut found);
    }
    let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
    let (task_id, id) = (text("taskId").to_owned(), text("id").to_owned());
    let config = match operation {
        Operation::CreatePushConfig => config::parse(fields, "", version, &mut found),
        _ => None,
    };
    if !found.is_empty() {
        return Err(Fault::params(found));
    }
    let config = config.map(|config| config.of(&task_id));
    Ok(Asked { task_id, id, config })
}

/// Carries one out. An operation that is none of the four is a fault of ours.
pub(crate) async fn call(
    configs: &dyn PushConfigs,
    caller: &Caller,
    operation: Operation,
    params: Value,
    version: Version,
) -> Result<Value, Failed> {
    let Asked { task_id, id, config } = understand(operation, &params, version)?;
    let one = |config: &PushConfig| match version {
        Version::One => serde_json::to_value(config.shown(&task_id)),
        Version::ZeroThree => Ok(v03::push_config(&config.shown(&task_id))),
    };
    match (operation, config) {
        (Operation::CreatePushConfig, Some(config)) => {
            let shown = one(&config)?;
            configs.create(caller, &task_id, config).await?;
            Ok(shown)
        }
        (Operation::GetPushConfig, _) => Ok(one(&configs.get(caller, &task_id, &id).await?)?),
        (Operation::ListPushConfigs, _) => {
            let all = configs.list(caller, &task_id).await?;
            let all: Vec<Value> = all.iter().map(one).collect::<Result<_, _>>()?;
            Ok(match version {
                Version::One => json!({ "configs": all }),
                Version::ZeroThree => Value::Array(all),
            })
        }
        (Operation::DeletePushConfig, _) => {
            configs.delete(caller, &task_id, &id).await?;
            Ok(match version {
                Version::One => json!({}),
                Version::ZeroThree => Value::Null,
            })
        }
        _ => Err(ServiceError::Internal(format!("{} is no call of push", operation.name())).into()),
    }
}
