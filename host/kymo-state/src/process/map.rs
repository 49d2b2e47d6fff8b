// SPDX-License-Identifier: MIT OR Apache-2.0
//! Executable memory maps of a process: what is needed to turn addresses into functions.

use std::collections::HashSet;
use std::os::fd::{AsFd, OwnedFd};

use crate::access::{self, Extent};
use crate::build_id::BuildIdSearch;
use crate::class::StateRecordClass;
use crate::program::Phase;
use crate::text::{lines, number, number_in, unescape_newline};

/// The kernel's default limit of maps per process is 65530; raised ones are cut, with a caveat.
const MAPS_BYTES: usize = 32 << 20;

/// One line of `maps`.
#[derive(Debug, PartialEq, Eq)]
struct Map<'a> {
    start: u64,
    end: u64,
    /// The kernel's `vm_flags`, as far as they are shown: 1 read, 2 write, 4 execute, 8 shared.
    flags: u64,
    /// In bytes.
    offset: u64,
    device: u64,
    inode: u64,
    path: &'a [u8],
}

const EXECUTE: u64 = 4;

/// Maps of a process that were told: where, device, inode.
pub(crate) type ReportedMaps = HashSet<(u64, u64, u64)>;
/// Of one process: a program that maps without end must not fill a collector's memory.
const REPORTED_MAX: usize = 65_536;

impl<'a> Map<'a> {
    fn parse(line: &'a [u8]) -> Option<Map<'a>> {
        let mut parts = line.splitn(6, |&b| b == b' ');
        let (start, end) = pair(parts.next()?, b'-', 16)?;
        let flags = flags(parts.next()?)?;
        let offset = number_in(parts.next()?, 16)?;
        let (major, minor) = pair(parts.next()?, b':', 16)?;
        let inode = number(parts.next()?)?;
        let path = parts.next().unwrap_or(b"").trim_ascii_start();
        (start < end).then_some(Map { start, end, flags, offset, device: major << 32 | minor, inode, path })
    }
}

/// Two numbers with `between` between them.
fn pair(text: &[u8], between: u8, radix: u32) -> Option<(u64, u64)> {
    let at = text.iter().position(|&b| b == between)?;
    Some((number_in(&text[..at], radix)?, number_in(&text[at + 1..], radix)?))
}

fn flags(text: &[u8]) -> Option<u64> {
    let &[read, write, execute, shared] = text else { return None };
    let flag = |is: bool, bit: u64| if is { bit } else { 0 };
    Some(flag(read == b'r', 1) | flag(write == b'w', 2) | flag(execute == b'x', EXECUTE) | flag(shared == b's', 8))
}

impl super::Processes<'_, '_> {
    /// Dumps the executable maps of a process: of each file the first, and those without a file (`[vdso]`, compiled at
    /// run time).
    pub(super) fn maps(&mut self, process: &OwnedFd, pid: u32) {
        let mut text = std::mem::take(&mut self.text);
        match access::read(process.as_fd(), "maps", MAPS_BYTES, &mut text) {
            Ok(extent) => {
                if extent == Extent::Cut {
                    self.missing.cut_maps += 1;
                    let whole = text.iter().rposition(|&b| b == b'\n').unwrap_or(0);
                    text.truncate(whole);
                }
                self.map_lines(process, pid, &text);
            }
            Err(fault) => self.missing.note(fault, || format!("/proc/{pid}/maps"), |missing| &mut missing.maps),
        }
        self.text = text;
    }

    fn map_lines(&mut self, process: &OwnedFd, pid: u32, text: &[u8]) {
        self.mapped.clear();
        for line in lines(text) {
            let Some(map) = Map::parse(line) else {
                self.missing.odd += 1;
                continue;
            };
            if map.flags & EXECUTE == 0 {
                continue;
            }
            if map.inode == 0 || self.mapped.insert((map.device, map.inode)) {
                self.map(process, pid, &map, &[pid]);
            }
        }
    }

    /// The maps of one process that `known` does not have yet, each said of all numbers of `of`; in front of them, that
    /// it was looked at once more.
    pub(crate) fn new_maps(&mut self, process: &OwnedFd, of: &[u32], known: &mut ReportedMaps, phase: Phase) {
        let mut text = std::mem::take(&mut self.text);
        let mut is_told = !matches!(phase, Phase::Look { .. });
        // Who sees only half of it has seen something; a process that is gone has nothing to tell.
        if access::read(process.as_fd(), "maps", MAPS_BYTES, &mut text).is_ok() {
            for map in lines(&text).filter_map(Map::parse).filter(|map| map.flags & EXECUTE != 0 && map.inode != 0) {
                if known.len() < REPORTED_MAX && known.insert((map.start, map.device, map.inode)) {
                    if !std::mem::replace(&mut is_told, true) {
                        self.program(of, 0, phase);
                    }
                    self.map(process, of.first().copied().unwrap_or(0), &map, of);
                }
            }
        }
        self.text = text;
    }

    /// A record of what became of a program, said of all numbers of `of`.
    pub(crate) fn program(&mut self, of: &[u32], parent: u32, phase: Phase) {
        let (code, since_ns) = match phase {
            Phase::Begin => (0, 0),
            Phase::Look { since_ns } => (1, since_ns),
            Phase::End => (2, 0),
        };
        for number in of {
            self.sink.emit(StateRecordClass::Program, of.first().copied().unwrap_or(0), |payload| {
                payload.i32(*number as i32).i32(parent as i32).u8(code).u64(since_ns);
            });
        }
    }

    /// `pid`: whose thread the record is of; the record itself says each number of `of`.
    fn map(&mut self, process: &OwnedFd, pid: u32, map: &Map<'_>, of: &[u32]) {
        unescape_newline(map.path, &mut self.link);
        let path = &self.link;
        let build_id = if map.inode == 0 {
            None
        } else {
            let search =
                BuildIdSearch { process: process.as_fd(), start: map.start, end: map.end, inode: map.inode, path };
            self.build_ids.find(&search).unwrap_or_else(|_| {
                self.missing.build_ids += 1;
                None
            })
        };
        for number in of {
            self.sink.emit(StateRecordClass::Map, pid, |payload| {
                payload.i32(*number as i32).u64(map.start).u64(map.end).u64(map.flags).u64(map.inode).u64(map.offset);
                payload.text(path).blob(build_id.as_ref().map_or(b"", |id| id.bytes()));
            });
            self.report.maps += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_maps() {
        let line = b"55d0c0a00000-55d0c0a05000 r-xp 00002000 fe:01 1234567                    /usr/bin/a b (deleted)";
        let map = Map::parse(line).expect("is a map");
        assert_eq!((map.start, map.end, map.flags, map.offset), (0x55d0_c0a0_0000, 0x55d0_c0a0_5000, 5, 0x2000));
        assert_eq!((map.device, map.inode), (0xfe << 32 | 1, 1_234_567));
        assert_eq!(map.path, b"/usr/bin/a b (deleted)");
        let bare = Map::parse(b"1000-2000 rw-s 00000000 00:00 0 ").expect("is a map");
        assert_eq!((bare.flags, bare.inode, bare.path), (11, 0, &b""[..]));
    }

    #[test]
    fn what_is_not_a_map() {
        let whole = b"1000-2000 r-xp 00000000 00:00 7";
        for end in 0..whole.len() {
            assert_eq!(Map::parse(&whole[..end]), None, "{end}");
        }
        assert_eq!(Map::parse(b"2000-1000 r-xp 00000000 00:00 7"), None);
        assert_eq!(Map::parse(b"1000-1g00 r-xp 00000000 00:00 7"), None);
        assert_eq!(Map::parse(b"1000-2000 r-x 00000000 00:00 7"), None);
        assert_eq!(Map::parse(b"1000-10000000000000000 r-xp 00000000 00:00 7"), None);
    }
}
