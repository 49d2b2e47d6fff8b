// SPDX-License-Identifier: MIT OR Apache-2.0
//! The loads by name, and what each is made of.

use std::path::Path;

/// All, in the order of the help text.
const ALL: [LoadKind; 7] = [
    LoadKind::Hackbench,
    LoadKind::Compile,
    LoadKind::Memory,
    LoadKind::Io,
    LoadKind::Timer,
    LoadKind::Net,
    LoadKind::None,
];

/// A load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoadKind {
    /// Messages between many processes.
    Hackbench,
    /// A compiler, again and again.
    Compile,
    /// Memory that is mapped, filled, copied.
    Memory,
    /// Files that are written, synced, read.
    Io,
    /// Timers that expire often.
    Timer,
    /// Messages over the loopback interface.
    Net,
    /// Nothing.
    None,
}

impl LoadKind {
    /// As it is asked for.
    pub(crate) fn name(self) -> &'static str {
        match self {
            LoadKind::Hackbench => "hackbench",
            LoadKind::Compile => "compile",
            LoadKind::Memory => "memory",
            LoadKind::Io => "io",
            LoadKind::Timer => "timer",
            LoadKind::Net => "net",
            LoadKind::None => "none",
        }
    }

    /// What stress-ng runs for it; empty where the load is our own.
    pub(crate) fn stressors(self) -> &'static [&'static str] {
        match self {
            LoadKind::Memory => &["vm", "stream"],
            LoadKind::Io => &["hdd", "iomix"],
            LoadKind::Timer => &["timer", "timerfd"],
            LoadKind::Hackbench | LoadKind::Compile | LoadKind::Net | LoadKind::None => &[],
        }
    }

    /// The words of stress-ng for `workers` of each stressor, with its files in `dir`.
    pub(crate) fn command(self, workers: u32, dir: &Path) -> Vec<String> {
        const FILE_BYTES: u64 = 64 << 20;
        let mut words: Vec<String> = ["stress-ng", "--timeout", "0", "--metrics-brief"].map(str::to_owned).into();
        for (option, file) in [("--temp-path", dir.to_owned()), ("--yaml", dir.join("done.yaml"))] {
            words.extend([option.to_owned(), file.display().to_string()]);
        }
        for stressor in self.stressors() {
            words.extend([format!("--{stressor}"), workers.to_string()]);
        }
        match self {
            LoadKind::Memory => words.extend(["--vm-bytes".to_owned(), memory_each(workers).to_string()]),
            LoadKind::Io => {
                words.extend(
                    ["--hdd-bytes", "--iomix-bytes"]
                        .iter()
                        .flat_map(|option| [(*option).to_owned(), FILE_BYTES.to_string()]),
                );
            }
            _ => {}
        }
        words
    }
}

/// Bytes for each of so many workers: no more than an eighth of what is free, all together, and no more than 256 MiB.
fn memory_each(workers: u32) -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let free =
        text.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.split_whitespace().next()?.parse().ok());
    let free: u64 = free.unwrap_or(1 << 20) * 1024;
    (free / 8 / u64::from(workers)).clamp(4 << 20, 256 << 20)
}

/// Loads that run at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mix(pub(crate) Vec<LoadKind>);

impl Mix {
    /// `hackbench+io`.
    pub(crate) fn name(&self) -> String {
        self.0.iter().map(|kind| kind.name()).collect::<Vec<_>>().join("+")
    }

    /// Whether nothing runs.
    pub(crate) fn is_none(&self) -> bool {
        self.0.iter().all(|kind| *kind == LoadKind::None)
    }
}

/// Reads `hackbench+io`; each load once.
pub(crate) fn mix(text: &str) -> Result<Mix, String> {
    let mut kinds = Vec::new();
    for word in text.split('+') {
        let kind = ALL.into_iter().find(|kind| kind.name() == word.trim()).ok_or_else(|| {
            let names = ALL.map(LoadKind::name).join(", ");
            format!("no load {word:?}; there are {names}, and several at once as hackbench+io")
        })?;
        if kinds.contains(&kind) {
            return Err(format!("{} is there twice; --intensity gives it more workers", kind.name()));
        }
        kinds.push(kind);
    }
    Ok(Mix(kinds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_read_by_name() {
        assert_eq!(mix("hackbench+io"), Ok(Mix(vec![LoadKind::Hackbench, LoadKind::Io])));
        assert_eq!(mix("none").map(|mix| mix.is_none()), Ok(true));
        for kind in ALL {
            assert_eq!(mix(kind.name()), Ok(Mix(vec![kind])));
        }
        for wrong in ["", "x", "io+", "io,net", "net+net"] {
            assert!(mix(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn stress_ng_is_told_where_its_files_are() {
        for kind in ALL.into_iter().filter(|kind| !kind.stressors().is_empty()) {
            let words = kind.command(3, Path::new("/tmp/x")).join(" ");
            assert!(words.contains("--temp-path /tmp/x --yaml /tmp/x/done.yaml"), "{words}");
            assert!(kind.stressors().iter().all(|name| words.contains(&format!("--{name} 3"))), "{words}");
        }
        assert_eq!(memory_each(u32::MAX), 4 << 20);
    }
}
