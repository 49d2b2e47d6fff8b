// SPDX-License-Identifier: MIT OR Apache-2.0
//! Entry points for fuzzing and for the tests that mutate pages: bytes in, and a panic where a promise is broken.
//!
//! The walk is compared with a second one, which is written for clearness alone and reads the page by index.

use super::{Missed, Page, RawRecord};
use crate::format::PageFormat;

/// The layout of pages on every 64-bit kernel so far.
pub const PAGE_FORMAT: PageFormat =
    PageFormat { time_offset: 0, commit_offset: 8, commit_bytes: 8, data_offset: 16, data_bytes: 4080 };

/// Walks `bytes` as a page; how many records came out, and whether the walk ended well.
pub fn page(bytes: &[u8]) -> (usize, bool) {
    walk(bytes, &PAGE_FORMAT)
}

/// Takes the first bytes for the layout of the page, the rest for the page.
pub fn page_of_any_format(bytes: &[u8]) -> (usize, bool) {
    let Some(([time, commit, commit_bytes, data], rest)) = bytes.split_first_chunk() else { return (0, false) };
    let format = PageFormat {
        time_offset: (*time).into(),
        commit_offset: (*commit).into(),
        commit_bytes: [8, 4, 0, 2][usize::from(*commit_bytes % 4)],
        data_offset: (*data).into(),
        data_bytes: 0,
    };
    walk(rest, &format)
}

/// Walks `bytes` as a page of this format; how many records came out, and whether the walk ended well.
pub fn walk(bytes: &[u8], format: &PageFormat) -> (usize, bool) {
    let page = match Page::parse(bytes, format) {
        Ok(page) => page,
        Err(error) => {
            assert!(error.to_string().len() < 300);
            return (0, false);
        }
    };
    let data_offset = usize::from(format.data_offset);
    let end = data_offset + page.data_bytes();
    assert!(end <= bytes.len());
    if let Missed::Some(_) = page.missed() {
        assert!(end + usize::from(format.commit_bytes) <= bytes.len());
    }
    let (expect, expect_good) = plain_walk(&bytes[..end], data_offset, page.time());
    let mut expect = expect.into_iter();
    let mut records = page.records();
    let mut good = true;
    for item in records.by_ref() {
        match item {
            Ok(record) => assert_eq!(Some(record), expect.next()),
            Err(_) => good = false,
        }
    }
    assert_eq!((expect.len(), good), (0, expect_good));
    assert!(records.next().is_none());
    (page.records().filter(Result::is_ok).count(), good)
}

/// The records of `bytes` from `offset` on, and whether all fitted. Straight from the table in the specification.
fn plain_walk(bytes: &[u8], mut offset: usize, mut time: u64) -> (Vec<RawRecord<'_>>, bool) {
    let word = |offset: usize| bytes.get(offset..offset + 4).map(|word| u32::from_le_bytes(word.try_into().unwrap()));
    let mut records = Vec::new();
    while offset < bytes.len() {
        let Some(head) = word(offset) else { return (records, false) };
        let (type_len, delta) = (head % 32, u64::from(head / 32));
        if type_len == 29 && delta == 0 {
            break;
        }
        let (mut begin, mut length) = (offset + 4, type_len as usize * 4);
        if !(1..=28).contains(&type_len) {
            let Some(second) = word(offset + 4) else { return (records, false) };
            if type_len == 0 && delta == 0 && second == 0 {
                break;
            }
            if type_len == 31 {
                time = nearest(delta + u64::from(second) * (1 << 27), time);
                offset += 8;
                continue;
            }
            if type_len == 30 {
                let Some(later) = time.checked_add(delta + u64::from(second) * (1 << 27)) else {
                    return (records, false);
                };
                time = later;
                offset += 8;
                continue;
            }
            if second < 4 || second % 4 != 0 {
                return (records, false);
            }
            (begin, length) = (offset + 8, second as usize - 4);
        }
        let (Some(later), Some(data)) = (time.checked_add(delta), bytes.get(begin..begin + length)) else {
            return (records, false);
        };
        time = later;
        if type_len != 29 {
            records.push(RawRecord { time, data, offset });
        }
        offset = begin + length;
    }
    (records, true)
}

/// Of all times that end in these 59 bits, the one nearest to `before`; the later one of two.
fn nearest(stamp: u64, before: u64) -> u64 {
    let times = (0..32).map(|upper: u64| upper << 59 | stamp);
    times.min_by_key(|time| (time.abs_diff(before), *time < before)).unwrap_or(stamp)
}
