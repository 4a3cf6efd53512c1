//! Who calls: principals as an immutable snapshot, matched at each request. Deny by default; exact SPIFFE IDs, no
//! patterns; a caller gets the union of the entries that match. No I/O.

use std::collections::{BTreeSet, HashMap};

use agentd_config::document::Principal;
pub use agentd_config::document::Role;
use agentd_identity::SpiffeId;

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

    /// Whether it has at least this role.
    pub fn has_role(&self, least: Role) -> bool {
        self.roles.iter().next_back().is_some_and(|role| *role >= least)
    }

    /// Whether a task or conversation with this owner exists for the caller.
    pub fn may_see(&self, owner: &str) -> bool {
        self.key == owner || self.has_role(Role::Operator)
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
        assert!(alice.may_see(ALICE) && !alice.may_see("spiffe://td/ns/a/sa/admin"));
        let admin = principals
            .caller(&"spiffe://td/ns/a/sa/admin".parse().unwrap())
            .unwrap();
        assert!(admin.may_see(ALICE));
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
