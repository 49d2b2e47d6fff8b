// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mapped rings of this kernel [spec/kernel.md 4.1]: what is written comes out once, what is lost is said, and what a
//! mapping keeps from being done. Kernels before 6.10 refuse to map.

mod support;

use std::fs::File;
use std::io::Write;

use kymo_testing::skip_this;
use kymo_tracefs::{CpuReader, Instance, MappedRing, Settings};
use support::{settings, tracefs};

/// Bytes of the head of a page on every 64-bit kernel.
const HEAD: usize = 16;
/// Flags of the commit word.
const MISSED: u64 = 1 << 31;
const MISSED_STORED: u64 = 1 << 30;

/// The number of this kernel's release.
fn release() -> (u32, u32) {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = text.split(|char: char| !char.is_ascii_digit()).map(|digits| digits.parse().unwrap_or(0));
    (numbers.next().unwrap(), numbers.next().unwrap())
}

/// One CPU's ring, and how much of its reader's sub-buffer was taken.
struct Taker {
    reader: CpuReader,
    ring: MappedRing,
    taken: usize,
    /// Of all sub-buffers: what their heads say was missed.
    missed: u64,
    /// Sub-buffers that do not say how many.
    uncounted: usize,
}

impl Taker {
    /// The bytes of all records that came since the last time.
    fn take(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        while let Some(page) = self.ring.next_page().unwrap() {
            if page.is_new {
                self.taken = 0;
                let commit = u64::from_le_bytes(page.head[8..16].try_into().unwrap());
                let count = u64::from_le_bytes(page.behind.try_into().unwrap_or_default());
                match (commit & MISSED != 0, commit & MISSED_STORED != 0) {
                    (false, _) => {}
                    (true, false) => self.uncounted += 1,
                    (true, true) => self.missed += count,
                }
            }
            assert!(page.data.len() > self.taken, "a page is given when there is more");
            all.extend(&page.data[self.taken..]);
            self.taken = page.data.len();
        }
        all
    }
}

/// The mapped rings of an instance; none where this kernel has none, which is checked.
fn takers(instance: &Instance) -> Vec<Taker> {
    let mut takers = Vec::new();
    for cpu in instance.cpus() {
        let reader = instance.reader(cpu).unwrap();
        match reader.map(HEAD) {
            Ok(ring) => takers.push(Taker { reader, ring, taken: 0, missed: 0, uncounted: 0 }),
            Err(error) => assert!(release() < (6, 10), "CPU {cpu}: {error}"),
        }
    }
    if takers.is_empty() {
        skip_this("this kernel maps no rings (6.10)");
    }
    takers
}

/// The numbers of all marks in `bytes`.
fn marks(bytes: &[u8]) -> Vec<usize> {
    let text = String::from_utf8_lossy(bytes);
    text.split("mark <").skip(1).map(|rest| rest.split_once('>').unwrap().0.parse().unwrap()).collect()
}

fn mark(marker: &mut File, number: usize) {
    marker.write_all(format!("mark <{number}>").as_bytes()).unwrap();
}

#[test]
fn what_is_written_comes_out_once() {
    let Some(tracefs) = tracefs() else { return };
    for subbuf_bytes in [None, Some(16 * 1024)] {
        let settings = Settings { ring_bytes_per_cpu: 1 << 20, subbuf_bytes, ..settings() };
        let instance = tracefs.create(&settings).unwrap();
        let mut takers = takers(&instance);
        if takers.is_empty() {
            return instance.remove().unwrap();
        }
        instance.start().unwrap();
        let mut marker = File::options().write(true).open(instance.marker()).unwrap();
        let mut found = Vec::new();
        for number in 0..3000 {
            mark(&mut marker, number);
            // Often within a sub-buffer, at times several at once.
            if number % 7 == 0 || number % 1000 > 900 {
                takers.iter_mut().for_each(|taker| found.extend(marks(&taker.take())));
            }
        }
        takers.iter_mut().for_each(|taker| found.extend(marks(&taker.take())));
        found.sort_unstable();
        assert!(found == (0..3000).collect::<Vec<_>>(), "sub-buffers of {subbuf_bytes:?}: {found:?}");
        for taker in &mut takers {
            assert!(taker.take().is_empty(), "nothing twice");
            assert_eq!((taker.missed, taker.uncounted), (0, 0));
            assert_eq!(taker.reader.stats().unwrap().entries, 0);
        }
        drop((takers, marker));
        instance.remove().unwrap();
    }
}

#[test]
fn what_was_overwritten_is_said() {
    let Some(tracefs) = tracefs() else { return };
    let instance = tracefs.create(&settings()).unwrap();
    let mut takers = takers(&instance);
    instance.start().unwrap();
    let mut marker = File::options().write(true).open(instance.marker()).unwrap();
    let written = 20_000;
    (0..written).for_each(|number| mark(&mut marker, number));
    instance.stop().unwrap();
    let (mut seen, mut lost) = (0, 0);
    for taker in &mut takers {
        let found = marks(&taker.take());
        assert!(found.is_sorted(), "a CPU's marks are in their order");
        let stats = taker.reader.stats().unwrap();
        assert_eq!((stats.entries, stats.read), (0, found.len() as u64));
        if taker.uncounted == 0 {
            assert_eq!(taker.missed, stats.overrun, "missed in front of pages, and overwritten");
        }
        seen += found.len();
        lost += stats.overrun as usize;
    }
    if !takers.is_empty() {
        assert_eq!(seen + lost, written);
        assert!(lost > 0, "a ring of 64 KiB holds fewer");
    }
    drop((takers, marker));
    instance.remove().unwrap();
}

#[test]
fn a_mapped_ring_keeps_its_size() {
    let Some(tracefs) = tracefs() else { return };
    let instance = tracefs.create(&settings()).unwrap();
    let takers = takers(&instance);
    if !takers.is_empty() {
        let before = instance.ring_bytes().unwrap();
        let error = instance.set_ring_bytes(1 << 20).unwrap_err();
        assert_eq!(instance.ring_bytes().unwrap(), before, "{error}");
    }
    drop(takers);
    instance.set_ring_bytes(1 << 20).unwrap();
    assert!(instance.ring_bytes().unwrap() >= 1 << 20);
    instance.remove().unwrap();
}

#[test]
fn a_head_that_is_no_head_is_refused() {
    let Some(tracefs) = tracefs() else { return };
    let instance = tracefs.create(&settings()).unwrap();
    for head in [33, instance.page_bytes(), usize::MAX] {
        let error = instance.reader(0).unwrap().map(head).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput, "{head}: {error}");
    }
    instance.remove().unwrap();
}
