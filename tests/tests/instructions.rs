// SPDX-License-Identifier: MIT OR Apache-2.0
//! What reading costs: instructions for each further record, counted by cachegrind. The counts do not depend on what
//! else the machine does. A bound is a fifth above what was measured last; who makes reading dearer sees it here.

use kymo_tests::Lab;

/// Arguments of `kymo` in front of the trace, and the most instructions that a record may cost. An index comes last:
/// the others would use it.
const BOUNDS: [(&[&str], u64); 4] = [
    (&["read", "--count"], 320),
    (&["read", "--count", "--filter", "n % 2 == 1"], 1900),
    (&["read"], 2350),
    (&["index"], 840),
];

/// Records of the two traces.
const RECORDS: [u64; 2] = [20_000, 60_000];

const PROGRAM: &str = r#"
#include "common.h"
KYMO_EVENT(cost, tick, (u32, n), (f64, value), (str, text))
int main(int argc, char **argv)
{
	if (argc != 2)
		return 1;
	for (int i = 0; i < atoi(argv[1]); i++)
		kymo_trace(cost, tick, i, i * 0.5, "some text");
	return 0;
}
"#;

/// Instructions of a command of kymo, threads included.
fn instructions(lab: &Lab, args: &[&str]) -> u64 {
    let mut command = lab.command("valgrind");
    command.args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]);
    command.arg(kymo_tests::paths::kymo()).args(args);
    let said = lab.start(command).wait().expect(0).stderr;
    let line = said.lines().find(|line| line.contains("I   refs:") || line.contains("I refs:"));
    let line = line.unwrap_or_else(|| panic!("no count of instructions: {said}"));
    line.rsplit(':').next().unwrap().trim().replace(',', "").parse().expect("a number")
}

#[test]
fn what_a_record_costs_to_read_and_to_index() {
    if std::process::Command::new("valgrind").arg("--version").output().is_err() {
        return kymo_tests::skip_this("no valgrind");
    }
    let lab = Lab::new("instructions");
    let program = lab.cc_text("cost", PROGRAM);
    let dirs = RECORDS.map(|records| {
        let name = format!("of_{records}");
        let args = ["--ring-size", "64M"];
        let recorded = lab.record(&name).args(&args).run(&[program.to_str().unwrap(), &records.to_string()]);
        assert_eq!(recorded.expect(0).lossless().records(), records);
        lab.path(&name).to_str().unwrap().to_owned()
    });
    for (args, bound) in BOUNDS {
        let counts = dirs.each_ref().map(|dir| instructions(&lab, &[args, &[dir.as_str()]].concat()));
        let each = (counts[1] - counts[0]) / (RECORDS[1] - RECORDS[0]);
        eprintln!("{args:?}: {each} instructions a record");
        assert!(each <= bound && each > bound / 4, "{args:?}: {each} instructions a record, {bound} at most");
    }
}
