// SPDX-License-Identifier: MIT OR Apache-2.0
//! Marks: by `kymo mark`, by the file `$KYMO_MARK`, and by who sends what is none.

use std::os::unix::net::UnixDatagram;

use kymo_tests::{Kernel, Lab, Random, Record, babeltrace, times};
use rustix::process::Signal;

fn text(record: &Record) -> &str {
    record.fields["text"].as_str().unwrap_or_else(|| panic!("no text in {record:?}"))
}

#[test]
fn without_a_session() {
    let lab = Lab::new("mark_none");
    let outcome = lab.kymo(&["mark", "nobody hears"]).expect(1);
    super::says(&outcome.stderr, &["no session", "kymo record"]);
    lab.kymo(&["mark"]).expect(2);
}

/// A session without a kernel takes marks too; their order among the program's records is that of time.
#[test]
fn among_the_records_of_a_program() {
    let lab = Lab::new("mark_user");
    let mut proc = lab.spawn(lab.cc("runner.c"), &[]);
    proc.until("ready");
    let recording = lab.record("trace").args(&["-p", &proc.pid().to_string(), "--ring-size", "1M"]).attach();
    for (order, until) in [("enabled", "enabled"), ("burst 10", "done")] {
        proc.say(order);
        proc.until(until);
    }
    let said = lab.kymo(&["mark", "in", "the middle: ünïcode \"quoted\""]).expect(0);
    super::says(&said.stderr, &["marked 1 session"]);
    proc.say("burst 10");
    proc.until("done");
    let recorded = recording.end(Signal::INT).expect(0).lossless();
    let read = recorded.read(&lab);
    let events: Vec<&str> = read.records.iter().map(|record| record.event.as_str()).collect();
    assert_eq!(events.iter().position(|event| *event == "kymo_mark"), Some(10), "{events:?}");
    assert_eq!((events.len(), text(&read.records[10])), (21, "in the middle: ünïcode \"quoted\""));
    // Who marks is who runs the command: this process.
    let name = std::fs::read_to_string("/proc/self/comm").unwrap();
    assert_eq!(read.records[10].fields["procname"], name.trim_end());
    babeltrace::agrees(&lab, &recorded.dir, &read);
}

#[test]
fn two_sessions_and_one_of_them() {
    let lab = Lab::new("mark_two");
    let mut sessions = ["first", "second"].map(|name| lab.record(name).attach());
    let second = sessions[1].proc().pid().to_string();
    super::says(&lab.kymo(&["mark", "both"]).expect(0).stderr, &["marked 2 sessions"]);
    lab.kymo(&["mark", "-q", "--session", &second, "second only"]).expect(0);
    lab.kymo(&["mark", "--session", "1", "none"]).expect(1);
    let expect = [&["both"][..], &["both", "second only"]];
    for (session, expect) in sessions.into_iter().zip(expect) {
        let recorded = session.end(Signal::INT).expect(0);
        let read = recorded.read(&lab);
        assert_eq!(read.of("kymo_mark").map(text).collect::<Vec<_>>(), expect);
    }
}

#[test]
fn among_the_records_of_a_kernel() {
    let Some(kernel) = Kernel::find("mark_kernel") else { return };
    let lab = Lab::new("mark_kernel");
    let program = lab.cc("calls.c");
    let mut proc = lab.spawn(&program, &["numbers", "5"]);
    proc.until("ready");
    let pid = proc.pid().to_string();
    let recording = lab
        .record("trace")
        .args(&["--only", "-p", &pid, "-k", kymo_tests::kernel::NUMBERS, "--state", "none"])
        .attach();
    lab.kymo(&["mark", "before"]).expect(0);
    proc.say("go");
    proc.until("done");
    lab.kymo(&["mark", "after"]).expect(0);
    let recorded = recording.end(Signal::INT).expect(0);
    kernel.assert_clean(recorded.pid);
    let read = recorded.read(&lab);
    let events: Vec<&str> = read.records.iter().map(|record| record.event.as_str()).collect();
    let mut expect = vec!["syscall_entry_close"; 7];
    (expect[0], expect[6]) = ("kymo_mark", "kymo_mark");
    assert_eq!(events, expect);
    babeltrace::agrees(&lab, &recorded.dir, &read);
}

/// The first line of a mark ends with the name of who sends it, and names may have a newline.
#[test]
fn a_sender_with_a_newline_in_its_name() {
    let lab = Lab::new("mark_newline");
    let shell = lab.path("new\nline");
    kymo_testing::copy_program("/bin/sh".as_ref(), &shell);
    let session = lab.record("trace").attach();
    let script = format!("{} mark -q 'the text'; exit 0", kymo_tests::paths::kymo().display());
    lab.run(&shell, &["-c", &script]).expect(0);
    let recorded = session.end(Signal::INT).expect(0);
    let read = recorded.read(&lab);
    assert_eq!(read.of("kymo_mark").map(text).collect::<Vec<_>>(), ["the text"]);
}

/// `$KYMO_MARK` is written from a shell and from several processes at once; the kernel stamps it.
#[test]
fn the_file_in_the_environment() {
    let Some(kernel) = Kernel::find("mark_file") else { return };
    let lab = Lab::new("mark_file");
    let script = "for n in 1 2 3; do echo \"mark $n\" >$KYMO_MARK; done; printf 'no newline' >$KYMO_MARK; \
                  sh -c 'echo child >$KYMO_MARK'";
    let recorded = lab.record("trace").args(&["--only", "-k", "mark", "--state", "none"]).run(&["sh", "-c", script]);
    let recorded = recorded.expect(0);
    kernel.assert_clean(recorded.pid);
    let read = recorded.read(&lab);
    let texts: Vec<&str> =
        read.of("lttng_logger").map(|record| record.fields["msg"].as_str().unwrap().trim_end()).collect();
    assert_eq!(texts, ["mark 1", "mark 2", "mark 3", "no newline", "child"]);
    babeltrace::agrees(&lab, &recorded.dir, &read);
}

/// Without a kernel the file leads to the collector, which stamps each line when it comes.
#[test]
fn the_file_without_a_kernel() {
    let lab = Lab::new("mark_pipe");
    let program = lab.cc("produce.c");
    let script = format!(
        "for n in 1 2 3; do echo \"mark $n\" >$KYMO_MARK; done; {} 1 5 8; printf 'no newline' >>$KYMO_MARK; sleep 0.2; \
         sh -c 'printf \"a\\n\\nb\\n\" >$KYMO_MARK'",
        program.display()
    );
    let recorded = lab.record("trace").run(&["sh", "-c", &script]).expect(0);
    let read = recorded.read(&lab);
    let texts: Vec<&str> = read.of("kymo_mark").map(text).collect();
    assert_eq!(texts, ["mark 1", "mark 2", "mark 3", "no newline", "a", "b"]);
    babeltrace::agrees(&lab, &recorded.dir, &read);
    // A program that writes many is not held up, and loses none.
    let script = "n=0; while [ $n -lt 2000 ]; do echo \"mark $n\"; n=$((n + 1)); done >$KYMO_MARK; echo written";
    let recorded = lab.record("many").run(&["sh", "-c", script]).expect(0);
    assert_eq!(recorded.outcome.stdout, "written\n");
    let read = recorded.read(&lab);
    let expect: Vec<String> = (0..2000).map(|n| format!("mark {n}")).collect();
    assert_eq!(read.of("kymo_mark").map(text).collect::<Vec<_>>(), expect);
}

/// The collector is killed: who writes to the file is told, and does not wait for a reader that never comes.
#[test]
fn the_file_of_a_dead_collector() {
    let lab = Lab::new("mark_dead");
    let script = "echo $KYMO_MARK; read go; echo late >$KYMO_MARK || echo refused; echo goes on";
    let mut session = lab.record("trace").start(&["sh", "-c", script]);
    let marker = session.proc().line();
    assert!(std::path::Path::new(&marker).exists(), "{marker}");
    session.proc().signal(Signal::KILL);
    lab.wait_for("the path is gone", || (!std::path::Path::new(&marker).exists()).then_some(()));
    session.proc().say("now");
    assert_eq!(
        (session.proc().until("refused"), session.proc().until("goes on")),
        ("refused".into(), "goes on".into())
    );
}

/// Random bytes, lies about the time, and more than anyone can take: the session goes on, and each mark is a record.
#[test]
fn datagrams_that_are_no_marks() {
    let lab = Lab::new("mark_hostile");
    let mut random = Random::new("mark_hostile", 91);
    let mut recording = lab.record("trace").attach();
    let pid = recording.proc().pid();
    let path = lab.wait_for("the socket of marks", || lab.sockets("m.").pop());
    let socket = UnixDatagram::unbound().unwrap();
    socket.set_nonblocking(true).unwrap();
    let mut sent = 0;
    let mut send = |bytes: &[u8]| sent += u64::from(socket.send_to(bytes, &path).is_ok());
    for length in [0, 1, 2, 11, 12, 13, 100, 4095, 4096, 4097, 65_535, 65_536, 100_000] {
        send(&random.bytes(length));
        std::thread::yield_now();
    }
    for lie in [
        "kymo-mark 1 tsc 18446744073709551615 1 1 future\nx",
        "kymo-mark 1 tsc 0 1 1 past\nx",
        "kymo-mark 1 tsc -5 -1 99999999999 \nx",
        "kymo-mark 1 monotonic 12345 1 1 other\nx",
        "kymo-mark 1 sundial 12 1 1 other\nx",
        "kymo-mark 1 \n",
        "kymo-mark 1 tsc",
        "\0\0\0\n",
    ] {
        send(lie.as_bytes());
    }
    for _ in 0..times(200_000, 3_000_000) {
        let length = random.below(64) as usize;
        send(&random.bytes(length));
    }
    // The queue is emptied, and a mark of good faith is taken.
    lab.wait_for("a mark is taken", || (lab.kymo(&["mark", "-q", "still here"]).code == 0).then_some(()));
    let recorded = recording.end(Signal::INT).expect(0);
    assert_eq!(recorded.pid, pid);
    assert_eq!(recorded.summary["damage"], serde_json::json!([]));
    let read = recorded.read(&lab);
    let marks = read.of("kymo_mark").count() as u64;
    // A datagram of zero bytes may be taken for none; refused ones were never sent.
    assert!(marks <= sent + 1 && marks + 2 > sent, "{marks} marks, {sent} datagrams taken");
    assert_eq!(text(read.of("kymo_mark").last().unwrap()), "still here");
    let (start, end) = (recorded.summary["start"].as_u64().unwrap(), recorded.summary["end"].as_u64().unwrap());
    assert!(read.records.iter().all(|record| (start..=end).contains(&record.cycles)));
    // babeltrace2 shows an empty text, or one that begins with NUL, as that of the record before: no comparison.
}
