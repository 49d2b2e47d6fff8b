// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is for a terminal alone: colours, the pager, progress. A terminal is a pseudo-terminal that script(1) makes.

use std::path::{Path, PathBuf};

use kymo_tests::{Lab, Outcome};

/// Records of the trace: more text than a pipe holds.
const RECORDS: usize = 4000;
/// How the name of an event begins in colour.
const NAME: &str = "\x1b[36m";

fn trace(lab: &Lab) -> PathBuf {
    let program = lab.cc_text(
        "many",
        &format!(
            "#include <kymo/tracepoint.h>\nKYMO_EVENT(many, one, (u32, n))\n\
             int main(void) {{ for (unsigned n = 0; n < {RECORDS}; n++) kymo_trace(many, one, n); return 0; }}\n"
        ),
    );
    let dir = lab.path("t");
    let words = ["record", "-q", "-o", dir.to_str().unwrap(), "--", program.to_str().unwrap()];
    lab.kymo(&words).expect(0);
    dir
}

/// `kymo LINE` on a terminal.
fn on_terminal(lab: &Lab, line: &str, environment: &[(&str, &str)]) -> Outcome {
    let mut command = lab.command("script");
    let kymo = kymo_tests::paths::kymo();
    command.args(["-qec", &format!("{} {line}", kymo.display()), "/dev/null"]);
    command.env("TERM", "xterm").env_remove("NO_COLOR").env_remove("PAGER").env_remove("LESS");
    command.envs(environment.iter().copied());
    lab.start(command).wait()
}

fn read(dir: &Path, options: &str) -> String {
    format!("read {} {options}", dir.display())
}

#[test]
fn colours_are_for_terminals_and_can_be_switched_off() {
    let lab = Lab::new("colours");
    let dir = trace(&lab);
    let check = |options: &str, environment: &[(&str, &str)], expect: bool| {
        let shown = on_terminal(&lab, &read(&dir, &format!("--no-pager --limit 3 {options}")), environment).expect(0);
        assert_eq!(shown.stdout.matches("many:one").count(), 3, "{}", shown.stdout);
        assert_eq!(shown.stdout.contains(NAME), expect, "{options} {environment:?}: {}", shown.stdout);
    };
    check("", &[], true);
    check("", &[("NO_COLOR", "1")], false);
    check("", &[("TERM", "dumb")], false);
    check("--color never", &[], false);
    check("--color always", &[("NO_COLOR", "1")], true);
    let dir = dir.to_str().unwrap();
    assert!(!lab.kymo(&["read", dir, "--limit", "3"]).expect(0).stdout.contains('\x1b'));
    assert!(lab.kymo(&["read", dir, "--limit", "3", "--color", "always"]).expect(0).stdout.contains(NAME));
    // JSON has none, whatever is said.
    assert!(!lab.kymo(&["read", dir, "--json", "--color", "always"]).expect(0).stdout.contains('\x1b'));
}

#[test]
fn the_pager_is_for_terminals_and_can_be_chosen() {
    let lab = Lab::new("pager");
    let dir = trace(&lab);
    let paged = |options: &str, environment: &[(&str, &str)]| {
        on_terminal(&lab, &read(&dir, &format!("--limit 5 {options}")), environment).expect(0).stdout
    };
    let by = |pager: &'static str| ("KYMO_PAGER", pager);
    assert_eq!(paged("", &[by("sed s/^/PAGED:/")]).matches("PAGED:").count(), 5);
    assert_eq!(paged("", &[("PAGER", "sed s/^/PAGED:/")]).matches("PAGED:").count(), 5);
    assert_eq!(paged("", &[("PAGER", "sed s/^/OTHER:/"), by("sed s/^/PAGED:/")]).matches("PAGED:").count(), 5);
    for (options, pager) in [("--no-pager", "sed s/^/PAGED:/"), ("", "cat"), ("", ""), ("", "no-such-pager")] {
        let shown = paged(options, &[by(pager)]);
        assert!(!shown.contains("PAGED:") && shown.matches("many:one").count() == 5, "{options} {pager}: {shown}");
    }
    // What the usual pager is told: quit if it fits, keep colours.
    assert!(paged("", &[by("sh -c 'echo LESS=$LESS; cat'")]).contains("LESS=FRX"));
    assert!(paged("", &[by("sh -c 'echo LESS=$LESS; cat'"), ("LESS", "-i")]).contains("LESS=-i"));
    // Messages go through the pager too, behind the text.
    let shown = paged("--event none:* --event many:*", &[by("sed s/^/PAGED:/")]);
    assert!(shown.contains("no event of the trace matches \"none:*\""), "{shown}");
    let mut command = lab.command(kymo_tests::paths::kymo());
    command.arg("read").arg(&dir).env("KYMO_PAGER", "sed s/^/PAGED:/");
    assert!(!lab.start(command).wait().expect(0).stdout.contains("PAGED:"));
}

#[test]
fn a_pager_that_quits_ends_kymo_without_an_error() {
    let lab = Lab::new("pager_quits");
    let dir = trace(&lab);
    for verb in ["read", "read --json", "list -k"] {
        let line = match verb {
            "list -k" => verb.to_owned(),
            verb => format!("{verb} {}", dir.display()),
        };
        let shown = on_terminal(&lab, &line, &[("KYMO_PAGER", "head -n 1")]);
        // Where tracefs cannot be read, `list -k` has its own error.
        assert!(shown.code == 0 || verb == "list -k", "{verb}: {} {}", shown.code, shown.stdout);
        assert!(shown.stdout.lines().count() <= 1, "{verb}: {}", shown.stdout);
        assert!(!shown.stdout.contains("Broken pipe") && !shown.stdout.contains("panicked"), "{}", shown.stdout);
    }
}

/// That a line of progress had a share and the time left, and that it was removed at the end.
#[track_caller]
fn assert_progress(shown: &str) {
    assert!(shown.contains(" %, ") && shown.contains(" s left"), "{shown:?}");
    let last = shown.rfind("left").expect("a line of progress");
    assert!(shown[last..].contains("\r\x1b[K"), "{shown:?}");
}

#[test]
fn progress_has_a_share_and_the_time_left() {
    let lab = Lab::new("progress");
    assert_progress(&on_terminal(&lab, "load none -d 2s", &[]).expect(0).stdout);
    let outcome = lab.kymo(&["load", "none", "-d", "1s"]).expect(0);
    assert!(!outcome.stderr.contains('%') && !outcome.stderr.contains('\x1b'), "{}", outcome.stderr);
}

#[test]
fn tests_of_the_laboratory_show_how_much_of_their_time_is_over() {
    let lab = Lab::new("progress_probe");
    let line = |verb: &str| format!("{verb} -d 2s --best-effort -o {}", lab.path("result.json").display());
    for verb in ["wakeup --interval 10ms", "npt -c 0"] {
        assert_progress(&on_terminal(&lab, &line(verb), &[]).expect(0).stdout);
    }
    let outcome = lab.kymo(&["wakeup", "--interval", "10ms", "-d", "1s", "--best-effort"]).expect(0);
    assert!(!outcome.stderr.contains(" left") && !outcome.stderr.contains('\x1b'), "{}", outcome.stderr);
}

#[test]
fn an_import_shows_how_much_of_its_file_is_done() {
    let lab = Lab::new("progress_import");
    let line = |n: u64| {
        format!(
            "            prog-{}     [000] d..2.  {}.{:06}: sched_wakeup: comm=a pid=9 prio=120 target_cpu=000\n",
            100 + n % 9,
            n / 1000,
            n % 1000
        )
    };
    let head = "# tracer: nop\n#\n";
    let text: String = std::iter::once(head.to_owned()).chain((0..3_000_000).map(line)).collect();
    let file = lab.path("trace.txt");
    std::fs::write(&file, text).unwrap();
    let import = format!("import {} -o {}", file.display(), lab.path("t").display());
    let shown = on_terminal(&lab, &import, &[]).expect(0).stdout;
    assert_progress(&shown);
    assert!(shown.contains("3000000 records"), "{shown:?}");
    // It goes on from the first reading to the second: the share never goes back.
    let shares =
        shown.split(" million records: ").skip(1).filter_map(|rest| rest.split(' ').next()?.parse::<u32>().ok());
    let shares: Vec<u32> = shares.collect();
    assert!(shares.is_sorted() && shares.iter().any(|share| *share > 50), "{shares:?}");
}
