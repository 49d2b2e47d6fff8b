// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which pictures of parts a window is made of [spec/index.md 5.2].

pub(crate) mod head;
pub(crate) mod painter;
pub(crate) mod part;
pub(crate) mod put;
pub(crate) mod row;
pub(crate) mod take;
#[cfg(test)]
mod tests;
pub(crate) mod words;

use kymo_analyze::shown::Calls;

use crate::pictures::head::PicturePlace;
use crate::pictures::painter::PICTURE_FAN_OUT;
use crate::pictures::part::CpuPicture;
use crate::pictures::take::{TakeThreads, show_threads, take_cpus, take_threads};
use crate::pyramid::{Cover, DamagedSums, Pyramid};

/// A stretch of a window. `P`: where what it is made of is.
#[derive(Clone, Copy, Debug)]
pub enum Stretch<P = PicturePlace> {
    /// Is made of the index.
    Picture(P),
    /// Is made of the records from a time on, up to another one.
    Records(i64, i64),
}

/// What a window is made of, between the records at its begin and those at its end.
#[derive(Debug)]
pub struct Gallery<P = PicturePlace> {
    /// Losses and names in it, and where it begins and ends.
    pub cover: Cover,
    /// In the order of time.
    pub stretches: Vec<Stretch<P>>,
}

impl Pyramid {
    /// Pictures of a window [from, to), with columns of 2 to the power of `shift` ns at most. `is_from_begin`: the
    /// window has all that is before its end. `Ok(None)`: there are none, or reading the records is the only way.
    ///
    /// # Errors
    /// The sums are damaged.
    pub fn gallery(&self, window: (i64, i64), is_from_begin: bool, shift: u32) -> Result<Option<Gallery>, DamagedSums> {
        let Some(range) = self.range(window, is_from_begin) else { return Ok(None) };
        let (mut stretches, mut at, mut has_picture) = (Vec::new(), range.start, false);
        while at < range.end {
            if let Some((place, count)) = self.longest_picture(at, range.end, shift) {
                stretches.push(Stretch::Picture(place));
                (at, has_picture) = (at + count, true);
                continue;
            }
            // Records are chosen by time: it must divide them from the parts around.
            let begin = at;
            while at < range.end && self.longest_picture(at, range.end, shift).is_none() {
                at += 1;
            }
            let after = |boundary: usize| self.head.after.get(boundary).copied().ok_or(DamagedSums);
            if !self.divides(begin) || !self.divides(at) {
                return Ok(None);
            }
            let from = if begin == 0 { i64::MIN } else { after(begin)? };
            stretches.push(Stretch::Records(from, after(at)?));
        }
        if !has_picture {
            return Ok(None);
        }
        Ok(self.cover(window, is_from_begin)?.map(|cover| Gallery { cover, stretches }))
    }

    /// The picture of the longest part that begins there and ends in time, and how many of the finest level it is.
    fn longest_picture(&self, at: usize, end: usize, shift: u32) -> Option<(PicturePlace, usize)> {
        let mut found = None;
        let mut count = 1usize;
        for level in &self.pictures.0 {
            if at % count != 0 || at + count > end {
                break;
            }
            let place = level.get(at / count).copied().flatten().filter(|place| place.shift <= shift);
            found = place.map(|place| (place, count)).or(found);
            count = count.saturating_mul(PICTURE_FAN_OUT);
        }
        found
    }

    /// Hands on the threads of a picture that are wanted, in columns of 2 to the power of `shift` ns.
    ///
    /// # Errors
    /// It is damaged: what was handed on is of no use.
    pub fn threads_of(
        &self,
        place: &PicturePlace,
        shift: u32,
        calls: &Calls,
        to: &mut impl TakeThreads,
    ) -> Result<(), DamagedSums> {
        let bytes = self.pieces.read(&place.threads).ok_or(DamagedSums)?;
        show_threads(&bytes, (place.shift, shift), calls, to).ok_or(DamagedSums)
    }

    /// CPUs of a picture.
    ///
    /// # Errors
    /// It is damaged.
    pub fn cpus_of(&self, place: &PicturePlace) -> Result<Vec<CpuPicture>, DamagedSums> {
        let bytes = self.pieces.read(&place.cpus).ok_or(DamagedSums)?;
        let (shift, cpus) = take_cpus(&bytes).ok_or(DamagedSums)?;
        if shift == place.shift { Ok(cpus) } else { Err(DamagedSums) }
    }

    /// Looks through all pictures.
    pub(crate) fn check_pictures(&self) -> Result<(), DamagedSums> {
        for place in self.pictures.0.iter().flatten().flatten() {
            let bytes = self.pieces.read(&place.threads).ok_or(DamagedSums)?;
            take_threads(&bytes, |_| true).filter(|(shift, _)| *shift == place.shift).ok_or(DamagedSums)?;
            self.cpus_of(place)?;
        }
        Ok(())
    }
}
