// SPDX-License-Identifier: MIT OR Apache-2.0
//! The spans of a window as a flame graph [spec/view.md 4.18].

use super::begun::damage_note;
use super::flame_frames::Frames;
use super::flame_index;
use super::slices::{self, SliceAnswer, find};
use crate::columns::Answer;
use crate::error::Error;
use crate::opened::Opened;
use crate::parameters::Parameters;
use crate::pixels::Pixels;
use crate::walk::Stop;

/// Answers `flame`.
///
/// # Errors
/// As `slices`.
pub fn flame(of: &Opened, parameters: &mut Parameters, stop: &Stop) -> Result<Answer, Error> {
    let window = parameters.window(of)?;
    let pixels = Pixels::new(window, 1);
    let make = |spans: &_, tids: &_| flame_index::indexed(of, spans, (pixels, tids), stop);
    let (found, damaged) = match slices::from_index("flame", of, parameters.clone(), window, make)? {
        Ok(found) => (found, None),
        Err(damaged) => (find("flame", of, parameters, (pixels, || Frames::new(pixels)), stop)?, damaged),
    };
    let SliceAnswer { mut answer, taken: frames, walked, .. } = found;
    answer.notes.extend(damaged.map(damage_note));
    frames.tell(&mut answer);
    walked.tell_of(&mut answer, window);
    Ok(answer)
}
