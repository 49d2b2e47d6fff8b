// SPDX-License-Identifier: MIT OR Apache-2.0
//! The pages of a CPU in the pieces in which they are in the file.

use super::file::{CpuData, DatFile};
use super::unpack::Packing;

/// The pages of a CPU, in the pieces in which they are packed.
pub struct Chunks<'f> {
    rest: &'f [u8],
    is_big_endian: bool,
    packing: Packing,
    /// Of packed data: pieces to come.
    left: Option<u32>,
    /// Bytes that the file should have and has not.
    missing: u64,
}

impl<'f> Chunks<'f> {
    pub fn new(file: &DatFile, bytes: &'f [u8], cpu: &CpuData) -> Chunks<'f> {
        let from = usize::try_from(cpu.offset).unwrap_or(usize::MAX).min(bytes.len());
        let have = &bytes[from..];
        // The size of packed data is without the word in front, which says how many pieces there are.
        let bytes =
            if file.packing == Packing::None || cpu.bytes == 0 { cpu.bytes } else { cpu.bytes.saturating_add(4) };
        let rest = &have[..usize::try_from(bytes).unwrap_or(usize::MAX).min(have.len())];
        let missing = bytes - rest.len() as u64;
        Chunks { rest, is_big_endian: file.is_big_endian, packing: file.packing, left: None, missing }
    }

    /// Bytes of the file that were not looked at.
    pub fn left(&self) -> usize {
        self.rest.len()
    }

    fn word(&mut self) -> Option<u32> {
        let (word, rest) = self.rest.split_first_chunk::<4>()?;
        self.rest = rest;
        Some(if self.is_big_endian { u32::from_be_bytes(*word) } else { u32::from_le_bytes(*word) })
    }

    /// The next pages. After an error there are no more.
    pub fn next(&mut self) -> Option<Result<std::borrow::Cow<'f, [u8]>, String>> {
        if self.packing == Packing::None {
            let pages = std::mem::take(&mut self.rest);
            if !pages.is_empty() {
                return Some(Ok(pages.into()));
            }
            let missing = std::mem::take(&mut self.missing);
            return (missing > 0).then(|| Err(format!("{missing} bytes are not in the file, which was cut")));
        }
        if self.rest.is_empty() && self.left.is_none() && self.missing == 0 {
            return None;
        }
        let left = match self.left {
            Some(left) => left,
            None => self.word().unwrap_or(1),
        };
        if left == 0 {
            return None;
        }
        self.left = Some(left - 1);
        let piece = self.piece();
        if piece.is_err() {
            self.left = Some(0);
        }
        Some(piece.map(std::borrow::Cow::Owned))
    }

    fn piece(&mut self) -> Result<Vec<u8>, String> {
        let cut = || "the file was cut here".to_owned();
        let packed = self.word().ok_or_else(cut)? as usize;
        let unpacked = self.word().ok_or_else(cut)? as usize;
        let (packed, rest) = self.rest.split_at_checked(packed).ok_or_else(cut)?;
        self.rest = rest;
        self.packing.unpack(packed, unpacked)
    }
}
