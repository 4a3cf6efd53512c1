//! Context.
use agentd_base::class::Class;
/// x
pub fn class_of(error: &kube::Error) -> Class {
    match error {
        kube::Error::Api(status) => match status.code {
            401 | 403 => Class::Denied,
            409 => Class::Conflict,
            400 | 422 => Class::Invalid,
            _ => Class::Unavailable,
        },
        kube::Error::SerdeError(_) | kube::Error::BuildRequest(_) => Class::Internal,
        _ => Class::Unavailable,
    }
}
