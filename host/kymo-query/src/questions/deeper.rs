// SPDX-License-Identifier: MIT OR Apache-2.0
//! Looking for the longest of something where parts of the index do not list all: in their own parts, and in the end in
//! the records [spec/index.md 5.3, 5.4].

use std::collections::BTreeMap;

use kymo_index::{DamagedSums, UnitContent, UnitPart};

use crate::error::Error;
use crate::walk::Stop;

/// Parts of the lowest level whose records are read at most: with more of them, all records of the window are as soon
/// read.
const READ_MAX: usize = 16;

/// What looks for the longest.
pub(super) trait FindLongest {
    /// Where what a part has is.
    type Place: Copy;
    /// What a part does not list all of.
    type Cut;

    /// What is not listed, as far as it may be among the longest.
    fn wanted(&mut self) -> Vec<Self::Cut>;

    /// The part of which it is.
    fn part_of(cut: &Self::Cut) -> UnitPart<Self::Place>;

    /// What a part is made of, as far as that can be taken.
    fn content(&self, of: &UnitPart<Self::Place>) -> Option<UnitContent<Self::Place>>;

    /// Takes what a part of a longer one lists and that does not.
    fn look_into(&mut self, all: &[Self::Cut], part: &UnitPart<Self::Place>) -> Result<(), DamagedSums>;

    /// Takes what a part of the lowest level does not list, from its records.
    fn read_again(
        &mut self,
        all: &[Self::Cut],
        window: (i64, i64),
        stop: &Stop,
    ) -> Result<Result<(), DamagedSums>, Error>;
}

/// Looks at what parts do not list, as far as it may be among the longest. Whether all of it is known then.
pub(super) fn complete(of: &mut impl FindLongest, stop: &Stop) -> Result<Result<bool, DamagedSums>, Error> {
    let mut read = 0;
    loop {
        stop.check()?;
        let mut by_part: BTreeMap<(usize, usize), Vec<_>> = BTreeMap::new();
        for cut in of.wanted() {
            by_part.entry(part_of(of, &cut).id()).or_default().push(cut);
        }
        if by_part.is_empty() {
            return Ok(Ok(true));
        }
        for all in by_part.into_values() {
            let Some(first) = all.first() else { continue };
            match of.content(&part_of(of, first)) {
                None => return Ok(Ok(false)),
                Some(UnitContent::Parts(parts)) => {
                    for part in parts {
                        if let Err(damaged) = of.look_into(&all, &part) {
                            return Ok(Err(damaged));
                        }
                    }
                }
                Some(UnitContent::Records(from, to)) => {
                    read += 1;
                    if read > READ_MAX {
                        return Ok(Ok(false));
                    }
                    if let Err(damaged) = of.read_again(&all, (from, to), stop)? {
                        return Ok(Err(damaged));
                    }
                }
            }
        }
    }
}

fn part_of<F: FindLongest>(_: &F, cut: &F::Cut) -> UnitPart<F::Place> {
    F::part_of(cut)
}
