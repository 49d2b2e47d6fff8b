// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pictures of parts as bytes [spec/index.md 5.2]. What the stretches around a cell tell of it is not put.

use kymo_analyze::compact::Put;
use kymo_analyze::shown::Calls;
use kymo_analyze::{Context, Doing, Doubt};

use crate::file::bits::{BitPut, width};
use crate::pictures::part::{CpuPicture, Last, PartPicture, ThreadPicture};
use crate::pictures::row::{Cell, Cells, EVER, Long, Row, What, down, up};
use crate::pictures::words::{
    AsBytes, CALL_SMALL, CELL_SMALL, CallWord, CellWord, INTERRUPT_SMALL, STRETCH_SMALL, StretchWord, TID_SMALL,
    WordsOut,
};

/// Puts what is of one base and one length of columns. `None`, wherever: it is no picture that could be taken again.
struct Writer<'c, T> {
    bits: BitPut,
    base: i64,
    shift: u32,
    words: WordsOut<T>,
    calls: &'c Calls,
}

/// The stretch before or behind cells: its state, and what is doubtful about it.
#[derive(Clone, Copy)]
struct Beside {
    state: u8,
    doubt: Doubt,
    /// Where it begins, ns.
    from: i64,
}

impl<T: AsBytes + What> Writer<'_, T> {
    fn time(&mut self, at: i64) {
        self.bits.signed(at.wrapping_sub(self.base), self.shift + 4);
    }

    /// A stretch, the begin as the distance from a time before it.
    fn stretch(&mut self, before: i64, from: i64, to: i64) {
        self.bits.signed(from.wrapping_sub(before), self.shift + 1);
        self.bits.number(to.abs_diff(from), self.shift);
    }

    fn word(&mut self, long: &Long<T>) -> Beside {
        let (what, tid) = long.what.split();
        let (state, doubt, is_late) = (long.what.state(self.calls), long.doubt, long.is_late);
        self.bits.number(self.words.stretches.of(StretchWord { what, state, doubt, is_late }), STRETCH_SMALL);
        if let Some(tid) = tid {
            self.bits.number(self.words.tids.of(tid), TID_SMALL);
        }
        Beside { state, doubt, from: long.from }
    }

    /// Sums of a column by state, of which `left` is the most that they can be; all of them are that if `is_full`.
    fn sums<const N: usize>(&mut self, ns: &[u64; N], mut left: u64, is_full: bool) -> Option<()> {
        let mut rest = ns.iter().filter(|ns| **ns > 0).count();
        for ns in ns.iter().filter(|ns| **ns > 0) {
            rest -= 1;
            if rest > 0 || !is_full {
                let width = width(left);
                left = left.checked_sub(*ns)?;
                self.bits.bits(*ns, width);
            }
        }
        Some(())
    }

    fn tids<const N: usize>(&mut self, cell: &Cell<N>) -> Option<()> {
        let whole = 1 << self.shift;
        self.bits.number(cell.tids.len() as u64, 2);
        for (tid, ns) in &cell.tids {
            self.bits.number(self.words.tids.of(*tid), TID_SMALL);
            (*ns <= whole).then(|| self.bits.bits(*ns, width(whole)))?;
        }
        Some(())
    }

    /// Cells of a row whose stretches need not follow each other.
    fn cells<const N: usize>(&mut self, cells: &Cells<N>) -> Option<()> {
        self.bits.number(cells.0.len() as u64, 1);
        let mut before = None;
        for cell in &cells.0 {
            let column = cell.from >> self.shift;
            if cell.from != column << self.shift {
                return None;
            }
            match before {
                None => self.bits.signed(column.wrapping_sub(self.base >> self.shift), 3),
                Some(before) => self.bits.number(u64::try_from(column - before - 1).ok()?, 1),
            }
            before = Some(column);
            let sum = cell.ns.iter().try_fold(0u64, |sum, ns| sum.checked_add(*ns))?;
            let is_full = sum == 1 << self.shift;
            let doubt = Some(cell.doubt).filter(|doubt| !doubt.is_none());
            let word = CellWord::new(states_of(&cell.ns), cell.touches, cell.is_joined, is_full, doubt);
            self.bits.number(self.words.cells.of(word), CELL_SMALL);
            self.sums(&cell.ns, 1 << self.shift, is_full)?;
        }
        Some(())
    }

    /// Cells from `at` on, where the stretch before them ends, up to where the one behind them begins. Where they end.
    fn between<const N: usize>(
        &mut self,
        cells: &[Cell<N>],
        mut at: i64,
        before: Option<Beside>,
        behind: Option<Beside>,
        with_tids: bool,
    ) -> Option<i64> {
        self.bits.number(cells.len() as u64, 1);
        for (number, cell) in cells.iter().enumerate() {
            let begin = down(at, self.shift);
            let end = begin + (1 << self.shift);
            let is_last = number + 1 == cells.len();
            let mut ns = cell.ns;
            let (mut touches, mut doubt) = (cell.touches, Doubt::NONE);
            let mut is_told = |of: Beside, of_it: u64| {
                if of_it > 0 {
                    let sum = ns.get_mut(usize::from(of.state))?;
                    *sum = sum.checked_sub(of_it)?;
                    touches = touches.checked_sub(1)?;
                    doubt |= of.doubt;
                }
                Some(())
            };
            let before = before.filter(|_| number == 0 && at > begin);
            if let Some(before) = before {
                is_told(before, at.abs_diff(begin))?;
            }
            if let Some(behind) = behind.filter(|_| is_last) {
                is_told(behind, u64::try_from(end.checked_sub(behind.from)?).ok()?)?;
            }
            let (sum, most) = (ns.iter().try_fold(0u64, |sum, ns| sum.checked_add(*ns))?, end.abs_diff(at));
            let is_as_told = cell.from == begin && (cell.is_joined || before.is_none());
            if !is_as_told || sum > most || !is_last && sum < most {
                return None;
            }
            let doubt = Some(cell.doubt).filter(|own| *own != doubt);
            let word = CellWord::new(states_of(&ns), touches, cell.is_joined && before.is_none(), !is_last, doubt);
            self.bits.number(self.words.cells.of(word), CELL_SMALL);
            self.sums(&ns, most, !is_last)?;
            if with_tids {
                self.tids(cell)?;
            }
            at = at.checked_add_unsigned(sum)?;
        }
        Some(at)
    }

    /// Where the first stretch of a row begins, if they follow each other up to `end`.
    fn begin_of<const N: usize>(&self, row: &Row<T, N>, end: Option<i64>) -> Option<i64> {
        let cells = row.cells.0.as_slice();
        let sum = |cells: &[Cell<N>]| {
            let all = cells.iter().flat_map(|cell| cell.ns).try_fold(0u64, u64::checked_add)?;
            i64::try_from(all).ok()
        };
        let Some(first) = row.longs.first() else {
            let (first, last) = (cells.first()?, cells.last()?);
            let is_in_last = |end: &i64| down(*end - 1, self.shift) == last.from;
            return match end.filter(is_in_last) {
                Some(end) => end.checked_sub(sum(cells)?),
                None if cells.len() == 1 => Some(first.from),
                None => (first.from + (1 << self.shift)).checked_sub(sum(&cells[..1])?),
            };
        };
        let covered = up(first.from, self.shift);
        let cells = &cells[..cells.partition_point(|cell| cell.from < covered)];
        // What the long stretch has of the last cell is not of those before it.
        first.from.checked_sub(sum(cells)? - (covered - first.from))
    }

    /// A row whose stretches follow each other. Where the last one ends; none of a row without stretches.
    fn row<const N: usize>(&mut self, row: &Row<T, N>, end: Option<i64>, with_tids: bool) -> Option<Option<i64>> {
        self.bits.flag(row.born.is_some());
        if let Some(born) = &row.born {
            self.time(born.to);
            self.word(born);
        }
        let mut cells = row.cells.0.as_slice();
        let is_empty = cells.is_empty() && row.longs.is_empty();
        self.bits.flag(is_empty);
        if is_empty {
            return Some(None);
        }
        let mut at = self.begin_of(row, end)?;
        let column = at >> self.shift;
        self.bits.signed(column.wrapping_sub(self.base >> self.shift), 3);
        self.bits.bits(at.abs_diff(column << self.shift), self.shift);
        self.bits.number(row.longs.len() as u64, 3);
        let mut before = None;
        for long in &row.longs {
            let (first, last) = (up(long.from, self.shift), down(long.to, self.shift));
            let (own, rest) = cells.split_at(cells.iter().take_while(|cell| cell.from < first).count());
            cells = rest;
            let beside = self.word(long);
            at = self.between(own, at, before, Some(beside), with_tids)?;
            if at != long.from || first >= last || own.is_empty() && at < first {
                return None;
            }
            self.bits.number((last.abs_diff(first) >> self.shift) - 1, 2);
            self.bits.bits(long.to.abs_diff(last), self.shift);
            (at, before) = (long.to, Some(beside));
        }
        self.between(cells, at, before, None, with_tids).map(Some)
    }
}

fn states_of<const N: usize>(ns: &[u64; N]) -> u16 {
    ns.iter().enumerate().filter(|(_, ns)| **ns > 0).fold(0, |states, (state, _)| states | 1 << state)
}

impl Writer<'_, Doing> {
    fn thread(&mut self, of: &ThreadPicture) -> Option<()> {
        let last = match of.last {
            Last::Other => 0,
            Last::Running => 1,
            Last::Ended => 2,
        };
        self.bits.bits(last, 2);
        let end = Some(of.end).filter(|end| *end > EVER);
        let found = self.row(&of.row, end, false)?;
        self.bits.flag(found == end);
        if found != end {
            self.bits.flag(end.is_some());
            end.into_iter().for_each(|end| self.time(end));
        }
        self.cells(&of.calls)?;
        self.bits.number(of.long_calls.len() as u64, 1);
        let mut before = self.base;
        for call in &of.long_calls {
            self.stretch(before, call.from, call.to);
            let word = CallWord { call: call.call, value: call.value, blocked: call.blocked, doubt: call.doubt };
            self.bits.number(self.words.calls.of(word), CALL_SMALL);
            before = call.to;
        }
        self.bits.number(of.late.len() as u64, 1);
        let mut before = self.base;
        for late in &of.late {
            self.bits.signed(late.to.wrapping_sub(before), self.shift + 1);
            self.bits.number(late.ns(), 20);
            self.bits.bits(late.state.into(), 4);
            before = late.to;
        }
        Some(())
    }
}

impl Writer<'_, Context> {
    fn cpu(&mut self, of: &CpuPicture) -> Option<()> {
        self.row(&of.row, of.tail.map(|tail| tail.from), true)?;
        self.bits.flag(of.tail.is_some());
        if let Some(tail) = &of.tail {
            self.stretch(self.base, tail.from, tail.to);
            self.word(tail);
        }
        self.cells(&of.interrupts.cells)?;
        self.bits.number(of.interrupts.longs.len() as u64, 1);
        for long in &of.interrupts.longs {
            self.stretch(self.base, long.from, long.to);
            self.bits.flag(long.what.0);
        }
        self.bits.number(of.long_interrupts.len() as u64, 1);
        for of in &of.long_interrupts {
            self.stretch(self.base, of.from, of.to);
            self.bits.number(self.words.interrupts.of((of.interrupt, of.name, of.doubt)), INTERRUPT_SMALL);
            self.bits.number(of.away_ns, 1);
        }
        self.bits.flag(of.longest_ns.is_some());
        of.longest_ns.into_iter().for_each(|ns| self.bits.number(ns, 16));
        self.bits.number(of.frequency.len() as u64, 1);
        for (at, khz) in &of.frequency {
            self.time(*at);
            self.bits.number((*khz).into(), 16);
        }
        self.bits.number(of.idle.len() as u64, 1);
        for (at, state) in &of.idle {
            self.time(*at);
            self.bits.number(state.map_or(0, |state| u64::from(state) + 1), 2);
        }
        Some(())
    }
}

/// Rows of a piece: each with its number and its size, so that others can be passed over.
fn put_rows<'c, R, T: AsBytes>(
    part: &PartPicture,
    calls: &'c Calls,
    rows: &[R],
    number: impl Fn(&R) -> i64,
    row: impl Fn(&mut Writer<'c, T>, &R) -> Option<()>,
) -> Option<Vec<u8>> {
    let (base, shift) = (part.base, part.shift);
    let mut writer = Writer { bits: BitPut::default(), base, shift, words: WordsOut::new(), calls };
    let mut all = Put::default();
    all.number(rows.len() as u64);
    let mut before = 0;
    for of in rows {
        row(&mut writer, of)?;
        all.signed(number(of) - before);
        before = number(of);
        all.number(writer.bits.len() as u64);
        writer.bits.finish(&mut all.0);
    }
    let mut put = Put::default();
    put.signed(base);
    put.number(shift.into());
    writer.words.put(&mut put);
    put.0.append(&mut all.0);
    Some(put.0)
}

impl PartPicture {
    /// Threads and CPUs, as bytes. `None`: its stretches do not follow each other.
    pub fn encode(&self, calls: &Calls) -> Option<[Vec<u8>; 2]> {
        let threads = put_rows(self, calls, &self.threads, |of| of.tid.into(), Writer::thread)?;
        Some([threads, put_rows(self, calls, &self.cpus, |of| of.cpu.into(), Writer::cpu)?])
    }
}
