// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sections of an ELF file as they were before they were packed.

use std::io::Read as _;

use object::{Object as _, ObjectSection as _};

/// Bytes of one section, unpacked.
const UNPACKED_MAX: u64 = 1 << 30;

/// The bytes of a section, unpacked; empty where there is none, or it cannot be.
pub(crate) fn unpacked(file: &object::File<'_>, name: &str) -> Vec<u8> {
    let Some(found) = file.section_by_name(name) else { return Vec::new() };
    let Ok(data) = found.compressed_data() else { return Vec::new() };
    match data.format {
        object::CompressionFormat::None => data.data.to_vec(),
        object::CompressionFormat::Zlib => {
            let mut out = Vec::new();
            let limit = data.uncompressed_size.min(UNPACKED_MAX);
            let read = flate2::read::ZlibDecoder::new(data.data).take(limit).read_to_end(&mut out);
            read.map_or_else(|_| Vec::new(), |_| out)
        }
        // Packed in a way that is not known: as if it were not there.
        _ => Vec::new(),
    }
}
