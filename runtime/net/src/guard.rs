//! The SSRF guard: how private an address is, and which addresses are never dialled. Pure, and as data: the special
//! ranges of the IANA registries (RFC 6890 and its updates) and the metadata services of clouds. An address that
//! carries an IPv4 address inside (v4-mapped, NAT64, 6to4, Teredo) is judged by that one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// How private an address is. A greater value is more private.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Reach {
    /// Anybody's.
    Public,
    /// Inside a cluster, a company or a test bench.
    Private,
    /// This host.
    Loopback,
}

/// What the guard says about an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It may be dialled where a rule allows this class.
    Reach(Reach),
    /// It is never dialled; what it is.
    Never(&'static str),
}

use Reach::{Loopback, Private, Public};
use Verdict::Never;

const PRIVATE: Verdict = Verdict::Reach(Private);
const LOOPBACK: Verdict = Verdict::Reach(Loopback);

/// Longest prefix first where ranges overlap: the first match counts.
const V4: &[(Ipv4Addr, u8, Verdict)] = &[
    (
        Ipv4Addr::new(100, 100, 100, 200),
        32,
        Never("a cloud metadata address"),
    ),
    (
        Ipv4Addr::new(168, 63, 129, 16),
        32,
        Never("a cloud metadata address"),
    ),
    (
        Ipv4Addr::new(192, 0, 0, 192),
        32,
        Never("a cloud metadata address"),
    ),
    (
        Ipv4Addr::new(255, 255, 255, 255),
        32,
        Never("the broadcast address"),
    ),
    (Ipv4Addr::new(192, 0, 0, 0), 24, PRIVATE),
    (Ipv4Addr::new(192, 0, 2, 0), 24, PRIVATE),
    (Ipv4Addr::new(192, 88, 99, 0), 24, PRIVATE),
    (Ipv4Addr::new(198, 51, 100, 0), 24, PRIVATE),
    (Ipv4Addr::new(203, 0, 113, 0), 24, PRIVATE),
    (Ipv4Addr::new(169, 254, 0, 0), 16, Never("a link-local address")),
    (Ipv4Addr::new(192, 168, 0, 0), 16, PRIVATE),
    (Ipv4Addr::new(198, 18, 0, 0), 15, PRIVATE),
    (Ipv4Addr::new(172, 16, 0, 0), 12, PRIVATE),
    (Ipv4Addr::new(100, 64, 0, 0), 10, PRIVATE),
    (Ipv4Addr::new(0, 0, 0, 0), 8, Never("an unspecified address")),
    (Ipv4Addr::new(10, 0, 0, 0), 8, PRIVATE),
    (Ipv4Addr::new(127, 0, 0, 0), 8, LOOPBACK),
    (Ipv4Addr::new(224, 0, 0, 0), 4, Never("a multicast address")),
    // Class E: reserved, and the pod range of some clusters.
    (Ipv4Addr::new(240, 0, 0, 0), 4, PRIVATE),
];

/// As above, for what has no IPv4 address inside.
const V6: &[(Ipv6Addr, u8, Verdict)] = &[
    (Ipv6Addr::UNSPECIFIED, 128, Never("an unspecified address")),
    (Ipv6Addr::LOCALHOST, 128, LOOPBACK),
    (
        Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
        128,
        Never("a cloud metadata address"),
    ),
    (
        Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
        128,
        Never("a cloud metadata address"),
    ),
    (Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 0), 64, PRIVATE),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32, PRIVATE),
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23, PRIVATE),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20, PRIVATE),
    (Ipv6Addr::new(0x5f00, 0, 0, 0, 0, 0, 0, 0), 16, PRIVATE),
    (
        Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0),
        10,
        Never("a link-local address"),
    ),
    (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10, PRIVATE),
    (
        Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0),
        8,
        Never("a multicast address"),
    ),
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7, PRIVATE),
];

/// Judges an address.
pub(crate) fn judge(address: IpAddr) -> Verdict {
    match address {
        IpAddr::V4(address) => judge_v4(address),
        IpAddr::V6(address) => match inner(address) {
            Some(inside) => judge_v4(inside),
            None => lookup(
                u128::from(address),
                128,
                V6.iter().map(|(net, len, v)| (u128::from(*net), *len, *v)),
            ),
        },
    }
}

fn judge_v4(address: Ipv4Addr) -> Verdict {
    lookup(
        u128::from(u32::from(address)),
        32,
        V4.iter()
            .map(|(net, len, v)| (u128::from(u32::from(*net)), *len, *v)),
    )
}

fn lookup(address: u128, bits: u8, table: impl Iterator<Item = (u128, u8, Verdict)>) -> Verdict {
    let mut table = table;
    table
        .find(|(net, length, _)| {
            let shift = u32::from(bits.saturating_sub(*length));
            address.checked_shr(shift) == net.checked_shr(shift)
        })
        .map_or(Verdict::Reach(Public), |(_, _, verdict)| verdict)
}

/// The IPv4 address that an IPv6 address carries, where the traffic would end there.
fn inner(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let bits = u128::from(address);
    let low = |shift: u32| Ipv4Addr::from(u32::try_from((bits >> shift) & 0xffff_ffff).unwrap_or(0));
    match address.segments() {
        // Unspecified and loopback are no v4-compatible addresses.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None,
        // v4-compatible and v4-mapped; NAT64 of RFC 6052 and of RFC 8215.
        [0, 0, 0, 0, 0, 0 | 0xffff, _, _] | [0x64, 0xff9b, 0, 0, 0, 0, _, _] | [0x64, 0xff9b, 1, ..] => {
            Some(low(0))
        }
        [0x2002, ..] => Some(low(80)),
        // Teredo carries the client's address inverted.
        [0x2001, 0, ..] => Some(Ipv4Addr::from(!u32::from(low(0)))),
        _ => None,
    }
}

/// The classes that a destination may be in, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// The least private.
    pub(crate) least: Reach,
    /// The most private.
    pub(crate) most: Reach,
}

impl Bounds {
    /// Everything that is ever dialled.
    pub(crate) const ANY: Self = Self {
        least: Public,
        most: Loopback,
    };
    /// Anybody's.
    pub(crate) const PUBLIC: Self = Self {
        least: Public,
        most: Public,
    };
    /// This host.
    pub(crate) const LOOPBACK: Self = Self {
        least: Loopback,
        most: Loopback,
    };
    /// This host and private networks.
    pub(crate) const NOT_PUBLIC: Self = Self {
        least: Private,
        most: Loopback,
    };

    /// The class of the address when it may be dialled, else the reason against it.
    pub(crate) fn vet(self, address: IpAddr) -> Result<Reach, String> {
        match judge(address) {
            Verdict::Never(what) => Err(format!("{address} is {what}, which is never dialled")),
            Verdict::Reach(reach) if reach < self.least => Err(format!(
                "{address} is {}, and plain http may not leave {}",
                reach.noun(),
                self.least.inside()
            )),
            Verdict::Reach(reach) if reach > self.most => Err(format!(
                "{address} is {}, more private than the endpoint that led to it",
                reach.noun()
            )),
            Verdict::Reach(reach) => Ok(reach),
        }
    }
}

impl Reach {
    const fn noun(self) -> &'static str {
        match self {
            Public => "a public address",
            Private => "a private address",
            Loopback => "a loopback address",
        }
    }

    const fn inside(self) -> &'static str {
        match self {
            Public => "the internet",
            Private => "private networks",
            Loopback => "this host",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_addresses() {
        let reach = Verdict::Reach;
        let link_local = Never("a link-local address");
        let metadata = Never("a cloud metadata address");
        for (text, verdict) in [
            ("1.1.1.1", reach(Public)),
            ("8.8.8.8", reach(Public)),
            ("172.15.255.255", reach(Public)),
            ("172.32.0.0", reach(Public)),
            ("192.31.196.1", reach(Public)),
            ("10.1.2.3", reach(Private)),
            ("172.16.0.1", reach(Private)),
            ("172.31.255.255", reach(Private)),
            ("192.168.0.1", reach(Private)),
            ("100.64.0.1", reach(Private)),
            ("198.19.255.255", reach(Private)),
            ("203.0.113.9", reach(Private)),
            ("240.0.0.1", reach(Private)),
            ("127.0.0.1", reach(Loopback)),
            ("127.255.255.254", reach(Loopback)),
            ("0.0.0.0", Never("an unspecified address")),
            ("0.1.2.3", Never("an unspecified address")),
            ("169.254.1.1", link_local),
            ("169.254.169.254", link_local),
            ("100.100.100.200", metadata),
            ("168.63.129.16", metadata),
            ("192.0.0.192", metadata),
            ("239.1.1.1", Never("a multicast address")),
            ("255.255.255.255", Never("the broadcast address")),
            ("2606:4700::1111", reach(Public)),
            ("2620:4f:8000::1", reach(Public)),
            ("::1", reach(Loopback)),
            ("::", Never("an unspecified address")),
            ("fd00::1", reach(Private)),
            ("fec0::1", reach(Private)),
            ("2001:db8::1", reach(Private)),
            ("2001:2::1", reach(Private)),
            ("fd00:ec2::254", metadata),
            ("fd20:ce::254", metadata),
            ("fe80::1", link_local),
            ("febf:ffff::1", link_local),
            ("ff02::1", Never("a multicast address")),
            ("::ffff:169.254.169.254", link_local),
            ("::127.0.0.1", reach(Loopback)),
            ("64:ff9b::a9fe:a9fe", link_local),
            ("64:ff9b:1::7f00:1", reach(Loopback)),
            ("2002:a9fe:a9fe::1", link_local),
            ("2002:0a00:0001::1", reach(Private)),
            ("2001:0:1:2:3:4:5601:5601", link_local),
        ] {
            assert_eq!(judge(text.parse().unwrap()), verdict, "{text}");
        }
    }

    proptest! {
        /// However an IPv4 address is wrapped, the verdict is its own. `::0.0.0.1` and `::0.0.0.0` are IPv6's own.
        #[test]
        fn a_wrapped_address_is_judged_like_the_one_inside(inside: u32, noise: u64, small: u16) {
            let own = judge(IpAddr::V4(Ipv4Addr::from(inside)));
            let wide = u128::from(inside);
            let mut forms = vec![
                (0xffff_u128 << 32) | wide,
                (0x0064_ff9b_u128 << 96) | wide,
                (0x0064_ff9b_0001_u128 << 80) | (u128::from(noise & 0xffff_ffff_ffff) << 32) | wide,
                (0x2002_u128 << 112) | (wide << 80) | (u128::from(small) << 64) | u128::from(noise),
                (0x2001_u128 << 112) | (u128::from(noise) << 32) | u128::from(!inside),
            ];
            if inside > 1 {
                forms.push(wide);
            }
            for form in forms {
                let form = Ipv6Addr::from(form);
                prop_assert_eq!(judge(IpAddr::V6(form)), own, "{}", form);
            }
        }

        /// The table agrees with what the standard library knows.
        #[test]
        fn agrees_with_the_standard_library(bits: u32, high: u16, low: u64) {
            let v4 = Ipv4Addr::from(bits);
            let never = matches!(judge(IpAddr::V4(v4)), Never(_));
            if v4.is_link_local() || v4.is_multicast() || v4.is_unspecified() || v4.is_broadcast() {
                prop_assert!(never, "{}", v4);
            }
            prop_assert_eq!(v4.is_loopback(), judge(IpAddr::V4(v4)) == LOOPBACK);
            if v4.is_private() {
                prop_assert_eq!(judge(IpAddr::V4(v4)), PRIVATE);
            }
            let v6 = Ipv6Addr::from((u128::from(high) << 112) | u128::from(low));
            if v6.is_unicast_link_local() || v6.is_multicast() {
                prop_assert!(matches!(judge(IpAddr::V6(v6)), Never(_)), "{}", v6);
            }
            if v6.is_unique_local() && !matches!(judge(IpAddr::V6(v6)), Never(_)) {
                prop_assert_eq!(judge(IpAddr::V6(v6)), PRIVATE);
            }
        }
    }

    #[test]
    fn bounds_say_why() {
        let vet = |bounds: Bounds, text: &str| bounds.vet(text.parse().unwrap());
        assert_eq!(vet(Bounds::ANY, "10.0.0.1"), Ok(Private));
        assert_eq!(
            vet(Bounds::ANY, "169.254.169.254"),
            Err("169.254.169.254 is a link-local address, which is never dialled".into())
        );
        assert_eq!(
            vet(Bounds::LOOPBACK, "10.0.0.1"),
            Err("10.0.0.1 is a private address, and plain http may not leave this host".into())
        );
        assert_eq!(
            vet(
                Bounds {
                    least: Public,
                    most: Public
                },
                "127.0.0.1"
            ),
            Err("127.0.0.1 is a loopback address, more private than the endpoint that led to it".into())
        );
        assert_eq!(vet(Bounds::NOT_PUBLIC, "127.0.0.1"), Ok(Loopback));
    }
}
