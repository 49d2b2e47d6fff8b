// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random valid traces of CTF 1.8 and CTF 2, from a seed: a model of types and values (`types`, `make`, `values`,
//! `heads`, `trace`), its bits (`bits`) and its metadata (`tsdl`, `json`), and what readers make of it (`check`,
//! `seen`, `pretty`, `readers`). `breaks` makes such a trace's metadata invalid by one edit,
//! `breaks_stream` its streams.
//!
//! Nothing here uses the crate's writer, and only `check` and `seen` its reader: what a trace must be read as comes
//! from the model alone.

pub mod bits;
pub mod breaks;
pub mod breaks_json;
pub mod breaks_stream;
pub mod breaks_tsdl;
pub mod check;
pub mod check_stream;
pub mod features;
pub mod heads;
pub mod json;
pub mod known;
pub mod make;
pub mod pretty;
pub mod readers;
pub mod seen;
pub mod trace;
pub mod tsdl;
pub mod types;
pub mod values;

use features::Features;
use kymo_testing::Random;
use make::Format;
use trace::Case;

/// The case of a seed with its metadata file.
pub fn case(seed: u64, format: Format, features: Features) -> (Case, Vec<u8>) {
    let mut case = Case::new(seed, format, features);
    let mut random = Random(seed ^ 0x9AC4);
    let (metadata, is_packetized) = match format {
        Format::Tsdl => {
            let text = tsdl::tsdl(&mut case, seed, false).into_bytes();
            (text, case.features.take(&mut random, "packetized-metadata", 5))
        }
        Format::Json => {
            let fragments = json::fragments(&mut case, seed);
            let is_packetized = case.features.take(&mut random, "packetized-ctf2", 5);
            let has_commas = case.features.take(&mut random, "trailing-comma-in-json", 8);
            (json::text(&fragments, has_commas), is_packetized)
        }
    };
    let metadata = if is_packetized { packets(&case, &metadata, 1 + random.below(900usize)) } else { metadata };
    (case, metadata)
}

/// Metadata in packets of so many bytes of content.
fn packets(case: &Case, text: &[u8], content: usize) -> Vec<u8> {
    const HEAD_BYTES: usize = 37;
    let mut bytes = Vec::new();
    for part in text.chunks(content) {
        let word = |value: usize| match case.big {
            true => (value as u32).to_be_bytes(),
            false => (value as u32).to_le_bytes(),
        };
        let used = HEAD_BYTES + part.len();
        bytes.extend(word(0x75D1_1D57));
        bytes.extend(case.uuid.unwrap_or_default());
        bytes.extend(word(0));
        bytes.extend(word(used * 8));
        bytes.extend(word(used.next_multiple_of(64) * 8));
        bytes.extend([0, 0, 0]);
        bytes.extend(if case.format == Format::Tsdl { [1, 8] } else { [2, 0] });
        bytes.extend(part);
        bytes.resize(bytes.len() + used.next_multiple_of(64) - used, 0);
    }
    bytes
}
