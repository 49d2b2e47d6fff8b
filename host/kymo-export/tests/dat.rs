// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files of trace-cmd, made here in both versions, both byte orders and all packings: each becomes the same trace.

use crate::support;

use kymo_ctf::read::Trace;
use kymo_export::import::{import, probe};
use support::dat::{Dat, Packing};
use support::records;

/// What the made files hold, as the trace has it.
const EXPECT: [&str; 4] = [
    "1000000 cpu 0 tid 7 sched_switch prev_comm=a b prev_tid=7 prev_prio=20 prev_state=1 next_comm=idle next_tid=0 next_prio=20",
    "1000500 cpu 0 tid 0 sched_process_exec filename=/bin/true tid=9 old_tid=9",
    "2000000 cpu 1 tid 9 lttng_logger msg=hello there",
    "2000300 cpu 1 tid 9 sched_switch prev_comm=c prev_tid=9 prev_prio=-2 prev_state=0 next_comm=a b next_tid=7 next_prio=20",
];

/// Fuzzing begins with what is made here (fuzz/seeds.sh). The target puts the file's first ten bytes in front itself.
fn seed(name: &str, bytes: &[u8]) {
    if let Some(dir) = std::env::var_os("KYMO_FUZZ_SEEDS") {
        std::fs::write(std::path::Path::new(&dir).join("import_dat").join(name), &bytes[10..]).unwrap();
    }
}

#[test]
fn all_forms_become_one_trace() {
    for version in [6, 7] {
        for is_big_endian in [false, true] {
            for packing in [Packing::None, Packing::Zlib, Packing::Zstd] {
                if version == 6 && packing != Packing::None {
                    continue;
                }
                let what = format!("version {version}, big endian: {is_big_endian}, {packing:?}");
                let bytes = Dat { version, is_big_endian, packing }.bytes();
                seed(&format!("{version}_{is_big_endian}_{packing:?}"), &bytes);
                let dir = tempfile::tempdir().unwrap();
                let (format, imported) =
                    import(&bytes, "made", &dir.path().join("t"), &|_| true).unwrap_or_else(|e| panic!("{what}: {e}"));
                assert_eq!(
                    (format.name, imported.records, imported.lost),
                    ("trace.dat", 4, 12),
                    "{what}: {imported:?}"
                );
                assert_eq!(imported.not_taken, Default::default(), "{what}");
                let trace = Trace::open(&dir.path().join("t")).unwrap().value;
                let seen = records(&[trace]);
                let shown: Vec<&String> = seen.iter().filter(|line| !line.contains("statedump")).collect();
                assert_eq!(shown, EXPECT.iter().collect::<Vec<_>>(), "{what}");
                assert!(
                    seen.iter().any(|line| line.ends_with("kymo_statedump_thread_name tid=7 name=a b")),
                    "{seen:?}"
                );
                assert!(dir.path().join("t/.kallsyms").is_file());
            }
        }
    }
}

#[test]
fn a_file_that_is_cut_keeps_what_is_whole() {
    // The end of a page is empty: without it all records are there. A packed page is there or not.
    for (version, packing, records) in [(6, Packing::None, 4), (7, Packing::None, 4), (7, Packing::Zlib, 2)] {
        let bytes = Dat { version, is_big_endian: false, packing }.bytes();
        let dir = tempfile::tempdir().unwrap();
        let (_, imported) = import(&bytes[..bytes.len() - 8], "made", &dir.path().join("t"), &|_| true).unwrap();
        assert!(imported.notes.iter().any(|note| note.contains("cut")), "{imported:?}");
        assert_eq!(imported.records, records, "{version} {packing:?}");
    }
}

#[test]
fn what_is_there_is_not_replaced_and_what_fails_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("t");
    let bytes = Dat { version: 7, is_big_endian: false, packing: Packing::None }.bytes();
    assert!(import(&bytes[..200], "made", &to, &|_| true).is_err());
    assert!(!to.exists());
    import(&bytes, "made", &to, &|_| true).unwrap();
    let error = import(&bytes, "made", &to, &|_| true).unwrap_err().to_string();
    assert!(error.contains("is there already"), "{error}");
}

/// Bytes of real form, changed: nothing panics, loops, or takes memory beyond its bound.
#[test]
fn any_bytes_never_panic() {
    let mut random = support::Random(0x9E37_79B9_7F4A_7C15);
    for (version, is_big_endian, packing) in
        [(6, false, Packing::None), (6, true, Packing::None), (7, false, Packing::Zlib), (7, true, Packing::Zstd)]
    {
        let good = Dat { version, is_big_endian, packing }.bytes();
        for _ in 0..400 {
            let mut bytes = good.clone();
            for _ in 0..1 + random.below(4) {
                let at = random.below(bytes.len());
                bytes[at] = random.word() as u8;
            }
            bytes.truncate(if random.below(4) == 0 { random.below(bytes.len()) } else { bytes.len() });
            probe(&bytes);
        }
    }
}
