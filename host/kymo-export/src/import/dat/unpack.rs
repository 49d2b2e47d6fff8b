// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packed data: zlib and zstd, each in Rust alone, with a bound on what comes out.

use std::io::Read as _;

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
