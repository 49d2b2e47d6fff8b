// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pictures of parts from bytes [spec/index.md 5.2]. Whatever the bytes, taking them ends, with a picture or without,
//! and no picture has more than a builder puts into one.

use kymo_analyze::compact::Take;
use kymo_analyze::shown::{Calls, STATES};
use kymo_analyze::{Context, Doing, Doubt};

use crate::file::bits::{BitTake, width};
use crate::pictures::painter::ITEMS_MAX;
use crate::pictures::part::{CpuPicture, Last, Late, LongCall, LongInterrupt, SHIFT_MAX, ThreadPicture};
use crate::pictures::row::{Cell, Cells, EVER, Kind, Long, Row, Shown, TakeRow, down};
use crate::pictures::words::{
    AsBytes, CALL_SMALL, CELL_SMALL, CellWord, INTERRUPT_SMALL, STRETCH_SMALL, StretchWord, TID_SMALL, WordsIn,
};

/// Times lie within this of 1970, so that neither sums nor columns leave the numbers.
const TIME_MAX: i64 = 1 << 62;

/// Takes what is of one base and one length of columns.
struct Reader<'a, T> {
    bits: BitTake<'a>,
    base: i64,
    shift: u32,
    words: WordsIn<T>,
    /// Cells and stretches that may come.
    items_left: usize,
}

/// The stretch before or behind cells: its state, and what is doubtful about it.
#[derive(Clone, Copy)]
struct Beside {
    state: u8,
    doubt: Doubt,
}

fn near(at: i64) -> Option<i64> {
    Some(at).filter(|at| (-TIME_MAX..TIME_MAX).contains(at))
}

impl<T: AsBytes> Reader<'_, T> {
    fn time(&mut self) -> Option<i64> {
        near(self.base.checked_add(self.bits.signed(self.shift + 4)?)?)
    }

    /// A stretch, its begin as the distance from a time before it.
    fn stretch(&mut self, before: i64) -> Option<(i64, i64)> {
        let from = near(before.checked_add(self.bits.signed(self.shift + 1)?)?)?;
        let to = from.checked_add_unsigned(self.bits.number(self.shift)?)?;
        Some((from, near(to)?))
    }

    fn word(&mut self) -> Option<StretchWord<T>> {
        let at = self.bits.small::<usize>(STRETCH_SMALL)?;
        let word = self.words.stretches.get(at).copied()?;
        if !word.what.names_thread() {
            return Some(word);
        }
        let at = self.bits.small::<usize>(TID_SMALL)?;
        Some(StretchWord { what: word.what.join(self.words.tids.get(at).copied()?), ..word })
    }

    /// So many things, of which each has a bit at least.
    fn count(&mut self, small: u32) -> Option<usize> {
        let count = self.bits.count(small)?;
        self.items_left = self.items_left.checked_sub(count)?;
        Some(count)
    }

    fn list<R>(&mut self, mut one: impl FnMut(&mut Self) -> Option<R>) -> Option<Vec<R>> {
        let count = self.count(1)?;
        (0..count).map(|_| one(self)).collect()
    }

    fn cell_word(&mut self) -> Option<CellWord> {
        let at = self.bits.small::<usize>(CELL_SMALL)?;
        self.words.cells.get(at).copied()
    }

    /// Sums of a column by state, of which `left` is the most that they can be, or all that they are. And what is left.
    fn sums<const N: usize>(&mut self, states: u16, mut left: u64, is_full: bool) -> Option<([u64; N], u64)> {
        if u32::from(states) >> N != 0 || is_full && states == 0 {
            return None;
        }
        let (mut ns, mut rest) = ([0; N], states);
        while rest != 0 {
            let state = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            let sum = if is_full && rest == 0 { left } else { self.bits.bits(width(left))? };
            left = left.checked_sub(sum)?;
            ns[state] = sum;
        }
        Some((ns, left))
    }

    fn tids(&mut self) -> Option<Vec<(i32, u64)>> {
        let count = self.bits.count(2)?;
        let one = |reader: &mut Self| {
            let at = reader.bits.small::<usize>(TID_SMALL)?;
            Some((reader.words.tids.get(at).copied()?, reader.bits.bits(width(1 << reader.shift))?))
        };
        (0..count).map(|_| one(self)).collect()
    }

    /// Cells of a row whose stretches need not follow each other.
    fn cells<const N: usize>(&mut self) -> Option<Cells<N>> {
        let mut before = None;
        let cells = self.list(|reader| {
            let column = match before {
                None => (reader.base >> reader.shift).checked_add(reader.bits.signed(3)?),
                Some(before) => i64::checked_add_unsigned(before, reader.bits.number(1)?)?.checked_add(1),
            }?;
            before = Some(column);
            let from = near(column.checked_mul(1 << reader.shift)?)?;
            let word = reader.cell_word()?;
            let (ns, _) = reader.sums(word.states(), 1 << reader.shift, word.is_full())?;
            let doubt = word.doubt().unwrap_or(Doubt::NONE);
            Some(Cell { from, ns, touches: word.touches(), is_joined: word.is_joined(), doubt, tids: Vec::new() })
        })?;
        Some(Cells(cells))
    }

    /// Cells from `at` on, where the stretch before them ends, up to where the one behind them begins. Where they end.
    fn between<const N: usize>(
        &mut self,
        into: &mut impl TakeRow<T, N>,
        mut at: i64,
        before: Option<Beside>,
        behind: Option<Beside>,
        with_tids: bool,
    ) -> Option<i64> {
        let count = self.count(1)?;
        for number in 0..count {
            let begin = down(at, self.shift);
            let end = near(begin.checked_add(1 << self.shift)?)?;
            let is_last = number + 1 == count;
            let word = self.cell_word()?;
            if word.is_full() == is_last {
                return None;
            }
            let (mut ns, left) = self.sums(word.states(), end.abs_diff(at), !is_last)?;
            let (mut touches, mut doubt) = (word.touches(), Doubt::NONE);
            let mut is_told = |of: Beside, of_it: u64| {
                if of_it > 0 {
                    let sum: &mut u64 = ns.get_mut(usize::from(of.state))?;
                    *sum = sum.saturating_add(of_it);
                    touches = touches.saturating_add(1);
                    doubt |= of.doubt;
                }
                Some(())
            };
            let before = before.filter(|_| number == 0 && at > begin);
            if let Some(before) = before {
                is_told(before, at.abs_diff(begin))?;
            }
            // Of the last one the stretch behind it has what is left.
            at = end.checked_sub_unsigned(left)?;
            if let Some(behind) = behind.filter(|_| is_last) {
                is_told(behind, left)?;
            }
            let doubt = word.doubt().unwrap_or(doubt);
            let is_joined = word.is_joined() || before.is_some();
            let tids = if with_tids { self.tids()? } else { Vec::new() };
            into.cell(Cell { from: begin, ns, touches, is_joined, doubt, tids });
        }
        Some(at)
    }

    /// A row whose stretches follow each other. Where the last one ends; none of a row without stretches.
    fn row<const N: usize>(&mut self, into: &mut impl TakeRow<T, N>, with_tids: bool) -> Option<Option<i64>> {
        if self.bits.flag()? {
            let (to, StretchWord { what, doubt, is_late, .. }) = (self.time()?, self.word()?);
            into.born(Long { from: EVER, to, what, doubt, is_late });
        }
        let is_empty = self.bits.flag()?;
        if is_empty {
            return Some(None);
        }
        let column = (self.base >> self.shift).checked_add(self.bits.signed(3)?)?;
        let begin = near(column.checked_mul(1 << self.shift)?)?;
        let mut at = begin.checked_add_unsigned(self.bits.bits(self.shift)?)?;
        let mut before = None;
        for _ in 0..self.count(3)? {
            let StretchWord { what, state, doubt, is_late } = self.word()?;
            let beside = Some(Beside { state, doubt });
            let from = self.between(into, at, before, beside, with_tids)?;
            let columns = self.bits.number(2)?.checked_add(1).filter(|columns| *columns >> (62 - self.shift) == 0)?;
            let first = down(near(from)?.checked_add((1 << self.shift) - 1)?, self.shift);
            let last = near(first.checked_add_unsigned(columns << self.shift)?)?;
            let to = near(last.checked_add_unsigned(self.bits.bits(self.shift)?)?)?;
            into.long(Long { from, to, what, doubt, is_late });
            (at, before) = (to, beside);
        }
        self.between(into, at, before, None, with_tids).map(Some)
    }
}

impl Reader<'_, Doing> {
    /// A thread, but for its row.
    fn thread(&mut self, number: i64, row: &mut impl TakeRow<Doing, { STATES.len() }>) -> Option<ThreadPicture> {
        let last = match self.bits.bits(2)? {
            0 => Last::Other,
            1 => Last::Running,
            2 => Last::Ended,
            _ => return None,
        };
        let end = self.row(row, false)?;
        let is_end_of_row = self.bits.flag()?;
        let end = match is_end_of_row {
            true => end.unwrap_or(EVER),
            false if self.bits.flag()? => self.time()?,
            false => EVER,
        };
        let calls = self.cells()?;
        let mut before = self.base;
        let long_calls = self.list(|reader| {
            let (from, to) = reader.stretch(before)?;
            before = to;
            let word = reader.bits.small::<usize>(CALL_SMALL)?;
            let word = reader.words.calls.get(word).copied()?;
            Some(LongCall { from, to, call: word.call, value: word.value, blocked: word.blocked, doubt: word.doubt })
        })?;
        let mut before = self.base;
        let late = self.list(|reader| {
            let to = near(before.checked_add(reader.bits.signed(reader.shift + 1)?)?)?;
            before = to;
            let from = near(to.checked_sub_unsigned(reader.bits.number(20)?)?)?;
            let state = reader.bits.bits(4)? as u8;
            (usize::from(state) < STATES.len()).then_some(Late { from, to, state })
        })?;
        Some(ThreadPicture {
            tid: i32::try_from(number).ok()?,
            end,
            last,
            row: Row::default(),
            calls,
            long_calls,
            late,
        })
    }
}

impl Reader<'_, Context> {
    fn interrupts(&mut self) -> Option<Row<Kind, 2>> {
        let cells = self.cells()?;
        let longs = self.list(|reader| {
            let ((from, to), what) = (reader.stretch(reader.base)?, Kind(reader.bits.flag()?));
            Some(Long { from, to, what, doubt: Doubt::NONE, is_late: false })
        })?;
        Some(Row { born: None, cells, longs })
    }

    fn cpu(&mut self, number: i64) -> Option<CpuPicture> {
        let mut row = Row::default();
        self.row(&mut row, true)?;
        let mut tail = None;
        if self.bits.flag()? {
            let (from, to) = self.stretch(self.base)?;
            let StretchWord { what, doubt, is_late, .. } = self.word()?;
            tail = Some(Long { from, to, what, doubt, is_late });
        }
        let interrupts = self.interrupts()?;
        let long_interrupts = self.list(|reader| {
            let (from, to) = reader.stretch(reader.base)?;
            let word = reader.bits.small::<usize>(INTERRUPT_SMALL)?;
            let (interrupt, name, doubt) = reader.words.interrupts.get(word).copied()?;
            Some(LongInterrupt { from, to, interrupt, name, away_ns: reader.bits.number(1)?, doubt })
        })?;
        let longest_ns = if self.bits.flag()? { Some(self.bits.number(16)?) } else { None };
        let frequency = self.list(|reader| Some((reader.time()?, reader.bits.small(16)?)))?;
        let idle = self.list(|reader| {
            let (at, state) = (reader.time()?, reader.bits.number(2)?);
            Some((at, state.checked_sub(1).map(u32::try_from).transpose().ok()?))
        })?;
        let cpu = u32::try_from(number).ok()?;
        Some(CpuPicture { cpu, row, tail, interrupts, long_interrupts, longest_ns, frequency, idle })
    }
}

/// Hands on all rows in the order of their numbers, until `row` says that one was none. The length of columns.
fn take_rows<'a, T: AsBytes>(
    bytes: &'a [u8],
    is_wanted: impl Fn(i64) -> bool,
    mut row: impl FnMut(&mut Reader<'a, T>, i64) -> Option<()>,
) -> Option<u32> {
    let mut take = Take(bytes);
    let base = take.signed().filter(|base| (-TIME_MAX..TIME_MAX).contains(base))?;
    let shift = take.small().filter(|shift| *shift <= SHIFT_MAX)?;
    let words = WordsIn::take(&mut take)?;
    let mut reader = Reader { bits: BitTake::new(&[]), base, shift, words, items_left: ITEMS_MAX };
    let mut number = 0i64;
    for at in 0..take.count()? {
        let step = take.signed()?;
        number = number.checked_add(step).filter(|_| at == 0 || step > 0)?;
        let bytes = take.small::<usize>()?;
        let (own, rest) = take.0.split_at_checked(bytes)?;
        take = Take(rest);
        if is_wanted(number) {
            reader.bits = BitTake::new(own);
            row(&mut reader, number)?;
            if !reader.bits.is_at_end() {
                return None;
            }
        }
    }
    take.is_empty().then_some(shift)
}

/// Threads that are wanted, and the length of columns.
pub(crate) fn take_threads(bytes: &[u8], is_wanted: impl Fn(i32) -> bool) -> Option<(u32, Vec<ThreadPicture>)> {
    let mut all = Vec::new();
    let is_wanted = |tid| i32::try_from(tid).is_ok_and(&is_wanted);
    let shift = take_rows(bytes, is_wanted, |reader, number| {
        let mut row = Row::default();
        let of = reader.thread(number, &mut row)?;
        all.push(ThreadPicture { row, ..of });
        Some(())
    })?;
    Some((shift, all))
}

/// Takes threads one by one, and the row of each as it comes.
pub trait TakeThreads {
    /// Whether a thread is wanted.
    fn wants(&self, tid: i32) -> bool;

    /// What comes next is of this thread.
    fn begin(&mut self, tid: i32);

    /// What was before its first stretch in the trace.
    fn born(&mut self, born: &Long<Doing>);

    /// What its row shows.
    fn shown(&mut self, shown: Shown<'_, Doing, { STATES.len() }>);

    /// All else of it. Of its row there are those long stretches that are late waits.
    fn end(&mut self, of: &ThreadPicture);
}

/// Hands on a row in columns of `shift`; late waits are kept, too.
struct Showing<'t, K> {
    to: &'t mut K,
    lengths: (u32, u32),
    calls: &'t Calls,
    late: Vec<Long<Doing>>,
}

impl<K: TakeThreads> TakeRow<Doing, { STATES.len() }> for Showing<'_, K> {
    fn born(&mut self, long: Long<Doing>) {
        self.to.born(&long);
    }

    #[inline]
    fn cell(&mut self, cell: Cell<{ STATES.len() }>) {
        self.to.shown(Shown::Cell(&cell));
    }

    fn long(&mut self, long: Long<Doing>) {
        long.each(self.lengths, self.calls, &mut |shown| self.to.shown(shown));
        if long.is_late {
            self.late.push(long);
        }
    }
}

/// Hands on threads. `lengths`: that of their columns, and that of those asked for, which are not shorter. `None`: what
/// was handed on is of no use.
pub(crate) fn show_threads<K: TakeThreads>(bytes: &[u8], lengths: (u32, u32), calls: &Calls, to: &mut K) -> Option<()> {
    // Who is wanted is asked while rows are handed on.
    let to = std::cell::RefCell::new(to);
    let is_wanted = |tid| i32::try_from(tid).is_ok_and(|tid| to.borrow().wants(tid));
    let shift = take_rows(bytes, is_wanted, |reader, number| {
        let mut to = to.borrow_mut();
        if reader.shift != lengths.0 {
            return None;
        }
        to.begin(i32::try_from(number).ok()?);
        let mut row = Showing { to: &mut **to, lengths, calls, late: Vec::new() };
        let mut of = reader.thread(number, &mut row)?;
        of.row.longs = row.late;
        to.end(&of);
        Some(())
    })?;
    (shift == lengths.0).then_some(())
}

/// All CPUs, and the length of columns.
pub(crate) fn take_cpus(bytes: &[u8]) -> Option<(u32, Vec<CpuPicture>)> {
    let mut all = Vec::new();
    let shift = take_rows(
        bytes,
        |_| true,
        |reader, number| {
            all.push(reader.cpu(number)?);
            Some(())
        },
    )?;
    Some((shift, all))
}
