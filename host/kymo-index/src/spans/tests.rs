// SPDX-License-Identifier: MIT OR Apache-2.0
//! Spans of parts: longer parts have what all of their spans give, bytes are what was put, and hostile ones end.

use kymo_analyze::{Doubt, Name};
use kymo_testing::Random;

use crate::probe;
use crate::spans::part::{SpanEnd, SpanItem, SpanPart};

/// Spans of a thread that follow each other.
fn spans(random: &mut Random, count: usize) -> Vec<SpanEnd> {
    let mut at = 1_000_000;
    let mut one = || {
        let from = at + random.below(300i64);
        at = from + random.below(9i64).pow(random.below(4u32));
        SpanEnd {
            span: random.below(3u16),
            tid: Some(7),
            process: Some(random.below(2i32)).filter(|process| *process > 0),
            name: Name::new(["", "motor", "größer"][random.below(3usize)]),
            cpu: Some(random.below(3u32)).filter(|cpu| *cpu > 0),
            from,
            to: at,
            doubt: [Doubt::NONE, Doubt::NESTED, Doubt::CLOCK | Doubt::NESTED][random.below(3usize)],
        }
    };
    (0..count).map(|_| one()).collect()
}

/// A part of spans, of a row and two levels.
fn part(spans: &[SpanEnd], from: i64) -> SpanPart {
    let mut part = SpanPart::new(from, spans.last().unwrap().to);
    spans.iter().for_each(|span| part.add(span.tid, span.span / 2, *span));
    part
}

#[test]
fn longer_parts_have_what_their_spans_give() {
    let mut random = Random::new("span_parts", 3);
    let (mut cells, mut wholes) = (0, 0);
    for _ in 0..200 {
        let all = spans(&mut random, 200);
        let parts: Vec<SpanPart> = all.chunks(50).map(|chunk| part(chunk, chunk[0].from - 100)).collect();
        let sum = SpanPart::of(&parts).unwrap();
        // The same with columns as long as these.
        let mut whole = SpanPart { shift: sum.shift, ..SpanPart::new(sum.from, sum.to) };
        all.iter().for_each(|span| whole.add(span.tid, span.span / 2, *span));
        assert_eq!(sum, whole);
        for part in parts.iter().chain([&sum]) {
            assert_eq!(SpanPart::decode(&part.encode(), |_| true).as_ref(), Some(part));
            assert!(SpanPart::decode(&part.encode(), |_| false).unwrap().rows.is_empty());
        }
        for item in sum.rows.values().flat_map(|items| &items.0) {
            match item {
                SpanItem::Cell(cell) => cells += usize::from(cell.count > 1),
                SpanItem::Whole(_) => wholes += 1,
            }
        }
    }
    assert!(cells > 1000 && wholes > 1000, "{cells} and {wholes}");
}

#[test]
fn hostile_spans_end() {
    let mut random = Random::new("hostile_spans", 3);
    let mut taken = 0;
    for _ in 0..3000 {
        let all = spans(&mut random, 20);
        let mut bytes = part(&all, all[0].from).encode();
        for _ in 0..=random.below(3) {
            let at = random.below(bytes.len());
            bytes[at] = random.word() as u8;
        }
        bytes.truncate(bytes.len() - random.below(2usize));
        taken += u32::from(probe::piece(&[&[10][..], &bytes].concat()));
    }
    assert!(taken > 100, "{taken}");
}
