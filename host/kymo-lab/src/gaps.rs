// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is to be known of gaps that the kernel does not explain: lines of its hwlat tracer, and the processor's count
//! of system management interrupts.

use crate::environment::{cpuinfo, is_guest};
use crate::{Machine, Record, Series, WORST_MAX, Worst};

/// Nanoseconds of the tracer's unit.
const US: u64 = 1_000;
/// Larger than any gap that a machine comes back from: two hours, in microseconds.
const GAP_MAX_US: u64 = 7_200_000_000;
/// The register that counts system management interrupts.
const SMI_COUNT: u64 = 0x34;

/// A line of the kernel's hwlat tracer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelGap {
    /// Where it was.
    pub cpu: u32,
    /// Of the trace's clock, where that counts cycles.
    pub cycles: Option<u64>,
    /// Between two readings of the clock in a turn, and between two turns: the larger one is the gap, microseconds.
    pub gap_us: u64,
    /// Interrupts that cannot be masked, which came in its window.
    pub nmis: u64,
}

impl KernelGap {
    /// Reads a line of trace_pipe: `hwlatd-12 [001] d.... 714.756: #1 inner/outer(us): 12/8 ts:... nmi-total:5
    /// nmi-count:1`.
    pub fn parse(line: &str) -> Option<KernelGap> {
        let (head, rest) = line.split_once(": #")?;
        let cpu = head.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']')?.parse().ok())?;
        let cycles = head.split_whitespace().last()?.parse().ok();
        let mut words = rest.split_whitespace().skip_while(|word| *word != "inner/outer(us):").skip(1);
        let (inner, outer) = words.next()?.split_once('/')?;
        let gap_us = inner.parse::<u64>().ok()?.max(outer.parse().ok()?);
        let nmis = words.find_map(|word| word.strip_prefix("nmi-count:")?.parse().ok()).unwrap_or(0);
        (gap_us <= GAP_MAX_US).then_some(KernelGap { cpu, cycles, gap_us, nmis })
    }
}

/// Puts gaps into a record: a series for each CPU, those without a gap too.
pub fn kernel_gaps(record: &mut Record, cpus: &[u32], gaps: &[KernelGap]) {
    for &cpu in cpus {
        let mut series = Series::new("gap");
        (series.cpu, series.bucket_ns) = (Some(cpu), Some(US));
        let of_cpu: Vec<&KernelGap> = gaps.iter().filter(|gap| gap.cpu == cpu).collect();
        let values: Vec<f64> = of_cpu.iter().map(|gap| (gap.gap_us * US) as f64).collect();
        for (sample, gap) in of_cpu.iter().enumerate() {
            let value_ns = gap.gap_us * US;
            series.histogram.record(value_ns);
            series.worst.push(Worst {
                value_ns,
                cycles: gap.cycles,
                sample: Some(sample as u64),
                tid: None,
                budget: None,
            });
        }
        series.worst.sort_by_key(|worst| std::cmp::Reverse(worst.value_ns));
        series.min = series.worst.last().map(|worst| worst.value_ns);
        series.max = series.worst.first().map(|worst| worst.value_ns);
        series.worst.truncate(WORST_MAX);
        series.count = of_cpu.len() as u64;
        if !values.is_empty() {
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
            (series.mean, series.std) = (Some(mean), Some((squares / values.len() as f64).sqrt()));
        }
        let nmis = of_cpu.iter().map(|gap| gap.nmis).sum::<u64>();
        if nmis > 0 {
            record.counts.insert(format!("nmis_in_gaps_cpu{cpu}"), nmis);
        }
        record.series.push(series);
    }
}

/// System management interrupts of each CPU since it was started.
///
/// # Errors
/// Why they are not to be known here.
pub fn smi_counts(machine: &Machine, cpus: &[u32]) -> Result<Vec<u64>, String> {
    if is_guest(machine) {
        return Err("a guest cannot count them, its host can".to_owned());
    }
    if cpuinfo(machine, "vendor_id").as_deref() != Some("GenuineIntel") {
        return Err("only Intel's processors count them".to_owned());
    }
    let count = |cpu: &u32| {
        let path = format!("/dev/cpu/{cpu}/msr");
        // The upper half is reserved.
        let value = machine.register(&path, SMI_COUNT).map(|value| value & 0xffff_ffff);
        value.map_err(|reason| format!("{path}: {} (modprobe msr, as root)", reason.0))
    };
    cpus.iter().map(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "          <...>-1729  [003] d...... 714756290: #4     inner/outer(us):   12/80    \
        ts:1499801089.066141940 nmi-total:5 nmi-count:1";

    #[test]
    fn lines_of_the_tracer() {
        let gap = KernelGap { cpu: 3, cycles: Some(714_756_290), gap_us: 80, nmis: 1 };
        assert_eq!(KernelGap::parse(LINE), Some(gap));
        let newer =
            "hwlatd/3-91 [003] d.... 714.756290: #4     inner/outer(us):  80/12    ts:1499801089.066141940 count:2";
        assert_eq!(KernelGap::parse(newer), Some(KernelGap { cycles: None, nmis: 0, ..gap }));
        for end in 0..LINE.len() {
            // Any part of a line is a gap or none, and no panic.
            if let Some(part) = KernelGap::parse(&LINE[..end]) {
                assert!(part.gap_us <= 80, "{part:?}");
            }
        }
        for wrong in [
            "",
            ": #",
            "[x] 1: #1 inner/outer(us): 1/2",
            "[1] 1: #1 inner/outer(us): 99999999999999/2",
            "[1] 1: #1 inner/outer(us): 1",
        ] {
            assert_eq!(KernelGap::parse(wrong), None, "{wrong}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_line_is_a_gap_or_none(at in 0..LINE.len(), put in ".{0,6}", whole in ".{0,200}") {
            let mut line = LINE.to_owned();
            line.replace_range(at..(at + put.len()).min(LINE.len()), &put);
            for line in [line, whole] {
                proptest::prop_assert!(KernelGap::parse(&line).is_none_or(|gap| gap.gap_us <= GAP_MAX_US));
            }
        }
    }

    #[test]
    fn gaps_become_a_record_that_adds_up() {
        let gap = |cpu, gap_us| KernelGap { cpu, cycles: Some(gap_us), gap_us, nmis: u64::from(cpu) };
        let mut record = Record::new("kymo", "hwlat");
        kernel_gaps(&mut record, &[0, 1], &[gap(1, 20), gap(1, 50), gap(7, 9)]);
        let of = |at: usize| (record.series[at].count, record.series[at].min, record.series[at].max);
        assert_eq!((of(0), of(1)), ((0, None, None), (2, Some(20_000), Some(50_000))));
        assert_eq!((record.series[1].worst[0].value_ns, record.counts["nmis_in_gaps_cpu1"]), (50_000, 2));
        assert_eq!(Record::from_json(&serde_json::to_vec(&record).unwrap()), Ok(record));
    }

    #[test]
    fn a_guest_has_no_count() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, bytes: &[u8]| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        };
        let machine = Machine::at(root.path());
        write("proc/cpuinfo", b"vendor_id : GenuineIntel\nflags : fpu hypervisor\n");
        assert!(smi_counts(&machine, &[0]).unwrap_err().contains("guest"));
        write("proc/cpuinfo", b"vendor_id : GenuineIntel\nflags : fpu\n");
        assert!(smi_counts(&machine, &[0]).unwrap_err().contains("modprobe"));
        let mut register = vec![0; 0x34];
        register.extend(0xffff_0000_0000_0007u64.to_ne_bytes());
        write("dev/cpu/0/msr", &register);
        assert_eq!(smi_counts(&machine, &[0]), Ok(vec![7]));
    }
}
