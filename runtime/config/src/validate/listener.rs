//! Checks of `a2a`: who may reach the agent, and how they prove who they are (contract/runtime.md section 0).

use std::collections::BTreeSet;

use super::connection::referenced;
use super::{address, entry, named, spiffe_id};
use crate::document::{A2a, Document, Oidc, Principal, Push};
use crate::endpoint::{self, Listen, Place, Purpose};
use crate::fault::Fault;

/// Claims of one entry, and characters of a name or a text.
const CLAIMS: usize = 16;
const CLAIM_CHARS: usize = 1024;

pub(super) fn check(document: &Document, place: Place, faults: &mut Vec<Fault>) {
    let a2a = &document.a2a;
    principals(document, &a2a.principals, place, faults);
    super::card::check(a2a, faults);
    push(&a2a.push, faults);
    let Some(text) = &a2a.listen else {
        without_listener(a2a, faults);
        return;
    };
    match endpoint::listen(text) {
        Ok(listen) => with_listener(document, listen, faults),
        Err(refused) => faults.push(Fault::new("a2a.listen", refused.problem, refused.remedy)),
    }
}

fn push(push: &Push, faults: &mut Vec<Fault>) {
    if push.allow_private && !push.enabled {
        faults.push(Fault::new(
            "a2a.push.allow_private",
            "has no effect without a2a.push.enabled",
            "set a2a.push.enabled, or take it out",
        ));
    }
}

fn without_listener(a2a: &A2a, faults: &mut Vec<Fault>) {
    let A2a {
        listen: _,
        url,
        external,
        skills,
        extensions,
        sign_card,
        push,
        tls,
        principals,
        dev,
    } = a2a;
    for (key, given) in [
        ("a2a.url", url.is_some()),
        ("a2a.external", external.is_some()),
        ("a2a.skills", !skills.is_empty()),
        ("a2a.extensions", !extensions.is_empty()),
        ("a2a.sign_card", *sign_card),
        ("a2a.push", push.enabled),
        ("a2a.tls", tls.is_some()),
        ("a2a.principals", !principals.is_empty()),
        ("a2a.dev", *dev),
    ] {
        if given {
            faults.push(Fault::new(
                key,
                "has no effect without a2a.listen",
                "set a2a.listen, or take it out",
            ));
        }
    }
}

fn with_listener(document: &Document, listen: Listen, faults: &mut Vec<Fault>) {
    let A2a {
        listen: _,
        url: _,
        external: _,
        skills: _,
        extensions: _,
        sign_card: _,
        push: _,
        tls,
        principals,
        dev,
    } = &document.a2a;
    let loopback = listen.address.ip().is_loopback();
    if *dev {
        if !loopback {
            faults.push(Fault::new(
                "a2a.dev",
                "makes every caller an operator, which is for loopback only",
                "listen on 127.0.0.1, or name principals instead",
            ));
        }
        if !principals.is_empty() {
            faults.push(Fault::new(
                "a2a.principals",
                "has no effect with a2a.dev, which makes every caller an operator",
                "take one of the two out",
            ));
        }
        if listen.tls && tls.is_none() && document.identity.is_none() {
            faults.push(Fault::new(
                "a2a.listen",
                "is https without a certificate",
                "set a2a.tls or identity, or use http on loopback",
            ));
        }
    } else {
        without_dev(document, listen, loopback, faults);
    }
    super::card::with_listener(document, listen.tls, faults);
    match (listen.tls, tls, &document.identity) {
        (false, Some(_), _) => {
            faults.push(Fault::new(
                "a2a.tls",
                "has no effect on an http listener",
                "use https, or take it out",
            ));
        }
        (true, Some(_), Some(_)) => faults.push(Fault::new(
            "a2a.tls",
            "does not go together with identity, which provides the certificate",
            "take a2a.tls out",
        )),
        _ => {}
    }
}

fn without_dev(document: &Document, listen: Listen, loopback: bool, faults: &mut Vec<Fault>) {
    if !listen.tls {
        faults.push(Fault::new(
            "a2a.listen",
            "is plain http, over which no caller can prove who it is",
            "use https with identity; for development on loopback set a2a.dev",
        ));
    } else if document.identity.is_none() && document.a2a.tls.is_none() {
        faults.push(Fault::new(
            "a2a.listen",
            "has no identity, without which no caller can be verified",
            "set identity, or a2a.tls and principals with bearer or oidc; for development on loopback set a2a.dev",
        ));
    } else if document.identity.is_none() && !document.a2a.principals.iter().any(Principal::shows_token) {
        faults.push(Fault::new(
            "a2a.principals",
            "name nobody whom a listener without identity could verify",
            "set bearer or oidc of one, or set identity; for development on loopback set a2a.dev",
        ));
    } else if loopback && document.a2a.principals.is_empty() {
        faults.push(Fault::new(
            "a2a.principals",
            "is empty: nobody may call a loopback listener without principals",
            "name who may call; for development set a2a.dev",
        ));
    }
}

fn principals(document: &Document, principals: &[Principal], place: Place, faults: &mut Vec<Fault>) {
    let mut names = BTreeSet::new();
    for (index, principal) in principals.iter().enumerate() {
        let key = entry("a2a.principals", Some(&principal.name), index);
        named(&key, &principal.name, &mut names, faults);
        match (&principal.spiffe_id, &principal.bearer, &principal.oidc) {
            (Some(id), None, None) => shown_in_tls(document, &format!("{key}.spiffe_id"), id, faults),
            (None, Some(token), None) => referenced(&format!("{key}.bearer"), token, faults),
            (None, None, Some(person)) => vouched_for(&format!("{key}.oidc"), person, place, faults),
            _ => faults.push(Fault::new(
                key,
                "must have exactly one of spiffe_id, bearer and oidc",
                "write one entry for each way in which a caller proves who it is",
            )),
        }
    }
}

/// Whom an issuer vouches for. Its bare word, that somebody is somebody, lets nobody in.
fn vouched_for(key: &str, person: &Oidc, place: Place, faults: &mut Vec<Fault>) {
    let Oidc {
        issuer,
        audience,
        subject,
        claims,
    } = person;
    let at = format!("{key}.issuer");
    if let Some(url) = address(&at, issuer, Purpose::Authorization, place, faults)
        && (url.query().is_some() || url.fragment().is_some())
    {
        faults.push(Fault::new(
            at,
            "holds a query or a fragment",
            "write the issuer as its tokens name it",
        ));
    }
    let is_text = |text: &str| !text.trim().is_empty() && text.chars().count() <= CLAIM_CHARS;
    let named = [("audience", Some(audience)), ("subject", subject.as_ref())];
    for (member, text) in named {
        if text.is_some_and(|text| !is_text(text)) {
            faults.push(Fault::new(
                format!("{key}.{member}"),
                format!("is empty, or longer than {CLAIM_CHARS} characters"),
                "write exactly what the token says",
            ));
        }
    }
    let all_texts = claims.iter().all(|(name, text)| is_text(name) && is_text(text));
    if claims.len() > CLAIMS || !all_texts {
        faults.push(Fault::new(
            format!("{key}.claims"),
            format!("holds more than {CLAIMS}, or an empty or long one"),
            "name few, each with exactly what the token says",
        ));
    }
    if subject.is_none() && claims.is_empty() {
        faults.push(Fault::new(
            key,
            "lets in everybody to whom the issuer gives a token",
            "name a subject, or claims that say who may",
        ));
    }
}

/// An ID that a client certificate shows.
fn shown_in_tls(document: &Document, key: &str, id: &str, faults: &mut Vec<Fault>) {
    let identity = document.identity.as_ref();
    if identity.is_none() && document.a2a.tls.is_some() && !document.a2a.dev {
        faults.push(Fault::new(
            key,
            "cannot be verified without identity, which says whose certificates are to be believed",
            "set identity, or use bearer or oidc",
        ));
        return;
    }
    spiffe_id(key, id, identity, faults);
}
