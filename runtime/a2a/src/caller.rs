//! Who calls: principals as an immutable snapshot, matched at each request. Deny by default; exact SPIFFE IDs, no
//! patterns; a caller gets the union of the entries that match. No I/O.

use std::collections::{BTreeSet, HashMap};

use agentd_config::document::Principal;
pub use agentd_config::document::Role;
use agentd_identity::SpiffeId;

use crate::service::ServiceError;

/// The owner key of every caller of a listener in development mode.
pub const DEV_KEY: &str = "dev";

/// An authorised caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    key: String,
    names: Vec<String>,
    roles: BTreeSet<Role>,
}

impl Caller {
    /// The stable key of the principal, its SPIFFE ID: the owner of what it makes.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The names of the entries that matched, for logs.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Whether it has at least this role. Asked by the table of operations ([`crate::operation`]) and nobody else.
    pub(crate) fn has_role(&self, least: Role) -> bool {
        self.roles.iter().next_back().is_some_and(|role| *role >= least)
    }

    /// The owner whose things exist for the caller; none for an operator, for whom all do.
    pub fn only(&self) -> Option<&str> {
        (!self.has_role(Role::Operator)).then_some(&self.key)
    }

    /// What was found, if it exists for the caller. What is another's and what is not there are one answer.
    ///
    /// # Errors
    /// [`ServiceError::TaskNotFound`] of this id.
    pub fn theirs<T>(
        &self,
        id: &str,
        found: Option<T>,
        owner: impl Fn(&T) -> &str,
    ) -> Result<T, ServiceError> {
        found
            .filter(|found| self.only().is_none_or(|only| only == owner(found)))
            .ok_or_else(|| ServiceError::TaskNotFound(id.to_owned()))
    }

    #[cfg(test)]
    pub(crate) fn of(key: &str, roles: &[Role]) -> Self {
        Self {
            key: key.to_owned(),
            names: Vec::new(),
            roles: roles.iter().copied().collect(),
        }
    }

    /// The caller of a listener in development mode: an operator.
    pub(crate) fn dev() -> Self {
        Self {
            key: DEV_KEY.to_owned(),
            names: vec![DEV_KEY.to_owned()],
            roles: BTreeSet::from([Role::Operator]),
        }
    }
}

/// Who may call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Principals {
    by_id: HashMap<String, Caller>,
}

impl Principals {
    /// From the document's entries.
    pub fn new(entries: &[Principal]) -> Self {
        let mut by_id: HashMap<String, Caller> = HashMap::new();
        for entry in entries {
            let caller = by_id.entry(entry.spiffe_id.clone()).or_insert_with(|| Caller {
                key: entry.spiffe_id.clone(),
                names: Vec::new(),
                roles: BTreeSet::new(),
            });
            caller.names.push(entry.name.clone());
            caller.roles.insert(entry.role);
        }
        Self { by_id }
    }

    /// The caller with this verified ID, if an entry matches.
    pub fn caller(&self, id: &SpiffeId) -> Option<&Caller> {
        self.by_id.get(id.to_string().as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALICE: &str = "spiffe://td/ns/a/sa/alice";

    fn entry(name: &str, spiffe_id: &str, role: Role) -> Principal {
        Principal {
            name: name.into(),
            spiffe_id: spiffe_id.into(),
            role,
        }
    }

    #[test]
    fn a_caller_gets_the_union_of_the_entries_that_name_exactly_its_id() {
        let principals = Principals::new(&[
            entry("one", ALICE, Role::Agent),
            entry("two", ALICE, Role::User),
            entry("admin", "spiffe://td/ns/a/sa/admin", Role::Operator),
        ]);
        let alice = principals.caller(&ALICE.parse().unwrap()).unwrap();
        assert_eq!(
            (alice.key(), alice.names()),
            (ALICE, ["one".to_owned(), "two".to_owned()].as_slice())
        );
        assert!(alice.has_role(Role::Agent) && alice.has_role(Role::User) && !alice.has_role(Role::Operator));
        assert_eq!(alice.only(), Some(ALICE));
        let of = |caller: &Caller, owner: Option<&'static str>| caller.theirs("t", owner, |owner| owner);
        assert_eq!(of(alice, Some(ALICE)), Ok(ALICE));
        let unknown = Err(ServiceError::TaskNotFound("t".into()));
        assert_eq!(of(alice, Some("spiffe://td/ns/a/sa/admin")), unknown);
        assert_eq!(of(alice, None), unknown);
        let admin = principals
            .caller(&"spiffe://td/ns/a/sa/admin".parse().unwrap())
            .unwrap();
        assert_eq!((of(admin, Some(ALICE)), of(admin, None)), (Ok(ALICE), unknown));
        assert_eq!(admin.only(), None);
        for other in [
            "spiffe://td/ns/a/sa/alice2",
            "spiffe://td/ns/a/sa/alic",
            "spiffe://other/ns/a/sa/alice",
        ] {
            assert_eq!(principals.caller(&other.parse().unwrap()), None, "{other}");
        }
        assert_eq!(
            Principals::default().caller(&ALICE.parse().unwrap()),
            None,
            "nobody by default"
        );
    }
}
