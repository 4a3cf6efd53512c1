//! Callers whom an OpenID Connect issuer vouches for. A token counts where its issuer is exactly one that an entry
//! names, it is for the audience of that entry, one of the issuer's keys of this moment signed it, and its time is now;
//! each of it at each request.

mod issuer;
mod keys;
mod token;

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod samples;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use agentd_base::clock::{SharedClock, system};
use agentd_base::rate::Rate;
use agentd_config::document::{Oidc, Principal, Role};
use agentd_net::tls::WebRoots;

use self::issuer::{Issuer, Vouched};
pub(crate) use self::token::{Claims, Token, Wrong};

/// An entry that an issuer's tokens match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Person {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) rate: Option<Rate>,
    token: Oidc,
}

impl Person {
    /// None where the entry is of another kind, or lets in everybody, which the document's check refuses.
    pub(crate) fn of(entry: &Principal) -> Option<Self> {
        let token = entry.oidc.clone()?;
        let names_somebody = token.subject.is_some() || !token.claims.is_empty();
        names_somebody.then(|| Self {
            name: entry.name.clone(),
            role: entry.role,
            rate: entry.quotas.rate,
            token,
        })
    }

    /// Whether it is about this one.
    pub(crate) fn is(&self, claims: &Claims) -> bool {
        let Oidc {
            issuer,
            audience,
            subject,
            claims: asked,
        } = &self.token;
        claims.issuer() == issuer
            && claims.says("aud", audience)
            && subject.as_ref().is_none_or(|subject| claims.subject() == subject)
            && asked.iter().all(|(name, text)| claims.says(name, text))
    }
}

/// Why a token says nothing of its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unproven {
    /// It is none, or not one for anybody here.
    Wrong(Wrong),
    /// Its issuer cannot be asked for its keys.
    Unknown,
}

/// The issuers that were asked, each with its keys.
pub(crate) struct Issuers {
    roots: WebRoots,
    clock: SharedClock,
    by_url: Mutex<HashMap<String, Arc<Issuer>>>,
}

impl Issuers {
    pub(crate) fn new(roots: WebRoots) -> Self {
        Self {
            roots,
            clock: system(),
            by_url: Mutex::default(),
        }
    }

    /// What the token says, once its issuer vouches for it. An issuer is asked only about a token that would be
    /// somebody's here.
    pub(crate) async fn proven(&self, text: &str, people: &[Person]) -> Result<Claims, Unproven> {
        let token = Token::read(text).map_err(Unproven::Wrong)?;
        let claims = token.unproven();
        let now = self.clock.now().as_millisecond() as f64 / 1000.0;
        claims.counts_at(now).map_err(Unproven::Wrong)?;
        if !people.iter().any(|person| person.is(claims)) {
            return Err(Unproven::Wrong("the token is for nobody whom this agent knows"));
        }
        let issuer = self.of(claims.issuer(), people);
        match issuer.vouches_for(&token).await {
            Vouched::Yes => Ok(token.proven()),
            Vouched::No => Err(Unproven::Wrong("the token is not signed by its issuer")),
            Vouched::Unknown => Err(Unproven::Unknown),
        }
    }

    /// The issuer that an entry names.
    fn of(&self, url: &str, people: &[Person]) -> Arc<Issuer> {
        let mut by_url = self.by_url.lock().unwrap_or_else(PoisonError::into_inner);
        // Nothing is kept of one that nobody names any more.
        by_url.retain(|known, _| people.iter().any(|person| person.token.issuer == *known));
        let issuer = || Arc::new(Issuer::new(url, self.roots.clone()));
        by_url.entry(url.to_owned()).or_insert_with(issuer).clone()
    }
}
