// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stretches without records: did one CPU stand still, or all of them.

use crate::hash::Map;

/// Times that are kept of each CPU: so many for each span that may be kept, within these bounds. A million are 8 MB.
const TIMES_A_SPAN: usize = 4;
const TIMES_MIN: usize = 1 << 20;
const TIMES_MAX: usize = 1 << 22;
/// So many records must have been expected in a silence that has none: chance alone leaves one so in a thousandth.
const EXPECTED_MIN: f64 = 7.0;
/// What goes on around a silence is looked up in so much time on each side, ns, or ten times its length.
const AROUND_NS: i64 = 10_000_000;

/// The times at which CPUs wrote records.
#[derive(Clone, Debug)]
pub(crate) struct Times {
    from: i64,
    to: i64,
    most: usize,
    by_cpu: Map<u32, Vec<i64>>,
    /// CPUs that records speak of.
    named: Map<u32, ()>,
}

impl Times {
    /// Beside a history of so many spans.
    pub fn new(from: i64, to: i64, spans_max: usize) -> Times {
        let most = spans_max.saturating_mul(TIMES_A_SPAN).clamp(TIMES_MIN, TIMES_MAX);
        Times { from, to, most, by_cpu: Map::default(), named: Map::default() }
    }

    pub fn note(&mut self, cpu: u32, at: i64) {
        if !self.is_near(at) {
            return;
        }
        let times = self.by_cpu.entry(cpu).or_default();
        // Time that goes back on a CPU is taken as of the newest before, as the state does.
        let at = times.last().map_or(at, |last| at.max(*last));
        if times.len() < self.most {
            times.push(at);
        }
    }

    /// Whether a time is near enough to be kept: 100 ms.
    fn is_near(&self, at: i64) -> bool {
        let around = AROUND_NS.saturating_mul(10);
        at >= self.from.saturating_sub(around) && at <= self.to.saturating_add(around)
    }

    /// A record of that time says that a thread is to run on a CPU.
    pub fn name(&mut self, cpu: u32, at: i64) {
        if self.is_near(at) {
            self.named.insert(cpu, ());
        }
    }

    /// CPUs that records speak of, whether they wrote any themselves or not.
    pub fn named(&self) -> impl Iterator<Item = u32> + '_ {
        self.named.keys().copied()
    }

    /// The newest time of a CPU.
    pub fn last(&self, cpu: u32) -> Option<i64> {
        self.by_cpu.get(&cpu)?.last().copied()
    }

    /// Whether a CPU has written any record, as far as they are kept.
    pub fn knows(&self, cpu: u32) -> bool {
        self.by_cpu.contains_key(&cpu)
    }

    /// Whether a CPU wrote nothing between two times. Not known where there were too many to keep.
    pub fn is_silent(&self, cpu: u32, from: i64, to: i64) -> bool {
        self.by_cpu
            .get(&cpu)
            .is_some_and(|times| times.len() < self.most && count(times, from.saturating_add(1), to) == 0)
    }

    /// The times in [from, to] in which a CPU wrote nothing for `ns` or more behind a record of its own: begin, end.
    pub fn pauses(&self, cpu: u32, (from, to): (i64, i64), ns: i64) -> impl Iterator<Item = (i64, i64)> + '_ {
        let times = self.by_cpu.get(&cpu).map_or(&[][..], Vec::as_slice);
        let first = times.partition_point(|time| *time < from);
        let inside = &times[first..];
        let inside = &inside[..inside.partition_point(|time| *time <= to)];
        let ends = inside.iter().skip(1).copied().chain([to]);
        inside.iter().copied().zip(ends).filter(move |(begin, end)| end.saturating_sub(*begin) >= ns)
    }

    /// The longest time without a record of a CPU in [from, to]; none where there were too many to keep.
    pub fn longest_silence(&self, cpu: u32, from: i64, to: i64) -> Option<(i64, i64)> {
        let times = self.by_cpu.get(&cpu).filter(|times| times.len() < self.most)?;
        let first = times.partition_point(|time| *time < from);
        let inside = times[first..].iter().copied().take_while(|time| *time <= to);
        let mut longest = (from, from);
        let mut last = from;
        for time in inside.chain([to]) {
            if time.abs_diff(last) > longest.1.abs_diff(longest.0) {
                longest = (last, time);
            }
            last = time;
        }
        (longest.1 > longest.0).then_some(longest)
    }

    /// Whether all other CPUs were silent in [from, to), though by what they wrote around it they should not have been.
    /// The edges do not count: CPUs do not stop at the same moment.
    pub fn all_stood_still(&self, cpu: u32, from: i64, to: i64) -> bool {
        let length = to.saturating_sub(from);
        let (inner_from, inner_to) = (from.saturating_add(length / 20), to.saturating_sub(length / 20));
        let around = length.saturating_mul(10).max(AROUND_NS);
        let Some((first, last)) = self.known() else { return false };
        // Before the first record that is kept, and behind the last one, nothing says that there were none.
        let before = (from.saturating_sub(around).max(first).min(from), from);
        let behind = (to, to.saturating_add(around).min(last.saturating_add(1)).max(to));
        let known = (before.1.abs_diff(before.0) + behind.1.abs_diff(behind.0)).max(1);
        let mut expected = 0.0;
        for (_, times) in self.by_cpu.iter().filter(|(number, _)| **number != cpu) {
            if times.len() >= self.most || count(times, inner_from, inner_to) > 0 {
                return false;
            }
            let near = count(times, before.0, before.1) + count(times, behind.0, behind.1);
            expected += near as f64 * (inner_to - inner_from) as f64 / known as f64;
        }
        expected >= EXPECTED_MIN
    }

    /// The first and the last time that is kept, of all CPUs.
    fn known(&self) -> Option<(i64, i64)> {
        let first = self.by_cpu.values().filter_map(|times| times.first()).min()?;
        let last = self.by_cpu.values().filter_map(|times| times.last()).max()?;
        Some((*first, *last))
    }
}

/// Times in [from, to).
fn count(times: &[i64], from: i64, to: i64) -> usize {
    let first = times.partition_point(|time| *time < from);
    times[first..].partition_point(|time| *time < to)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The laboratory has no record behind a sample, and `kymo explain` of the same trace may have some.
    #[test]
    fn where_records_end_says_nothing_of_how_many_were_due() {
        let (begin, end) = (20_000_000, 29_000_000);
        let made = |until: i64| {
            let mut times = Times::new(0, 100_000_000, 1 << 20);
            for at in (0..until).step_by(1_000_000).filter(|at| !(begin..end).contains(at)) {
                times.note(0, at);
                times.note(1, at + 7);
            }
            times
        };
        for until in [end + 1, end + 10_000_000, end + 80_000_000] {
            assert!(made(until).all_stood_still(0, begin - 1_000_000, end), "{until}");
        }
        // Seven were not due.
        assert!(!made(end + 80_000_000).all_stood_still(0, begin + 2_000_000, end), "too short");
        let full = Times { most: 15, ..made(end + 1) };
        assert!(!full.all_stood_still(0, begin - 1_000_000, end), "what came later may not have been kept");
    }

    #[test]
    fn silence_is_of_all_cpus_only_where_records_were_due() {
        let mut times = Times::new(0, 100_000_000, 1 << 20);
        for at in (0..100_000_000).step_by(100_000) {
            let is_gap = (50_000_000..52_000_000).contains(&at);
            if !is_gap {
                times.note(0, at);
                times.note(1, at + 7);
            }
        }
        assert!(times.all_stood_still(0, 49_950_000, 51_990_000));
        assert!(times.all_stood_still(0, 49_880_000, 52_010_000), "CPUs do not stop at the same moment");
        assert!(times.is_silent(0, 50_000_000, 52_000_000) && !times.is_silent(0, 49_800_000, 52_000_000));
        assert!(!times.is_silent(7, 50_000_000, 52_000_000), "of a CPU without records nothing is known");
        assert!(!times.all_stood_still(0, 40_000_000, 42_000_000), "the other one wrote");
        assert!(!times.all_stood_still(0, 50_100_000, 50_300_000), "two records are no expectation");
        let pauses = |from, to, ns| times.pauses(1, (from, to), ns).collect::<Vec<_>>();
        assert_eq!(pauses(40_000_000, 60_000_000, 1_000_000), [(49_900_007, 52_000_007)]);
        assert_eq!(pauses(49_900_007, 50_900_007, 1_000_000), [(49_900_007, 50_900_007)], "up to the end");
        assert_eq!(pauses(49_900_007, 50_900_007, 1_000_001), [], "it is too short");
        assert_eq!(pauses(49_900_008, 51_000_000, 1_000_000), [], "behind a record of its own");
        assert!(!Times::new(0, 10, 1 << 20).all_stood_still(0, 0, 10), "no other CPU");
    }

    #[test]
    fn of_too_many_records_silence_is_not_known_and_fewer_are_kept_beside_fewer_spans() {
        for (spans_max, most) in [(1 << 20, 1 << 22), (1 << 18, 1 << 20), (10, 1 << 20), (usize::MAX, 1 << 22)] {
            let mut times = Times::new(0, i64::MAX, spans_max);
            (0..most - 1).for_each(|at| times.note(0, at));
            assert!(times.is_silent(0, most + 5, most + 9), "{spans_max}: all are kept");
            assert_eq!(times.longest_silence(0, 0, most + 9), Some((most - 2, most + 9)));
            (most..most + 100).for_each(|at| times.note(0, at));
            assert!(!times.is_silent(0, most + 200, most + 209), "{spans_max}: not all are kept");
            assert_eq!(times.longest_silence(0, 0, most + 209), None);
            assert_eq!(times.by_cpu[&0].len() as i64, most);
        }
    }
}
