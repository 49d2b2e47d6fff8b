// SPDX-License-Identifier: MIT OR Apache-2.0
//! Times and counters of packets that have few bits and wrap, in both formats.

use crate::support;

use kymo_ctf::read::{Memory, Reader, Trace};
use support::shown;

const TSDL: &str = "/* CTF 1.8 */ typealias integer { size = 8; } := u8;
    clock { name = c; freq = 1000; };
    typealias integer { size = 8; map = clock.c.value; } := time;
    trace { major = 1; minor = 8; byte_order = le; };
    stream {
        packet.context := struct {
            u8 packet_size; u8 content_size; time timestamp_begin; time timestamp_end;
            u8 packet_seq_num; u8 events_discarded;
        };
        event.header := struct { u8 id; time timestamp; };
    };
    event { id = 7; name = e; fields := struct { u8 n; }; };";

fn json() -> String {
    let int = |name: &str, role: &str| {
        format!(
            r#"{{"name":"{name}","field-class":{{"type":"fixed-length-unsigned-integer","length":8,"alignment":8,
            "byte-order":"little-endian","roles":[{role}]}}}}"#
        )
    };
    let structure = |members: &[String]| format!(r#"{{"type":"structure","member-classes":[{}]}}"#, members.join(","));
    let context = structure(&[
        int("packet_size", r#""packet-total-length""#),
        int("content_size", r#""packet-content-length""#),
        int("begin", r#""default-clock-timestamp""#),
        int("end", r#""packet-end-default-clock-timestamp""#),
        int("seq", r#""packet-sequence-number""#),
        int("discarded", r#""discarded-event-record-counter-snapshot""#),
    ]);
    let header = structure(&[int("id", r#""event-record-class-id""#), int("t", r#""default-clock-timestamp""#)]);
    let fragments = [
        r#"{"type":"preamble","version":2}"#.to_owned(),
        r#"{"type":"trace-class"}"#.to_owned(),
        r#"{"type":"clock-class","id":"c","frequency":1000}"#.to_owned(),
        format!(
            r#"{{"type":"data-stream-class","id":0,"default-clock-class-id":"c","packet-context-field-class":{context},
            "event-record-header-field-class":{header}}}"#
        ),
        format!(
            r#"{{"type":"event-record-class","id":7,"name":"e","payload-field-class":{}}}"#,
            structure(&[int("n", "")])
        ),
    ];
    fragments.map(|fragment| format!("\u{1E}{fragment}\n")).concat()
}

/// Begin, end, number, lost records, and the times of records, whose value is 1.
type Packet = (u8, u8, u8, u8, &'static [u8]);

fn packet(&(begin, end, number, discarded, times): &Packet) -> Vec<u8> {
    let bits = 8 * (6 + 3 * times.len()) as u8;
    let mut bytes = vec![bits, bits, begin, end, number, discarded];
    times.iter().for_each(|&time| bytes.extend([7, time, 1]));
    bytes
}

/// Times of records, losses, and what was wrong; none of it is damage.
#[track_caller]
fn check(packets: &[Packet], expect: &[&str], said: &[&str]) {
    let stream: Vec<u8> = packets.iter().flat_map(packet).collect();
    for metadata in [TSDL.to_owned(), json()] {
        let memory = Memory { metadata: metadata.into_bytes(), streams: vec![("s".into(), stream.clone())] };
        let (lines, caveats) = shown(&memory);
        let lines: Vec<&str> = lines.iter().map(|line| line.trim_end_matches(" e 0 n=1")).collect();
        assert_eq!(
            (&lines[..], &caveats[..]),
            (expect, &said.iter().map(|&said| said.to_owned()).collect::<Vec<_>>()[..])
        );
        let traces = [Trace::from_files(&memory).unwrap().value];
        let mut reader = Reader::new(&traces);
        while reader.next().is_some() {}
        assert_eq!(reader.damage_count(), 0);
    }
}

#[test]
fn the_end_of_a_packet_goes_on_from_its_begin() {
    check(
        &[(250, 20, 0, 0, &[252, 10]), (30, 40, 1, 0, &[33, 40]), (240, 255, 2, 0, &[250]), (0, 9, 3, 0, &[1])],
        &["252", "266", "289", "296", "506", "513"],
        &[],
    );
}

#[test]
fn a_packet_may_last_longer_than_its_end_has_bits() {
    check(
        &[(10, 100, 0, 0, &[50, 200, 40, 90, 10, 20]), (110, 120, 1, 0, &[115])],
        &["50", "200", "296", "346", "522", "532", "627"],
        &[],
    );
}

/// The begin has fewer bits than the end of the packet before, which says how often it has wrapped.
#[test]
fn the_begin_of_a_packet_goes_on_from_the_end_of_the_one_before() {
    const OF_16: &str = "/* CTF 1.8 */
        typealias integer { size = 8; align = 8; } := u8;
        typealias integer { size = 8; align = 8; map = clock.c.value; } := t8;
        typealias integer { size = 16; align = 8; map = clock.c.value; } := t16;
        trace { major = 1; minor = 8; byte_order = le; };
        clock { name = c; freq = 1; };
        stream {
            packet.context := struct { u8 packet_size; u8 content_size; t8 timestamp_begin; t16 timestamp_end; };
            event.header := struct { u8 id; t8 timestamp; };
        };
        event { id = 7; name = e; fields := struct { u8 n; }; };";
    let packet = |begin: u8, end: u16, times: &[u8]| {
        let bits = 8 * (5 + 3 * times.len()) as u8;
        let mut bytes = vec![bits, bits, begin, end as u8, (end >> 8) as u8];
        times.iter().for_each(|&time| bytes.extend([7, time, 1]));
        bytes
    };
    for (packets, expect) in [
        // Without a record, and with one long in front of the end.
        ([packet(24, 600, &[]), packet(90, 700, &[95])], &["607"][..]),
        ([packet(24, 600, &[30]), packet(90, 700, &[95])], &["30", "607"]),
        ([packet(24, 40, &[30]), packet(39, 80, &[50])], &["30", "50"]),
    ] {
        let memory = Memory { metadata: OF_16.into(), streams: vec![("s".into(), packets.concat())] };
        let (lines, caveats) = shown(&memory);
        let times: Vec<&str> = lines.iter().map(|line| line.trim_end_matches(" e 0 n=1")).collect();
        assert_eq!((&times[..], caveats.is_empty()), (expect, times != ["30", "50"]), "{caveats:?}");
    }
}

#[test]
fn a_counter_of_lost_records_wraps_at_its_width() {
    check(
        &[(10, 20, 0, 250, &[15]), (30, 40, 1, 4, &[35]), (50, 60, 2, 4, &[55]), (70, 80, 3, 100, &[])],
        &[
            "lost 250 records 0 packets 10..20 s",
            "15",
            "lost 10 records 0 packets 20..40 s",
            "35",
            "55",
            "lost 96 records 0 packets 60..80 s",
        ],
        &[],
    );
}

#[test]
fn the_number_of_a_packet_wraps_at_its_width() {
    check(
        &[
            (10, 20, 254, 0, &[15]),
            (30, 40, 255, 0, &[]),
            (50, 60, 0, 0, &[]),
            (70, 80, 3, 0, &[]),
            (90, 91, 250, 0, &[]),
            (92, 93, 2, 0, &[]),
        ],
        &[
            "15",
            "lost 0 records 2 packets 60..80 s",
            "lost 0 records 246 packets 80..91 s",
            "lost 0 records 7 packets 91..93 s",
        ],
        &[],
    );
}

#[test]
fn a_step_back_is_no_wrap() {
    check(
        &[(10, 20, 9, 9, &[15]), (30, 40, 8, 8, &[35]), (50, 60, 8, 10, &[])],
        &["lost 9 records 0 packets 10..20 s", "15", "35", "lost 2 records 0 packets 40..60 s"],
        &[
            "s, packet 1, byte 9: the counter of lost records went from 9 back to 8: how many were lost is not known, and none is counted",
        ],
    );
}
