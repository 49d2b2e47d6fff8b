// SPDX-License-Identifier: MIT OR Apache-2.0
//! A traced program's descriptors are its own [spec/session.md 3]: what daemons, shells and threads do with every
//! number, with the helper thread's own descriptor table, without one, and without a helper thread.

use std::path::{Path, PathBuf};

use kymo_tests::session::Session;
use kymo_tests::{Lab, Proc, Ring, trace};

/// How programs make room among their descriptors.
const WAYS: [&str; 5] = ["keep", "close", "closefrom", "close_range", "dup2"];

/// What libkymo can do about its own descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Table {
    /// The helper thread has a table of its own.
    Own,
    /// It shares the program's: close_range(2) is not there.
    Shared,
    /// There is no helper thread.
    NoThread,
}

const TABLES: [Table; 3] = [Table::Own, Table::Shared, Table::NoThread];

struct Programs {
    descriptors: PathBuf,
    launcher: PathBuf,
}

fn programs(lab: &Lab) -> Programs {
    Programs { descriptors: lab.cc("descriptors.c"), launcher: lab.cc("without_close_range.c") }
}

impl Programs {
    /// The words of a command that runs descriptors.c so.
    fn command<'a>(&'a self, table: Table, args: &[&'a str]) -> Vec<&'a str> {
        let text = |path: &'a Path| path.to_str().expect("UTF-8");
        let mut words = match table {
            Table::Own => Vec::new(),
            Table::Shared => vec![text(&self.launcher)],
            Table::NoThread => vec!["/usr/bin/env", "KYMO_NO_THREAD=1"],
        };
        words.push(text(&self.descriptors));
        words.extend(args);
        words
    }

    fn start(&self, lab: &Lab, table: Table, args: &[&str]) -> Proc {
        let words = self.command(table, args);
        lab.spawn(words[0], &words[1..])
    }
}

#[test]
fn a_session_that_ends_leaves_every_descriptor_alone() {
    for ring in Ring::BOTH {
        let mut lab = Lab::new("descriptors_session");
        lab.ring(ring);
        let programs = programs(&lab);
        for (table, how) in TABLES.iter().flat_map(|table| WAYS.map(|how| (*table, how))) {
            let name = format!("{table:?}_{how}").to_lowercase();
            let session = Session::start(&lab, &name, &["-u", "fds:*", "--ring-size", "256K"]);
            let mut program = programs.start(&lab, table, &[how]);
            program.until("ready");
            session.ask(&["disable", "fds:child"]);
            session.ask(&["enable", "fds:child"]);
            session.ask(&["stop"]);
            program.say("go");
            assert_eq!(program.line(), "bad 0", "{ring:?} {table:?} {how}");
            program.say("end");
            program.wait().expect(0);
        }
    }
}

#[test]
fn every_record_is_there_whatever_the_program_closes() {
    for ring in Ring::BOTH {
        let mut lab = Lab::new("descriptors_records");
        lab.ring(ring);
        let programs = programs(&lab);
        for (table, how) in TABLES.iter().flat_map(|table| WAYS.map(|how| (*table, how))) {
            let name = format!("{table:?}_{how}").to_lowercase();
            let words = programs.command(table, &[how, "2000"]);
            let mut recording = lab.record(&name).args(&["--ring-size", "1M"]).start(&words);
            recording.proc().until("ready");
            recording.proc().say("go");
            assert_eq!(recording.proc().line(), "bad 0", "{ring:?} {table:?} {how}");
            recording.proc().say("end");
            let recorded = recording.wait().lossless();
            let read = recorded.read(&lab);
            let count = |event: &str| read.of(event).count();
            // A child without a helper thread, with the portable ring, attaches by itself.
            assert_eq!((count("fds:parent"), count("fds:child")), (2000, 4000), "{ring:?} {table:?} {how}");
            trace::assert_counts_up(&read.numbers("fds:parent", "n"), 2000);
        }
    }
}

#[test]
fn a_program_has_no_descriptor_more_than_without_a_session() {
    for ring in Ring::BOTH {
        let mut lab = Lab::new("descriptors_list");
        lab.ring(ring);
        let programs = programs(&lab);
        let list = |lab: &Lab| {
            let mut program = programs.start(lab, Table::Own, &["list"]);
            let line = program.line();
            program.until("ready");
            program.say("go");
            program.until("bad 0");
            program.say("end");
            program.wait().expect(0);
            line
        };
        let before = list(&lab);
        let session = Session::start(&lab, "list", &["-u", "fds:*", "--ring-size", "256K"]);
        assert_eq!(list(&lab), before, "{ring:?}");
        session.ask(&["stop"]);
    }
}

#[test]
fn closed_standard_descriptors_stay_closed() {
    for (ring, table) in Ring::BOTH.iter().flat_map(|ring| TABLES.map(|table| (*ring, table))) {
        let mut lab = Lab::new("descriptors_bare");
        lab.ring(ring);
        let programs = programs(&lab);
        let file = lab.path("open");
        let words = programs.command(table, &["bare", file.to_str().unwrap()]);
        let line = format!("exec {} <&- >&- 2>&-", words.join(" "));
        let recorded = lab.record("bare").args(&["--ring-size", "256K"]).run(&["/bin/sh", "-c", &line]);
        let read = recorded.expect(0).lossless().read(&lab);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "open 0\n", "{ring:?} {table:?}");
        trace::assert_counts_up(&read.numbers("fds:parent", "n"), 1000);
    }
}

/// Writes through seven descriptors, from subshells: each line that is missing was written into somebody else's file.
const SCRIPT: &str = r#"
cd "$1" || exit 1
exec 3>o3 4>o4 5>o5 6>o6 7>o7 8>o8 9>o9
for round in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
	for fd in 3 4 5 6 7 8 9; do
		( x=$(echo hi); eval "echo $round >&$fd" ) || echo failed
	done
done
exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-
cat o3 o4 o5 o6 o7 o8 o9
"#;

/// What a configure script does: a log on 5, messages on 6, here-documents, subshells, and programs that fail.
const CONFIGURE: &str = r##"
cd "$1" || exit 1
exec 5>config.log 6>&1
for name in a b c d e f g h; do
	echo "checking for $name" >&6
	cat >conftest.c <<-END
		int main(void) { return ${#name} - 1; }
	END
	( cat conftest.c | sed "s/main/$name/" >&5 ) 2>&1
	if ( exec 7<conftest.c; read line <&7; test -n "$line"; exit $? ) 2>/dev/null; then echo "yes" >&6; else echo "no" >&6; fi
	exec 8>&1 >&5; echo "found $name"; exec 1>&8 8>&-
done
exec 5>&-
cat config.log
"##;

#[test]
fn shell_scripts_write_where_they_mean_to() {
    let lab = Lab::new("descriptors_shell");
    for (name, script) in [("script", SCRIPT), ("configure", CONFIGURE)] {
        let file = lab.write(&format!("{name}.sh"), script);
        for shell in ["bash", "dash"] {
            let work = lab.path(&format!("{name}_{shell}"));
            std::fs::create_dir(&work).unwrap();
            let words = ["/usr/bin/env", shell, file.to_str().unwrap(), work.to_str().unwrap()];
            let expected = lab.run(words[0], &words[1..]).expect(0).stdout;
            assert!(expected.lines().count() > 30, "{expected}");
            for round in 0..3 {
                let trace = format!("{name}_{shell}_{round}");
                let recorded = lab.record(&trace).args(&["--with", "malloc", "--memory", "4G"]).run(&words);
                let recorded = recorded.expect(0).lossless();
                assert_eq!(recorded.outcome.stdout, expected, "{name} {shell}");
                assert!(recorded.records() > 1000);
            }
        }
    }
}
