// SPDX-License-Identifier: MIT OR Apache-2.0
//! Block devices and network interfaces: names for the numbers in block and network events.

use std::net::Ipv4Addr;

use crate::access::Trees;
use crate::class::StateRecordClass;
use crate::record::Sink;
use crate::text::{lines, number, number_in, words};

/// Bits of a device number that are the minor, inside the kernel and in its events.
const MINOR_BITS: u32 = 20;

/// Dumps one record per disk and partition.
pub(crate) fn blocks(trees: &Trees, sink: &mut Sink<'_>) {
    for name in trees.sys_names("class/block") {
        let dev = trees.sys_bytes(&format!("class/block/{name}/dev"));
        if let Some(dev) = device_number(dev.trim_ascii()) {
            // sysfs writes a slash in a disk's name so.
            let name = name.replace('!', "/");
            sink.emit(StateRecordClass::Block, 0, |payload| {
                payload.u32(dev).text(name.as_bytes());
            });
        }
    }
}

/// `8:1` as the kernel's number.
fn device_number(text: &[u8]) -> Option<u32> {
    let at = text.iter().position(|&b| b == b':')?;
    let (major, minor) = (number::<u32>(&text[..at])?, number::<u32>(&text[at + 1..])?);
    let fits = major < 1 << (32 - MINOR_BITS) && minor < 1 << MINOR_BITS;
    fits.then_some(major << MINOR_BITS | minor)
}

/// Dumps one record per interface and IPv4 address of it; of an interface without one, a record with 0.0.0.0.
///
/// /proc says which addresses are ours and which network is reached by which interface, not which address an interface
/// has; that is concluded from the two. An address outside of every network (of a tunnel, say) is not shown.
pub(crate) fn interfaces(trees: &Trees, sink: &mut Sink<'_>) {
    let trie = trees.proc_bytes("self/net/fib_trie");
    let routes = trees.proc_bytes("self/net/route");
    let routes: Vec<Route<'_>> = lines(&routes).filter_map(Route::parse).collect();
    let owned = addresses(&trie).into_iter().map(|address| (owner(&routes, address), address));
    let owned: Vec<(Option<&[u8]>, Ipv4Addr)> = owned.collect();
    for name in trees.sys_names("class/net") {
        if trees.sys_bytes(&format!("class/net/{name}/ifindex")).is_empty() {
            // `bonding_masters` is a file among the interfaces.
            continue;
        }
        let mut own: Vec<_> =
            owned.iter().filter(|(owner, _)| *owner == Some(name.as_bytes())).map(|own| own.1).collect();
        if own.is_empty() {
            own.push(Ipv4Addr::UNSPECIFIED);
        }
        for address in own {
            sink.emit(StateRecordClass::Network, 0, |payload| {
                payload.text(name.as_bytes()).address(address);
            });
        }
    }
}

/// A network that is reached without a gateway.
struct Route<'a> {
    interface: &'a [u8],
    network: u32,
    mask: u32,
}

impl<'a> Route<'a> {
    /// A line of `net/route`: interface, destination, gateway, flags, three numbers, mask. Addresses are the memory of
    /// the machine read as one number.
    fn parse(line: &'a [u8]) -> Option<Route<'a>> {
        let mut words = words(line);
        let interface = words.next()?;
        let mut address = || Some(u32::from_be_bytes(u32::try_from(number_in(words.next()?, 16)?).ok()?.to_ne_bytes()));
        let (network, gateway) = (address()?, address()?);
        let mask = u32::from_be_bytes(u32::try_from(number_in(words.nth(4)?, 16)?).ok()?.to_ne_bytes());
        (gateway == 0 && mask != 0).then_some(Route { interface, network, mask })
    }
}

/// This machine's addresses: in `net/fib_trie`, those that a `/32 host LOCAL` follows. Each stands in several tables.
fn addresses(trie: &[u8]) -> Vec<Ipv4Addr> {
    let mut found = Vec::new();
    let mut leaf: Option<Ipv4Addr> = None;
    for line in lines(trie) {
        let line = line.trim_ascii();
        if let Some(address) = line.strip_prefix(b"|-- ") {
            leaf = number(address);
        } else if line == b"/32 host LOCAL" {
            found.extend(leaf.take());
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// The interface of an address: that of the narrowest network around it.
fn owner<'a>(routes: &[Route<'a>], address: Ipv4Addr) -> Option<&'a [u8]> {
    if address.is_loopback() {
        return Some(b"lo");
    }
    let around = routes.iter().filter(|route| u32::from(address) & route.mask == route.network);
    around.max_by_key(|route| route.mask).map(|route| route.interface)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers() {
        assert_eq!(device_number(b"8:1"), Some(8 << 20 | 1));
        assert_eq!(device_number(b"4095:1048575"), Some(u32::MAX));
        for bad in ["", ":", "8", "8:", ":1", "4096:0", "0:1048576", "8:1:1", "-1:1"] {
            assert_eq!(device_number(bad.as_bytes()), None, "{bad}");
        }
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn addresses_find_their_interface() {
        let routes = b"Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n\
            eth0\t00000000\t0100A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
            eth0\t0000A8C0\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n\
            eth1\t0001A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n";
        let routes: Vec<_> = lines(routes).filter_map(Route::parse).collect();
        assert_eq!(routes.len(), 2);
        let check =
            |address: [u8; 4], expect: Option<&[u8]>| assert_eq!(owner(&routes, address.into()), expect, "{address:?}");
        check([192, 168, 0, 9], Some(b"eth0"));
        check([192, 168, 1, 9], Some(b"eth1"));
        check([127, 0, 0, 1], Some(b"lo"));
        check([10, 0, 0, 1], None);
    }

    #[test]
    fn addresses_of_the_trie() {
        let trie = b"Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n     |-- 10.0.0.7\n        \
            /32 host LOCAL\n     |-- 10.0.0.255\n        /32 link BROADCAST\nLocal:\n     |-- 10.0.0.7\n        /32 host LOCAL\n";
        assert_eq!(addresses(trie), [Ipv4Addr::new(10, 0, 0, 7)]);
        assert!(addresses(b"/32 host LOCAL\n|-- x\n/32 host LOCAL\n").is_empty());
    }
}
