// SPDX-License-Identifier: MIT OR Apache-2.0
//! Streams of frames that are made here by the page (spec/target.md), whole and damaged, and what they become.

use kymo_abi::record_head;
use kymo_ctf::read::{Item, Memory, Reader};
use kymo_target::{Batch, Receiver, Record, Trace, file_name};
use kymo_testing::{Random, setting};

/// CRC-32, bit by bit: not the crate's own table.
fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xEDB8_8320 } else { crc >> 1 })
    })
}

const HZ: u32 = 25_000_000;

/// What a target would send. Records carry their number in the stream, which nobody but the test looks at.
struct Target {
    boot: u32,
    sequence: u32,
    records: u32,
    lost: u32,
    stamp: u64,
    frames: Vec<Vec<u8>>,
}

impl Target {
    fn new(boot: u32) -> Self {
        Self { boot, sequence: 0, records: 0, lost: 0, stamp: 1_000_000, frames: Vec::new() }
    }

    fn frame(&mut self, kind: u8, payload: &[u8]) -> &mut Self {
        let mut out = vec![0x4B, 0x59, 0xA5, kind];
        out.extend((payload.len() as u16).to_le_bytes());
        out.extend((!(payload.len() as u16)).to_le_bytes());
        out.extend(self.boot.to_le_bytes());
        out.extend(self.sequence.to_le_bytes());
        out.extend(payload);
        let sum = crc(&out);
        out.extend(sum.to_le_bytes());
        self.sequence += 1;
        self.frames.push(out);
        self
    }

    fn head(&mut self, flags: u16) -> &mut Self {
        let mut out = Vec::new();
        for word in [1, HZ, self.stamp as u32, (self.stamp >> 32) as u32, self.lost, self.records] {
            out.extend(word.to_le_bytes());
        }
        out.extend(2_u16.to_le_bytes());
        out.extend(flags.to_le_bytes());
        out.extend(b"motor\0\0\0");
        self.frame(1, &out)
    }

    fn names(&mut self, names: &[(u16, &str)]) -> &mut Self {
        let mut out = Vec::new();
        for (id, name) in names {
            out.extend(id.to_le_bytes());
            out.extend((name.len() as u16).to_le_bytes());
            out.extend(name.as_bytes());
            out.resize(out.len().next_multiple_of(4), 0);
        }
        self.frame(2, &out)
    }

    /// `count` records, 1000 cycles apart, behind `lost` that are not there.
    fn events(&mut self, count: u32, lost: u32) -> &mut Self {
        self.lost += lost;
        self.stamp += 1000 * u64::from(lost);
        let mut out = Vec::new();
        for word in [self.stamp as u32, (self.stamp >> 32) as u32, self.lost, self.records] {
            out.extend(word.to_le_bytes());
        }
        for i in 0..count {
            let number = self.records + i;
            let more = number as usize % 7;
            out.extend(record_head(17 + (number % 2) as u16, self.stamp));
            out.extend((number % 3).to_le_bytes());
            out.extend(0x8000_1234_u32.to_le_bytes());
            out.extend(u16::from(number % 5 == 0).to_le_bytes());
            out.extend((4 + more as u16).to_le_bytes());
            out.extend(number.to_le_bytes());
            out.resize(out.len() + more, number as u8);
            out.resize(out.len().next_multiple_of(4), 0);
            self.stamp += 1000;
        }
        self.records += count;
        self.frame(3, &out)
    }

    fn bytes(&self) -> Vec<u8> {
        self.frames.concat()
    }
}

const NAMES: [(u16, &str); 2] = [(17, "step"), (18, "over run")];

/// 100 frames of events and more, with losses here and there.
fn session(boot: u32) -> Target {
    let mut target = Target::new(boot);
    target.head(0).names(&NAMES);
    for i in 0..100 {
        target.events(1 + i % 9, if i % 13 == 5 { i } else { 0 });
        if i % 40 == 39 {
            target.head(0).names(&NAMES);
        }
    }
    target.head(1);
    target
}

/// In pieces of `piece` bytes.
fn receive(bytes: &[u8], piece: usize) -> (Receiver, Vec<Batch>) {
    let mut receiver = Receiver::new();
    let mut batches = Vec::new();
    for piece in bytes.chunks(piece) {
        receiver.push(piece, None);
        batches.append(&mut receiver.take());
    }
    receiver.finish();
    batches.append(&mut receiver.take());
    (receiver, batches)
}

fn number(record: &Record) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|i| record.data[i]))
}

fn is_as_sent(record: &Record) -> bool {
    let number = number(record);
    record.id == 17 + (number % 2) as u16
        && record.thread == number % 3
        && record.address == 0x8000_1234
        && record.is_truncated == (number % 5 == 0)
        && record.data.len() == 4 + number as usize % 7
        && record.data[4..].iter().all(|byte| *byte == number as u8)
}

/// Holds what is shown against what was sent: each record whole, none twice, in order, and the gaps as large as is
/// said.
fn check(batches: &[Batch], receiver: &Receiver, sent: &[(u32, &Target)]) {
    let of = |boot: u32| sent.iter().find(|(sent, _)| *sent == boot).expect("the boot was sent").1;
    for (index, epoch) in receiver.epochs().iter().enumerate() {
        let target = of(epoch.boot);
        let (mut next, mut stamp, mut gaps) = (None, 0, 0);
        let records = batches.iter().filter(|batch| batch.epoch == index).flat_map(|batch| &batch.records);
        let mut shown = 0;
        for record in records {
            assert!(number(record) < target.records && is_as_sent(record), "{record:?} was never sent");
            assert!(record.stamp >= stamp, "times go on");
            stamp = record.stamp;
            let expected = next.unwrap_or(number(record));
            assert!(number(record) >= expected, "in order, and none twice");
            gaps += u64::from(number(record) - expected);
            next = Some(number(record) + 1);
            shown += 1;
        }
        assert_eq!(shown, epoch.records, "all that is counted is shown");
        assert!(epoch.lost_line >= gaps, "{} of {gaps} missing records are told of", epoch.lost_line);
        assert!(epoch.records + epoch.lost_line <= u64::from(target.records));
        assert!(epoch.lost_target <= u64::from(target.lost));
        if epoch.is_final && epoch.before == 0 {
            assert_eq!(epoch.records + epoch.lost_line, u64::from(target.records), "every record is accounted for");
            assert_eq!(epoch.lost_target, u64::from(target.lost));
        }
    }
    let told: u64 = batches.iter().map(|batch| batch.lost).sum();
    let counted: u64 = receiver.epochs().iter().map(|epoch| epoch.lost_line + epoch.lost_target).sum();
    assert_eq!(told, counted);
}

/// Records and losses that the CTF reader finds, and how often it has to complain.
fn through_ctf(receiver: &Receiver, batches: &[Batch]) -> (u64, u64, usize) {
    let mut trace = Trace::new([7; 16], "host");
    let mut files: Vec<Vec<u8>> = Vec::new();
    for batch in batches {
        files.resize(files.len().max(batch.epoch + 1), Vec::new());
        files[batch.epoch].extend(trace.packets(batch, receiver.epochs()));
    }
    let streams = files.into_iter().enumerate().map(|(i, bytes)| (file_name(i), bytes)).collect();
    let memory = Memory { metadata: trace.metadata().into_bytes(), streams };
    let opened = kymo_ctf::read::Trace::from_files(&memory).expect("the metadata is CTF").value;
    let traces = [opened];
    let mut reader = Reader::new(&traces);
    let (mut records, mut lost, mut last) = (0, 0, i128::MIN);
    while let Some(item) = reader.next() {
        match item {
            Item::Record(record) => {
                assert!(record.ns >= last, "records of a trace come in the order of time");
                last = record.ns;
                records += 1;
            }
            Item::Loss(loss) => lost += loss.records,
        }
    }
    (records, lost, reader.caveats().count())
}

#[test]
fn whole_stream_in_pieces_of_any_size() {
    let target = session(3);
    let bytes = target.bytes();
    // fuzz/seeds.sh asks for it.
    if let Some(seeds) = std::env::var_os("KYMO_FUZZ_SEEDS") {
        std::fs::write(std::path::Path::new(&seeds).join("target_line/session"), &bytes).unwrap();
    }
    for piece in [1, 2, 17, 100, bytes.len()] {
        let (receiver, batches) = receive(&bytes, piece);
        check(&batches, &receiver, &[(3, &target)]);
        let [epoch] = receiver.epochs() else { panic!("one epoch") };
        assert_eq!(receiver.stray_bytes(), 0);
        assert_eq!((epoch.records, epoch.lost_line), (target.records.into(), 0));
        assert_eq!(epoch.lost_target, u64::from(target.lost));
        assert_eq!((epoch.hz, epoch.name.as_str(), epoch.is_final), (Some(HZ), "motor", true));
        assert_eq!((epoch.frames_missing, epoch.duplicates, epoch.late, epoch.damaged), (0, 0, 0, 0));
        assert_eq!(through_ctf(&receiver, &batches), (target.records.into(), target.lost.into(), 0));
    }
}

#[test]
fn missing_frames_are_counted_with_their_records() {
    let target = session(3);
    let mut frames = target.frames.clone();
    // Of the head, the names and the events that follow: numbers 9 and 10 of the session's loop.
    frames.drain(11..13);
    let (receiver, batches) = receive(&frames.concat(), 64);
    check(&batches, &receiver, &[(3, &target)]);
    let epoch = &receiver.epochs()[0];
    assert_eq!((epoch.frames_missing, epoch.lost_line), (2, 1 + 2));
    assert_eq!(epoch.lost_target, u64::from(target.lost));
    let place = epoch.places.iter().find(|place| place.frames_missing > 0).unwrap();
    assert_eq!((place.lost_line, place.frames_missing), (3, 2));
    assert_eq!(through_ctf(&receiver, &batches), ((target.records - 3).into(), (target.lost + 3).into(), 0));
}

#[test]
fn duplicates_and_late_frames_are_dropped() {
    let target = session(3);
    let mut frames = target.frames.clone();
    let late = frames.remove(20);
    frames.insert(30, late);
    frames.insert(50, target.frames[40].clone());
    frames.insert(51, target.frames[30].clone());
    let (receiver, batches) = receive(&frames.concat(), 64);
    check(&batches, &receiver, &[(3, &target)]);
    let epoch = &receiver.epochs()[0];
    assert_eq!((epoch.late, epoch.duplicates, epoch.frames_missing), (1, 2, 1));
}

#[test]
fn a_flipped_bit_anywhere_costs_its_frame_only() {
    let target = session(3);
    let frame = &target.frames[10];
    let before: usize = target.frames[..10].iter().map(Vec::len).sum();
    for bit in 0..frame.len() * 8 {
        let mut bytes = target.bytes();
        bytes[before + bit / 8] ^= 1 << (bit % 8);
        let (receiver, batches) = receive(&bytes, 512);
        check(&batches, &receiver, &[(3, &target)]);
        assert_eq!(receiver.epochs()[0].frames_missing, 1);
        assert_eq!(receiver.stray_bytes(), frame.len() as u64);
    }
}

#[test]
fn reset_in_the_middle_of_a_frame() {
    let (one, two) = (session(3), session(4));
    let mut bytes = one.frames[..60].concat();
    bytes.truncate(bytes.len() - 9);
    bytes.extend(two.bytes());
    let (receiver, batches) = receive(&bytes, 100);
    check(&batches, &receiver, &[(3, &one), (4, &two)]);
    let [first, second] = receiver.epochs() else { panic!("two epochs") };
    assert_eq!((first.boot, first.is_final, second.boot, second.is_final), (3, false, 4, true));
    assert_eq!((second.records, second.frames_missing), (two.records.into(), 0));
    // The times of the second follow those of the first, though its clock began anew.
    let (records, _, caveats) = through_ctf(&receiver, &batches);
    assert_eq!((records, caveats), (first.records + second.records, 0));
}

#[test]
fn reset_of_a_target_whose_starts_have_no_number() {
    let one = session(0);
    let mut two = Target::new(0);
    two.stamp = 77;
    two.head(0).names(&NAMES).events(5, 0).head(1);
    let (receiver, _) = receive(&[one.frames[..60].concat(), two.bytes()].concat(), 100);
    let [first, second] = receiver.epochs() else { panic!("two epochs") };
    assert!(first.records > 100);
    assert_eq!((second.records, second.is_final, second.frames_missing), (5, true, 0));
}

#[test]
fn names_of_another_program_after_a_reset() {
    let one = session(1);
    let mut two = Target::new(2);
    two.head(0).names(&[(17, "other"), (18, "step")]).events(2, 0).head(1);
    let (receiver, batches) = receive(&[one.bytes(), two.bytes()].concat(), 100);
    let last = batches.last().unwrap();
    let names: Vec<String> = last.records.iter().map(|record| receiver.epochs()[1].name_of(record.id)).collect();
    assert_eq!(names, ["other", "step"]);
    assert_eq!(through_ctf(&receiver, &batches).2, 0);
}

#[test]
fn another_stream_of_the_same_start() {
    let mut target = session(3);
    let first = target.records;
    (target.records, target.lost) = (0, 0);
    target.head(0).events(4, 2).head(1);
    let (receiver, batches) = receive(&target.bytes(), 100);
    let [one, two] = receiver.epochs() else { panic!("two epochs") };
    assert_eq!((one.records, two.records, two.lost_target, two.lost_line), (first.into(), 4, 2, 0));
    assert_eq!(through_ctf(&receiver, &batches).2, 0);
}

#[test]
fn who_listens_later_understands_after_the_next_head() {
    let target = session(3);
    let mut receiver = Receiver::new();
    receiver.push(&target.frames[20..40].concat(), None);
    assert!(receiver.take().is_empty(), "nothing dates them yet");
    receiver.push(&target.frames[40..].concat(), None);
    receiver.finish();
    let batches = receiver.take();
    check(&batches, &receiver, &[(3, &target)]);
    let epoch = &receiver.epochs()[0];
    let word = |at: usize| u64::from(u32::from_le_bytes(std::array::from_fn(|i| target.frames[20][16 + at + i])));
    let (lost, records) = (word(8), word(12));
    assert!(records > 0 && epoch.before == records + lost);
    assert_eq!((epoch.lost_line, epoch.lost_target), (0, u64::from(target.lost) - lost));
    assert_eq!(epoch.records, u64::from(target.records) - records);
    assert_eq!(through_ctf(&receiver, &batches).2, 0);
}

#[test]
fn right_checksums_do_not_make_wrong_content_right() {
    // Counts that go back, records that do not add up, times that go back: each in a frame of its own.
    type Case<'a> = (&'a str, &'a dyn Fn(&mut Target));
    let cases: [Case<'_>; 7] = [
        ("fewer records than before", &|target| target.records -= 2),
        ("records missing without a frame missing", &|target| target.records += 2),
        ("fewer losses than before", &|target| target.lost -= 1),
        ("time goes back", &|target| target.stamp -= 5000),
        ("no records", &|target| {
            target.frame(3, &[0; 16]);
        }),
        ("another name of an event", &|target| {
            target.names(&[(17, "another name")]);
        }),
        ("a name beyond the frame", &|target| {
            target.frame(2, &[17, 0, 200, 0]);
        }),
    ];
    for (what, spoil) in cases {
        let mut target = Target::new(3);
        target.head(0).names(&NAMES).events(5, 3);
        let frames = target.frames.len();
        spoil(&mut target);
        if target.frames.len() == frames {
            target.events(3, 0);
        }
        let (receiver, batches) = receive(&target.bytes(), 100);
        let epoch = &receiver.epochs()[0];
        assert_eq!((epoch.damaged, epoch.records), (1, 5), "{what}");
        assert_eq!(through_ctf(&receiver, &batches), (5, 3, 0), "{what}");
    }
}

#[test]
fn records_of_a_frame_that_makes_no_sense_are_missing() {
    let mut target = Target::new(3);
    target.head(0).names(&NAMES).events(5, 0).events(4, 0);
    // A clock that goes back within the frame.
    let frame = target.frames.last_mut().unwrap();
    let end = frame.len() - 4;
    frame[16 + 16 + 28 + 2..][..6].fill(0);
    let sum = crc(&frame[..end]);
    frame[end..].copy_from_slice(&sum.to_le_bytes());
    target.events(6, 0).head(1);
    let (receiver, batches) = receive(&target.bytes(), 100);
    let epoch = &receiver.epochs()[0];
    assert_eq!((epoch.damaged, epoch.records, epoch.lost_line, epoch.frames_missing), (1, 11, 4, 0));
    assert_eq!(through_ctf(&receiver, &batches), (11, 4, 0));
}

#[test]
fn a_later_version_is_said() {
    let mut target = Target::new(1);
    let mut payload = vec![0; 28];
    payload[0] = 9;
    target.frame(1, &payload);
    let (receiver, _) = receive(&target.bytes(), 100);
    assert_eq!(receiver.epochs()[0].other_version, Some(9));
}

fn random() -> impl FnMut() -> usize {
    let mut random = Random::new("line", 0xC0FFEE);
    move || random.word() as usize >> 1
}

/// Bytes lost, flipped, overwritten, doubled, put elsewhere, and rubbish between.
fn spoil(bytes: &mut Vec<u8>, next: &mut impl FnMut() -> usize) {
    let at = next() % bytes.len();
    let length = 1 + next() % if next() % 4 == 0 { 2000 } else { 40 };
    let end = (at + length).min(bytes.len());
    match next() % 6 {
        0 => bytes[at] ^= 1 << (next() % 8),
        1 => drop(bytes.drain(at..end)),
        2 => bytes[at..end].iter_mut().for_each(|byte| *byte = next() as u8),
        3 => {
            let piece = bytes[at..end].to_vec();
            bytes.splice(end..end, piece);
        }
        4 => {
            let piece = bytes[at..end].to_vec();
            let to = next() % bytes.len();
            bytes.splice(to..to, piece);
        }
        _ => {
            let piece: Vec<u8> = (0..length).map(|_| next() as u8).collect();
            bytes.splice(at..at, piece);
        }
    }
    if bytes.is_empty() {
        bytes.push(0);
    }
}

/// Whatever a line does: nothing wrong is shown as right, and what is missing is said. KYMO_SEED repeats a run,
/// KYMO_ROUNDS lengthens it.
#[test]
fn any_line() {
    let mut next = random();
    let (one, two) = (session(3), session(4));
    let mut shown = 0;
    for round in 0..setting("KYMO_ROUNDS", 1500) {
        let cut = if round % 3 == 0 { next() % one.frames.len() } else { one.frames.len() };
        let mut bytes = [one.frames[..cut].concat(), two.bytes()].concat();
        for _ in 0..=next() % 12 {
            spoil(&mut bytes, &mut next);
        }
        let (receiver, batches) = receive(&bytes, 1 + next() % 300);
        check(&batches, &receiver, &[(3, &one), (4, &two)]);
        let (records, lost, caveats) = through_ctf(&receiver, &batches);
        assert_eq!(caveats, 0);
        assert_eq!(records, receiver.epochs().iter().map(|epoch| epoch.records).sum::<u64>());
        assert_eq!(lost, batches.iter().map(|batch| batch.lost).sum::<u64>());
        shown += records;
    }
    assert!(shown > 0);
}

/// No bytes make the receiver panic, loop, or take memory beyond what they have, also where checksums are right.
#[test]
fn any_bytes() {
    let mut next = random();
    let good = session(3);
    for _ in 0..setting("KYMO_ROUNDS", 1500) {
        let mut bytes = Vec::new();
        for frame in &good.frames {
            let mut frame = frame.clone();
            if next() % 4 == 0 {
                let end = frame.len() - 4;
                let at = 8 + next() % (end - 8);
                frame[at] = if next() % 2 == 0 { next() as u8 } else { 0xff };
                let sum = crc(&frame[..end]);
                frame[end..].copy_from_slice(&sum.to_le_bytes());
            }
            bytes.extend(frame);
        }
        let (receiver, batches) = receive(&bytes, 1 + next() % 300);
        let mut trace = Trace::new([7; 16], "host");
        let made: usize = batches.iter().map(|batch| trace.packets(batch, receiver.epochs()).len()).sum();
        assert!(made < 100 * bytes.len());
        let memory = Memory { metadata: trace.metadata().into_bytes(), streams: Vec::new() };
        kymo_ctf::read::Trace::from_files(&memory).expect("the metadata is CTF");
    }
}
