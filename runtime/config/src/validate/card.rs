//! Checks of what the agent's card promises: addresses that can be reached, skills and extensions that can be told apart.

use std::collections::BTreeSet;

use url::{Host, Url};

use super::entry;
use crate::document::{A2a, Document, Extension, Skill};
use crate::fault::Fault;

/// What the URIs of the extensions begin with that agentd declares itself.
const OWN_EXTENSIONS: &str = "https://agentd.io/a2a/";
/// Everybody who looks at the card gets all of them, and each call of an agent names its extensions.
const MOST: usize = 64;
/// A name of an extension stands in a header of each call and each answer.
const URI_BYTES: usize = 512;

pub(super) fn check(a2a: &A2a, faults: &mut Vec<Fault>) {
    if let Some(url) = &a2a.url {
        address("a2a.url", url, true, faults);
    }
    if let Some(external) = &a2a.external {
        address("a2a.external.url", &external.url, a2a.dev, faults);
    }
    skills(&a2a.skills, faults);
    extensions(&a2a.extensions, faults);
}

/// What depends on how the listener is reached.
pub(super) fn with_listener(document: &Document, secure: bool, faults: &mut Vec<Fault>) {
    let a2a = &document.a2a;
    if let Some(external) = a2a.external.as_ref().filter(|external| external.tls.is_some()) {
        let key = "a2a.external.tls";
        let by_name = Url::parse(&external.url).is_ok_and(|url| matches!(url.host(), Some(Host::Domain(_))));
        if !secure {
            faults.push(Fault::new(
                key,
                "has no effect on an http listener",
                "use https, or take it out",
            ));
        } else if !by_name {
            faults.push(Fault::new(
                key,
                "is served to whoever names the host of a2a.external.url, which has no name",
                "write a URL with a name",
            ));
        }
    }
    if a2a.sign_card && document.identity.is_none() {
        faults.push(Fault::new(
            "a2a.sign_card",
            "has no key to sign with",
            "set identity, or take it out",
        ));
    }
}

/// An address that callers can use as it stands.
fn address(key: &str, text: &str, plain: bool, faults: &mut Vec<Fault>) {
    let mut wrong = |problem: &str, remedy: &str| faults.push(Fault::new(key, problem, remedy));
    let form = "write the URL that callers use, such as https://agent.example/path";
    let Ok(url) = Url::parse(text) else {
        return wrong("is not an https URL", form);
    };
    let known = url.scheme() == "https" || plain && url.scheme() == "http";
    match url.host() {
        _ if !known => wrong("is not an https URL", form),
        None => wrong("is not an https URL", form),
        Some(Host::Ipv4(ip)) if ip.is_unspecified() => {
            wrong("stands for every address and can be called at none", form);
        }
        Some(Host::Ipv6(ip)) if ip.is_unspecified() => {
            wrong("stands for every address and can be called at none", form);
        }
        Some(_) => {}
    }
    let bare = url.query().is_none() && url.fragment().is_none();
    if !bare || !url.username().is_empty() || url.password().is_some() {
        wrong("holds more than a host, a port and a path", "take the rest out");
    }
}

fn skills(skills: &[Skill], faults: &mut Vec<Fault>) {
    if !few("a2a.skills", skills.len(), faults) {
        return;
    }
    let mut ids = BTreeSet::new();
    for (index, skill) in skills.iter().enumerate() {
        let key = entry("a2a.skills", Some(&skill.id), index);
        for (member, text) in [
            ("id", &skill.id),
            ("name", &skill.name),
            ("description", &skill.description),
        ] {
            filled(&format!("{key}.{member}"), text, faults);
        }
        if !skill.id.is_empty() && !ids.insert(&skill.id) {
            faults.push(Fault::new(
                format!("{key}.id"),
                "is used twice",
                "give each its own id",
            ));
        }
        for (member, texts) in [("tags", &skill.tags), ("examples", &skill.examples)] {
            for text in texts {
                filled(&format!("{key}.{member}"), text, faults);
            }
        }
    }
}

fn extensions(extensions: &[Extension], faults: &mut Vec<Fault>) {
    if !few("a2a.extensions", extensions.len(), faults) {
        return;
    }
    let mut uris = BTreeSet::new();
    for (index, extension) in extensions.iter().enumerate() {
        let key = format!("a2a.extensions[{index}].uri");
        let uri = &extension.uri;
        // A list of them stands in one header, with commas between.
        let plain = uri.bytes().all(|byte| byte.is_ascii_graphic() && byte != b',');
        if !plain || uri.len() > URI_BYTES || Url::parse(uri).is_err() {
            let remedy = format!("write an absolute URI without commas, of at most {URI_BYTES} bytes");
            faults.push(Fault::new(key, "is not a URI", remedy));
        } else if uri.starts_with(OWN_EXTENSIONS) {
            let remedy = "leave it out: what agentd has of its own it declares itself";
            faults.push(Fault::new(key, "is an extension of agentd's", remedy));
        } else if !uris.insert(uri) {
            faults.push(Fault::new(key, "is used twice", "declare each extension once"));
        }
    }
}

fn few(key: &str, count: usize, faults: &mut Vec<Fault>) -> bool {
    if count > MOST {
        let problem = format!("has {count} entries");
        faults.push(Fault::new(key, problem, format!("at most {MOST} are possible")));
    }
    count <= MOST
}

fn filled(key: &str, text: &str, faults: &mut Vec<Fault>) {
    if text.trim().is_empty() {
        faults.push(Fault::new(key, "is empty", "write it, or take the entry out"));
    }
}
