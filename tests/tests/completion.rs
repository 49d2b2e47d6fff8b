// SPDX-License-Identifier: MIT OR Apache-2.0
//! Completion in shells: sessions, events, groups and processes that there are now; quick, and silent about errors.

use std::process::Stdio;

use kymo_tests::{Lab, has, session, skip};

/// What follows on a line: the candidates, and the last word of what the shell completes itself.
fn complete(lab: &Lab, line: &str) -> (Vec<String>, Option<String>) {
    let outcome = lab.kymo(&["__complete", "--line", line]).expect(0);
    assert_eq!(outcome.stderr, "", "{line}");
    let mut candidates = Vec::new();
    let mut rest = None;
    for line in outcome.stdout.lines() {
        match line.strip_prefix(':') {
            Some(directive) => rest = Some(directive.to_owned()),
            None if line.starts_with('=') => {}
            None => candidates.push(line.split('\t').next().unwrap_or_default().to_owned()),
        }
    }
    (candidates, rest)
}

#[test]
fn what_runs_is_completed() {
    let lab = Lab::new("completion");
    let runner = session::runner(&lab);
    let started = session::Session::start(&lab, "motor", &[]);
    let of = |line: &str| complete(&lab, line).0;
    assert_eq!(of("kymo session stop mo"), ["motor"]);
    assert_eq!(of("kymo mark --session "), ["motor"]);
    // A program that a busy machine holds up is left out of an answer.
    for line in ["kymo record -u runner:r", "kymo session enable motor 'runner:"] {
        lab.wait_for("the event of the program", || (of(line) == ["runner:rec"]).then_some(()));
    }
    let pid = runner.pid().to_string();
    let processes = lab.kymo(&["__complete", "--line", "kymo record -p "]).expect(0).stdout;
    assert!(processes.lines().any(|line| line == format!("{pid}\trunner")), "no {pid} in {processes}");
    assert!(of("kymo record -k sch").contains(&"sched".to_owned()));
    if let Ok(events) = kymo_tracefs::Tracefs::find().and_then(|tracefs| tracefs.events()) {
        assert!(events.iter().any(|event| event.name == "sched_switch"));
        assert!(of("kymo record -k irq,sched:sched_sw").contains(&"irq,sched:sched_switch".to_owned()));
    } else {
        skip(lab.name(), "tracefs cannot be read: events of the kernel");
    }
    drop(started);
}

#[test]
fn events_of_a_trace_are_completed() {
    let lab = Lab::new("completion_trace");
    let program = lab.cc_text(
        "two",
        "#include <kymo/tracepoint.h>\nKYMO_EVENT(two, one, (u32, n))\nKYMO_EVENT(two, other, (u32, n))\n\
         int main(void) { kymo_trace(two, one, 1); kymo_trace(two, other, 2); return 0; }\n",
    );
    let dir = lab.path("t");
    lab.kymo(&["record", "-q", "-o", dir.to_str().unwrap(), "--", program.to_str().unwrap()]).expect(0);
    let (events, rest) = complete(&lab, &format!("kymo stats {} --event two:o", dir.display()));
    assert_eq!((events, rest), (vec!["two:one".to_owned(), "two:other".to_owned()], None));
    let (names, _) = complete(&lab, &format!("kymo stats {} --process tw", dir.display()));
    assert_eq!(names, ["two"]);
    let (threads, _) = complete(&lab, &format!("kymo read {} --thread ", dir.display()));
    let number = threads.iter().filter(|word| word.parse::<u32>().is_ok()).count();
    assert!(number == 1 && threads.contains(&"two".to_owned()), "{threads:?}");
    let (none, rest) = complete(&lab, "kymo stats ");
    assert_eq!((none, rest.as_deref()), (vec![], Some("dirs")));
}

#[test]
fn errors_are_silent() {
    let lab = Lab::new("completion_errors");
    for line in [
        "",
        "kymo",
        "kymo nonsense ",
        "kymo stats /no/such/trace --event ",
        "kymo session stop ",
        "kymo read --no-such ",
        "kymo record -u '",
        "kymo session enable ",
        "kymo export --format=",
        "kymo -",
        "kymo __complete ",
    ] {
        complete(&lab, line);
    }
    // A runtime directory that cannot be used.
    let mut command = lab.command(kymo_tests::paths::kymo());
    command.args(["__complete", "--line", "kymo session stop "]).env("KYMO_RUNTIME_DIR", "/proc/no");
    let outcome = lab.start(command).wait().expect(0);
    assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("=\n", ""));
}

/// By the processor's time: how long the machine let it wait is not its own.
#[test]
fn a_completion_takes_less_than_50_ms() {
    let lab = Lab::new("completion_time");
    let _runner = session::runner(&lab);
    for line in ["kymo record -u ", "kymo record -k sched", "kymo session stop ", "kymo record -p ", "kymo re"] {
        let best = (0..5).map(|_| cpu_us(&lab, line)).min().unwrap_or(u64::MAX);
        assert!(best < 50_000, "{line}: {best} us");
    }
}

/// Microseconds of processor time, in user space and in the kernel.
fn cpu_us(lab: &Lab, line: &str) -> u64 {
    let mut command = lab.command(kymo_tests::paths::kymo());
    command.args(["__complete", "--line", line]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    #[allow(clippy::zombie_processes, reason = "wait4 reaps it")]
    let child = command.spawn().expect("kymo can be run");
    // SAFETY: `usage` and `status` are valid places for the results; the process is our child and not reaped yet.
    let usage = unsafe {
        let (mut status, mut usage) = (0, std::mem::zeroed::<libc::rusage>());
        assert_eq!(libc::wait4(child.id() as i32, &mut status, 0, &mut usage), child.id() as i32);
        assert_eq!(status, 0, "{line}");
        usage
    };
    let us = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
    us(usage.ru_utime) + us(usage.ru_stime)
}

/// What the scripts make of the answers; colons cut words of bash.
#[test]
fn shells_complete() {
    let lab = Lab::new("completion_shells");
    let docs = lab.path("docs");
    lab.kymo(&["docs", docs.to_str().unwrap()]).expect(0);
    let _runner = session::runner(&lab);
    let kymo = kymo_tests::paths::kymo();
    let path = format!("{}:{}", kymo.parent().unwrap().display(), std::env::var("PATH").unwrap_or_default());
    let bash = |line: &str, words: &str| {
        let script = format!(
            "source {}/bash/kymo.bash; COMP_LINE={line:?}; COMP_POINT=${{#COMP_LINE}}; COMP_WORDS=({words}); \
             COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _kymo; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            docs.display()
        );
        let mut command = lab.command("bash");
        command.args(["-c", &script]).env("PATH", &path);
        lab.start(command).wait().expect(0).stdout
    };
    assert_eq!(bash("kymo crit", "kymo crit"), "critical\n");
    // A program that a busy machine holds up is left out of an answer.
    let answers = |line: &str, words: &str, expect: &str| {
        lab.wait_for("an answer of bash", || (bash(line, words) == expect).then_some(()));
    };
    answers("kymo record -u runner:r", "kymo record -u runner : r", "rec\n");
    answers("kymo record -u 'runner:r", "kymo record -u \"'runner:r\"", "runner:rec\n");
    assert_eq!(bash("kymo export t --format=cs", "kymo export t --format = cs"), "csv\n");
    for (shell, script) in [("zsh", "zsh/_kymo"), ("fish", "fish/kymo.fish")] {
        if !has(shell) {
            skip(lab.name(), &format!("{shell} is not installed"));
            continue;
        }
        let mut command = lab.command(shell);
        command.arg("-n").arg(docs.join(script));
        assert_eq!(lab.start(command).wait().expect(0).stderr, "", "{shell}");
    }
    if has("fish") {
        let script = format!("source {}/fish/kymo.fish; complete -C 'kymo record -u runner:r'", docs.display());
        // As in bash: a program that a busy machine holds up is left out.
        lab.wait_for("an answer of fish", || {
            let mut command = lab.command("fish");
            command.args(["-c", &script]).env("PATH", &path).env("HOME", lab.path(""));
            let shown = lab.start(command).wait().expect(0).stdout;
            shown.lines().any(|line| line.starts_with("runner:rec\t")).then_some(())
        });
    }
}
