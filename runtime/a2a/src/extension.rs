//! Extensions of the protocol: the one list of what this agent declares, and what of it a call has. A caller names those
//! that it speaks in a header; those of them that are here for it are active in the call, and the answer names them. Pure.

use a2a::AgentExtension;
use http::header::HeaderName;
use http::{HeaderMap, HeaderValue};

use agentd_config::document::{Extension, Role};

use crate::caller::Caller;
use crate::command::{self, Op};
use crate::fault::Fault;
use crate::version::Version;

/// The header of 1.0, in calls and in answers.
const HEADER: HeaderName = HeaderName::from_static("a2a-extensions");
/// That of 0.3.
const HEADER_BEFORE: HeaderName = HeaderName::from_static("x-a2a-extensions");

/// What is declared.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Extensions(Vec<Extension>);

/// What is active in one call, by URI, in the order of the declaration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Active(Vec<String>);

impl Extensions {
    pub(crate) fn new(declared: &[Extension]) -> Self {
        Self(declared.to_vec())
    }

    /// Those that this caller is told of; without one, those that the public card tells everybody of.
    pub(crate) fn shown(&self, caller: Option<&Caller>) -> Option<Vec<AgentExtension>> {
        let mut shown: Vec<_> = self
            .0
            .iter()
            .filter(|one| is_for(one.role, caller))
            .map(|one| AgentExtension {
                uri: one.uri.clone(),
                description: one.description.clone(),
                // As proto3 JSON has it: false is not written.
                required: one.required.then_some(true),
                params: (!one.params.is_empty()).then(|| one.params.clone().into_iter().collect()),
            })
            .collect();
        shown.extend(caller.and_then(commands_for));
        (!shown.is_empty()).then_some(shown)
    }

    /// What is active in a call, or the fault that it does not name what it must.
    pub(crate) fn negotiate(
        &self,
        caller: &Caller,
        headers: &HeaderMap,
        version: Version,
    ) -> Result<Active, Fault> {
        let named = named(headers, version);
        let mut active = Vec::new();
        let mut missing = Vec::new();
        for one in self.0.iter().filter(|one| is_for(one.role, Some(caller))) {
            if named.contains(&one.uri.as_str()) {
                active.push(one.uri.clone());
            } else if one.required {
                missing.push(one.uri.as_str());
            }
        }
        if named.contains(&command::URI) {
            active.push(command::URI.to_owned());
        }
        if missing.is_empty() {
            Ok(Active(active))
        } else {
            Err(Fault::extension_required(&missing, header_of(version).as_str()))
        }
    }
}

impl Active {
    /// Whether the call may hold commands.
    pub(crate) fn has_commands(&self) -> bool {
        self.0.iter().any(|uri| uri == command::URI)
    }

    /// Says in an answer what is active.
    pub(crate) fn tell(&self, version: Version, headers: &mut HeaderMap) {
        if let (false, Ok(value)) = (self.0.is_empty(), HeaderValue::from_str(&self.0.join(", "))) {
            headers.insert(header_of(version), value);
        }
    }
}

/// The extension that every agent has, as a caller is told of it who has a command.
fn commands_for(caller: &Caller) -> Option<AgentExtension> {
    let ops = Op::names_for(caller);
    (!ops.is_empty()).then(|| AgentExtension {
        uri: command::URI.to_owned(),
        description: Some(command::DESCRIPTION.to_owned()),
        required: None,
        params: Some([("ops".to_owned(), ops.into())].into()),
    })
}

/// Whether something for this role is for this caller. What is for no role is for everybody.
pub(crate) fn is_for(least: Option<Role>, caller: Option<&Caller>) -> bool {
    least.is_none_or(|least| caller.is_some_and(|caller| caller.has_role(least)))
}

const fn header_of(version: Version) -> HeaderName {
    match version {
        Version::One => HEADER,
        Version::ZeroThree => HEADER_BEFORE,
    }
}

/// All that a call names. What is no text names nothing.
fn named(headers: &HeaderMap, version: Version) -> Vec<&str> {
    headers
        .get_all(header_of(version))
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|uri| !uri.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use agentd_config::document::Principal;

    use super::*;
    use crate::caller::Principals;

    fn caller(role: Role) -> Caller {
        let spiffe_id = "spiffe://td/ns/a/sa/alice";
        let principals = Principals::new(&[Principal::with_spiffe_id("alice", spiffe_id, role)]);
        principals.caller(&spiffe_id.parse().unwrap()).unwrap().clone()
    }

    fn declared(entries: &[(&str, bool, Option<Role>)]) -> Extensions {
        let entries: Vec<_> = entries
            .iter()
            .map(|(uri, required, role)| Extension {
                uri: (*uri).to_owned(),
                required: *required,
                role: *role,
                ..Extension::default()
            })
            .collect();
        Extensions::new(&entries)
    }

    fn headers(name: HeaderName, values: &[&str]) -> HeaderMap {
        values
            .iter()
            .map(|value| (name.clone(), HeaderValue::from_str(value).unwrap()))
            .collect()
    }

    fn active(extensions: &Extensions, headers: &HeaderMap, version: Version) -> Vec<String> {
        extensions
            .negotiate(&caller(Role::User), headers, version)
            .unwrap()
            .0
    }

    #[test]
    fn s11_what_a_caller_names_and_is_here_is_active_and_told() {
        let extensions = declared(&[
            ("urn:a", false, None),
            ("urn:b", false, None),
            ("urn:c", false, None),
        ]);
        let said = headers(HEADER, &["urn:c, urn:x,,", " urn:a ", "urn:A"]);
        assert_eq!(active(&extensions, &said, Version::One), ["urn:a", "urn:c"]);
        assert_eq!(active(&extensions, &said, Version::ZeroThree), [""; 0]);
        let before = headers(HEADER_BEFORE, &["urn:b"]);
        assert_eq!(active(&extensions, &before, Version::ZeroThree), ["urn:b"]);
        assert_eq!(active(&extensions, &before, Version::One), [""; 0]);
        let mut told = HeaderMap::new();
        let both = Active(vec!["urn:a".into(), "urn:c".into()]);
        both.tell(Version::One, &mut told);
        assert_eq!(told, headers(HEADER, &["urn:a, urn:c"]));
        let mut told = HeaderMap::new();
        Active::default().tell(Version::ZeroThree, &mut told);
        assert_eq!(told, HeaderMap::new());
    }

    #[test]
    fn s11_one_that_is_required_and_not_named_is_refused_by_its_name() {
        let extensions = declared(&[
            ("urn:a", true, None),
            ("urn:b", true, None),
            ("urn:op", true, Some(Role::Operator)),
        ]);
        let refused = |said: &[&str], role| {
            let fault = extensions.negotiate(&caller(role), &headers(HEADER, said), Version::One);
            fault.map(|active| active.0).map_err(|fault| fault.to_wire())
        };
        let error = refused(&["urn:b"], Role::User).unwrap_err();
        assert_eq!(error.code, -32008);
        assert!(error.message.contains("urn:a") && !error.message.contains("urn:b"));
        assert!(error.message.contains("a2a-extensions"), "{}", error.message);
        // What is there for operators alone is asked of nobody else.
        assert_eq!(
            refused(&["urn:a,urn:b,urn:op"], Role::User).unwrap(),
            ["urn:a", "urn:b"]
        );
        assert_eq!(
            refused(&["urn:a,urn:b"], Role::Operator).unwrap_err().code,
            -32008
        );
    }

    #[test]
    fn a_card_tells_of_what_is_for_its_reader() {
        let extensions = declared(&[("urn:a", true, None), ("urn:op", false, Some(Role::Operator))]);
        let uris = |caller: Option<&Caller>| -> Vec<(String, Option<bool>)> {
            let shown = extensions.shown(caller).unwrap_or_default();
            shown.into_iter().map(|one| (one.uri, one.required)).collect()
        };
        let public = [("urn:a".to_owned(), Some(true))];
        assert_eq!(uris(None), public);
        let own = (command::URI.to_owned(), None);
        let users = [public.as_slice(), std::slice::from_ref(&own)].concat();
        assert_eq!(uris(Some(&caller(Role::User))), users);
        let all = [public.as_slice(), &[("urn:op".to_owned(), None), own]].concat();
        assert_eq!(uris(Some(&caller(Role::Operator))), all);
        assert_eq!(Extensions::default().shown(None), None);
    }
}
