// SPDX-License-Identifier: MIT OR Apache-2.0
//! What recurs in the picture of a part, and is kept once in each of its pieces [spec/index.md 5.2].

use std::hash::Hash;

use kymo_analyze::compact::{Put, Take};
use kymo_analyze::hash::Map;
use kymo_analyze::{CallId, Context, Doing, Doubt, Interrupt, Name, Ready, Waker};

/// Numbers of words are exponential Golomb codes: the first of this power of two are the shortest.
pub(crate) const STRETCH_SMALL: u32 = 3;
pub(crate) const TID_SMALL: u32 = 6;
pub(crate) const CELL_SMALL: u32 = 4;
pub(crate) const CALL_SMALL: u32 = 3;
pub(crate) const INTERRUPT_SMALL: u32 = 3;

/// What a stretch was, as part of bytes.
pub(crate) trait AsBytes: Copy + Eq + Hash {
    fn put(self, put: &mut Put);
    fn take(take: &mut Take<'_>) -> Option<Self>;
    /// The same without the one thread that it names, and that thread: what is left recurs more often.
    fn split(self) -> (Self, Option<i32>);
    /// The same again.
    fn join(self, tid: i32) -> Self;
    /// Whether it names a thread.
    fn names_thread(self) -> bool {
        self.split().1.is_some()
    }
}

impl AsBytes for Context {
    fn put(self, put: &mut Put) {
        Context::put(self, put);
    }

    fn take(take: &mut Take<'_>) -> Option<Context> {
        Context::take(take)
    }

    fn split(self) -> (Context, Option<i32>) {
        match self {
            Context::Thread(tid) => (Context::Thread(0), Some(tid)),
            other => (other, None),
        }
    }

    fn join(self, tid: i32) -> Context {
        match self {
            Context::Thread(_) => Context::Thread(tid),
            other => other,
        }
    }
}

impl AsBytes for Doing {
    fn put(self, put: &mut Put) {
        Doing::put(self, put);
    }

    fn take(take: &mut Take<'_>) -> Option<Doing> {
        Doing::take(take)
    }

    fn split(self) -> (Doing, Option<i32>) {
        let Doing::Runnable { why, cpu } = self else { return (self, None) };
        let of_waker = |waker: Waker| {
            let (context, tid) = waker.context.split();
            (Waker { context, ..waker }, tid)
        };
        let (why, tid) = match why {
            Ready::Woken(waker) => {
                let (waker, tid) = of_waker(waker);
                (Ready::Woken(waker), tid)
            }
            Ready::New(waker) => {
                let (waker, tid) = of_waker(waker);
                (Ready::New(waker), tid)
            }
            Ready::Preempted { by } => (Ready::Preempted { by: 0 }, Some(by)),
            Ready::GaveWay { to } => (Ready::GaveWay { to: 0 }, Some(to)),
        };
        (Doing::Runnable { why, cpu }, tid)
    }

    fn join(self, tid: i32) -> Doing {
        let Doing::Runnable { why, cpu } = self else { return self };
        let of_waker = |waker: Waker| Waker { context: waker.context.join(tid), ..waker };
        let why = match why {
            Ready::Woken(waker) => Ready::Woken(of_waker(waker)),
            Ready::New(waker) => Ready::New(of_waker(waker)),
            Ready::Preempted { .. } => Ready::Preempted { by: tid },
            Ready::GaveWay { .. } => Ready::GaveWay { to: tid },
        };
        Doing::Runnable { why, cpu }
    }
}

/// Values of a piece that come again and again, each once.
pub(crate) struct Words<K> {
    list: Vec<K>,
    numbers: Map<K, u32>,
    /// The last one: often it is the next one, too.
    last: Option<(K, u32)>,
}

impl<K: Copy + Eq + Hash> Words<K> {
    pub fn new() -> Words<K> {
        Words { list: Vec::new(), numbers: Map::default(), last: None }
    }

    /// Its number: those that come first have the smallest.
    #[inline]
    pub fn of(&mut self, word: K) -> u64 {
        if let Some((_, number)) = self.last.filter(|(last, _)| *last == word) {
            return number.into();
        }
        let number = *self.numbers.entry(word).or_insert_with(|| {
            self.list.push(word);
            self.list.len() as u32 - 1
        });
        self.last = Some((word, number));
        number.into()
    }

    pub fn put(&self, put: &mut Put, one: impl Fn(&mut Put, K)) {
        put.number(self.list.len() as u64);
        self.list.iter().for_each(|word| one(put, *word));
    }
}

fn take_words<K>(take: &mut Take<'_>, one: impl Fn(&mut Take<'_>) -> Option<K>) -> Option<Vec<K>> {
    let count = take.count()?;
    (0..count).map(|_| one(take)).collect()
}

/// What a stretch was but for its thread, its state, what is doubtful about it, and whether it is a late wait.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct StretchWord<T> {
    pub what: T,
    pub state: u8,
    pub doubt: Doubt,
    pub is_late: bool,
}

/// Of a cell: states that have a share of what the stretches around it leave, how many stretches that are, and what is
/// doubtful about all of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct CellWord(u64);

impl CellWord {
    pub fn new(states: u16, touches: u32, is_joined: bool, is_full: bool, doubt: Option<Doubt>) -> CellWord {
        let flags = u64::from(is_joined) | u64::from(is_full) << 1 | u64::from(doubt.is_some()) << 2;
        let doubt = u64::from(doubt.unwrap_or(Doubt::NONE).bits());
        CellWord(flags | doubt << 3 | u64::from(states) << 11 | u64::from(touches) << 27)
    }

    pub fn states(self) -> u16 {
        (self.0 >> 11) as u16
    }

    /// Stretches.
    pub fn touches(self) -> u32 {
        (self.0 >> 27) as u32
    }

    /// The first of them began before it.
    pub fn is_joined(self) -> bool {
        self.0 & 1 != 0
    }

    /// Together they are as long as a column: the last sum is not kept.
    pub fn is_full(self) -> bool {
        self.0 & 2 != 0
    }

    /// None: what is doubtful about the stretches around it.
    pub fn doubt(self) -> Option<Doubt> {
        (self.0 & 4 != 0).then(|| Doubt::from_bits((self.0 >> 3) as u8))
    }
}

/// Which call, what it returned, whether it blocked, and what is doubtful about it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct CallWord {
    pub call: CallId,
    pub value: i64,
    pub blocked: bool,
    pub doubt: Doubt,
}

/// An interrupt, its name, and what is doubtful about it.
pub(crate) type InterruptWord = (Interrupt, Name, Doubt);

/// All that recurs while a piece is put.
pub(crate) struct WordsOut<T> {
    pub stretches: Words<StretchWord<T>>,
    pub tids: Words<i32>,
    pub cells: Words<CellWord>,
    pub calls: Words<CallWord>,
    pub interrupts: Words<InterruptWord>,
}

impl<T: AsBytes> WordsOut<T> {
    pub fn new() -> WordsOut<T> {
        let (stretches, tids, cells) = (Words::new(), Words::new(), Words::new());
        WordsOut { stretches, tids, cells, calls: Words::new(), interrupts: Words::new() }
    }

    pub fn put(&self, put: &mut Put) {
        self.stretches.put(put, |put, word| {
            word.what.put(put);
            put.byte(word.state);
            put.byte(word.doubt.bits());
            put.byte(word.is_late.into());
        });
        self.tids.put(put, |put, tid| put.signed(tid.into()));
        self.cells.put(put, |put, word| put.number(word.0));
        self.calls.put(put, |put, word| {
            put.number(word.call.0.into());
            put.signed(word.value);
            put.byte(word.blocked.into());
            put.byte(word.doubt.bits());
        });
        self.interrupts.put(put, |put, (interrupt, name, doubt)| {
            interrupt.put(put);
            put.text(name.as_str());
            put.byte(doubt.bits());
        });
    }
}

/// The same, taken again.
pub(crate) struct WordsIn<T> {
    pub stretches: Vec<StretchWord<T>>,
    pub tids: Vec<i32>,
    pub cells: Vec<CellWord>,
    pub calls: Vec<CallWord>,
    pub interrupts: Vec<InterruptWord>,
}

impl<T: AsBytes> WordsIn<T> {
    pub fn take(take: &mut Take<'_>) -> Option<WordsIn<T>> {
        let stretch = |take: &mut Take<'_>| {
            let (what, state) = (T::take(take)?, take.byte()?);
            Some(StretchWord { what, state, doubt: doubt(take)?, is_late: flag(take)? })
        };
        let call = |take: &mut Take<'_>| {
            let (call, value) = (CallId(take.small()?), take.signed()?);
            Some(CallWord { call, value, blocked: flag(take)?, doubt: doubt(take)? })
        };
        Some(WordsIn {
            stretches: take_words(take, stretch)?,
            tids: take_words(take, |take| i32::try_from(take.signed()?).ok())?,
            cells: take_words(take, |take| take.number().filter(|word| word >> 59 == 0).map(CellWord))?,
            calls: take_words(take, call)?,
            interrupts: take_words(take, |take| Some((Interrupt::take(take)?, Name::new(take.text()?), doubt(take)?)))?,
        })
    }
}

fn flag(take: &mut Take<'_>) -> Option<bool> {
    take.byte().filter(|flag| *flag < 2).map(|flag| flag == 1)
}

fn doubt(take: &mut Take<'_>) -> Option<Doubt> {
    take.byte().map(Doubt::from_bits)
}
