// SPDX-License-Identifier: MIT OR Apache-2.0
//! How fast one core turns pages of the kernel into records of a trace, in memory.
//!
//!     decode_speed CAPTURE [SECONDS]
//!
//! CAPTURE is a directory as `bench/kernel` makes it: `header_page`, `page_bytes`, `SYSTEM.EVENT.format` files, and
//! `cpuN.raw` with whole sub-buffers of that CPU. All pages are decoded again and again into packets that are thrown
//! away; each round is timed. One JSON object on standard output: records, bytes and damage of one round, ns of each
//! round.

use std::path::Path;
use std::time::{Duration, Instant};
use std::{env, fs, io};

use kymo_ftrace::format::{parse_event, parse_page_format};
use kymo_ftrace::{Batch, Decoder, Naming};

/// The collector's size of a packet.
const PACKET_BYTES: usize = 256 << 10;

/// What one round over all pages came to.
#[derive(Default)]
struct Round {
    records: u64,
    trace_bytes: u64,
    unknown: u64,
    damaged_pages: u64,
}

fn main() -> io::Result<()> {
    let mut arguments = env::args_os().skip(1);
    let usage = || io::Error::new(io::ErrorKind::InvalidInput, "usage: decode_speed CAPTURE [SECONDS]");
    let capture = arguments.next().ok_or_else(usage)?;
    let seconds = match arguments.next() {
        None => 2.0,
        Some(text) => {
            text.to_str().and_then(|text| text.parse().ok()).filter(|s| (0.0..3600.0).contains(s)).ok_or_else(usage)?
        }
    };
    let capture = Path::new(&capture);
    let decoder = decoder(capture)?;
    let (rings, page_bytes) = pages(capture)?;
    let mut batch = Batch::default();
    let once = round(&decoder, &rings, page_bytes, &mut batch);
    let mut rounds_ns = Vec::new();
    let until = Instant::now() + Duration::from_secs_f64(seconds);
    while rounds_ns.len() < 3 || Instant::now() < until {
        let begin = Instant::now();
        std::hint::black_box(round(&decoder, std::hint::black_box(&rings), page_bytes, &mut batch));
        rounds_ns.push(begin.elapsed().as_nanos());
    }
    println!(
        "{{\"records\": {}, \"unknown\": {}, \"damaged_pages\": {}, \"page_bytes\": {page_bytes}, \"ring_bytes\": {}, \"trace_bytes\": {}, \
         \"rounds_ns\": {rounds_ns:?}}}",
        once.records,
        once.unknown,
        once.damaged_pages,
        rings.iter().map(Vec::len).sum::<usize>(),
        once.trace_bytes
    );
    Ok(())
}

/// A decoder of all events that the capture describes.
fn decoder(capture: &Path) -> io::Result<Decoder> {
    let bad = |name: &str, error: String| io::Error::new(io::ErrorKind::InvalidData, format!("{name}: {error}"));
    let text = fs::read_to_string(capture.join("header_page"))?;
    let page = parse_page_format(&text).map_err(|error| bad("header_page", error.to_string()))?;
    let mut decoder = Decoder::new(page);
    for entry in fs::read_dir(capture)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some((system, _)) = name.strip_suffix(".format").and_then(|name| name.split_once('.')) else { continue };
        let event = parse_event(&fs::read_to_string(&path)?).map_err(|error| bad(name, error.to_string()))?;
        decoder.add(system, &event, Naming::Lttng, None);
    }
    Ok(decoder)
}

/// The sub-buffers of each CPU behind each other, and the bytes of one.
fn pages(capture: &Path) -> io::Result<(Vec<Vec<u8>>, usize)> {
    let bad = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let text = fs::read_to_string(capture.join("page_bytes"))?;
    let page_bytes = text.trim().parse::<usize>().ok().filter(|&bytes| bytes > 0);
    let page_bytes = page_bytes.ok_or_else(|| bad("page_bytes holds no number; capture again"))?;
    let mut rings = Vec::new();
    for entry in fs::read_dir(capture)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "raw") {
            rings.push(fs::read(&path)?);
        }
    }
    if rings.iter().all(|ring| ring.len() < page_bytes) {
        return Err(bad("no sub-buffers in cpuN.raw; capture again, under load"));
    }
    Ok((rings, page_bytes))
}

/// Decodes all pages once.
fn round(decoder: &Decoder, rings: &[Vec<u8>], page_bytes: usize, batch: &mut Batch) -> Round {
    let mut round = Round::default();
    for ring in rings {
        // A file that was cut off ends with a part of a sub-buffer, which is left out.
        for page in ring.chunks_exact(page_bytes) {
            decode(decoder, page, batch, &mut round);
        }
        empty(batch, &mut round);
    }
    round
}

/// Decodes one page, and empties the batch when it has become a packet.
fn decode(decoder: &Decoder, page: &[u8], batch: &mut Batch, round: &mut Round) {
    let Ok(mut pending) = decoder.open(page) else {
        round.damaged_pages += 1;
        return;
    };
    while !decoder.decode(&mut pending, batch) {
        empty(batch, round);
    }
    round.unknown += pending.outcome.unknown;
    round.damaged_pages += u64::from(pending.outcome.damage.is_some());
    if batch.bytes.len() >= PACKET_BYTES {
        empty(batch, round);
    }
}

fn empty(batch: &mut Batch, round: &mut Round) {
    round.records += batch.records;
    round.trace_bytes += batch.bytes.len() as u64;
    batch.clear();
}
