// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows over time: from the pictures of the index where pixels are on a grid, else from the records [spec/view.md 3].

use kymo_index::Pyramid;

use crate::columns::Answer;
use crate::error::Error;
use crate::opened::Opened;
use crate::parameters::Parameters;
use crate::pixels::Pixels;
use crate::questions::begun::{begin, damage_note};
use crate::walk::{Stop, TakePictures, Walk, Walked};

/// A window in columns of pixels, on a grid where that is asked for.
pub(super) fn pixels(of: &Opened, parameters: &mut Parameters) -> Result<Pixels, Error> {
    let (window, pixels) = (parameters.window(of)?, parameters.pixels()?);
    let is_on_grid = parameters.flag("grid")?;
    Ok(if is_on_grid { Pixels::on_grid(window, pixels, of.whole()) } else { Pixels::new(window, pixels) })
}

/// Says of pixels on a grid how many there are, and where the first begins and the last ends.
pub(super) fn tell_frame(answer: &mut Answer, pixels: &Pixels) {
    if pixels.shift().is_some() {
        let (from, to) = pixels.frame();
        answer.set("pixels", pixels.count());
        answer.set("frame", [answer.time(from), answer.time(to)]);
    }
}

/// Takes all of a window. `make` makes what takes it: from the beginning again where pictures turn out to be damaged.
/// `is_in_pictures`: pictures have all that is asked for.
pub(super) fn gather<'o, G: TakePictures>(
    question: &'static str,
    of: &'o Opened,
    pixels: Pixels,
    is_in_pictures: bool,
    make: impl Fn(Option<&'o Pyramid>) -> G,
    stop: &Stop,
) -> Result<(Answer, G, Walked), Error> {
    let window = pixels.window();
    let mut answer = begin(question, of, window);
    tell_frame(&mut answer, &pixels);
    let states = of.indexes.states.as_ref().filter(|_| is_in_pictures && !window.is_empty());
    if let Some((states, shift)) = states.zip(pixels.shift()) {
        let mut gather = make(Some(&states.pyramid));
        let found = states.pyramid.gallery(window.pair(), window.from <= of.base(), shift);
        let shown = match found {
            Ok(None) => None,
            Ok(Some(gallery)) => {
                Some(Walk::new(of, window).in_pixels(pixels).run_pictures(&gallery, &mut gather, stop)?)
            }
            Err(damaged) => Some(Err(damaged)),
        };
        match shown {
            None => {}
            Some(Ok(walked)) => {
                answer.set("source", "index");
                return Ok((answer, gather, walked));
            }
            Some(Err(error)) => {
                answer.notes.push(damage_note(error));
            }
        }
    }
    let mut gather = make(None);
    answer.set("source", "records");
    let walked = Walk::new(of, window).in_pixels(pixels).run(&mut gather, stop)?;
    Ok((answer, gather, walked))
}
