//! What kind of place an address is: pure tables, no look-ups.
//!
//! Only addresses that belong to the public internet have no class. Everything else is named, so that whoever is
//! refused reads why. Addresses that carry another one inside (mapped, NAT64, tunnels) count as what they carry.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Why an address that somebody outside chose is not called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AddressClass {
    Unspecified,
    Loopback,
    Private,
    /// Addresses a provider's customers share (100.64.0.0/10).
    CarrierNat,
    LinkLocal,
    /// Where a cloud hands out credentials to the machines it hosts.
    Metadata,
    Documentation,
    Benchmark,
    Multicast,
    Reserved,
    /// 6to4, Teredo and other ways to carry one network inside another.
    Tunnel,
    /// A name that only means something on this machine or in this house.
    LocalName,
}

impl fmt::Display for AddressClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unspecified => "an unspecified address (this machine)",
            Self::Loopback => "a loopback address (this machine)",
            Self::Private => "a private address",
            Self::CarrierNat => "a shared address of a provider's network",
            Self::LinkLocal => "a link-local address",
            Self::Metadata => "a cloud metadata address",
            Self::Documentation => "an address for documentation",
            Self::Benchmark => "an address for benchmarks",
            Self::Multicast => "a multicast address",
            Self::Reserved => "a reserved address",
            Self::Tunnel => "a tunnel address",
            Self::LocalName => "a local name",
        })
    }
}

/// The class of an address; absent for one that is public.
pub fn class_of(address: IpAddr) -> Option<AddressClass> {
    match address {
        IpAddr::V4(address) => class_of_v4(address),
        IpAddr::V6(address) => class_of_v6(address),
    }
}

fn class_of_v4(address: Ipv4Addr) -> Option<AddressClass> {
    use AddressClass as Class;
    Some(match address.octets() {
        [169, 254, 169, 254] | [169, 254, 170, 2 | 23] | [100, 100, 100, 200] | [168, 63, 129, 16] => {
            Class::Metadata
        }
        [0, ..] => Class::Unspecified,
        [127, ..] => Class::Loopback,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => Class::Private,
        [100, 64..=127, ..] => Class::CarrierNat,
        [169, 254, ..] => Class::LinkLocal,
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => Class::Documentation,
        [198, 18 | 19, ..] => Class::Benchmark,
        [192, 88, 99, _] => Class::Tunnel,
        [224..=239, ..] => Class::Multicast,
        [192, 0, 0, _] | [240..=255, ..] => Class::Reserved,
        _ => return None,
    })
}

fn class_of_v6(address: Ipv6Addr) -> Option<AddressClass> {
    use AddressClass as Class;
    let s = address.segments();
    Some(match s {
        [0, 0, 0, 0, 0, 0, 0, 0] => Class::Unspecified,
        [0, 0, 0, 0, 0, 0, 0, 1] => Class::Loopback,
        [0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x254] | [0xfd20, 0x0ce, 0, 0, 0, 0, 0, 0x254] => Class::Metadata,
        // Mapped, translated and NAT64: whoever routes them reaches the address inside, a public one too.
        [0, 0, 0, 0, 0, 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => return class_of_v4(embedded(high, low)),
        // Compatible: nobody has used these for decades, so that a public one is not public either.
        [0, 0, 0, 0, 0, 0, high, low] => class_of_v4(embedded(high, low)).unwrap_or(Class::Reserved),
        [0x64, 0xff9b, 1, ..] => Class::Private,
        [0x2002, high, low, ..] => class_of_v4(embedded(high, low)).unwrap_or(Class::Tunnel),
        // Teredo: the client's address stands at the end, turned inside out.
        [0x2001, 0, .., high, low] => class_of_v4(embedded(!high, !low)).unwrap_or(Class::Tunnel),
        [0x2001, 0x0db8, ..] | [0x3fff, 0..=0x0fff, ..] => Class::Documentation,
        [0x2001, 2, 0, ..] => Class::Benchmark,
        [0x2001, 0..=0x01ff, ..] => Class::Reserved,
        // ISATAP: any prefix may carry one.
        [_, _, _, _, 0 | 0x0200, 0x5efe, high, low] => {
            class_of_v4(embedded(high, low)).unwrap_or(Class::Tunnel)
        }
        [0xfc00..=0xfdff | 0xfec0..=0xfeff, ..] => Class::Private,
        [0xfe80..=0xfebf, ..] => Class::LinkLocal,
        [0xff00..=0xffff, ..] => Class::Multicast,
        [0x2000..=0x3fff, ..] => return None,
        _ => Class::Reserved,
    })
}

fn embedded(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(high) << 16 | u32::from(low))
}

/// Endings of names that never leave a house, besides names without a dot.
const LOCAL_ENDINGS: [&str; 10] = [
    "localhost",
    "local",
    "internal",
    "localdomain",
    "lan",
    "home",
    "corp",
    "intranet",
    "private",
    "home.arpa",
];
const METADATA_NAMES: [&str; 3] = ["metadata.google.internal", "metadata.goog", "instance-data.ec2.internal"];

/// The class of a name by itself, before it is resolved. The name is in lower case and has no dot at its end.
pub(crate) fn class_of_name(name: &str) -> Option<AddressClass> {
    let ends =
        |ending: &str| name == ending || name.strip_suffix(ending).is_some_and(|head| head.ends_with('.'));
    if METADATA_NAMES.into_iter().any(ends) {
        return Some(AddressClass::Metadata);
    }
    if name == "localhost" || name.ends_with(".localhost") {
        return Some(AddressClass::Loopback);
    }
    (!name.contains('.') || LOCAL_ENDINGS.into_iter().any(ends)).then_some(AddressClass::LocalName)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn class(address: &str) -> Option<AddressClass> {
        class_of(address.parse().unwrap())
    }

    #[test]
    fn every_range_is_named_from_its_first_to_its_last_address_and_no_further() {
        use AddressClass as C;
        for (first, last, expected) in [
            ("0.0.0.0", "0.255.255.255", C::Unspecified),
            ("10.0.0.0", "10.255.255.255", C::Private),
            ("100.64.0.0", "100.127.255.255", C::CarrierNat),
            ("127.0.0.0", "127.255.255.255", C::Loopback),
            ("169.254.0.0", "169.254.255.255", C::LinkLocal),
            ("172.16.0.0", "172.31.255.255", C::Private),
            ("192.0.0.0", "192.0.0.255", C::Reserved),
            ("192.0.2.0", "192.0.2.255", C::Documentation),
            ("192.88.99.0", "192.88.99.255", C::Tunnel),
            ("192.168.0.0", "192.168.255.255", C::Private),
            ("198.18.0.0", "198.19.255.255", C::Benchmark),
            ("198.51.100.0", "198.51.100.255", C::Documentation),
            ("203.0.113.0", "203.0.113.255", C::Documentation),
            ("224.0.0.0", "239.255.255.255", C::Multicast),
            ("240.0.0.0", "255.255.255.255", C::Reserved),
        ] {
            assert_eq!(class(first), Some(expected), "{first}");
            assert_eq!(class(last), Some(expected), "{last}");
            let (first, last): (Ipv4Addr, Ipv4Addr) = (first.parse().unwrap(), last.parse().unwrap());
            let before = first.to_bits().checked_sub(1).map(Ipv4Addr::from);
            let after = last.to_bits().checked_add(1).map(Ipv4Addr::from);
            for neighbour in [before, after].into_iter().flatten() {
                assert_ne!(class_of_v4(neighbour), Some(expected), "{neighbour}");
            }
        }
    }

    #[test]
    fn what_lies_between_the_ranges_is_public() {
        for public in [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.0.3.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "2606:4700::1111",
            "2001:4860:4860::8888",
            "2a00:1450::1",
            "64:ff9b::8.8.8.8",
            "::ffff:8.8.8.8",
            "3ffe::1",
        ] {
            assert_eq!(class(public), None, "{public}");
        }
    }

    #[test]
    fn an_address_inside_another_counts_as_itself() {
        use AddressClass as C;
        for (address, expected) in [
            ("::ffff:127.0.0.1", C::Loopback),
            ("::ffff:0a00:0001", C::Private),
            ("::ffff:0:10.0.0.1", C::Private),
            ("::127.0.0.1", C::Loopback),
            ("::8.8.8.8", C::Reserved),
            ("64:ff9b::127.0.0.1", C::Loopback),
            ("64:ff9b::169.254.169.254", C::Metadata),
            ("64:ff9b:1::8.8.8.8", C::Private),
            ("2002:7f00:1::", C::Loopback),
            ("2002:808:808::1", C::Tunnel),
            ("2001:0:4136:e378:8000:63bf:80ff:fffe", C::Loopback),
            ("2001:0:4136:e378:8000:63bf:f7f7:f7f7", C::Tunnel),
            ("2606:4700::5efe:10.0.0.1", C::Private),
            ("2606:4700::200:5efe:8.8.8.8", C::Tunnel),
        ] {
            assert_eq!(class(address), Some(expected), "{address}");
        }
    }

    #[test]
    fn the_sixth_version_has_its_own_ranges() {
        use AddressClass as C;
        for (address, expected) in [
            ("::", C::Unspecified),
            ("::1", C::Loopback),
            ("fc00::", C::Private),
            ("fdff:ffff::1", C::Private),
            ("fd00:ec2::254", C::Metadata),
            ("fe80::1", C::LinkLocal),
            ("febf::1", C::LinkLocal),
            ("fec0::1", C::Private),
            ("ff02::1", C::Multicast),
            ("2001:db8::1", C::Documentation),
            ("3fff:fff::1", C::Documentation),
            ("2001:2::1", C::Benchmark),
            ("2001:20::1", C::Reserved),
            ("100::1", C::Reserved),
            ("5f00::1", C::Reserved),
            ("4000::1", C::Reserved),
            ("1fff::1", C::Reserved),
        ] {
            assert_eq!(class(address), Some(expected), "{address}");
        }
    }

    #[test]
    fn metadata_has_a_name_of_its_own() {
        for address in ["169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16"] {
            assert_eq!(class(address), Some(AddressClass::Metadata), "{address}");
        }
        assert_eq!(class_of_name("metadata.google.internal"), Some(AddressClass::Metadata));
        assert_eq!(class_of_name("metadata.goog"), Some(AddressClass::Metadata));
    }

    #[test]
    fn local_names_are_told_by_their_ending() {
        for (name, expected) in [
            ("localhost", Some(AddressClass::Loopback)),
            ("a.b.localhost", Some(AddressClass::Loopback)),
            ("printer.local", Some(AddressClass::LocalName)),
            ("db.internal", Some(AddressClass::LocalName)),
            ("router", Some(AddressClass::LocalName)),
            ("nas.home.arpa", Some(AddressClass::LocalName)),
            ("example.com", None),
            ("notlocal.com", None),
            ("mylocalhost.org", None),
            ("local.example.com", None),
        ] {
            assert_eq!(class_of_name(name), expected, "{name}");
        }
    }

    proptest! {
        #[test]
        fn a_mapped_or_translated_address_has_the_class_of_the_one_inside(bits: u32) {
            let inside = Ipv4Addr::from(bits);
            let mapped = IpAddr::V6(inside.to_ipv6_mapped());
            prop_assert_eq!(class_of(mapped), class_of_v4(inside));
            let nat64 = Ipv6Addr::from(0x0064_ff9b_u128 << 96 | u128::from(bits));
            prop_assert_eq!(class_of_v6(nat64), class_of_v4(inside));
        }

        #[test]
        fn a_public_sixth_version_address_is_global_unicast(bits: u128) {
            let address = Ipv6Addr::from(bits);
            let translated = matches!(address.segments(),
                [0, 0, 0, 0, 0, 0xffff, ..] | [0, 0, 0, 0, 0xffff, 0, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..]);
            if class_of_v6(address).is_none() && !translated {
                prop_assert_eq!(address.segments()[0] >> 13, 1);
            }
        }
    }
}
