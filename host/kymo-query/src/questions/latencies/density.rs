// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many samples of latencies end in which bin, by their length [spec/view.md 4.10].

use kymo_analyze::What;

/// Samples of one kind and bin.
#[derive(Clone, Debug, Default)]
struct DensityRow {
    /// The cell of the first count.
    first: u16,
    counts: Vec<u64>,
}

impl DensityRow {
    fn add(&mut self, cell: u16, count: u64) {
        if self.counts.is_empty() {
            self.first = cell;
        }
        if let Some(missing) = self.first.checked_sub(cell).filter(|missing| *missing > 0) {
            self.counts.splice(0..0, std::iter::repeat_n(0, missing.into()));
            self.first = cell;
        }
        let at = usize::from(cell - self.first);
        if at >= self.counts.len() {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] = self.counts[at].saturating_add(count);
    }
}

/// Samples by kind, bin and cell of their length.
#[derive(Clone, Debug, Default)]
pub(crate) struct Density {
    /// By kind, then by bin.
    rows: Vec<Vec<DensityRow>>,
}

impl Density {
    /// Adds so many.
    pub fn add(&mut self, what: What, bin: u32, cell: u16, count: u64) {
        let (what, bin) = (what as usize, bin as usize);
        if what >= self.rows.len() {
            self.rows.resize(what + 1, Vec::new());
        }
        let bins = &mut self.rows[what];
        if bin >= bins.len() {
            bins.resize(bin + 1, DensityRow::default());
        }
        bins[bin].add(cell, count);
    }

    /// All that there are, by kind, bin and cell.
    pub fn cells(&self) -> impl Iterator<Item = (What, u32, u16, u64)> {
        self.rows.iter().zip(What::ALL).flat_map(|(bins, (what, _))| {
            bins.iter().enumerate().flat_map(move |(bin, row)| {
                let counts = row.counts.iter().enumerate().filter(|(_, count)| **count > 0);
                counts.map(move |(at, count)| (*what, bin as u32, row.first + at as u16, *count))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_come_in_their_order_whatever_was_added_first() {
        let mut density = Density::default();
        for (what, bin, cell, count) in [
            (What::Span, 1, 40, 1),
            (What::Irq, 2, 9, 2),
            (What::Irq, 2, 7, 3),
            (What::Irq, 0, 9, 4),
            (What::Irq, 2, 9, 5),
        ] {
            density.add(what, bin, cell, count);
        }
        let all: Vec<_> = density.cells().collect();
        let expect = [(What::Irq, 0, 9, 4), (What::Irq, 2, 7, 3), (What::Irq, 2, 9, 7), (What::Span, 1, 40, 1)];
        assert_eq!(all, expect);
    }
}
