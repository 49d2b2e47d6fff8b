// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPUs: what they are, where they stand, and whether the scheduler leaves them alone.

use std::collections::HashMap;

use crate::access::Trees;
use crate::class::StateRecordClass;
use crate::record::Sink;
use crate::text::{cpu_list, find, number, number_in, tidy};

const CPU: &str = "devices/system/cpu";

/// Dumps one record per CPU that is present; gives the numbers of those online.
pub(crate) fn dump(trees: &Trees, sink: &mut Sink<'_>) -> Vec<u32> {
    let cpuinfo = trees.proc_bytes("cpuinfo");
    let blocks = blocks(&cpuinfo);
    let list = |name: &str| cpu_list(&trees.sys_bytes(&format!("{CPU}/{name}")));
    let mut online = list("online");
    if online.is_empty() {
        // cpuinfo has a block for each CPU that is online.
        online = blocks.keys().copied().collect();
        online.sort_unstable();
    }
    let mut present = list("present");
    present.extend_from_slice(&online);
    present.sort_unstable();
    present.dedup();
    let sets = Sets { online: &online, isolated: &list("isolated"), nohz_full: &list("nohz_full") };
    let architecture = architecture(trees);
    for cpu in present {
        let block = blocks.get(&cpu).copied().unwrap_or(b"");
        emit(trees, sink, &architecture, &sets, cpu, block);
    }
    online
}

/// The kernel's lists of CPUs, ascending.
struct Sets<'a> {
    online: &'a [u32],
    isolated: &'a [u32],
    nohz_full: &'a [u32],
}

fn emit(trees: &Trees, sink: &mut Sink<'_>, architecture: &str, sets: &Sets<'_>, cpu: u32, block: &[u8]) {
    let file = |name: &str| trees.sys_bytes(&format!("{CPU}/cpu{cpu}/{name}"));
    let place = |name: &str, key: &str| {
        let id = number::<i32>(file(&format!("topology/{name}")).trim_ascii());
        id.or_else(|| find(block, key).and_then(number)).unwrap_or(-1)
    };
    let khz = |name: &str| number::<u32>(file(&format!("cpufreq/{name}")).trim_ascii()).unwrap_or(0);
    let (package, core) = (place("physical_package_id", "physical id"), place("core_id", "core id"));
    let (governor, siblings) = (file("cpufreq/scaling_governor"), file("topology/thread_siblings_list"));
    let is_in = |set: &[u32]| u8::from(set.binary_search(&cpu).is_ok());
    sink.emit(StateRecordClass::Cpu, 0, |payload| {
        payload.c_string(architecture).u32(cpu).c_string(&text(block, &["vendor_id", "CPU implementer"]));
        payload.u32(code(block, &["cpu family", "CPU architecture"])).u32(code(block, &["model", "CPU part"]));
        payload.c_string(&text(block, &["model name"])).i32(package).i32(core).u32(code(block, &["cpu cores"]));
        payload.u8(is_in(sets.online)).u8(is_in(sets.isolated)).u8(is_in(sets.nohz_full));
        payload.text(governor.trim_ascii()).u32(khz("scaling_min_freq")).u32(khz("scaling_max_freq"));
        payload.i32(node(trees, cpu)).text(siblings.trim_ascii());
    });
}

/// The machine's name for its instruction set, such as `x86_64`.
fn architecture(trees: &Trees) -> String {
    // The file came with Linux 6.1.
    let arch = tidy(&trees.proc_bytes("sys/kernel/arch"));
    if arch.is_empty() { rustix::system::uname().machine().to_string_lossy().into_owned() } else { arch }
}

/// The blocks of /proc/cpuinfo by CPU.
fn blocks(cpuinfo: &[u8]) -> HashMap<u32, &[u8]> {
    let mut blocks = HashMap::new();
    let mut rest = cpuinfo;
    while !rest.is_empty() {
        let end = rest.windows(2).position(|pair| pair == b"\n\n").map_or(rest.len(), |at| at + 2);
        let (block, after) = rest.split_at(end);
        if let Some(cpu) = find(block, "processor").and_then(number) {
            blocks.insert(cpu, block);
        }
        rest = after;
    }
    blocks
}

/// The first of these values of a block; empty if it has none.
fn text(block: &[u8], keys: &[&str]) -> String {
    keys.iter().find_map(|key| find(block, key)).map_or_else(String::new, tidy)
}

/// The first of these values of a block, decimal or with `0x` in front; 0 if it has none.
fn code(block: &[u8], keys: &[&str]) -> u32 {
    let value = keys.iter().find_map(|key| find(block, key)).unwrap_or(b"");
    let code = match value.strip_prefix(b"0x") {
        Some(hex) => number_in(hex, 16).and_then(|code| u32::try_from(code).ok()),
        None => number(value),
    };
    code.unwrap_or(0)
}

/// The NUMA node of a CPU; -1 where the kernel has none.
fn node(trees: &Trees, cpu: u32) -> i32 {
    let names = trees.sys_names(&format!("{CPU}/cpu{cpu}"));
    names.iter().find_map(|name| number(name.strip_prefix("node")?.as_bytes())).unwrap_or(-1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpuinfo_of_two_kinds() {
        let x86 = b"processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 207\nmodel name\t: A: B\n\nprocessor\t: 1\n\n";
        let found = blocks(x86);
        assert_eq!(found.len(), 2);
        assert_eq!(code(found[&0], &["model", "CPU part"]), 207);
        assert_eq!(text(found[&0], &["model name"]), "A: B");
        assert_eq!(code(found[&1], &["model"]), 0);
        let arm = b"processor\t: 3\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: 0xd08\n\n";
        let found = blocks(arm);
        assert_eq!(code(found[&3], &["model", "CPU part"]), 0xd08);
        assert_eq!(text(found[&3], &["vendor_id", "CPU implementer"]), "0x41");
        assert_eq!(code(found[&3], &["cpu family", "CPU architecture"]), 8);
        assert!(blocks(b"\n\n\n\nprocessor: x\n\n:").is_empty());
    }
}
