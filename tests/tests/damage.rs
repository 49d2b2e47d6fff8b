// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces that were cut or spoiled: `kymo read` gives what is there, says what was wrong, and ends with 1.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use kymo_tests::{Lab, Random, Read, paths, times, trace};

/// A trace of several packets and streams.
fn small_trace(lab: &Lab) -> PathBuf {
    let program = lab.cc("produce.c");
    let args = ["--ring-size", "64K", "--poll-us", "200"];
    lab.record("whole").args(&args).run(&[program.to_str().unwrap(), "2", "1500", "20", "500"]).expect(0).dir
}

fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// Names of the files in a trace, those that begin with `start`.
fn names(dir: &Path, start: &str) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = entries.filter(|name| name.starts_with(start)).collect();
    names.sort();
    names
}

/// Fails if `kymo read` crashed, or found damage and said nothing of it.
fn survived(read: &Read, what: &str) {
    match read.code {
        0 => {}
        1 => assert!(read.stderr.contains("the trace is damaged in"), "{what}: {}", read.stderr),
        2 => assert!(read.stderr.starts_with("kymo: "), "{what}: {}", read.stderr),
        code => panic!("{what}: kymo read ended with {code}:\n{}", read.stderr),
    }
}

#[test]
fn truncated_streams() {
    let lab = Lab::new("truncated");
    let whole = small_trace(&lab);
    let all = lab.read("whole").records.len();
    let dir = lab.path("cut");
    let mut random = Random::new("truncated", 3);
    for stream in names(&whole, "user_") {
        let length = std::fs::metadata(whole.join(&stream)).unwrap().len();
        let mut lengths = vec![0, 1, 4, 31, 32, 100, 107, 108, 109, 116, length - 1];
        lengths.extend((0..times(20, 300)).map(|_| random.below(length)));
        for cut in lengths.into_iter().filter(|cut| *cut < length) {
            copy(&whole, &dir);
            std::fs::File::options().write(true).open(dir.join(&stream)).unwrap().set_len(cut).unwrap();
            let what = format!("{stream} cut to {cut} of {length}");
            let read = trace::read(&lab, &dir, &[]).ordered();
            survived(&read, &what);
            assert!(read.records.len() < all, "{what}");
            // Only between two packets does nothing look wrong.
            let at_boundary = cut == 0 || read.code == 0;
            assert!(
                at_boundary || (read.code == 1 && read.stderr.contains(&stream)),
                "{what}: {} {}",
                read.code,
                read.stderr
            );
            if cut % 100 == 31 {
                assert_eq!(read.code, 1, "{what}");
            }
        }
    }
}

#[test]
fn flipped_bytes_in_streams() {
    let lab = Lab::new("flipped").within(std::time::Duration::from_secs(900));
    let whole = small_trace(&lab);
    let dir = lab.path("spoiled");
    let mut random = Random::new("flipped", 4);
    let mut noticed = 0;
    let rounds = times(150, 3000);
    for _ in 0..rounds {
        copy(&whole, &dir);
        let streams = names(&whole, "user_");
        let path = dir.join(&streams[random.below(streams.len() as u64) as usize]);
        let mut bytes = std::fs::read(&path).unwrap();
        // Half of them in the first packet's head, where they matter most.
        let bound = if random.below(2) == 0 { 108 } else { bytes.len() as u64 };
        let mut what = String::new();
        for _ in 0..1 + random.below(4) {
            let at = random.below(bound) as usize;
            let flip = 1 << random.below(8);
            bytes[at] ^= flip;
            what += &format!("{at}^{flip} ");
        }
        std::fs::write(&path, bytes).unwrap();
        let read = trace::read(&lab, &dir, &[]);
        survived(&read, &what);
        noticed += usize::from(read.code != 0);
    }
    assert!(noticed > rounds / 5, "{noticed} of {rounds} noticed");
}

#[test]
fn spoiled_packet_heads_are_named() {
    let lab = Lab::new("heads");
    let whole = small_trace(&lab);
    let stream = names(&whole, "user_").pop().unwrap();
    // Magic, UUID, stream id, content size, packet size.
    for at in [0, 5, 20, 48, 56] {
        let dir = lab.path("spoiled");
        copy(&whole, &dir);
        let mut bytes = std::fs::read(dir.join(&stream)).unwrap();
        bytes[at] ^= 0x55;
        std::fs::write(dir.join(&stream), bytes).unwrap();
        let read = trace::read(&lab, &dir, &[]);
        assert_eq!(read.code, 1, "byte {at}: {}", read.stderr);
        assert!(read.stderr.contains(&stream), "byte {at}: {}", read.stderr);
    }
}

#[test]
fn spoiled_metadata() {
    for format in [&[][..], &["--ctf2"]] {
        let lab = Lab::new("metadata").within(std::time::Duration::from_secs(900));
        let program = lab.cc("produce.c");
        let whole = lab.record("whole").args(format).run(&[program.to_str().unwrap(), "1", "10"]).expect(0).dir;
        let metadata = std::fs::read(whole.join("metadata")).unwrap();
        let dir = lab.path("spoiled");
        let mut random = Random::new("metadata", 9);
        let mut failed = 0;
        let rounds = times(100, 2000);
        for round in 0..rounds {
            copy(&whole, &dir);
            let mut bytes = metadata.clone();
            match round % 3 {
                0 => bytes.truncate(random.below(metadata.len() as u64) as usize),
                1 => bytes[random.below(metadata.len() as u64) as usize] ^= 1 << random.below(8),
                _ => {
                    let (from, to) =
                        (random.below(bytes.len() as u64) as usize, random.below(bytes.len() as u64) as usize);
                    drop(bytes.drain(from.min(to)..from.max(to)));
                }
            }
            std::fs::write(dir.join("metadata"), bytes).unwrap();
            let read = trace::read(&lab, &dir, &[]);
            survived(&read, &format!("round {round}"));
            failed += usize::from(read.code != 0);
        }
        assert!(failed > rounds / 3, "{failed} of {rounds} noticed");
        std::fs::remove_file(dir.join("metadata")).unwrap();
        let read = trace::read(&lab, &dir, &[]);
        assert_eq!(read.code, 2, "{}", read.stderr);
    }
}

#[test]
fn metadata_without_streams_and_streams_without_metadata() {
    let lab = Lab::new("half_traces");
    let whole = small_trace(&lab);
    let half = lab.path("metadata-only");
    std::fs::create_dir(&half).unwrap();
    std::fs::copy(whole.join("metadata"), half.join("metadata")).unwrap();
    for args in [&["read"][..], &["read", "--count"], &["stats"]] {
        let said = lab.kymo(&[args, &[half.to_str().unwrap()]].concat()).expect(0).stderr;
        assert!(said.contains("metadata-only has metadata and no stream files, so no records"), "{args:?}: {said}");
    }
    let other = lab.path("streams-only");
    copy(&whole, &other);
    std::fs::remove_file(other.join("metadata")).unwrap();
    let said = lab.kymo(&["read", other.to_str().unwrap()]).expect(2).stderr;
    assert!(said.contains("no file `metadata` in it, so it is not a trace"), "{said}");
}

#[test]
fn files_that_do_not_belong_there() {
    let lab = Lab::new("strangers");
    let whole = small_trace(&lab);
    let all = lab.read("whole").records.len();
    std::fs::write(whole.join("notes.txt"), "a file of somebody").unwrap();
    std::fs::write(whole.join("empty"), "").unwrap();
    let read = trace::read(&lab, &whole, &[]).ordered();
    survived(&read, "strangers");
    assert_eq!((read.code, read.records.len()), (1, all));
    assert!(read.stderr.contains("notes.txt"), "{}", read.stderr);
}

/// A trace that somebody cuts short while it is read: that is damage, and no death by SIGBUS.
#[test]
fn a_stream_that_is_cut_short_while_it_is_read_is_damage() {
    let lab = Lab::new("cut_short");
    let program = lab.cc("produce.c");
    let program = program.to_str().unwrap();
    let recorded = lab.record("trace").args(&["--ring-size", "16M"]).run(&[program, "1", "200000"]).expect(0);
    let files: Vec<_> = std::fs::read_dir(&recorded.dir).unwrap().flatten().map(|entry| entry.path()).collect();
    let dir = recorded.dir.to_str().unwrap();
    // The reader waits in the middle of the trace, because nobody takes what it prints.
    let mut command = lab.command(paths::kymo());
    command.args(["read", dir]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut reader = command.spawn().expect("kymo runs");
    let mut text = BufReader::new(reader.stdout.take().expect("a pipe"));
    text.read_line(&mut String::new()).expect("a line");
    for file in files.iter().filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("user_")) {
        std::fs::File::options().write(true).open(file).unwrap().set_len(4096).unwrap();
    }
    let records = 1 + text.lines().count();
    let output = reader.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    let sizes: Vec<_> = files.iter().map(|path| (path, std::fs::metadata(path).map(|of| of.len()).ok())).collect();
    assert_eq!(output.status.code(), Some(1), "{records} records; {said}; {sizes:?}");
    assert!(said.contains("the file was cut short") && records < 200_000, "{records} records; {said}");
}
