// SPDX-License-Identifier: MIT OR Apache-2.0
//! The line on a terminal that shows how far a query is. A terminal is a pseudo terminal that script(1) makes.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use tempfile::TempDir;

/// Records of a packet, and packets of the trace: progress is told from packet to packet.
const RECORDS: u32 = 500;
const PACKETS: u32 = 400;

const METADATA: &str = "/* CTF 1.8 */
typealias integer { size = 32; } := u32;
typealias integer { size = 64; } := u64;
trace { major = 1; minor = 8; byte_order = le; };
clock { name = c; freq = 1000000000; };
typealias integer { size = 64; map = clock.c.value; } := time;
stream { packet.context := struct { u32 packet_size; u32 content_size; }; event.header := struct { time timestamp; }; };
event { name = \"one\"; fields := struct { u32 n; }; };
";

/// For [`slow`]: a second or two of all records.
const SOME: u32 = 9;

/// Empties the line that the cursor is in.
const CLEAR: &str = "\r\x1b[K";

fn trace() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let mut stream = Vec::new();
    for packet in 0..PACKETS {
        let bits = (8 + RECORDS * 12) * 8;
        stream.extend(bits.to_le_bytes());
        stream.extend(bits.to_le_bytes());
        for n in packet * RECORDS..(packet + 1) * RECORDS {
            stream.extend(u64::from(1000 + n).to_le_bytes());
            stream.extend(n.to_le_bytes());
        }
    }
    std::fs::write(dir.path().join("metadata"), METADATA).unwrap();
    std::fs::write(dir.path().join("s"), stream).unwrap();
    dir
}

/// A query with one row that takes some time for each record, with the square of `times`: reading is no faster than
/// what is computed.
fn slow(times: u32) -> String {
    format!("SELECT max(levenshtein(repeat(fields, {times}), repeat(fields, {times}))) AS answer FROM records")
}

/// `kymo-sql sql TRACE REST` on a terminal.
struct OnTerminal {
    script: Child,
    keys: ChildStdin,
    shown: ChildStdout,
}

impl OnTerminal {
    fn start(trace: &Path, rest: &str) -> OnTerminal {
        // The shell of script(1) is whose it may be, and one that waits for a command ends with a status of its own
        // after Ctrl-C: the command takes its place.
        let line = format!("exec {} sql {} --threads 1 {rest}", env!("CARGO_BIN_EXE_kymo-sql"), trace.display());
        let mut command = Command::new("script");
        command.args(["-qec", &line, "/dev/null"]).env("TERM", "xterm").env("SHELL", "/bin/sh");
        let mut script =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().expect("script(1)");
        let (keys, shown) = (script.stdin.take().unwrap(), script.stdout.take().unwrap());
        OnTerminal { script, keys, shown }
    }

    /// What is shown up to and with a text.
    #[track_caller]
    fn until(&mut self, part: &str) -> String {
        let mut shown = Vec::new();
        let mut byte = [0];
        while !shown.ends_with(part.as_bytes()) {
            let read = self.shown.read(&mut byte).unwrap();
            assert_eq!(read, 1, "no {part:?}: {:?}", String::from_utf8_lossy(&shown));
            shown.push(byte[0]);
        }
        String::from_utf8(shown).unwrap()
    }

    /// What is shown from now on, and the exit status.
    fn finish(mut self) -> (String, Option<i32>) {
        let mut shown = String::new();
        self.shown.read_to_string(&mut shown).unwrap();
        drop(self.keys);
        (shown, self.script.wait().unwrap().code())
    }
}

/// What is left in each line of a terminal on which a text was shown.
fn screen(shown: &str) -> Vec<&str> {
    let left = |line: &'_ str| line.rfind(CLEAR).map_or(0, |at| at + CLEAR.len());
    shown.split("\r\n").map(|line| &line[left(line)..]).filter(|line| !line.is_empty()).collect()
}

#[test]
fn the_line_has_a_share_and_is_gone_before_the_first_row() {
    let dir = trace();
    let (shown, status) = OnTerminal::start(dir.path(), &format!("'{}' --format csv", slow(SOME))).finish();
    assert_eq!((screen(&shown), status), (vec!["answer", "0"], Some(0)), "{shown:?}");
    let lines: Vec<&str> = shown.split("kymo: reading 2.3 MiB: ").skip(1).collect();
    let share = |line: &&str| line.split(' ').next().unwrap().parse::<u32>().unwrap();
    let shares: Vec<u32> = lines.iter().map(share).collect();
    assert!(shares.len() > 1 && shares.is_sorted() && shares.last().unwrap() > &50, "{shares:?} {shown:?}");
    assert!(shown.contains(" s left"), "{shown:?}");
}

#[test]
fn every_query_has_its_line_and_a_file_has_the_rows_alone() {
    let dir = trace();
    let file = dir.path().join("rows.csv");
    let queries = format!("'{0}; {0}' -o {1}", slow(SOME), file.display());
    let (shown, status) = OnTerminal::start(dir.path(), &format!("{queries} --format csv")).finish();
    let expect = format!("kymo: 1 rows in {}", file.display());
    assert_eq!((screen(&shown), status), (vec!["answer", "0", &expect], Some(0)), "{shown:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "answer\n0\n");
    let (first, second) = shown.split_once("0").unwrap();
    assert!(first.contains("kymo: reading") && second.contains("kymo: reading"), "{shown:?}");
    // Standard output that leads elsewhere has rows alone, too.
    let (shown, status) =
        OnTerminal::start(dir.path(), &format!("'{}' --format csv >{}", slow(SOME), file.display())).finish();
    assert!(shown.contains("kymo: reading") && screen(&shown).is_empty() && status == Some(0), "{shown:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "answer\n0\n");
}

#[test]
fn rows_of_a_query_that_goes_on_are_alone_on_the_terminal() {
    let dir = trace();
    let query = slow(SOME).replace("max(", "(").replace("SELECT", "SELECT cpu,");
    for rest in ["", "| cat"] {
        let (shown, status) = OnTerminal::start(dir.path(), &format!("\"{query}\" --format csv {rest}")).finish();
        let (before, rows) = shown.split_once("cpu,answer").unwrap();
        assert!(!rows.contains("kymo:") && !rows.contains('\x1b'), "{rest}: {:?}", &rows[..rows.len().min(2000)]);
        assert_eq!(rows.lines().count(), 1 + (RECORDS * PACKETS) as usize, "{rest}");
        assert!(screen(before).is_empty() && status == Some(0), "{before:?}");
    }
}

#[test]
fn ctrl_c_leaves_a_clean_line() {
    let dir = trace();
    let mut command = OnTerminal::start(dir.path(), &format!("'{}'", slow(40)));
    let mut shown = command.until("kymo: reading 2.3 MiB: ");
    command.keys.write_all(b"\x03").unwrap();
    let (rest, status) = command.finish();
    shown += &rest;
    assert_eq!(status, Some(2), "{shown:?}");
    let left = screen(&shown);
    assert!(matches!(left[..], [line] if line.contains("interrupted: the result is not whole")), "{left:?} {shown:?}");
}

#[test]
fn nothing_is_shown_where_standard_error_is_no_terminal() {
    let dir = trace();
    let mut command = Command::new(env!("CARGO_BIN_EXE_kymo-sql"));
    command.arg("sql").arg(dir.path()).args([&slow(SOME), "--threads", "1", "--format", "csv"]);
    let done = command.stdin(Stdio::null()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    assert_eq!((text(done.stdout), text(done.stderr)), ("answer\n0\n".to_owned(), String::new()));
    // Not either where only rows go to one.
    let errors = dir.path().join("errors");
    let (shown, status) =
        OnTerminal::start(dir.path(), &format!("'{}' --format csv 2>{}", slow(SOME), errors.display())).finish();
    assert_eq!((shown.as_str(), status), ("answer\r\n0\r\n", Some(0)));
    assert_eq!(std::fs::read_to_string(&errors).unwrap(), "");
}
