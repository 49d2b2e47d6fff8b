// SPDX-License-Identifier: MIT OR Apache-2.0
//! The latencies that end in a part of a trace [spec/index.md 5.3]: sums, cells of their density, and the longest. They
//! add up to those of a longer part.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use kymo_analyze::{Begun, Doubt, Of, Request, Sample, SampleGroup, SampleSums};

/// Samples of a series that are kept in memory while parts become longer ones.
pub(crate) const LONGEST_MAX: usize = 128;
/// How many of the longest samples are written of each series.
#[derive(Clone, Copy, Debug)]
pub struct Listed {
    /// So many.
    pub of_series: usize,
    /// And those that are among so many of all series.
    pub of_all: usize,
}

impl Listed {
    /// All that is kept in memory.
    pub(crate) const ALL: Listed = Listed { of_series: LONGEST_MAX, of_all: 0 };
}

/// [`Sample::rank`].
pub type Rank = (Reverse<u64>, i64, Option<i32>, Option<u32>);

/// Cells of density for each power of two: the shift that leaves so many bits below the highest.
const CELL_BITS: u32 = 3;
/// Cells of a column: more than there are numbers of cells.
pub(crate) const CELLS: u64 = 512;
/// Requests and samples one by one at most. A part with more has no latencies.
pub(crate) const LISTED_MAX: usize = 4096;

/// The number of the cell of a value.
pub fn cell_of(value_ns: u64) -> u16 {
    let shift = (64 - value_ns.leading_zeros()).saturating_sub(CELL_BITS + 1);
    (u64::from(shift << CELL_BITS) + (value_ns >> shift)) as u16
}

/// The lowest and the highest value of a cell.
pub fn cell_range(cell: u16) -> (u64, u64) {
    let of_octave = 1u16 << CELL_BITS;
    let shift = u32::from(cell / of_octave).saturating_sub(1).min(64 - CELL_BITS - 1);
    let low = u64::from(if shift == 0 { cell % (2 * of_octave) } else { of_octave + cell % of_octave }) << shift;
    (low, low + ((1 << shift) - 1))
}

/// Samples of one column whose lengths are in one cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DensityCell {
    /// Which column: its begin, ns, without the lowest bits of a time.
    pub column: i64,
    /// [`cell_of`] their lengths.
    pub cell: u16,
    /// How many.
    pub count: u64,
}

/// Samples of the same kinds and of the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatencySeries {
    /// The kinds.
    pub group: SampleGroup,
    /// What they are of.
    pub of: Of,
    /// Of all of them.
    pub sums: SampleSums,
    /// By column and cell.
    pub cells: Vec<DensityCell>,
    /// The longest, by [`Sample::rank`].
    pub longest: Vec<Sample>,
    /// There are more than these. All are listed that are no shorter than the last one: [`longest_of`].
    pub is_cut: bool,
}

impl LatencySeries {
    /// Without a sample.
    pub(crate) fn new(group: SampleGroup, of: Of) -> LatencySeries {
        let (sums, cells, longest) = (SampleSums::default(), Vec::new(), Vec::new());
        LatencySeries { group, of, sums, cells, longest, is_cut: false }
    }

    /// Up to which all are listed, where some are not. `None`: of none it is known.
    pub fn complete_to(&self) -> Option<Rank> {
        self.longest.last().map(Sample::rank)
    }

    /// Sorts all of it, adds up equal cells, and keeps the longest.
    fn finish(&mut self) {
        self.cells.sort_unstable_by_key(|cell| (cell.column, cell.cell));
        self.cells.dedup_by(|later, kept| {
            let is_same = (later.column, later.cell) == (kept.column, kept.cell);
            kept.count = if is_same { kept.count.saturating_add(later.count) } else { kept.count };
            is_same
        });
        self.longest.sort_by_key(Sample::rank);
        let kept = longest_of(&self.longest, LONGEST_MAX).len();
        self.is_cut |= kept < self.longest.len();
        self.longest.truncate(kept);
    }
}

/// The first of a sorted list, so many at most. What is of equal rank is in it or not as a whole: so all are in it that
/// are no shorter than its last.
pub(crate) fn longest_of(list: &[Sample], most: usize) -> &[Sample] {
    let Some(first_left_out) = list.get(most) else { return list };
    &list[..list.partition_point(|sample| sample.rank() < first_left_out.rank())]
}

/// A series on its way to one of a longer part.
struct SeriesSum {
    all: LatencySeries,
    /// Up to which all are listed in each of its parts; of `Some(None)` it is known of none.
    complete_to: Option<Option<Rank>>,
}

impl SeriesSum {
    fn new(group: SampleGroup, of: Of) -> SeriesSum {
        SeriesSum { all: LatencySeries::new(group, of), complete_to: None }
    }

    /// Adds those of a part, with columns of `own`, which are not longer.
    fn merge(&mut self, later: &LatencySeries, own: u32, shift: u32) {
        self.all.sums.merge(&later.sums);
        let column = |cell: &DensityCell| DensityCell { column: cell.column >> (shift - own), ..*cell };
        self.all.cells.extend(later.cells.iter().map(column));
        self.all.longest.extend(&later.longest);
        if later.is_cut {
            let own = later.complete_to();
            self.complete_to = Some(self.complete_to.map_or(own, |known| known.zip(own).map(|(a, b)| a.min(b))));
        }
    }

    fn add(&mut self, sample: &Sample, shift: u32) {
        self.all.sums.merge(&SampleSums::of(sample));
        if !sample.doubt.has(Doubt::IDLE) {
            let (column, cell) = (sample.to >> shift, cell_of(sample.value_ns));
            self.all.cells.push(DensityCell { column, cell, count: 1 });
            self.all.longest.push(*sample);
        }
    }

    fn finish(mut self) -> LatencySeries {
        if let Some(complete_to) = self.complete_to {
            self.all.is_cut = true;
            self.all.longest.retain(|sample| complete_to.is_some_and(|to| sample.rank() <= to));
        }
        self.all.finish();
        self.all
    }
}

/// A sample whose begin lies before its part, where what was before decides about it: [`SampleGroup::is_of_past`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PastSample {
    /// The kinds.
    pub group: SampleGroup,
    /// What it is of.
    pub of: Of,
    /// Doubtful for what was lost in its part only.
    pub sample: Sample,
    /// It is doubtful for what was lost in the trace.
    pub is_lost: bool,
}

impl PastSample {
    /// The sample as it is in sums of a longer part, in which it begins.
    pub fn in_longer_part(&self) -> Sample {
        Sample { doubt: self.sample.doubt | Doubt::LOST.when(self.is_lost), ..self.sample }
    }
}

/// The latencies of a part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LatencyPart {
    /// Time of its first item, ns.
    pub from: i64,
    /// Newest time of its items, ns.
    pub to: i64,
    /// Columns have 2 to the power of this many ns.
    pub shift: u32,
    /// Up to when records of a kernel are missing, ns.
    pub lost_to: Option<i64>,
    /// By kinds and what they are of.
    pub series: Vec<LatencySeries>,
    /// Those that are in no series.
    pub past: Vec<PastSample>,
    /// Requests that begin in it, and are not over at its end.
    pub begun: Vec<(Request, Begun)>,
    /// Requests that began before it, and are over at its end.
    pub ended: Vec<Request>,
    /// Names of block devices that it tells of, in the order of time.
    pub devices: Vec<(u64, String)>,
}

impl LatencyPart {
    /// Of parts that follow each other. `None` where there is too much.
    pub(crate) fn of(parts: &[LatencyPart], shift: u32) -> Option<LatencyPart> {
        let (from, to) = (parts.first()?.from, parts.iter().map(|part| part.to).max()?);
        let mut all = LatencyPart { from, to, shift, ..LatencyPart::default() };
        let mut series: BTreeMap<(SampleGroup, Of), SeriesSum> = BTreeMap::new();
        let mut begun: BTreeMap<Request, Begun> = BTreeMap::new();
        for part in parts {
            for of in &part.series {
                let sum = series.entry((of.group, of.of)).or_insert_with(|| SeriesSum::new(of.group, of.of));
                sum.merge(of, part.shift, shift);
            }
            for past in &part.past {
                let PastSample { group, of, mut sample, .. } = *past;
                if sample.from <= from {
                    sample.doubt |= Doubt::LOST.when(all.lost_to.is_some_and(|to| sample.from < to));
                    all.past.push(PastSample { sample, ..*past });
                    continue;
                }
                // All of it lies in the part.
                let sum = series.entry((group, of)).or_insert_with(|| SeriesSum::new(group, of));
                sum.add(&past.in_longer_part(), shift);
            }
            all.ended.extend(part.ended.iter().filter(|ended| begun.remove(ended).is_none()));
            begun.extend(part.begun.iter().copied());
            all.lost_to = all.lost_to.max(part.lost_to);
            all.devices.extend(part.devices.iter().cloned());
        }
        all.begun = begun.into_iter().collect();
        all.series = series.into_values().map(SeriesSum::finish).collect();
        all.fits().then_some(all)
    }

    /// Whether there is no more than a part may have.
    pub(crate) fn fits(&self) -> bool {
        let lists = [self.past.len(), self.begun.len(), self.ended.len(), self.devices.len()];
        lists.iter().all(|count| *count <= LISTED_MAX)
    }

    /// Sorts all that is in it.
    pub(crate) fn finish(&mut self) {
        self.series.sort_by_key(|of| (of.group, of.of));
        self.series.iter_mut().for_each(LatencySeries::finish);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_follow_each_other_without_a_gap() {
        let (mut value, mut cell) = (0u64, 0u16);
        loop {
            let (low, high) = cell_range(cell);
            assert_eq!((low, cell_of(low), cell_of(high)), (value, cell, cell), "cell {cell}");
            assert!(high - low <= low / 8);
            if high == u64::MAX {
                break;
            }
            (value, cell) = (high + 1, cell + 1);
        }
        assert!(u64::from(cell) < CELLS);
        // Of numbers that no cell has, too, there are values.
        for cell in [cell + 1, u16::MAX] {
            let (low, high) = cell_range(cell);
            assert!(low <= high);
        }
    }
}
