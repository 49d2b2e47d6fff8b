// SPDX-License-Identifier: MIT OR Apache-2.0
//! What happened on a machine while a test ran [spec/lab.md 9]: two readings, and what lies between them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::environment::{cpus, environment};
use crate::probe::caveat;
use crate::{Caveat, Machine};

/// Lines of /proc/interrupts that are read, and interrupts of a CPU that are listed: the most frequent.
const LINES_MAX: usize = 4096;
const LISTED_MAX: usize = 12;
/// A frequency that moved by more than this share is a caveat.
const FREQUENCY: f64 = 0.05;
/// So much of a CPU's time must have been stolen for a caveat.
const STEAL: f64 = 0.001;
/// Ticks of /proc/stat in a second.
const TICKS: f64 = 100.0;
/// Values of the environment that change by themselves.
const RESTLESS: [&str; 3] = ["load.average", "load.steal_ticks", "unread"];

/// Counters and settings at one moment.
#[derive(Clone, Debug, Default)]
pub struct Meanwhile {
    environment: BTreeMap<String, Value>,
    /// By CPU: interrupts by name.
    interrupts: BTreeMap<u32, BTreeMap<String, u64>>,
    /// By CPU: ticks that a hypervisor took.
    steal: BTreeMap<u32, u64>,
    /// By CPU: kHz.
    khz: BTreeMap<u32, u64>,
    /// By CPU: times that it was slowed down because it was hot.
    hot: BTreeMap<u32, u64>,
}

impl Meanwhile {
    /// As it is now. What cannot be read is left out.
    pub fn read(machine: &Machine) -> Meanwhile {
        let of_cpu = |file: &str| -> BTreeMap<u32, u64> {
            let path = |cpu: u32| format!("/sys/devices/system/cpu/cpu{cpu}/{file}");
            cpus(machine).into_iter().filter_map(|cpu| Some((cpu, machine.number(&path(cpu)).ok()?))).collect()
        };
        Meanwhile {
            environment: environment(machine),
            interrupts: machine.text("/proc/interrupts").map_or_else(|_| BTreeMap::new(), |text| interrupts(&text)),
            steal: machine.text("/proc/stat").map_or_else(|_| BTreeMap::new(), |text| steal(&text)),
            khz: of_cpu("cpufreq/scaling_cur_freq"),
            hot: of_cpu("thermal_throttle/core_throttle_count"),
        }
    }

    /// What happened since `before` on the CPUs that were measured on, in so many seconds: names and values, and what
    /// of it makes the result doubtful.
    pub fn since(&self, before: &Meanwhile, cpus: &[u32], seconds: f64) -> (BTreeMap<String, Value>, Vec<Caveat>) {
        let mut values = BTreeMap::new();
        let mut caveats = Vec::new();
        let mut interrupts = BTreeMap::new();
        for cpu in cpus {
            if let (Some(now), Some(before)) = (self.interrupts.get(cpu), before.interrupts.get(cpu)) {
                interrupts.insert(cpu.to_string(), json!(most(now, before)));
            }
        }
        values.insert("interrupts".to_owned(), json!(interrupts));
        let steal = grown(&self.steal, &before.steal);
        let all: u64 = steal.values().sum();
        if all as f64 / TICKS > STEAL * seconds {
            let stolen = all as f64 / TICKS;
            let text = format!("the hypervisor took {stolen:.2} s of CPU time from this machine in {seconds:.1} s");
            caveats.push(caveat("guest-steal", &text));
        }
        values.insert("steal_ticks".to_owned(), json!(steal));
        let hot = grown(&self.hot, &before.hot);
        if !hot.is_empty() {
            let text = format!("CPUs were slowed down because they were hot: {}", list(hot.keys()));
            caveats.push(caveat("thermal-throttling", &text));
        }
        let moved = |(cpu, khz): (&u32, &u64)| {
            let old = *before.khz.get(cpu)? as f64;
            let is_far = (*khz as f64 - old).abs() > FREQUENCY * old.max(1.0);
            (is_far && cpus.contains(cpu)).then(|| (cpu.to_string(), json!([old as u64, khz])))
        };
        let moved: BTreeMap<String, Value> = self.khz.iter().filter_map(moved).collect();
        if !moved.is_empty() {
            let text = format!("the frequency of CPUs {} was another at the end than before", list(moved.keys()));
            caveats.push(caveat("frequency-scaled", &text));
            values.insert("khz".to_owned(), json!(moved));
        }
        let changed = self.changed(before);
        if !changed.is_empty() {
            let text = format!("settings of the machine changed while the test ran: {}", list(changed.keys()));
            caveats.push(caveat("environment-changed", &text));
            values.insert("changed".to_owned(), json!(changed));
        }
        (values, caveats)
    }

    /// Settings that are not what they were: before and after.
    fn changed(&self, before: &Meanwhile) -> BTreeMap<String, Value> {
        let names = self.environment.keys().chain(before.environment.keys());
        let of = |name: &String| {
            let (old, new) = (before.environment.get(name), self.environment.get(name));
            let is_other = old != new && !RESTLESS.contains(&name.as_str());
            is_other.then(|| (name.clone(), json!([old, new])))
        };
        names.filter_map(of).collect()
    }
}

/// Counters that grew, by how much.
fn grown(now: &BTreeMap<u32, u64>, before: &BTreeMap<u32, u64>) -> BTreeMap<u32, u64> {
    let by = |(cpu, now): (&u32, &u64)| Some((*cpu, now.checked_sub(*before.get(cpu)?)?));
    now.iter().filter_map(by).filter(|(_, by)| *by > 0).collect()
}

/// The interrupts of a CPU that came most often.
fn most(now: &BTreeMap<String, u64>, before: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let by = |(name, now): (&String, &u64)| {
        let by = now.saturating_sub(before.get(name).copied().unwrap_or(0));
        (by > 0).then(|| (name.clone(), by))
    };
    let mut all: Vec<(String, u64)> = now.iter().filter_map(by).collect();
    all.sort_by_key(|(_, by)| std::cmp::Reverse(*by));
    all.truncate(LISTED_MAX);
    all.into_iter().collect()
}

fn list<T: ToString>(names: impl Iterator<Item = T>) -> String {
    names.map(|name| name.to_string()).collect::<Vec<_>>().join(", ")
}

/// /proc/interrupts: a line of CPUs; lines of a number or name, a count for each of them, and words.
fn interrupts(text: &str) -> BTreeMap<u32, BTreeMap<String, u64>> {
    let mut lines = text.lines();
    let head = lines.next().unwrap_or_default();
    let cpus: Vec<u32> = head.split_whitespace().filter_map(|word| word.strip_prefix("CPU")?.parse().ok()).collect();
    let mut all: BTreeMap<u32, BTreeMap<String, u64>> = BTreeMap::new();
    for line in lines.take(LINES_MAX) {
        let Some((number, rest)) = line.split_once(':') else { continue };
        let words: Vec<&str> = rest.split_whitespace().collect();
        let device = if number.trim().bytes().all(|byte| byte.is_ascii_digit()) { words.last() } else { None };
        let name = device.map_or_else(|| number.trim().to_owned(), |device| format!("{} {device}", number.trim()));
        for (cpu, count) in cpus.iter().zip(words.iter().map_while(|word| word.parse::<u64>().ok())) {
            all.entry(*cpu).or_default().insert(name.clone(), count);
        }
    }
    all
}

/// /proc/stat: the eighth number of a line `cpuN`.
fn steal(text: &str) -> BTreeMap<u32, u64> {
    let of = |line: &str| {
        let mut words = line.strip_prefix("cpu")?.split(' ');
        Some((words.next()?.parse().ok()?, words.nth(7)?.parse().ok()?))
    };
    text.lines().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(text: [&str; 2], khz: u64, governor: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("proc/interrupts", text[0]);
        write("proc/stat", text[1]);
        write("sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", &khz.to_string());
        write("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", governor);
        dir
    }

    #[test]
    fn what_grew_and_what_changed_is_said() {
        let before = machine(
            [
                "      CPU0   CPU1\n 24:  5  10  IO-APIC  eth0\nLOC: 7 100 Local timer interrupts\n",
                "cpu1 1 2 3 4 5 6 7 8 0 0\n",
            ],
            2_000_000,
            "performance",
        );
        let after = machine(
            [
                "      CPU0   CPU1\n 24:  5  13  IO-APIC  eth0\nLOC: 9 400 Local timer interrupts\n",
                "cpu1 1 2 3 4 5 6 7 58 0 0\n",
            ],
            1_000_000,
            "powersave",
        );
        let read = |dir: &tempfile::TempDir| Meanwhile::read(&Machine::at(dir.path()));
        let (values, caveats) = read(&after).since(&read(&before), &[1], 10.0);
        assert_eq!(values["interrupts"], json!({ "1": { "24 eth0": 3, "LOC": 300 } }));
        assert_eq!(
            (&values["steal_ticks"], &values["khz"]),
            (&json!({ "1": 50 }), &json!({ "1": [2_000_000, 1_000_000] }))
        );
        assert_eq!(values["changed"]["power.governor"], json!([{ "performance": 1 }, { "powersave": 1 }]));
        let ids: Vec<&str> = caveats.iter().map(|caveat| caveat.id.as_str()).collect();
        assert_eq!(ids, ["guest-steal", "frequency-scaled", "environment-changed"]);
        let (_, none) = read(&after).since(&read(&after), &[0, 1], 10.0);
        assert_eq!(none, []);
    }

    #[test]
    fn nonsense_is_nothing() {
        for text in ["", "CPU0\n", "CPU0 CPU1\nx", "CPU0\n 1: -3 z\n: 9\n", "cpu\ncpu9 1 2"] {
            let found = interrupts(text);
            assert!(found.values().all(|names| names.len() <= 1), "{text:?}");
            assert!(steal(text).is_empty(), "{text:?}");
        }
    }
}
