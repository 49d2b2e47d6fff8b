//! Packed data: zlib and zstd, each in Rust alone, with a bound on what comes out.

use std::io::Read as _;

use super::file::{CpuData, DatFile};

/// Largest section, unpacked.
const SECTION_BYTES_MAX: usize = 1 << 30;

/// No packing makes data smaller than this part of it; what claims to is a bomb.
const RATIO_MAX: usize = 20_000;

/// How the file's sections are packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Packing {
    #[default]
    None,
    Zlib,
    Zstd,
}

impl Packing {
    pub fn by_name(name: &str) -> Option<Packing> {
        match name {
            "none" => Some(Packing::None),
            "zlib" => Some(Packing::Zlib),
            "zstd" => Some(Packing::Zstd),
            _ => None,
        }
    }

    /// `unpacked` bytes out of packed ones.
    pub fn unpack(self, packed: &[u8], unpacked: usize) -> Result<Vec<u8>, String> {
        if unpacked > SECTION_BYTES_MAX || unpacked > packed.len().saturating_mul(RATIO_MAX) {
            return Err(format!("{} packed bytes claim to be {unpacked}", packed.len()));
        }
        // Grows with what is there, not with what is claimed.
        let mut out = Vec::new();
        let read = match self {
            Packing::None => return Err("packed data in a file that says it has none".to_owned()),
            Packing::Zlib => flate2::read::ZlibDecoder::new(packed)
                .take(unpacked as u64)
                .read_to_end(&mut out)
                .map_err(|e| e.to_string()),
            Packing::Zstd => {
                ruzstd::decoding::StreamingDecoder::new(packed).map_err(|error| error.to_string()).and_then(|decoder| {
                    decoder.take(unpacked as u64).read_to_end(&mut out).map_err(|error| error.to_string())
                })
            }
        };
        read.map_err(|error| format!("packed data is damaged: {error}"))?;
        if out.len() != unpacked {
            return Err(format!("packed data gives {} bytes, and {unpacked} were promised", out.len()));
        }
        Ok(out)
    }
}

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
