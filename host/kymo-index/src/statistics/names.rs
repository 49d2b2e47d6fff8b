// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who wrote records, each once, by number [spec/index.md 5.6].

use kymo_analyze::compact::{Put, Take};
use kymo_analyze::hash::Map;
use kymo_analyze::usage::Actor;
use kymo_analyze::{Name, Writer};

/// Numbers at most: as many rows as statistics keep apart.
pub(crate) const NAMES_MAX: usize = 1 << 18;

/// Who wrote records: a thread as it was at a time, or nobody who is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct WriterName {
    /// The process.
    pub process: Option<i32>,
    /// The thread.
    pub tid: Option<i32>,
    /// Its name; may be empty.
    pub name: Name,
}

impl WriterName {
    /// A thread that ran.
    pub(crate) fn of(actor: &Actor) -> WriterName {
        WriterName { process: actor.process, tid: Some(actor.tid), name: actor.name }
    }

    /// The same again.
    pub(crate) fn actor(&self) -> Option<Actor> {
        Some(Actor { process: self.process, tid: self.tid?, name: self.name, ..Actor::default() })
    }

    /// As records are counted.
    pub fn writer(&self) -> Writer {
        Writer { process: self.process, tid: self.tid, name: self.name, ..Writer::default() }
    }
}

/// All of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriterNames {
    list: Vec<WriterName>,
    places: Map<WriterName, u32>,
    /// There are too many.
    pub(crate) is_over: bool,
}

impl WriterNames {
    /// The number of one.
    pub(crate) fn number(&mut self, of: WriterName) -> u32 {
        let next = self.list.len();
        if next >= NAMES_MAX && !self.places.contains_key(&of) {
            self.is_over = true;
            return 0;
        }
        *self.places.entry(of).or_insert_with(|| {
            self.list.push(of);
            next as u32
        })
    }

    /// The one of a number.
    pub fn at(&self, number: u32) -> Option<&WriterName> {
        self.list.get(number as usize)
    }

    pub(crate) fn put(&self, put: &mut Put) {
        put.number(self.list.len() as u64);
        let mut before = 0i64;
        for of in &self.list {
            let has = u8::from(of.process.is_some()) | u8::from(of.tid.is_some()) << 1;
            put.byte(has);
            let tid = of.tid.map_or(before, i64::from);
            if of.tid.is_some() {
                put.signed(tid - before);
            }
            if let Some(process) = of.process {
                put.signed(i64::from(process) - tid);
            }
            before = tid;
            put.text(of.name.as_str());
        }
    }

    pub(crate) fn take(take: &mut Take<'_>) -> Option<WriterNames> {
        let count = take.count().filter(|count| *count <= NAMES_MAX)?;
        let (mut names, mut before) = (WriterNames::default(), 0i64);
        for number in 0..count {
            let has = take.byte().filter(|has| *has < 4)?;
            let mut tid = None;
            if has & 2 != 0 {
                before = before.checked_add(take.signed()?)?;
                tid = Some(i32::try_from(before).ok()?);
            }
            let mut process = None;
            if has & 1 != 0 {
                process = Some(i32::try_from(before.checked_add(take.signed()?)?).ok()?);
            }
            let of = WriterName { process, tid, name: Name::new(take.text()?) };
            if names.number(of) != number as u32 {
                return None;
            }
        }
        Some(names)
    }
}
