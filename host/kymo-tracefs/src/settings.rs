// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an instance is set to before anything is recorded [spec/kernel.md 2].

use std::path::Path;

use rustix::io::Errno;

use crate::find::parse_clocks;
use crate::{Error, file};

/// How an instance records.
#[derive(Clone, Debug)]
pub struct Settings {
    /// One of [`crate::Tracefs::clocks`].
    pub clock: String,
    /// Size of each CPU's ring. The kernel rounds up to whole sub-buffers, two at least.
    pub ring_bytes_per_cpu: u64,
    /// Size of a sub-buffer: a power of two of pages. Ignored by kernels before 6.8, whose sub-buffers are pages.
    pub subbuf_bytes: Option<u32>,
    /// In a full ring the oldest events make room (true), or new ones are dropped (false).
    pub overwrite: bool,
    /// Record on these CPUs only. `None` means all.
    pub cpus: Option<Vec<u32>>,
}

/// CPUs that an instance has rings for, ascending.
pub fn cpus_of(instance: &Path) -> Result<Vec<u32>, Error> {
    let path = instance.join("per_cpu");
    let entries = std::fs::read_dir(&path).map_err(|error| Error::file("list the CPUs", &path, error))?;
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.ok()?.file_name().into_string().ok();
    let mut cpus: Vec<u32> =
        entries.filter_map(name).filter_map(|name| name.strip_prefix("cpu")?.parse().ok()).collect();
    cpus.sort_unstable();
    Ok(cpus)
}

/// The CPUs to record on: those asked for, ascending, each once; all of `have` if none were.
pub fn cpus_within(asked: Option<&[u32]>, have: &[u32]) -> Result<Vec<u32>, Error> {
    let Some(asked) = asked else { return Ok(have.to_vec()) };
    if asked.is_empty() {
        return Err(Error::NoCpu);
    }
    if let Some(&cpu) = asked.iter().find(|cpu| !have.contains(cpu)) {
        return Err(Error::Cpu { cpu, have: ranges(have) });
    }
    let mut cpus = asked.to_vec();
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

/// Sets all but the CPUs. `cpus` is the number of rings, for the error.
pub fn apply(instance: &Path, settings: &Settings, cpus: usize) -> Result<(), Error> {
    set_clock(instance, &settings.clock)?;
    file::switch("set whether old events are overwritten", &instance.join("options/overwrite"), settings.overwrite)?;
    for unused in ["options/record-cmd", "options/record-tgid"] {
        let path = instance.join(unused);
        if path.exists() {
            file::switch("set options", &path, false)?;
        }
    }
    if let Some(bytes) = settings.subbuf_bytes {
        set_subbuf(instance, bytes)?;
    }
    set_ring(instance, settings.ring_bytes_per_cpu, cpus)
}

fn set_clock(instance: &Path, clock: &str) -> Result<(), Error> {
    let path = instance.join("trace_clock");
    let have = parse_clocks(&file::read("set the trace clock", &path)?);
    if !have.iter().any(|name| name == clock) {
        return Err(Error::Clock { clock: clock.to_owned(), have });
    }
    file::write("set the trace clock", &path, clock)
}

fn set_subbuf(instance: &Path, bytes: u32) -> Result<(), Error> {
    let path = instance.join("buffer_subbuf_size_kb");
    if !path.exists() {
        return Ok(());
    }
    let page = rustix::param::page_size();
    let refused = || Error::SubbufSize { asked: bytes, page };
    let pages = usize::try_from(bytes).ok().filter(|bytes| bytes % page == 0).map(|bytes| bytes / page);
    if !pages.is_some_and(usize::is_power_of_two) {
        return Err(refused());
    }
    file::write_raw(&path, &(bytes / 1024).to_string()).map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::INVAL) => refused(),
        _ => Error::file("set the size of a sub-buffer", &path, error),
    })
}

/// Sets the size of each CPU's ring. `cpus` is their number, for the error.
pub fn set_ring(instance: &Path, bytes: u64, cpus: usize) -> Result<(), Error> {
    let path = instance.join("buffer_size_kb");
    let kib = bytes.div_ceil(1024).max(1);
    // The kernel multiplies without looking: what overflows there would give a tiny ring.
    if bytes > i64::MAX.unsigned_abs() {
        return Err(Error::RingTooLarge { asked_kib: kib, cpus });
    }
    file::write_raw(&path, &kib.to_string()).map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::NOMEM | Errno::INVAL | Errno::OVERFLOW | Errno::RANGE) => {
            Error::RingTooLarge { asked_kib: kib, cpus }
        }
        _ => Error::file("set the size of the ring", &path, error),
    })
}

/// The size of one CPU's ring in bytes, as the kernel made it.
pub fn ring_bytes(instance: &Path, cpu: u32) -> Result<u64, Error> {
    let path = instance.join(format!("per_cpu/cpu{cpu}/buffer_size_kb"));
    let text = file::read("tell the size of the ring", &path)?;
    // The file may read "7 (expanded: 1410)": what counts is what is there now.
    let kib = text.split_whitespace().next().and_then(|word| word.parse::<u64>().ok());
    let bytes = kib.and_then(|kib| kib.checked_mul(1024));
    bytes.ok_or_else(|| Error::strange(&path, &text, "expected a number of KiB"))
}

/// The size that a new instance's rings begin with, KiB per CPU; 0 where it cannot be told.
pub fn default_ring_kib(root: &Path) -> u64 {
    let text = file::read("tell the size of the ring", &root.join("buffer_size_kb")).unwrap_or_default();
    last_number(&text)
}

/// Of `7 (expanded: 1410)`, in which the top-level ring has not grown to its default yet, or of `1410`.
fn last_number(text: &str) -> u64 {
    let mut numbers = text.split(|char: char| !char.is_ascii_digit()).filter_map(|digits| digits.parse().ok());
    numbers.next_back().unwrap_or_default()
}

/// The size of a sub-buffer in bytes: what one read gives at most.
pub fn page_bytes(instance: &Path) -> Result<usize, Error> {
    let path = instance.join("buffer_subbuf_size_kb");
    if !path.exists() {
        return Ok(rustix::param::page_size());
    }
    let text = file::read("tell the size of a sub-buffer", &path)?;
    let bytes = text.trim().parse::<usize>().ok().and_then(|kib| kib.checked_mul(1024)).filter(|&bytes| bytes > 0);
    bytes.ok_or_else(|| Error::strange(&path, &text, "expected a number of KiB"))
}

/// A mask as `tracing_cpumask` takes it: words of 32 bits in hexadecimal, the highest CPUs first.
pub fn mask(cpus: &[u32]) -> String {
    let words = cpus.iter().max().map_or(1, |&cpu| cpu as usize / 32 + 1);
    let mut mask = vec![0_u32; words];
    for &cpu in cpus {
        mask[cpu as usize / 32] |= 1 << (cpu % 32);
    }
    mask.iter().rev().map(|word| format!("{word:08x}")).collect::<Vec<_>>().join(",")
}

/// Numbers as a list with ranges: `0-3,6`. `numbers` ascend.
fn ranges(numbers: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for &number in numbers {
        match runs.last_mut() {
            Some((_, last)) if number == *last + 1 => *last = number,
            _ => runs.push((number, number)),
        }
    }
    let text = |&(first, last): &(u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    runs.iter().map(text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_have_the_highest_word_first() {
        assert_eq!(mask(&[0]), "00000001");
        assert_eq!(mask(&[0, 1, 31]), "80000003");
        assert_eq!(mask(&[1, 32, 65]), "00000002,00000001,00000002");
    }

    #[test]
    fn the_default_is_the_expanded_size() {
        assert_eq!(last_number("7 (expanded: 1410)\n"), 1410);
        assert_eq!(last_number("1410\n"), 1410);
        assert_eq!(last_number("X\n"), 0);
    }

    #[test]
    fn cpus_are_those_that_exist() {
        assert_eq!(cpus_within(None, &[0, 1]).unwrap(), [0, 1]);
        assert_eq!(cpus_within(Some(&[3, 1, 3]), &[0, 1, 2, 3]).unwrap(), [1, 3]);
        assert!(matches!(cpus_within(Some(&[]), &[0]), Err(Error::NoCpu)));
        let error = cpus_within(Some(&[9]), &[0, 1, 2, 5]).unwrap_err();
        assert_eq!(error.to_string(), "CPU 9 is not one of this machine: it has 0-2,5");
    }
}
