//! Who may be connected while all places of a listener are taken. A port that strangers reach must not be closed to
//! everybody by one of them who holds every place: the oldest connection of whoever holds most makes room for the next
//! one. A peer that has shown who it is keeps its place. Decides only; whoever serves a connection ends it.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

/// The places of one listener. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Places(Arc<Mutex<Table>>);

#[derive(Debug)]
struct Table {
    limit: usize,
    next: u64,
    taken: HashMap<u64, Taken>,
    /// The places of strangers, by where they come from and by age: ids only grow.
    strangers: HashMap<Origin, BTreeSet<u64>>,
    /// Last is who has to make room, so that a flood costs each of its connections no look at all others.
    ranks: BTreeSet<(usize, Reverse<u64>, Origin)>,
}

#[derive(Debug)]
struct Taken {
    origin: Origin,
    lost: Arc<Notify>,
}

/// Who is counted as one client: an address of IPv4, also where a dual-stack socket spells it as IPv6, and a /64 of
/// IPv6, of which one host has all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Origin(IpAddr);

impl From<IpAddr> for Origin {
    fn from(address: IpAddr) -> Self {
        const NETWORK: u128 = !0 << 64;
        Self(match address.to_canonical() {
            IpAddr::V6(long) => Ipv6Addr::from_bits(long.to_bits() & NETWORK).into(),
            short => short,
        })
    }
}

impl Table {
    /// The connection that makes room: the oldest of the origin with most places, among those that may have to.
    fn weakest(&self) -> Option<u64> {
        self.ranks.last().map(|(_, Reverse(oldest), _)| *oldest)
    }

    /// Changes which places of strangers an origin has, and its rank with them.
    fn count(&mut self, origin: Origin, change: impl FnOnce(&mut BTreeSet<u64>)) {
        let rank = |ids: &BTreeSet<u64>| Some((ids.len(), Reverse(*ids.first()?), origin));
        let ids = self.strangers.entry(origin).or_default();
        if let Some(before) = rank(ids) {
            self.ranks.remove(&before);
        }
        change(ids);
        match rank(ids) {
            Some(now) => {
                self.ranks.insert(now);
            }
            None => {
                self.strangers.remove(&origin);
            }
        }
    }

    fn free(&mut self, id: u64) -> Option<Taken> {
        let taken = self.taken.remove(&id)?;
        self.count(taken.origin, |ids| {
            ids.remove(&id);
        });
        Some(taken)
    }
}

impl Places {
    /// As many as this.
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(Mutex::new(Table {
            limit,
            next: 0,
            taken: HashMap::new(),
            strangers: HashMap::new(),
            ranks: BTreeSet::new(),
        })))
    }

    /// A place for a connection from this address; `None` when every place is held by a peer that is known.
    pub fn take(&self, address: IpAddr) -> Option<Place> {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if table.taken.len() >= table.limit {
            let weakest = table.weakest()?;
            if let Some(taken) = table.free(weakest) {
                taken.lost.notify_one();
            }
        }
        let id = table.next;
        table.next += 1;
        let lost = Arc::new(Notify::new());
        let origin = Origin::from(address);
        let taken = Taken {
            origin,
            lost: lost.clone(),
        };
        table.taken.insert(id, taken);
        table.count(origin, |ids| {
            ids.insert(id);
        });
        Some(Place {
            places: self.clone(),
            id,
            lost,
        })
    }
}

/// The place of one connection, free again when dropped.
#[derive(Debug)]
pub struct Place {
    places: Places,
    id: u64,
    lost: Arc<Notify>,
}

impl Place {
    /// The peer has proved who it is: from now on it keeps the place.
    pub fn keep(&self) {
        let mut table = self.places.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(origin) = table.taken.get(&self.id).map(|taken| taken.origin) {
            table.count(origin, |ids| {
                ids.remove(&self.id);
            });
        }
    }

    /// Resolves when the place went to another connection: this one has to end.
    pub async fn lost(&self) {
        self.lost.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut table = self.places.0.lock().unwrap_or_else(PoisonError::into_inner);
        table.free(self.id);
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future as _;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn is_lost(place: &Place) -> bool {
        let waiting = pin!(place.lost());
        waiting.poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
    }

    fn at(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn whoever_holds_most_makes_room_with_its_oldest() {
        let places = Places::new(4);
        let quiet = places.take(at(1)).unwrap();
        let greedy: Vec<Place> = (0..3).map(|_| places.take(at(2)).unwrap()).collect();
        let kubelet = places.take(at(3)).unwrap();
        let lost: Vec<bool> = greedy.iter().map(is_lost).collect();
        assert_eq!(lost, [true, false, false]);
        assert!(!is_lost(&quiet) && !is_lost(&kubelet));
        // It comes again and takes its own places away.
        let again = places.take(at(2)).unwrap();
        assert!(is_lost(&greedy[1]) && !is_lost(&again) && !is_lost(&quiet) && !is_lost(&kubelet));
    }

    #[test]
    fn a_peer_that_is_known_stays_and_strangers_cannot_fill_its_listener() {
        let places = Places::new(2);
        let known: Vec<Place> = (0..2)
            .map(|_| {
                let place = places.take(at(1)).unwrap();
                place.keep();
                place
            })
            .collect();
        assert!(places.take(at(2)).is_none());
        drop(known);
        // Nothing of them is left behind.
        assert_eq!(places.0.lock().unwrap().taken.len(), 0);
        let strangers: Vec<Place> = (0..2).map(|_| places.take(at(2)).unwrap()).collect();
        assert!(places.take(at(1)).is_some());
        assert!(is_lost(&strangers[0]));
    }

    #[test]
    fn a_host_with_a_whole_network_of_ipv6_is_one_client() {
        let places = Places::new(3);
        let quiet = places.take("2001:db8:0:1::1".parse().unwrap()).unwrap();
        let first = places.take("2001:db8:0:2::1".parse().unwrap()).unwrap();
        let second = places.take("2001:db8:0:2:ffff::2".parse().unwrap()).unwrap();
        let _next = places.take("2001:db8:0:2::3".parse().unwrap()).unwrap();
        assert!(is_lost(&first) && !is_lost(&second) && !is_lost(&quiet));
    }

    #[test]
    fn a_place_is_free_again_and_an_address_is_one_in_both_spellings() {
        let places = Places::new(1);
        drop(places.take(at(1)).unwrap());
        let first = places.take(at(1)).unwrap();
        assert!(!is_lost(&first));
        let places = Places::new(3);
        let one = places.take(at(5)).unwrap();
        let plain = places.take(at(1)).unwrap();
        let mapped = places.take("::ffff:10.0.0.1".parse().unwrap()).unwrap();
        let _next = places.take(at(6)).unwrap();
        assert!(is_lost(&plain) && !is_lost(&mapped) && !is_lost(&one));
    }
}
