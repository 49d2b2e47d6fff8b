// SPDX-License-Identifier: MIT OR Apache-2.0
//! A dump as a trace in both formats, read by our reader and by babeltrace2.

use crate::support;

use std::fs;
use std::path::Path;
use std::process::Command;

use kymo_ctf::read::{Item, Reader, Trace};
use kymo_ctf::write::{
    ClockMeta, EnvValue, PacketHead, StreamClass, StreamKind, TraceMeta, metadata_ctf2, metadata_ctf18,
};
use kymo_state::{Options, classes, dump};
use support::machine::machine;

const FIRST_ID: u16 = 65000;
const UUID: [u8; 16] = [7; 16];

fn meta() -> TraceMeta {
    TraceMeta {
        uuid: UUID,
        env: vec![("domain".into(), EnvValue::Text("kernel".into()))],
        clock: ClockMeta {
            name: "monotonic".into(),
            uuid: UUID,
            description: String::new(),
            frequency_hz: 1_000_000_000,
            offset_s: 0,
            offset_cycles: 0,
            precision_cycles: 0,
            absolute: true,
        },
        streams: vec![StreamClass { kind: StreamKind::Kernel, contexts: Vec::new(), events: classes(FIRST_ID) }],
    }
}

/// One packet with all records, at the times 1, 2, 3... [spec/trace.md 8.1].
fn packet(options: &Options) -> (Vec<u8>, u64) {
    let (mut records, mut count) = (Vec::new(), 0u64);
    dump(options, FIRST_ID, &mut |event| {
        count += 1;
        records.extend_from_slice(&event.id.to_le_bytes());
        records.extend_from_slice(&count.to_le_bytes()[..6]);
        records.extend_from_slice(&event.tid.to_le_bytes());
        records.extend_from_slice(&[0, 0]);
        records.extend_from_slice(event.payload);
    });
    let head = PacketHead {
        uuid: UUID,
        stream_instance: 0,
        begin: 1,
        end: count,
        content_bytes: records.len() as u64,
        seq: 0,
        discarded: 0,
        cpu: u32::MAX,
        program: None,
    };
    ([head.encode(), records].concat(), count)
}

/// The text of a trace; `None` where there is no babeltrace2, or it is too old for this format.
fn babeltrace(trace: &Path) -> Option<String> {
    let output = Command::new("babeltrace2").arg(trace).output().ok()?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success()
        && fs::read(trace.join("metadata")).is_ok_and(|metadata| metadata.first() == Some(&0x1e))
    {
        eprintln!("not checked: this babeltrace2 does not read CTF 2");
        return None;
    }
    assert!(output.status.success(), "{errors}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// How many records our reader finds, none of them damaged; and the names of the idle threads.
fn own_reader(trace: &Path) -> (u64, Vec<String>) {
    let opened = Trace::open(trace).expect("opens");
    assert!(opened.caveats.is_empty(), "{:?}", opened.caveats);
    let traces = [opened.value];
    let mut reader = Reader::new(&traces);
    let (mut count, mut idle) = (0, Vec::new());
    while let Some(item) = reader.next() {
        let Item::Record(record) = item else { panic!("no record was lost") };
        count += 1;
        let name = record.payload.get("name").filter(|_| record.event.name == "lttng_statedump_process_state");
        idle.extend(name.map(|name| format!("{name:?}")).filter(|name| name.contains("swapper/")));
    }
    assert_eq!(reader.caveat_count(), 0);
    (count, idle)
}

#[test]
fn readers_understand_it() {
    let tree = machine();
    for options in [tree.options(), Options { files: true, maps: true, ..Options::default() }] {
        for metadata in [metadata_ctf18(&meta()).into_bytes(), metadata_ctf2(&meta())] {
            let trace = tempfile::tempdir().expect("a folder");
            let (packet, count) = packet(&options);
            fs::write(trace.path().join("metadata"), metadata).expect("a file");
            fs::write(trace.path().join("state_0"), packet).expect("a file");
            let (read, idle) = own_reader(trace.path());
            assert_eq!(read, count);
            assert!(idle.iter().any(|name| name.contains("swapper/0")), "{idle:?}");
            let Some(text) = babeltrace(trace.path()) else { continue };
            let records =
                text.lines().filter(|line| line.contains("lttng_statedump_") || line.contains("kymo_statedump_"));
            assert_eq!(records.count() as u64, count);
            assert!(text.contains(r#"tid = 0, pid = 0, ppid = 0, name = "swapper/0", type = 1, mode = 5"#), "{text}");
        }
    }
}
