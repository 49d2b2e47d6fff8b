// SPDX-License-Identifier: MIT OR Apache-2.0
//! The threads of samples, each once for all parts: parts say them by number [spec/index.md 5.3].

use kymo_analyze::compact::{Put, Take};
use kymo_analyze::hash::Map;
use kymo_analyze::{Name, Sample};

/// Numbers at most; parts have the others as a whole.
const WHO_MAX: usize = 1 << 16;

/// The thread of a sample, as it was then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Who {
    pub tid: Option<i32>,
    pub process: Option<i32>,
    pub prio: Option<i16>,
    pub name: Name,
}

impl Who {
    pub fn of(sample: &Sample) -> Who {
        Who { tid: sample.tid, process: sample.process, prio: sample.prio, name: sample.name }
    }

    /// `before`: the name of the one before it, which may begin in the same way.
    fn put(&self, put: &mut Put, before: Name) {
        put.option(self.tid, |put, tid| put.signed(tid.into()));
        put.option(self.process, |put, process| put.signed(process.into()));
        put.option(self.prio, |put, prio| put.signed(prio.into()));
        let (own, before) = (self.name, before);
        let same = own.as_str().bytes().zip(before.as_str().bytes()).take_while(|(own, before)| own == before).count();
        let same = (0..=same).rev().find(|same| own.as_str().is_char_boundary(*same)).unwrap_or(0);
        put.number(same as u64);
        put.text(&own.as_str()[same..]);
    }

    fn take(take: &mut Take<'_>, before: Name) -> Option<Who> {
        let int = |take: &mut Take<'_>| i32::try_from(take.signed()?).ok();
        let (tid, process) = (take.option(int)?, take.option(int)?);
        let prio = take.option(|take| i16::try_from(take.signed()?).ok())?;
        let same = take.small::<usize>()?;
        let name = [before.as_str().get(..same)?, take.text()?].concat();
        Some(Who { tid, process, prio, name: Name::new(&name) })
    }
}

/// Some threads as a whole.
pub(crate) fn put_all(put: &mut Put, all: &[Who]) {
    put.number(all.len() as u64);
    let mut before = Name::default();
    for who in all {
        who.put(put, before);
        before = who.name;
    }
}

/// The same again.
pub(crate) fn take_all(take: &mut Take<'_>) -> Option<Vec<Who>> {
    let (count, mut before) = (take.count()?, Name::default());
    let one = |_| {
        let who = Who::take(take, before)?;
        before = who.name;
        Some(who)
    };
    (0..count).map(one).collect()
}

/// Numbers of threads, while parts are made.
#[derive(Debug, Default)]
pub(crate) struct WhoTable {
    list: Vec<Who>,
    places: Map<Who, u32>,
    told: usize,
}

impl WhoTable {
    /// The number of a thread; `None`: there is no room for it.
    pub fn number(&mut self, who: Who) -> Option<u32> {
        let next = self.list.len();
        if next >= WHO_MAX {
            return self.places.get(&who).copied();
        }
        let number = *self.places.entry(who).or_insert(next as u32);
        if number as usize == next {
            self.list.push(who);
        }
        Some(number)
    }

    /// Those that have their number since this was asked last.
    pub fn new_ones(&mut self) -> Vec<Who> {
        let new = self.list[self.told..].to_vec();
        self.told = self.list.len();
        new
    }

    /// All that have a number.
    #[cfg(test)]
    pub fn all(&self) -> &[Who] {
        &self.list
    }

    /// One thread.
    pub fn put(&mut self, put: &mut Put, who: Who) {
        match self.number(who) {
            Some(number) => put.number(u64::from(number) + 1),
            None => {
                put.number(0);
                who.put(put, Name::default());
            }
        }
    }

    /// Threads that are no two alike, in the order in which they are taken: those with a number, and the others.
    pub fn put_some(&mut self, put: &mut Put, all: impl Iterator<Item = Who>) -> Vec<Who> {
        let (mut known, mut other) = (Vec::new(), Vec::new());
        for who in all {
            match self.number(who) {
                Some(number) => known.push((number, who)),
                None => other.push(who),
            }
        }
        known.sort_unstable_by_key(|(number, _)| *number);
        put.number(known.len() as u64);
        let mut next = 0;
        for (number, _) in &known {
            put.number((number - next).into());
            next = number + 1;
        }
        put_all(put, &other);
        known.into_iter().map(|(_, who)| who).chain(other).collect()
    }
}

/// One thread again. `all`: those with a number.
pub(crate) fn take_one(take: &mut Take<'_>, all: &[Who]) -> Option<Who> {
    match take.small::<usize>()?.checked_sub(1) {
        Some(number) => all.get(number).copied(),
        None => Who::take(take, Name::default()),
    }
}

/// Some threads again.
pub(crate) fn take_some(take: &mut Take<'_>, all: &[Who]) -> Option<Vec<Who>> {
    let (count, mut next) = (take.count()?, 0usize);
    let one = |_| {
        let number = next.checked_add(take.small::<usize>()?)?;
        next = number.checked_add(1)?;
        all.get(number).copied()
    };
    let mut some = (0..count).map(one).collect::<Option<Vec<_>>>()?;
    some.extend(take_all(take)?);
    Some(some)
}
