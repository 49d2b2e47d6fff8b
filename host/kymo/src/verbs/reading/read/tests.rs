// SPDX-License-Identifier: MIT OR Apache-2.0
//! One small trace with every kind of value and a loss, and what `kymo read` prints of it.

use kymo_abi::desc::{EnumDesc, EventDesc, Field, FieldType, Scalar};
use kymo_abi::record_head;
use kymo_ctf::read::{Memory, Reader, Slices, Trace};
use kymo_ctf::write::{ClockMeta, EventClass, PacketHead, Program, StreamClass, StreamKind, TraceMeta, metadata_ctf18};

use kymo_index::Indexes;

use super::filter::Filters;
use super::select::Selection;
use super::{Begin, PrintShape};
use crate::verbs::args::EventArgs;

fn event(id: u16, name: &str, fields: &[(&str, FieldType)], enums: &[EnumDesc]) -> EventClass {
    let fields = fields.iter().map(|(name, ty)| Field { name: (*name).into(), ty: ty.clone() }).collect();
    let desc = EventDesc { provider: "motor".into(), name: name.into(), file: String::new(), line: 0, fields };
    EventClass::of_user(id, &desc, enums)
}

fn trace() -> Vec<Trace> {
    use FieldType as F;
    let enumeration = F::Enum { scalar: Scalar::U8, name: "motor:state".into() };
    let enums = [EnumDesc {
        provider: "motor".into(),
        name: "state".into(),
        file: String::new(),
        line: 0,
        scalar: Scalar::U8,
        labels: vec![("moving".into(), 1)],
    }];
    let meta = TraceMeta {
        uuid: [1; 16],
        env: vec![],
        clock: ClockMeta {
            name: "tsc".into(),
            uuid: [2; 16],
            description: String::new(),
            frequency_hz: 1_000_000_000,
            offset_s: 1_700_000_059,
            offset_cycles: 0,
            precision_cycles: 0,
            absolute: true,
        },
        streams: vec![StreamClass {
            kind: StreamKind::User,
            contexts: Vec::new(),
            events: vec![
                event(
                    1,
                    "step",
                    &[
                        ("axis", F::Scalar(Scalar::U32)),
                        ("position", F::Scalar(Scalar::F64)),
                        ("state", enumeration),
                        ("note", F::Str),
                    ],
                    &enums,
                ),
                event(
                    2,
                    "raw",
                    &[
                        ("mask", F::Scalar(Scalar::X16)),
                        ("big", F::Scalar(Scalar::U64)),
                        ("data", F::Bytes),
                        ("ok", F::Scalar(Scalar::Bool)),
                        ("gain", F::Scalar(Scalar::F32)),
                        ("list", F::Seq { element: Scalar::I8 }),
                    ],
                    &enums,
                ),
            ],
        }],
    };
    let record =
        |id: u16, time: u64, payload: &[u8]| [&record_head(id, time)[..], &1240u32.to_le_bytes(), payload].concat();
    let step = |axis: u32, position: f64, state: u8, note: &[u8]| {
        [&axis.to_le_bytes()[..], &position.to_le_bytes(), &[state], &(note.len() as u16).to_le_bytes(), note].concat()
    };
    let packet = |begin: u64, end: u64, records: &[Vec<u8>], seq: u64, discarded: u64| {
        let content = records.concat();
        let mut procname = [0; 16];
        procname[..4].copy_from_slice(b"prog");
        let content_bytes = content.len() as u64;
        let head = PacketHead {
            uuid: [1; 16],
            stream_instance: 0,
            begin,
            end,
            content_bytes,
            seq,
            discarded,
            cpu: 1,
            program: Some(Program { vpid: 1234, lane: 1, procname }),
        };
        [&head.encode()[..], &content].concat()
    };
    let raw =
        [&[0xFE, 0xCA][..], &u64::MAX.to_le_bytes(), &[2, 0, 0, 0xFF, 1], &f32::NAN.to_le_bytes(), &[2, 0, 0x80, 5]]
            .concat();
    let stream = [
        packet(
            5,
            1239,
            &[record(1, 5, &step(3, 1.5, 1, b"x")), record(1, 1239, &step(4, f64::NEG_INFINITY, 7, b"\x1b[2J\"\n"))],
            0,
            0,
        ),
        packet(2000, 61_000_000_000, &[record(2, 2000, &raw)], 1, 12),
    ];
    let memory = Memory { metadata: metadata_ctf18(&meta).into(), streams: vec![("user_1_0".into(), stream.concat())] };
    vec![Trace::from_files(&memory).unwrap().value]
}

#[derive(clap::Parser)]
struct Command {
    #[command(flatten)]
    args: super::ReadArgs,
}

fn printed(arguments: &str) -> String {
    let traces = trace();
    let words = ["read", "DIR", "--utc"].into_iter().chain(arguments.split_whitespace());
    let args = <Command as clap::Parser>::parse_from(words).args;
    let selection = Selection::new(&traces, args.fields.as_deref(), &args.events.event, args.state).unwrap();
    let mut out = Vec::new();
    let mut filters = Filters::new(&traces, &args.scope.expressions()).unwrap();
    let shape = PrintShape { traces: &traces, selection: &selection, args: &args };
    super::show(
        &mut Reader::new(&traces),
        shape,
        &Begin::at_first(&Indexes::default()),
        &mut filters,
        None,
        1,
        &mut out,
    )
    .unwrap();
    filters.conclude();
    let (mut again, mut filters) = (Vec::new(), Filters::new(&traces, &args.scope.expressions()).unwrap());
    super::show(
        &mut Reader::new(&traces),
        shape,
        &Begin::at_first(&Indexes::default()),
        &mut filters,
        Some(2),
        1,
        &mut again,
    )
    .unwrap();
    assert!(out == again, "with threads: {}", String::from_utf8_lossy(&again));
    if filters.is_empty() && args.limit.is_none() {
        check_slices(&traces, shape, &out);
    }
    String::from_utf8(out).unwrap()
}

/// Slices of all sizes print the same.
fn check_slices(traces: &[Trace], shape: PrintShape<'_>, expect: &[u8]) {
    let mut printed = 0;
    for slices in (100..1000).step_by(10).filter_map(|bytes| Slices::new(traces, bytes)) {
        let mut out = Vec::new();
        let all = super::sliced::print(slices, shape, 2, &mut out).unwrap();
        assert!(out == expect, "in slices: {}", String::from_utf8_lossy(&out));
        assert_eq!((all.counts.all, all.totals.lost.records), (0, 12));
        printed += 1;
    }
    assert!(printed > 1);
}

fn check(arguments: &str, expect: &[&str]) {
    assert_eq!(printed(arguments).lines().collect::<Vec<_>>(), expect, "{arguments}");
}

#[test]
fn text() {
    check(
        "",
        &[
            r#"22:14:19.000000005 (+?.?????????) cpu1 prog[1234/1240] motor:step: axis=3, position=1.5, state=moving(1), note="x""#,
            r#"22:14:19.000001239 (+0.000001234) cpu1 prog[1234/1240] motor:step: axis=4, position=-inf, state=7, note="\u{1b}[2J\"\n""#,
            "--- lost 12 records on cpu1 (pid 1234) between 22:14:19.000001239 and 22:15:20.000000000",
            "22:14:19.000002000 (+0.000000761) cpu1 prog[1234/1240] motor:raw: mask=0xcafe, big=18446744073709551615, data=00ff, ok=true, gain=NaN, list=[-128, 5]",
        ],
    );
}

#[test]
fn json() {
    check(
        "--json",
        &[
            r#"{"time":1700000059000000005,"cycles":5,"cpu":1,"proc":"prog","pid":1234,"tid":1240,"event":"motor:step","fields":{"axis":3,"position":1.5,"state":{"value":1,"label":"moving"},"note":"x"}}"#,
            r#"{"time":1700000059000001239,"cycles":1239,"cpu":1,"proc":"prog","pid":1234,"tid":1240,"event":"motor:step","fields":{"axis":4,"position":"-inf","state":{"value":7,"label":null},"note":"\u001b[2J\"\n"}}"#,
            r#"{"lost":12,"packets":0,"cpu":1,"pid":1234,"proc":"prog","stream":"user_1_0","from":1700000059000001239,"to":1700000120000000000}"#,
            r#"{"time":1700000059000002000,"cycles":2000,"cpu":1,"proc":"prog","pid":1234,"tid":1240,"event":"motor:raw","fields":{"mask":51966,"big":18446744073709551615,"data":"00ff","ok":true,"gain":"NaN","list":[-128,5]}}"#,
        ],
    );
    for line in printed("--json --fields delta,axis").lines() {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(value.is_object(), "{line}");
    }
}

#[test]
fn columns_events_and_limit() {
    check(
        "--fields time,axis --cycles",
        &["5 axis=3", "1239 axis=4", "--- lost 12 records on cpu1 (pid 1234) between 1239 and 61000000000", "2000"],
    );
    check(
        "--fields axis,data --event *:step",
        &[
            "axis=3",
            "axis=4",
            "--- lost 12 records on cpu1 (pid 1234) between 22:14:19.000001239 and 22:15:20.000000000",
        ],
    );
    check(
        "--fields mask",
        &["--- lost 12 records on cpu1 (pid 1234) between 22:14:19.000001239 and 22:15:20.000000000", "mask=0xcafe"],
    );
    check("--fields proc,tid,delta,event --limit 1", &["(+?.?????????) prog[-/1240] motor:step"]);
    check("--fields pid --limit 1", &["[1234]"]);
    check("--fields time --date --limit 1", &["2023-11-14 22:14:19.000000005"]);
    check(
        "--json --fields delta,ok --event *:raw",
        &[
            r#"{"lost":12,"packets":0,"cpu":1,"pid":1234,"proc":"prog","stream":"user_1_0","from":1700000059000001239,"to":1700000120000000000}"#,
            r#"{"delta":null,"fields":{"ok":true}}"#,
        ],
    );
}

#[test]
fn unknown_names() {
    let traces = trace();
    let error = Selection::new(&traces, Some(&["axes".into()]), &[], false).err().unwrap().to_string();
    assert!(error.contains("\"axes\"") && error.contains("axis, big, data"), "{error}");
    let check = |events: &[&str]| {
        let events = EventArgs { event: events.iter().map(|&event| event.to_owned()).collect() };
        events.check(&traces).map_err(|error| error.to_string())
    };
    assert_eq!((check(&[]), check(&["m[o]tor"]), check(&["motor:*", "pump:*"])), (Ok(()), Ok(()), Ok(())));
    let error = check(&["moter:*"]).unwrap_err();
    assert!(error.starts_with("no event of the trace matches \"moter:*\"; near it: motor:"), "{error}");
    let error = check(&["pump:*"]).unwrap_err();
    assert_eq!(error, "no event of the trace matches \"pump:*\"; `kymo stats` lists those that it has");
}

#[test]
fn filters() {
    let of = |texts: &[&str]| -> Result<Vec<&'static str>, String> {
        let traces = trace();
        let selection = Selection::new(&traces, None, &[], false).unwrap();
        let texts: Vec<String> = texts.iter().map(|text| (*text).into()).collect();
        let mut filters = Filters::new(&traces, &texts).map_err(|error| error.to_string())?;
        let words = ["read", "DIR", "--fields", "axis,mask"];
        let args = <Command as clap::Parser>::parse_from(words).args;
        let mut out = Vec::new();
        let shape = PrintShape { traces: &traces, selection: &selection, args: &args };
        super::show(
            &mut Reader::new(&traces),
            shape,
            &Begin::at_first(&Indexes::default()),
            &mut filters,
            None,
            1,
            &mut out,
        )
        .unwrap();
        filters.conclude();
        let text = String::from_utf8(out).unwrap();
        let shown = text.lines().filter(|line| !line.starts_with("---"));
        let names = [("axis=3", "3"), ("axis=4", "4"), ("mask=", "raw")];
        Ok(shown.map(|line| names.iter().find(|name| line.contains(name.0)).unwrap().1).collect::<Vec<_>>())
    };
    for (texts, expect) in [
        (&["axis == 3 && position > 0.5"][..], &["3"][..]),
        (&["motor:step: position < 0"], &["4"]),
        (&["position < 0 || mask == 0xcafe"], &["4", "raw"]),
        (&["axis > 0", "axis != 4"], &["3"]),
        (&["state == moving"], &["3"]),
        (&["state != moving"], &["4"]),
        (&["state ~ \"mov*\""], &["3"]),
        (&["note == \"x\""], &["3"]),
        (&["ok"], &["raw"]),
        (&["big == 18446744073709551615 && list[1] == 5 && len(data) == 2"], &["raw"]),
        (&["gain == 0 || gain != 0"], &["raw"]),
        (&["$cpu == 1 && $pid == 1234 && $tid == 1240 && $proc ~ 'pr*'"], &["3", "4", "raw"]),
        (&["!has(axis)"], &["raw"]),
        (&["latency(motor:step, motor:raw, by=$tid) == 761ns"], &["raw"]),
        (&["latency(motor:step, motor:raw, by=$tid) > 1us"], &[]),
    ] {
        assert_eq!(of(texts).unwrap(), expect, "{texts:?}");
    }
    let unknown = of(&["axes == 3"]).unwrap_err();
    assert_eq!(unknown, "--filter:\naxes == 3\n^^^^ no event has a field `axes`\nhelp: did you mean `axis`?");
    // That the kinds do not fit shows in the first record.
    let kinds = of(&["axis > 0 && note > 3"]).unwrap_err();
    assert!(kinds.contains("`>` compares numbers, and one side is text"), "{kinds}");
}

#[test]
fn counts_are_those_of_the_lines() {
    let traces = trace();
    for arguments in ["", "--event motor:*", "--filter axis==3", "--limit 1"] {
        let words = ["read", "DIR", "--count"].into_iter().chain(arguments.split_whitespace());
        let args = <Command as clap::Parser>::parse_from(words).args;
        let selection = Selection::new(&traces, None, &args.events.event, args.state).unwrap();
        let mut filters = Filters::new(&traces, &args.scope.expressions()).unwrap();
        let shape = PrintShape { traces: &traces, selection: &selection, args: &args };
        let mut out = Vec::new();
        super::count::count(shape, &Begin::at_first(&Indexes::default()), &mut filters).print(false, &mut out).unwrap();
        let lines = printed(arguments).lines().filter(|line| !line.starts_with("---")).count();
        assert!(lines > 0, "{arguments}");
        let said = String::from_utf8(out).unwrap();
        let unit = if lines == 1 { "record" } else { "records" };
        assert_eq!(said.lines().last().unwrap(), format!("{lines:>12} {unit}"), "{arguments}: {said}");
    }
}
