// SPDX-License-Identifier: MIT OR Apache-2.0
//! Wake-ups of a window from the index [spec/index.md 5.4], and from the records only where that has too little.

use kymo_analyze::{Sink, Thread, ThreadSpan};
use kymo_feed::Visit;
use kymo_index::{DamagedSums, PartSums, Piece, Pyramid, UnitContent, WakeArrow, WakePart, WakeRank, WakeStretch};

use crate::error::Error;
use crate::opened::Opened;
use crate::parameters::Window;
use crate::questions::arrows::pass::{ArrowPass, CutWakes};
use crate::questions::begun::damage_note;
use crate::questions::deeper::{FindLongest, complete};
use crate::walk::{Gather, Stop, TakePictures, Walk, Walked};

/// Answers from the index. `None`: records are to be read. `notes`: what is wrong with it.
pub(crate) fn indexed<'o>(
    of: &'o Opened,
    window: Window,
    (tids, limit): (Option<&[i32]>, usize),
    notes: &mut Vec<String>,
    stop: &Stop,
) -> Result<Option<(ArrowPass<'o>, Walked)>, Error> {
    let states = of.indexes.states.as_ref().filter(|_| !window.is_empty());
    let Some(pyramid) = states.map(|states| &states.pyramid) else { return Ok(None) };
    let gallery = match pyramid.wakes(window.pair(), window.from <= of.base()) {
        Ok(Some(gallery)) => gallery,
        Ok(None) => return Ok(None),
        Err(damaged) => {
            notes.push(damage_note(damaged));
            return Ok(None);
        }
    };
    let mut pass = ArrowPass { pyramid: Some(pyramid), ..ArrowPass::new(tids, limit) };
    let found = match Walk::new(of, window).run_pictures(&gallery, &mut pass, stop)? {
        Ok(walked) => {
            let is_whole = complete(&mut FindArrows { pass: &mut pass, of, pyramid }, stop)?;
            is_whole.map(|is_whole| is_whole.then_some(walked))
        }
        Err(damaged) => Err(damaged),
    };
    match found {
        Ok(walked) => Ok(walked.map(|walked| (pass, walked))),
        Err(damaged) => {
            notes.push(damage_note(damaged));
            Ok(None)
        }
    }
}

impl TakePictures<WakeStretch> for ArrowPass<'_> {
    fn sums(&mut self, part: &PartSums) {
        self.people.of_part(part);
    }

    fn names_are_known(&mut self, are_known: bool) {
        self.are_named = are_known;
    }

    fn picture(&mut self, stretch: &WakeStretch) -> Result<(), DamagedSums> {
        let pyramid = self.pyramid.ok_or(DamagedSums)?;
        let part = pyramid.wakes_of(stretch, self.tids.is_none())?;
        self.count(part.total(self.tids.as_deref()).unwrap_or(0));
        self.list(stretch, &part, None);
        Ok(())
    }
}

impl ArrowPass<'_> {
    /// Offers what a part lists behind a rank; `None`: all of it.
    fn list(&mut self, stretch: &WakeStretch, part: &WakePart, behind: Option<WakeRank>) {
        let known_to = part.known_to(self.tids.as_deref());
        for arrow in &part.list {
            if !self.wants(arrow) {
                continue;
            }
            let is_new = behind.is_none_or(|behind| arrow.rank() > behind);
            // Of those behind the end of a list some are missing: its own parts have all of these.
            let is_known = known_to.is_none_or(|known_to| known_to.is_some_and(|known_to| arrow.rank() <= known_to));
            if is_new && is_known {
                self.longest.offer(*arrow);
            }
        }
        if let Some(known_to) = known_to {
            self.cut.push(CutWakes { part: *stretch, known_to: known_to.max(behind) });
        }
    }
}

/// The pass, and where it looks further.
struct FindArrows<'a, 'o> {
    pass: &'a mut ArrowPass<'o>,
    of: &'a Opened,
    pyramid: &'a Pyramid,
}

impl FindLongest for FindArrows<'_, '_> {
    type Place = Piece;
    type Cut = CutWakes;

    fn wanted(&mut self) -> Vec<CutWakes> {
        self.pass.longest.cut();
        let mut all = std::mem::take(&mut self.pass.cut);
        all.retain(|cut| self.pass.longest.wants_behind(cut.known_to));
        all
    }

    fn part_of(cut: &CutWakes) -> WakeStretch {
        cut.part
    }

    fn content(&self, of: &WakeStretch) -> Option<UnitContent<Piece>> {
        self.pyramid.within_wakes(of)
    }

    fn look_into(&mut self, all: &[CutWakes], part: &WakeStretch) -> Result<(), DamagedSums> {
        let known_to = all.first().and_then(|cut| cut.known_to);
        let wakes = self.pyramid.wakes_of(part, self.pass.tids.is_none())?;
        self.pass.list(part, &wakes, known_to);
        Ok(())
    }

    fn read_again(
        &mut self,
        all: &[CutWakes],
        (from, to): (i64, i64),
        stop: &Stop,
    ) -> Result<Result<(), DamagedSums>, Error> {
        let behind = all.first().and_then(|cut| cut.known_to);
        let window = Window { from: from.max(self.of.base()), to };
        Walk::new(self.of, window).run_open(&mut ReadWakes { pass: self.pass, behind }, stop).map(Ok)
    }
}

/// A pass over the records of such a part.
struct ReadWakes<'a, 'o> {
    pass: &'a mut ArrowPass<'o>,
    behind: Option<WakeRank>,
}

impl Visit for ReadWakes<'_, '_> {
    fn looks_at(&self, _: usize) -> bool {
        false
    }
}

impl Sink for ReadWakes<'_, '_> {
    fn thread(&mut self, span: &ThreadSpan, _: &Thread) {
        let is_new = |arrow: &WakeArrow| self.behind.is_none_or(|behind| arrow.rank() > behind);
        if let Some(arrow) = WakeArrow::of(span).filter(|arrow| self.pass.wants(arrow) && is_new(arrow)) {
            self.pass.longest.offer(arrow);
        }
    }
}

impl Gather for ReadWakes<'_, '_> {}
