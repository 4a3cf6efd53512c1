//! `a2a.principals`: who may call, and how they prove who they are.

use std::collections::BTreeMap;

use agentd_base::rate::Rate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One entry of `a2a.principals`: one way to prove who one is, `spiffe_id`, `bearer` or `oidc`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Principal {
    /// Unique, for logs. What a caller with a bearer token makes belongs to this name.
    pub name: String,
    /// Exactly this SPIFFE ID, in a client certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spiffe_id: Option<String>,
    /// Exactly this token, in `Authorization: Bearer`: a secret reference, read at each request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bearer: Option<String>,
    /// A person or a service whom an OpenID Connect issuer vouches for, by a signed token in `Authorization: Bearer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oidc: Option<Oidc>,
    /// What it may do.
    pub role: Role,
    /// How much of it.
    #[serde(default, skip_serializing_if = "Quotas::is_none")]
    pub quotas: Quotas,
}

/// `a2a.principals[].oidc`: whose token it is. All that is named has to be so; `subject` or `claims` is named. What a
/// caller makes belongs to the issuer's subject, so that two people of one entry do not see each other's.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Oidc {
    /// Exactly the `iss` of its tokens: a URL, where `/.well-known/openid-configuration` leads to the issuer's keys.
    pub issuer: String,
    /// What its tokens are for: the `aud` of a token, or one of them.
    pub audience: String,
    /// Exactly this `sub`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Claims by name, each of exactly this text; where the claim is a list of texts, it is one of them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub claims: BTreeMap<String, String>,
}

/// `a2a.principals[].quotas`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Quotas {
    /// Messages: so many at once, and as many again in each such time, such as `60/1m`. Absent: no bound. Who matches
    /// several entries may send what any of them lets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
}

impl Quotas {
    /// Whether nothing is bounded.
    pub const fn is_none(&self) -> bool {
        self.rate.is_none()
    }
}

impl Principal {
    /// Who shows this SPIFFE ID.
    pub fn with_spiffe_id(name: impl Into<String>, spiffe_id: impl Into<String>, role: Role) -> Self {
        Self {
            name: name.into(),
            spiffe_id: Some(spiffe_id.into()),
            bearer: None,
            oidc: None,
            role,
            quotas: Quotas::default(),
        }
    }

    /// Who shows this token.
    pub fn with_bearer(name: impl Into<String>, bearer: impl Into<String>, role: Role) -> Self {
        Self {
            name: name.into(),
            spiffe_id: None,
            bearer: Some(bearer.into()),
            oidc: None,
            role,
            quotas: Quotas::default(),
        }
    }

    /// Whom this issuer vouches for.
    pub fn with_oidc(name: impl Into<String>, oidc: Oidc, role: Role) -> Self {
        Self {
            name: name.into(),
            spiffe_id: None,
            bearer: None,
            oidc: Some(oidc),
            role,
            quotas: Quotas::default(),
        }
    }

    /// Whether it shows a token, which can be judged without knowing whose certificates are to be believed.
    pub const fn shows_token(&self) -> bool {
        self.bearer.is_some() || self.oidc.is_some()
    }
}

/// Roles of a caller, from most to least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Another agent: sends messages, sees its own tasks.
    Agent,
    /// A person or their tool: the same, for themselves.
    User,
    /// Everything.
    Operator,
}
