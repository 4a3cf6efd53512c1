//! Names to addresses, once for each connection: every answer is vetted, one bad answer refuses the name, and only
//! vetted addresses are handed to whoever connects. Nobody resolves a second time.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crate::destination::Destination;
use crate::error::NetError;
use crate::guard::{Bounds, Reach};

/// More answers than a name ever has; the rest are not looked at.
const ANSWERS: usize = 64;

/// Looks names up.
#[async_trait::async_trait]
pub(crate) trait Lookup: Send + Sync {
    /// The addresses of a name.
    async fn lookup(&self, host: &str) -> io::Result<Vec<IpAddr>>;
}

/// The system's resolver.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SystemLookup;

#[async_trait::async_trait]
impl Lookup for SystemLookup {
    async fn lookup(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        Ok(tokio::net::lookup_host((host, 0))
            .await?
            .map(|address| address.ip())
            .take(ANSWERS)
            .collect())
    }
}

/// A shared lookup.
pub(crate) type SharedLookup = Arc<dyn Lookup>;

/// The vetted addresses of a destination, in the resolver's order.
pub(crate) async fn resolve(
    destination: &Destination,
    lookup: &dyn Lookup,
) -> Result<Vec<SocketAddr>, NetError> {
    let bounds = match destination.leader() {
        None => destination.bounds(),
        Some(leader) => Bounds {
            most: most_private(leader, lookup).await?,
            ..destination.bounds()
        },
    };
    let addresses = answers(destination, lookup).await?;
    least(destination, bounds, &addresses)?;
    Ok(addresses
        .into_iter()
        .map(|address| SocketAddr::new(address, destination.port()))
        .collect())
}

/// The least private class among the leader's addresses, now and before: what it may lead to.
async fn most_private(leader: &Destination, lookup: &dyn Lookup) -> Result<Reach, NetError> {
    let addresses = answers(leader, lookup).await?;
    least(leader, leader.bounds(), &addresses)
}

fn least(destination: &Destination, bounds: Bounds, addresses: &[IpAddr]) -> Result<Reach, NetError> {
    let now = vet(destination.host(), bounds, addresses)?.into_iter().min();
    Ok(destination.found(now.unwrap_or(Reach::Public)))
}

async fn answers(destination: &Destination, lookup: &dyn Lookup) -> Result<Vec<IpAddr>, NetError> {
    if let Some(address) = destination.literal() {
        return Ok(vec![address]);
    }
    let host = destination.host();
    let unresolved = |detail: String| NetError::Resolve {
        host: host.to_owned(),
        detail,
    };
    let addresses = lookup
        .lookup(host)
        .await
        .map_err(|error| unresolved(error.to_string()))?;
    if addresses.is_empty() {
        return Err(unresolved("no address".into()));
    }
    Ok(addresses)
}

/// Every answer must pass: a name with one bad answer is not half trusted.
fn vet(host: &str, bounds: Bounds, addresses: &[IpAddr]) -> Result<Vec<Reach>, NetError> {
    addresses
        .iter()
        .map(|address| {
            bounds
                .vet(*address)
                .map_err(|why| NetError::Refused(format!("{host} is refused: {why}")))
        })
        .collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::destination::Declared;
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    /// Scripted answers: each lookup of a name takes the next one, the last one stays.
    pub(crate) struct Script(Mutex<BTreeMap<String, Vec<Vec<IpAddr>>>>);

    impl Script {
        pub(crate) fn new(names: &[(&str, &[&[&str]])]) -> Self {
            let answers = |list: &[&[&str]]| {
                let parsed = |answer: &&[&str]| answer.iter().map(|text| text.parse().unwrap()).collect();
                list.iter().map(parsed).collect()
            };
            Self(Mutex::new(
                names
                    .iter()
                    .map(|(name, list)| ((*name).to_owned(), answers(list)))
                    .collect(),
            ))
        }
    }

    #[async_trait::async_trait]
    impl Lookup for Script {
        async fn lookup(&self, host: &str) -> io::Result<Vec<IpAddr>> {
            let mut names = self.0.lock().unwrap();
            let answers = names
                .get_mut(host)
                .ok_or_else(|| io::Error::other("no such name"))?;
            Ok(if answers.len() > 1 {
                answers.remove(0)
            } else {
                answers.first().cloned().unwrap_or_default()
            })
        }
    }

    fn mcp(url: &str) -> Destination {
        Destination::declared(url, Declared::Mcp).unwrap()
    }

    async fn outcome(destination: &Destination, script: &Script) -> Result<Vec<String>, String> {
        let addresses = resolve(destination, script)
            .await
            .map_err(|error| error.to_string())?;
        Ok(addresses.iter().map(ToString::to_string).collect())
    }

    #[tokio::test]
    async fn every_answer_must_pass() {
        let script = Script::new(&[
            ("good.example", &[&["1.1.1.1", "10.0.0.1"]]),
            ("bad.example", &[&["1.1.1.1", "169.254.169.254"]]),
            ("wrapped.example", &[&["64:ff9b::a9fe:a9fe"]]),
            ("empty.example", &[&[]]),
            ("localhost", &[&["10.0.0.1"]]),
        ]);
        let expect = |text: &str| Err(text.to_owned());
        assert_eq!(
            outcome(&mcp("https://good.example:8443/mcp"), &script).await,
            Ok(vec!["1.1.1.1:8443".to_owned(), "10.0.0.1:8443".to_owned()])
        );
        assert_eq!(
            outcome(&mcp("https://bad.example"), &script).await,
            expect("bad.example is refused: 169.254.169.254 is a link-local address, which is never dialled")
        );
        assert_eq!(
            outcome(&mcp("https://wrapped.example"), &script).await,
            expect(
                "wrapped.example is refused: 64:ff9b::a9fe:a9fe is a link-local address, which is never dialled"
            )
        );
        assert_eq!(
            outcome(&mcp("http://localhost:3000"), &script).await,
            expect(
                "localhost is refused: 10.0.0.1 is a private address, and plain http may not leave this host"
            )
        );
        assert!(
            outcome(&mcp("https://empty.example"), &script)
                .await
                .unwrap_err()
                .contains("no address")
        );
        assert!(
            outcome(&mcp("https://gone.example"), &script)
                .await
                .unwrap_err()
                .contains("no such name")
        );
    }

    #[tokio::test]
    async fn a_discovered_name_is_never_more_private_than_its_leader() {
        let script = Script::new(&[
            ("public.example", &[&["1.1.1.1"]]),
            ("private.example", &[&["10.0.0.1"]]),
            ("mixed.example", &[&["10.0.0.1", "1.1.1.1"]]),
            ("local.example", &[&["127.0.0.1"]]),
        ]);
        for (leader, led, allowed) in [
            ("public", "public", true),
            ("public", "private", false),
            ("public", "local", false),
            ("private", "public", true),
            ("private", "private", true),
            ("private", "local", false),
            ("mixed", "private", false),
            ("local", "private", true),
        ] {
            let leader = mcp(&format!("https://{leader}.example"));
            let led = leader.discovered(&format!("https://{led}.example")).unwrap();
            let outcome = outcome(&led, &script).await;
            assert_eq!(
                outcome.is_ok(),
                allowed,
                "{} -> {}: {outcome:?}",
                leader.host(),
                led.host()
            );
        }
        let leader = mcp("https://public.example");
        let literal = leader.discovered("https://10.0.0.1/token").unwrap();
        assert!(
            outcome(&literal, &script)
                .await
                .unwrap_err()
                .contains("more private")
        );
    }
}
