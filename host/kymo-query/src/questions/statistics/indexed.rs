// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statistics of a window by thread, process and CPU from the index [spec/index.md 5.6], and from the records where
//! that does not have them.

use kymo_analyze::Level;
use kymo_analyze::usage::ROWS_MAX;
use kymo_index::{DamagedSums, Gallery, PartSums, Pyramid, StatisticsStretch};

use super::middle::Middle;
use super::pass::StatisticsPass;
use super::programs;
use crate::error::Error;
use crate::opened::Opened;
use crate::parameters::Window;
use crate::questions::begun::damage_note;
use crate::walk::{Stop, TakePictures, Walk, Walked};

/// Answers from the index. `None`: all records are to be read. `notes`: what is wrong with it.
pub(super) fn indexed<'o>(
    of: &'o Opened,
    level: Level,
    window: Window,
    notes: &mut Vec<String>,
    stop: &Stop,
) -> Result<Option<(StatisticsPass<'o>, Walked)>, Error> {
    let states = of.indexes.states.as_ref().filter(|_| !window.is_empty() && of.traces.len() == 1);
    let Some(pyramid) = states.map(|states| &states.pyramid) else { return Ok(None) };
    let found = match pyramid.statistics(window.pair(), window.from <= of.base()) {
        Ok(None) => return Ok(None),
        Ok(Some(gallery)) => counted(of, level, window, (pyramid, &gallery), stop)?,
        Err(damaged) => Err(damaged),
    };
    found.or_else(|damaged| {
        notes.push(damage_note(damaged));
        Ok(None)
    })
}

type Found<'o> = Result<Option<(StatisticsPass<'o>, Walked)>, DamagedSums>;

fn counted<'o>(
    of: &'o Opened,
    level: Level,
    window: Window,
    (pyramid, gallery): (&'o Pyramid, &Gallery<StatisticsStretch>),
    stop: &Stop,
) -> Result<Found<'o>, Error> {
    let (names, written) = match (pyramid.writer_names(), pyramid.written_by_programs()) {
        (Ok(names), Ok(written)) => (names, written),
        _ => return Ok(Err(DamagedSums)),
    };
    let cover = &gallery.cover;
    let middle = (cover.records_to.unwrap_or(i64::MIN), cover.records_from);
    let rows = programs::rows(of, &written, middle, level, stop)?;
    let mut streams = of.traces.iter().flat_map(|trace| trace.streams()).map(|(name, _)| name).enumerate();
    let is_written = |at: &usize| written.binary_search_by_key(at, |of| of.stream).is_ok();
    let counted = streams.by_ref().filter(|(at, _)| is_written(at)).map(|(_, name)| name).collect();
    let mut pass = StatisticsPass::new(of, level, window, true);
    pass.middle = Some(Middle::new((pyramid, names), level, counted, rows));
    let walked = match Walk::new(of, window).until_last_record().run_pictures(gallery, &mut pass, stop)? {
        Ok(walked) => walked,
        Err(damaged) => return Ok(Err(damaged)),
    };
    let is_full = pass.usage.as_ref().is_some_and(|usage| usage.thread_count() >= ROWS_MAX);
    let is_unfit = pass.middle.as_ref().is_none_or(|middle| middle.is_unfit);
    if is_full || is_unfit || pass.stats.rows_left_out() > 0 {
        return Ok(Ok(None));
    }
    pass.finish(&walked.state);
    Ok(Ok(Some((pass, walked))))
}

impl TakePictures<StatisticsStretch> for StatisticsPass<'_> {
    fn sums(&mut self, part: &PartSums) {
        self.people.of_part(part);
    }

    fn names_are_known(&mut self, are_known: bool) {
        let Some(mut middle) = self.middle.take() else { return };
        middle.is_within = are_known;
        if !are_known {
            if let Some((records, span)) = middle.add_to(&mut self.stats) {
                self.selected = self.selected.saturating_add(records);
                self.note(records, span);
            }
        }
        self.middle = Some(middle);
    }

    fn picture(&mut self, stretch: &StatisticsStretch) -> Result<(), DamagedSums> {
        let Some(middle) = &mut self.middle else { return Err(DamagedSums) };
        let part = middle.pyramid.statistics_of(stretch, &middle.names)?;
        middle.take(&part);
        middle.is_unfit |= self.usage.as_mut().is_some_and(|usage| !usage.append(&part.usage));
        Ok(())
    }
}
