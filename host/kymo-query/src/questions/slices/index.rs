// SPDX-License-Identifier: MIT OR Apache-2.0
//! Spans of a window from the index [spec/index.md 5.5]: parts as they are there, and at the ends of the window the few
//! records that say what is missing.

use kymo_analyze::LostUntil;
use kymo_index::{BegunSpan, DamagedSums, SpanItem, SpanStretch};

use crate::error::Error;
use crate::opened::Opened;
use crate::parameters::Window;
use crate::pixels::Pixels;
use crate::questions::slices::drawn::Drawn;
use crate::questions::slices::open::{OpenSlices, Wanted};
use crate::questions::slices::parts::{OpenSlice, TakeSlices};
use crate::questions::slices::read::{Indexed, IndexedSlices, KnownSpans, SpanReader, TakeRead, slice};
use crate::questions::slices::slice::Slice;
use crate::slice_row::SliceRow;
use crate::walk::{LossLog, Stop, Walk};

/// Answers from the index. `Ok(Err(_))`: the records are to be read, as it is damaged, or losses are not in it.
pub(crate) fn indexed(
    of: &Opened,
    spans: KnownSpans<'_>,
    (pixels, tids): (Pixels, &Option<Vec<i32>>),
    stop: &Stop,
) -> Result<Indexed<Drawn>, Error> {
    let Some(read) = SpanReader::new(of, spans, Wanted { tids }) else { return Ok(Err(None)) };
    let mut drawn = Drawn::new(pixels);
    let begun = match draw(&read, pixels, &mut drawn, stop)? {
        Ok(begun) => begun,
        Err(damaged) => return Ok(Err(Some(damaged))),
    };
    let window = pixels.window();
    // A loss before the window makes a span doubtful that began before it.
    let from = begun.iter().map(|of| of.from).chain(drawn.first()).fold(window.from, i64::min).max(of.base());
    let walk = || Walk::new(of, Window { from, ..window });
    let (Some(losses), Some(told)) = (known(&walk()), known(&walk().in_pixels(pixels))) else { return Ok(Err(None)) };
    let mut until = LostUntil::default();
    losses.list().iter().for_each(|loss| until.lose(loss.all.from, loss.all.to));
    let (open, left_out) = open(of, begun, (window.to, until.clone().at(i64::MAX)), stop)?;
    drawn.part(open, &[]);
    drawn.doubt(&mut until);
    Ok(Ok(IndexedSlices { taken: drawn, left_out, losses: told }))
}

/// The losses of a window, where the index has them and they are not damaged.
pub(crate) fn known(walk: &Walk<'_>) -> Option<LossLog> {
    walk.known_losses().ok().flatten()
}

/// What has begun and goes on to the end of a window; how many others there are.
fn open(
    of: &Opened,
    begun: Vec<OpenSlice>,
    (to, lost_until): (i64, i64),
    stop: &Stop,
) -> Result<(Vec<Slice>, u64), Error> {
    if begun.is_empty() {
        return Ok((Vec::new(), 0));
    }
    let (state, mut open) = (Walk::state_at(of, to, stop)?, OpenSlices::default());
    begun.into_iter().for_each(|begun| open.add(begun, String::new(), &state, (to, lost_until)));
    let (open, left_out) = open.newest();
    Ok((open.into_iter().map(|(slice, _)| slice).collect(), left_out))
}

/// Draws all of a window. What has begun and not ended at its end.
fn draw(
    read: &SpanReader<'_>,
    pixels: Pixels,
    drawn: &mut Drawn,
    stop: &Stop,
) -> Result<Result<Vec<OpenSlice>, DamagedSums>, Error> {
    let window = pixels.window();
    let (spans, shift) = (read.spans, pixels.shift().unwrap_or_default());
    let around = read.around(window);
    let head = around.head.map(SpanStretch::Records);
    for stretch in head.into_iter().chain(spans.stretches(around.parts, shift)) {
        stop.check()?;
        let taken = match stretch {
            SpanStretch::Part(place) => spans.part(&place, |row| read.wants(row)).map(|part| {
                for ((row, level), items) in part.rows {
                    let row = read.row(row);
                    items.0.into_iter().for_each(|of| item(drawn, pixels, (row, level, part.shift), of));
                }
            }),
            SpanStretch::Records(part) => read.part(part, spans.times(part).1, drawn, stop)?.map(drop),
        };
        if let Err(damaged) = taken {
            return Ok(Err(damaged));
        }
    }
    read.part(around.tail, Some(window.to), drawn, stop)
}

fn item(drawn: &mut Drawn, pixels: Pixels, (row, level, shift): (SliceRow, u16, u32), item: SpanItem) {
    match item {
        SpanItem::Cell(cell) => {
            if let Some(pixel) = pixels.of_column(cell.column << shift) {
                let count = u32::try_from(cell.count).unwrap_or(u32::MAX);
                drawn.cell((row, level), pixel, count, (cell.longest_ns, cell.longest_at));
            }
        }
        SpanItem::Whole(span) => drawn.add(slice(&span, row), level),
    }
}

impl TakeRead for Drawn {
    fn resume(&mut self, waiting: Vec<(SliceRow, BegunSpan, u16)>) {
        self.resume(waiting.into_iter());
    }
}
