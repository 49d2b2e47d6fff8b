// SPDX-License-Identifier: MIT OR Apache-2.0
//! The spans of a window as a flame graph [spec/view.md 4.18].

pub(super) mod frames;
pub(super) mod index;

use crate::columns::Answer;
use crate::error::Error;
use crate::opened::Opened;
use crate::parameters::Parameters;
use crate::pixels::Pixels;
use crate::questions::flame::frames::Frames;
use crate::questions::slices::read::KnownSpans;
use crate::questions::slices::{self, Asker, SliceAnswer, find};
use crate::walk::Stop;

/// Answers `flame`.
///
/// # Errors
/// As `slices`.
pub fn flame(of: &Opened, parameters: &mut Parameters, stop: &Stop) -> Result<Answer, Error> {
    let window = parameters.window(of)?;
    let pixels = Pixels::new(window, 1);
    let make = |spans: KnownSpans<'_>, tids: &_| index::indexed(of, spans, (pixels, tids), stop);
    let asker = Asker { question: "flame", has_rows: false };
    let (found, note) = match slices::from_index(asker, of, parameters.clone(), window, make)? {
        Ok(found) => (found, None),
        Err(note) => (find("flame", of, parameters, (pixels, || Frames::new(pixels)), stop)?, note),
    };
    let SliceAnswer { mut answer, taken: frames, walked, .. } = found;
    answer.notes.extend(note);
    frames.tell(&mut answer);
    walked.tell_of(&mut answer, window);
    Ok(answer)
}
