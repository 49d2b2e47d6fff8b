// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;

const FORMAT: PageFormat =
    PageFormat { time_offset: 0, commit_offset: 8, commit_bytes: 8, data_offset: 16, data_bytes: 4080 };

fn head(type_len: u32, delta: u32) -> [u8; 4] {
    (type_len | delta << 5).to_le_bytes()
}

/// A page of these parts, with nothing behind them.
fn page(time: u64, flags: u64, data: &[u8]) -> Vec<u8> {
    let commit = data.len() as u64 + flags;
    [&time.to_le_bytes()[..], &commit.to_le_bytes(), data].concat()
}

/// Times, lengths and offsets of the records; the error at the end.
fn walk(bytes: &[u8]) -> (Vec<(u64, usize, usize)>, Option<PageError>) {
    let mut found = Vec::new();
    let mut walk = Page::parse(bytes, &FORMAT).unwrap().records();
    for item in &mut walk {
        match item {
            Ok(record) => found.push((record.time, record.data.len(), record.offset)),
            Err(error) => {
                assert!(walk.next().is_none());
                return (found, Some(error));
            }
        }
    }
    (found, None)
}

#[track_caller]
fn check(parts: &[&[u8]], expect: &[(u64, usize, usize)], error: Option<PageError>) {
    assert_eq!(walk(&page(1000, 0, &parts.concat())), (expect.to_vec(), error));
}

#[test]
fn short_and_long_records() {
    check(&[], &[], None);
    check(&[&head(1, 5), &[1; 4], &head(28, 0), &[2; 112]], &[(1005, 4, 16), (1005, 112, 24)], None);
    let long = [&head(0, 7)[..], &3004u32.to_le_bytes(), &[3; 3000]].concat();
    check(&[&long, &head(2, 1), &[0; 8]], &[(1007, 3000, 16), (1008, 8, 3024)], None);
    // Only the length's own word.
    check(&[&head(0, 7), &4u32.to_le_bytes()], &[(1007, 0, 16)], None);
}

#[test]
fn data_is_what_follows_the_head() {
    let bytes = page(0, 0, &[&head(2, 0)[..], &[1, 2, 3, 4, 5, 6, 7, 8]].concat());
    let record = Page::parse(&bytes, &FORMAT).unwrap().records().next().unwrap().unwrap();
    assert_eq!(record.data, [1, 2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn padding() {
    // Delta 0 ends the page, whatever follows.
    check(&[&head(1, 1), &[0; 4], &head(29, 0), &head(1, 1), &[0; 4]], &[(1001, 4, 16)], None);
    check(&[&head(1, 1), &[0; 4], &[0; 8], &head(1, 1), &[0; 4]], &[(1001, 4, 16)], None);
    // A discarded event keeps its time.
    check(&[&head(29, 5), &12u32.to_le_bytes(), &[9; 8], &head(1, 1), &[0; 4]], &[(1006, 4, 32)], None);
}

#[test]
fn times() {
    check(&[&head(30, 3), &2u32.to_le_bytes(), &head(1, 4), &[0; 4]], &[(1007 + (2 << 27), 4, 24)], None);
    check(&[&head(31, 3), &2u32.to_le_bytes(), &head(1, 4), &[0; 4]], &[(7 + (2 << 27), 4, 24)], None);
    // The largest delta and the largest extension.
    let most = [u8::MAX; 4];
    check(&[&head(30, (1 << 27) - 1), &most, &head(1, 0), &[0; 4]], &[((1 << 59) - 1 + 1000, 4, 24)], None);
}

#[test]
fn absolute_times_take_the_upper_bits_of_the_time_before() {
    for (before, stamp, expect) in [
        (0, 5, 5),
        (5 << 59, 7, (5 << 59) + 7),
        // The 59 bits have passed their end.
        ((6 << 59) - 10, 7, (6 << 59) + 7),
        ((1 << 59) - 1, 0, 1 << 59),
        // The clock went back: 10 ticks, not 18 years forward.
        (1000, 990, 990),
        ((6 << 59) + 1000, 990, (6 << 59) + 990),
        ((6 << 59) + 3, (1 << 59) - 3, (6 << 59) - 3),
        // Halfway.
        ((6 << 59) + (1 << 58) + 5, 5, (7 << 59) + 5),
        ((6 << 59) + 5, (1 << 58) + 5, (6 << 59) + (1 << 58) + 5),
        // No time is before 0 or after 64 bits.
        (3, (1 << 59) - 3, (1 << 59) - 3),
        (u64::MAX, 0, 31 << 59),
    ] {
        assert_eq!(full_time(stamp, before), expect, "{before:#x} {stamp:#x}");
    }
}

#[test]
fn what_does_not_fit_ends_the_walk() {
    let good: &[u8] = &[&head(1, 1)[..], &[0; 4]].concat();
    let first = [(1001, 4, 16)];
    let check = |parts: &[&[u8]], error| check(&[&[good], parts].concat(), &first, Some(error));
    check(&[&[1]], PageError::Trailing { offset: 24, bytes: 1 });
    check(&[&[0; 3]], PageError::Trailing { offset: 24, bytes: 3 });
    check(&[&head(1, 0)], PageError::Length { offset: 24, bytes: 4, room: 0 });
    check(&[&head(28, 0), &[0; 108]], PageError::Length { offset: 24, bytes: 112, room: 108 });
    for type_len in [0, 29, 30, 31] {
        check(&[&head(type_len, 1)], PageError::NoWord { offset: 24, type_len: type_len as u8 });
        check(&[&head(type_len, 1), &[1, 2]], PageError::NoWord { offset: 24, type_len: type_len as u8 });
    }
    check(&[&[0; 4]], PageError::NoWord { offset: 24, type_len: 0 });
    for type_len in [0, 29] {
        for word in [0u32, 1, 3, 5, 6, 7, 12, u32::MAX, u32::MAX - 3] {
            let error = PageError::Length { offset: 24, bytes: word, room: 8 };
            check(&[&head(type_len, 1), &word.to_le_bytes(), &[0; 4]], error);
        }
    }
}

#[test]
fn times_beyond_64_bits_end_the_walk() {
    for data in [
        [&head(1, 2)[..], &[0; 4]].concat(),
        [&head(0, 2)[..], &8u32.to_le_bytes(), &[0; 4]].concat(),
        [&head(29, 2)[..], &8u32.to_le_bytes(), &[0; 4]].concat(),
        [&head(30, 2)[..], &0u32.to_le_bytes()].concat(),
    ] {
        assert_eq!(walk(&page(u64::MAX - 1, 0, &data)), (vec![], Some(PageError::Time { offset: 16 })));
    }
    let fits = [&head(1, 1)[..], &[0; 4]].concat();
    assert_eq!(walk(&page(u64::MAX - 1, 0, &fits)), (vec![(u64::MAX, 4, 16)], None));
}

#[test]
fn missed_events() {
    let missed = |flags: u64, behind: &[u8], format: &PageFormat| {
        let mut bytes = page(1, flags, &[&head(1, 1)[..], &[0; 4]].concat());
        bytes.extend_from_slice(behind);
        let page = Page::parse(&bytes, format).unwrap();
        assert_eq!((page.data_bytes(), page.time(), page.records().count()), (8, 1, 1));
        page.missed()
    };
    let count = 0x1_0000_0002_u64.to_le_bytes();
    assert_eq!(missed(0, &count, &FORMAT), Missed::None);
    assert_eq!(missed(1 << 31, &count, &FORMAT), Missed::Unknown);
    assert_eq!(missed(3 << 30, &count, &FORMAT), Missed::Some(0x1_0000_0002));
    assert_eq!(missed(3 << 30, &count[..7], &FORMAT), Missed::Unknown);
    // The kernel adds the flag as a negative number.
    assert_eq!(missed(0xFFFF_FFFF_C000_0000, &count, &FORMAT), Missed::Some(0x1_0000_0002));
    // A number alone means nothing.
    assert_eq!(missed(1 << 30, &count, &FORMAT), Missed::None);
    // A 32-bit kernel: the word and the number have 4 bytes.
    let narrow = PageFormat { commit_bytes: 4, ..FORMAT };
    assert_eq!(missed(3 << 30, &count, &narrow), Missed::Some(2));
}

#[test]
fn heads_of_pages() {
    let bytes = page(1, 0, &[&head(1, 1)[..], &[0; 4]].concat());
    let parse = |bytes: &[u8], format: &PageFormat| Page::parse(bytes, format).map(drop).unwrap_err();
    for count in 0..16 {
        assert_eq!(parse(&bytes[..count], &FORMAT), PageError::Short { bytes: count as u32, head_bytes: 16 });
    }
    for count in 16..24 {
        assert_eq!(parse(&bytes[..count], &FORMAT), PageError::Size { committed: 8, room: count as u32 - 16 });
    }
    assert_eq!(parse(&page(1, 1, &[]), &FORMAT), PageError::Size { committed: 1, room: 0 });
    let error = PageError::Size { committed: 0x3FFF_FFFF, room: 0 };
    assert_eq!(parse(&page(1, 0x3FFF_FFFF, &[]), &FORMAT), error);
    assert_eq!(parse(&page(1, 1 << 32, &[]), &FORMAT), PageError::Commit(1 << 32));
    let word = 0xFFFF_FFFF_0000_0000;
    assert_eq!(parse(&page(1, word, &[]), &FORMAT), PageError::Commit(word));
    assert_eq!(parse(&bytes, &PageFormat { commit_bytes: 2, ..FORMAT }), PageError::CommitBytes(2));
    let far = PageFormat { data_offset: u16::MAX, ..FORMAT };
    assert_eq!(parse(&bytes, &far), PageError::Short { bytes: 24, head_bytes: 65535 });
}

#[test]
fn what_the_iterator_returns_stays_small() {
    // More, and each record is copied through memory.
    assert!(size_of::<Option<Result<RawRecord<'_>, PageError>>>() <= 40);
}
