// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pages of a big-endian machine as those of a little-endian one: heads, numbers of the head of records, fields by
//! their format texts.
//! What is not described stays as it is; it is not looked at either.

use std::collections::HashMap;

use kymo_ftrace::format::{ByteRange, Element, EventFormat, FieldEncoding, PageFormat};

/// What is to be turned, by event.
pub struct Swap {
    page: PageFormat,
    /// Where the id of all records stands.
    id: Option<ByteRange>,
    /// By id: places and sizes of numbers, and of what says where others are.
    events: HashMap<u16, EventFormat>,
}

const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;

impl Swap {
    pub fn new(page: PageFormat, formats: Vec<EventFormat>) -> Swap {
        let id = formats.first().map(|format| format.common.type_);
        Swap { page, id, events: formats.into_iter().map(|format| (format.id, format)).collect() }
    }

    /// The page, turned. `None` where its head makes no sense; records that make none end it.
    pub fn page(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut out = bytes.to_vec();
        let commit_at = usize::from(self.page.commit_offset);
        let width = usize::from(self.page.commit_bytes);
        reverse(&mut out, self.page.time_offset.into(), 8)?;
        reverse(&mut out, commit_at, width)?;
        let low = out.get(commit_at..commit_at + 4)?;
        let word = u32::from_le_bytes([low[0], low[1], low[2], low[3]]);
        // The two upper bits are flags: events were missed, and their number stands behind the data.
        let data = usize::from(self.page.data_offset);
        let end = data.checked_add((word & 0x3FFF_FFFF) as usize)?;
        if end > out.len() {
            return None;
        }
        if word >> 30 == 3 {
            reverse(&mut out, end, width);
        }
        self.records(&mut out, data, end);
        Some(out)
    }

    fn records(&self, out: &mut [u8], mut at: usize, end: usize) -> Option<()> {
        while at + 4 <= end {
            let head = u32::from_be_bytes(out.get(at..at + 4)?.try_into().ok()?);
            // The first field of a bit field is in the upper bits here, and in the lower ones there.
            let (type_len, delta) = (head >> 27, head & 0x07FF_FFFF);
            out[at..at + 4].copy_from_slice(&(type_len | delta << 5).to_le_bytes());
            at += 4;
            if matches!(type_len, 1..=28) {
                let bytes = 4 * type_len as usize;
                self.record(out, at, bytes, end);
                at += bytes;
                continue;
            }
            if type_len == PADDING && delta == 0 {
                return Some(());
            }
            reverse(out, at, 4)?;
            let word = u32::from_le_bytes(out.get(at..at + 4)?.try_into().ok()?);
            at += 4;
            if type_len == TIME_EXTEND || type_len == TIME_STAMP {
                continue;
            }
            let bytes = usize::try_from(word).ok()?.checked_sub(4)?;
            if type_len == 0 {
                self.record(out, at, bytes, end);
            }
            at = at.checked_add(bytes)?;
        }
        Some(())
    }

    fn record(&self, out: &mut [u8], at: usize, bytes: usize, end: usize) -> Option<()> {
        let data = out.get_mut(at..at.checked_add(bytes)?.min(end))?;
        let id = self.id?;
        reverse(data, id.offset.into(), id.size.into())?;
        let at = usize::from(id.offset);
        let found = u16::from_le_bytes(data.get(at..at + 2)?.try_into().ok()?);
        let format = self.events.get(&found)?;
        let common = format.common;
        for place in [common.pid, common.flags, common.preempt_count].into_iter().flatten() {
            reverse(data, place.offset.into(), place.size.into())?;
        }
        for field in &format.fields {
            let (from, size) = (usize::from(field.offset), usize::from(field.size));
            match field.kind {
                FieldEncoding::Number => reverse(data, from, size)?,
                FieldEncoding::Array { count, element_bytes } => {
                    elements(data, from, count as usize * usize::from(element_bytes), element_bytes.into())?;
                }
                FieldEncoding::DataLoc { element } | FieldEncoding::RelLoc { element } => {
                    reverse(data, from, 4)?;
                    let word = u32::from_le_bytes(data.get(from..from + 4)?.try_into().ok()?);
                    let base = if matches!(field.kind, FieldEncoding::RelLoc { .. }) { from + 4 } else { 0 };
                    elements(data, base + (word & 0xFFFF) as usize, (word >> 16) as usize, width(element))?;
                }
                FieldEncoding::Rest { element } => {
                    let bytes = data.len().saturating_sub(from);
                    elements(data, from, bytes - bytes % width(element).max(1), width(element))?;
                }
                FieldEncoding::Chars { .. } | FieldEncoding::Opaque => {}
            }
        }
        Some(())
    }
}

fn width(element: Element) -> usize {
    if let Element::Number { bytes, .. } = element { bytes.into() } else { 1 }
}

fn reverse(data: &mut [u8], at: usize, bytes: usize) -> Option<()> {
    data.get_mut(at..at.checked_add(bytes)?)?.reverse();
    Some(())
}

fn elements(data: &mut [u8], at: usize, bytes: usize, width: usize) -> Option<()> {
    if width > 1 {
        data.get_mut(at..at.checked_add(bytes)?)?.chunks_exact_mut(width).for_each(<[u8]>::reverse);
    }
    Some(())
}
