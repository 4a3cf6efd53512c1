//! Who calls: principals as an immutable snapshot, matched at each request. Deny by default; exact SPIFFE IDs, exact
//! tokens and exact claims, no patterns; a caller gets the union of the entries that match.

use std::collections::{BTreeSet, HashMap};

use agentd_base::rate::Rate;
use agentd_config::document::Principal;
pub use agentd_config::document::Role;
use agentd_config::secret::SecretSource;
use agentd_identity::SpiffeId;

use crate::bearer::Bearer;
use crate::oidc::{Claims, Person};
use crate::service::ServiceError;
use crate::throttle::Throttle;

/// The owner key of every caller of a listener in development mode.
pub const DEV_KEY: &str = "dev";

/// An authorised caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    key: String,
    names: Vec<String>,
    roles: BTreeSet<Role>,
    /// Of each of `names`.
    rates: Vec<Option<Rate>>,
}

impl Caller {
    /// The stable key of the principal: the owner of what it makes. Its SPIFFE ID; without one that matches,
    /// `bearer:` and the name of the entry whose token it shows, the first one by name where there are several; without
    /// that, `oidc:`, a digest of its issuer, and its subject there.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The names of the entries that matched, for logs.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The entries that matched, with how many messages each lets it send.
    pub(crate) fn allowances(&self) -> impl Iterator<Item = (&str, Option<Rate>)> {
        let names = self.names.iter().map(String::as_str);
        names.zip(self.rates.iter().copied())
    }

    /// Whether it has at least this role. Asked by the table of operations ([`crate::operation`]), and by the card
    /// for what it shows to whom.
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
            rates: Vec::new(),
        }
    }

    const fn new(key: String) -> Self {
        Self {
            key,
            names: Vec::new(),
            roles: BTreeSet::new(),
            rates: Vec::new(),
        }
    }

    /// Another entry matches it.
    fn is_also(&mut self, name: &str, role: Role, rate: Option<Rate>) {
        self.names.push(name.to_owned());
        self.rates.push(rate);
        self.roles.insert(role);
    }

    /// The caller of a listener in development mode: an operator.
    pub(crate) fn dev() -> Self {
        Self {
            key: DEV_KEY.to_owned(),
            names: vec![DEV_KEY.to_owned()],
            roles: BTreeSet::from([Role::Operator]),
            rates: vec![None],
        }
    }
}

/// Who may call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Principals {
    by_id: HashMap<String, Caller>,
    /// By name.
    bearers: Vec<Bearer>,
    people: Vec<Person>,
}

impl Principals {
    /// From the document's entries.
    pub fn new(entries: &[Principal]) -> Self {
        let mut by_id: HashMap<String, Caller> = HashMap::new();
        for (entry, id) in entries
            .iter()
            .filter_map(|entry| Some((entry, entry.spiffe_id.as_ref()?)))
        {
            let caller = by_id.entry(id.clone()).or_insert_with(|| Caller::new(id.clone()));
            caller.is_also(&entry.name, entry.role, entry.quotas.rate);
        }
        let mut bearers: Vec<Bearer> = entries.iter().filter_map(Bearer::of).collect();
        bearers.sort_by(|one, other| one.name.cmp(&other.name));
        let people = entries.iter().filter_map(Person::of).collect();
        Self {
            by_id,
            bearers,
            people,
        }
    }

    /// Whether anybody may show a token.
    pub(crate) fn take_tokens(&self) -> bool {
        !self.bearers.is_empty() || !self.people.is_empty()
    }

    /// Those whom an issuer vouches for.
    pub(crate) fn people(&self) -> &[Person] {
        &self.people
    }

    /// The caller with what an issuer vouches for added to what else it showed.
    pub(crate) fn vouched_for(&self, mut caller: Option<Caller>, claims: &Claims) -> Option<Caller> {
        for person in self.people.iter().filter(|person| person.is(claims)) {
            caller.get_or_insert_with(|| Caller::new(claims.owner())).is_also(
                &person.name,
                person.role,
                person.rate,
            );
        }
        caller
    }

    /// The caller by all that it shows, if an entry matches.
    pub(crate) fn matching(
        &self,
        id: Option<&SpiffeId>,
        token: Option<&str>,
        secrets: &dyn SecretSource,
        unreadable: &Throttle,
    ) -> Option<Caller> {
        let mut caller = id.and_then(|id| self.caller(id)).cloned();
        // Each one is looked at, whichever matches.
        for bearer in token.iter().flat_map(|_| &self.bearers) {
            if token.is_some_and(|token| bearer.is(token, secrets, unreadable)) {
                caller
                    .get_or_insert_with(|| Caller::new(format!("bearer:{}", bearer.name)))
                    .is_also(&bearer.name, bearer.role, bearer.rate);
            }
        }
        caller
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
        Principal::with_spiffe_id(name, spiffe_id, role)
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

    /// Secrets by name; those that are not here cannot be read.
    struct Named(&'static [(&'static str, &'static str)]);

    impl SecretSource for Named {
        fn variable(&self, name: &str) -> Option<zeroize::Zeroizing<String>> {
            let found = self.0.iter().find(|(own, _)| *own == name)?;
            Some(found.1.to_owned().into())
        }

        fn file(
            &self,
            _: &std::path::Path,
        ) -> Result<zeroize::Zeroizing<Vec<u8>>, agentd_config::file::FileError> {
            Err(agentd_config::file::FileError::NotFound)
        }
    }

    #[test]
    fn tokens_are_exact_read_each_time_and_add_to_what_a_certificate_gives() {
        let principals = Principals::new(&[
            entry("alice", ALICE, Role::Agent),
            Principal::with_bearer("zoe", "{{secret:SAME}}", Role::User),
            Principal::with_bearer("desk", "{{secret:DESK}}", Role::User),
            Principal::with_bearer("ops", "{{secret:SAME}}", Role::Operator),
            Principal::with_bearer("gone", "{{secret:GONE}}", Role::Operator),
            Principal::with_bearer("empty", "{{secret:EMPTY}}", Role::Operator),
        ]);
        let unreadable = Throttle::default();
        let now = Named(&[("DESK", "d1"), ("SAME", "s1"), ("EMPTY", "")]);
        let later = Named(&[("DESK", "d2"), ("SAME", "s1")]);
        let alice = ALICE.parse().unwrap();
        let shows = |id: Option<&SpiffeId>, token: Option<&str>, secrets: &Named| {
            principals
                .matching(id, token, secrets, &unreadable)
                .map(|caller| {
                    (
                        caller.key().to_owned(),
                        caller.names().join(" "),
                        caller.has_role(Role::Operator),
                    )
                })
        };
        let is = |key: &str, names: &str, operator| Some((key.to_owned(), names.to_owned(), operator));
        assert_eq!(shows(None, Some("d1"), &now), is("bearer:desk", "desk", false));
        assert_eq!(shows(None, Some("d1"), &later), None, "rotated");
        assert_eq!(shows(None, Some("d2"), &later), is("bearer:desk", "desk", false));
        assert_eq!(shows(None, Some("s1"), &now), is("bearer:ops", "ops zoe", true));
        assert_eq!(
            shows(Some(&alice), Some("s1"), &now),
            is(ALICE, "alice ops zoe", true)
        );
        assert_eq!(shows(Some(&alice), Some("no"), &now), is(ALICE, "alice", false));
        for token in ["", "d", "d11", "D1", "{{secret:DESK}}", "GONE"] {
            assert_eq!(shows(None, Some(token), &now), None, "{token}");
        }
        assert_eq!(shows(None, None, &now), None);
        let literal = Principals::new(&[Principal::with_bearer("literal", "open", Role::Operator)]);
        assert!(!literal.take_tokens());
    }
}
