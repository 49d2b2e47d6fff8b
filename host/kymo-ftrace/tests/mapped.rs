// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sub-buffers that are mapped: what the kernel adds to one while it is read comes out once, with the times that it has
//! when the whole is read at once [spec/kernel.md 4.1].

use crate::support;

use kymo_ftrace::format::{parse_event, parse_page_format};
use kymo_ftrace::page::{Missed, Page, PageError, Parts, probe::PAGE_FORMAT};
use kymo_ftrace::{Batch, Decoder, Naming, Outcome, Pending, Progress};
use support::{Random, files, folder, setting};

/// Bytes of the head of a page.
const HEAD: usize = 16;

/// Knows every event of the recorded pages, by the fields that all have.
fn decoder() -> Decoder {
    let text = std::fs::read_to_string(folder("formats/header_page")).unwrap();
    let mut decoder = Decoder::new(parse_page_format(&text).unwrap());
    assert_eq!(decoder.data_offset(), HEAD);
    for (_, page) in files("pages", "page") {
        for record in Page::parse(&page, &PAGE_FORMAT).unwrap().records() {
            let id = u16::from_le_bytes(record.unwrap().data[..2].try_into().unwrap());
            decoder.add(
                "any",
                &parse_event(&COMMON.replace("ID: 1", &format!("ID: {id}"))).unwrap(),
                Naming::Kernel,
                None,
            );
        }
    }
    decoder
}

const COMMON: &str = "name: any
ID: 1
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

print fmt: \"\"
";

/// All records of `pending`, as they go into the trace, and what they came to.
fn decode(decoder: &Decoder, pending: &mut Pending<'_>) -> (Vec<u8>, Outcome) {
    let (mut bytes, mut batch) = (Vec::new(), Batch::default());
    while !decoder.decode(pending, &mut batch) {
        bytes.append(&mut batch.bytes);
        batch.clear();
    }
    bytes.append(&mut batch.bytes);
    (bytes, pending.outcome.clone())
}

/// `page` when `read` bytes of its records count as read. A stored number of missed events stands behind what was
/// committed when it was stored: in a page that was written whole, behind all its records.
fn parts(page: &[u8], read: usize) -> Parts<'_> {
    let end = Page::parse(page, &PAGE_FORMAT).map_or(read, |page| page.data_bytes());
    let behind = &page[HEAD + end..];
    Parts { head: &page[..HEAD], data: &page[HEAD..HEAD + read], behind: &behind[..behind.len().min(8)] }
}

/// Where the records of a page end, from the first head on; the end of its committed bytes is the last.
fn ends(page: &[u8]) -> Vec<usize> {
    let parsed = Page::parse(page, &PAGE_FORMAT).unwrap();
    let end = |data: &[u8]| data.as_ptr() as usize + data.len() - page.as_ptr() as usize - HEAD;
    let mut ends: Vec<usize> = parsed.records().map(|record| end(record.unwrap().data)).collect();
    ends.push(parsed.data_bytes());
    ends.dedup();
    ends
}

#[test]
fn what_is_added_comes_out_once() {
    let (decoder, seed) = (decoder(), setting("KYMO_SEED", 1));
    eprintln!("KYMO_SEED={seed}");
    let mut random = Random(seed);
    for (name, page) in files("pages", "page") {
        let mut whole = decoder.open(&page).unwrap();
        let (missed, expect) = (whole.missed, decode(&decoder, &mut whole));
        assert!(!expect.0.is_empty(), "{name}");
        let ends = ends(&page);
        for _ in 0..50 {
            // Some of the ends, and always the last: the first chance decides between few and nearly all.
            let of = 1 + random.below(8);
            let mut steps: Vec<usize> = ends.iter().copied().filter(|_| random.below(of) == 0).collect();
            steps.extend(ends.last());
            let (mut all, mut progress, mut taken) = ((Vec::new(), Outcome::default()), Progress::default(), 0);
            for (step, &read) in steps.iter().enumerate() {
                let mut pending = decoder.open_parts(parts(&page, read), step == 0, progress).unwrap();
                assert_eq!(pending.missed, if step == 0 { missed } else { Missed::None }, "{name}");
                assert_eq!(pending.data_bytes, read - taken, "{name}");
                let (bytes, outcome) = decode(&decoder, &mut pending);
                all.0.extend(bytes);
                all.1.unknown += outcome.unknown;
                all.1.short += outcome.short;
                all.1.damage = all.1.damage.or(outcome.damage);
                (progress, taken) = (pending.progress(), read);
            }
            assert!(all == expect, "{name} in steps {steps:?}");
        }
    }
}

#[test]
fn another_page_begins_anew() {
    let decoder = decoder();
    let pages: Vec<Vec<u8>> = files("pages", "page").into_iter().map(|(_, page)| page).collect();
    let (first, second) = (&pages[0], &pages[1]);
    let read = *ends(first).last().unwrap();
    let mut pending = decoder.open_parts(parts(first, read), true, Progress::default()).unwrap();
    decode(&decoder, &mut pending);
    let progress = pending.progress();
    let whole = decode(&decoder, &mut decoder.open(second).unwrap());
    let all = *ends(second).last().unwrap();
    // The reader says so, or the page has another time, or fewer bytes than were taken.
    for is_new in [true, false] {
        let mut pending = decoder.open_parts(parts(second, all), is_new, progress).unwrap();
        assert!(decode(&decoder, &mut pending) == whole, "is_new {is_new}");
    }
    let short = ends(first)[0];
    let mut pending = decoder.open_parts(parts(first, short), false, progress).unwrap();
    assert_eq!(pending.data_bytes, short);
    assert!(!decode(&decoder, &mut pending).0.is_empty());
}

#[test]
fn damage_ends_a_page_and_not_the_next() {
    let decoder = decoder();
    let mut page = files("pages", "page").remove(0).1;
    let (ends, good) = (ends(&page), page.clone());
    assert!(ends.len() > 3);
    // A length that no record has, behind the second record.
    page[HEAD + ends[1]..][..8].copy_from_slice(&[0, 1, 0, 0, 7, 0, 0, 0]);
    let mut steps = Progress::default();
    let mut damages = Vec::new();
    let mut sizes = Vec::new();
    for (step, end) in [ends[0], ends[1], ends[2], *ends.last().unwrap()].into_iter().enumerate() {
        let mut pending = decoder.open_parts(parts(&page, end), step == 0, steps).unwrap();
        let (bytes, outcome) = decode(&decoder, &mut pending);
        damages.push(outcome.damage.is_some());
        sizes.push(bytes.len());
        steps = pending.progress();
    }
    // Once, where it is; what follows has no time that could be known.
    assert_eq!(damages, [false, false, true, false]);
    assert!(sizes[0] > 0 && sizes[1] > 0 && sizes[2..] == [0, 0], "{sizes:?}");
    let mut pending = decoder.open_parts(parts(&good, ends[0]), true, steps).unwrap();
    assert!(!decode(&decoder, &mut pending).0.is_empty());
}

#[test]
fn parts_that_do_not_fit_are_refused() {
    let decoder = decoder();
    let page = files("pages", "page").remove(0).1;
    let read = *ends(&page).last().unwrap();
    let error = |parts: Parts<'_>| decoder.open_parts(parts, true, Progress::default()).unwrap_err();
    for length in 0..HEAD {
        let short = Parts { head: &page[..length], ..parts(&page, read) };
        assert_eq!(error(short), PageError::Short { bytes: length as u32, head_bytes: HEAD as u32 });
    }
    let more = Parts { data: &vec![0; read + 4], ..parts(&page, read) };
    assert_eq!(error(more), PageError::Behind { committed: read as u32, read: read as u32 + 4 });
    let mut head = page[..HEAD].to_vec();
    head[12] = 1;
    assert_eq!(error(Parts { head: &head, ..parts(&page, read) }), PageError::Commit((1 << 32) + read as u64));
}

#[test]
fn the_number_of_missed_events_is_behind_the_records() {
    let decoder = decoder();
    let page = |flags: u32, missed: &[u8]| {
        let commit = u64::from(8 | flags);
        let record = [&33u32.to_le_bytes()[..], &[0; 4]].concat();
        [&7u64.to_le_bytes()[..], &commit.to_le_bytes(), &record, missed].concat()
    };
    let missed = |flags, behind: &[u8]| {
        let page = page(flags, behind);
        decoder.open_parts(parts(&page, 8), true, Progress::default()).unwrap().missed
    };
    let (lost, stored) = (1 << 31, 1 << 30);
    assert_eq!(missed(0, &9u64.to_le_bytes()), Missed::None);
    assert_eq!(missed(lost, &9u64.to_le_bytes()), Missed::Unknown);
    assert_eq!(missed(lost | stored, &9u64.to_le_bytes()), Missed::Some(9));
    // The end of the sub-buffer.
    assert_eq!(missed(lost | stored, &[9, 0, 0, 0]), Missed::Unknown);
    assert_eq!(missed(lost | stored, &[]), Missed::Unknown);
}
