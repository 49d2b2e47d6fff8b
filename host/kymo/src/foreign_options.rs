// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options of cyclictest, oslat, hwlatdetect and rtla that people type at the latency tests: what has the same purpose
//! here. One table for all verbs of the laboratory; it is read only where an option is refused.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, Error};

/// Verbs at which these options are typed.
const VERBS: [&str; 9] = ["wakeup", "npt", "hwlat", "preempt", "pi", "slots", "load", "eval", "maxrate"];

/// Options with one purpose, of which tools they are, and what there is for it. Commands of kymo are in backticks, and
/// are parsed by a test.
struct Counterpart {
    options: &'static [&'static str],
    tools: &'static str,
    text: &'static str,
}

const fn row(options: &'static [&'static str], tools: &'static str, text: &'static str) -> Counterpart {
    Counterpart { options, tools, text }
}

const TABLE: &[Counterpart] = &[
    row(
        &["--breaktrace", "-b", "--tracemark"],
        "cyclictest",
        "the run is not stopped: `kymo wakeup --explain 20 --keep-traces DIR` names the causes of the worst samples and keeps the kernel's records around them",
    ),
    row(
        &["--trace-threshold", "-T"],
        "oslat",
        "the run is not stopped: `kymo npt --explain 20 --keep-traces DIR` names the causes of the worst gaps and keeps the kernel's records around them",
    ),
    row(
        &["--auto", "-a", "--thread", "-T", "--irq", "--trace", "-t", "--stack", "-s", "--event", "-e", "--trigger"],
        "rtla",
        "the run is not stopped: `kymo wakeup --explain 20 --keep-traces DIR` names the causes of the worst samples and keeps the kernel's records around them",
    ),
    row(
        &["--spike", "--spike-nodes"],
        "cyclictest",
        "each result has the 20 worst samples of each thread with their times: `kymo wakeup -o FILE`; `kymo report FILE --html PAGE` draws them over the time of the run",
    ),
    row(
        &["--workload", "-w", "--workload-mem"],
        "oslat",
        "a load is a command of its own: `kymo load memory -d 60s` beside the test, or `kymo eval --test npt --load none,memory -o DIR` for the test with it and without, compared",
    ),
    row(
        &["--bias", "-B"],
        "oslat",
        "nothing is subtracted from samples: what the tool itself costs is measured before each run and printed as \"the tool itself\"; `kymo npt -d 10s --json` has it as `floor`",
    ),
    row(&["--affinity", "-a"], "cyclictest", "--cpu 0-3 names the CPUs, with one thread on each"),
    row(&["--cpu-list"], "oslat, hwlatdetect", "--cpu 0-3 names the CPUs, with one thread on each"),
    row(
        &["--smp", "-S", "--threads", "-t"],
        "cyclictest",
        "there is one thread on each CPU of --cpu; without --cpu on each that this process may use",
    ),
    row(&["--duration", "-D"], "cyclictest, oslat", "-d TIME: 60s, 20m, 2h"),
    row(&["--priority"], "cyclictest", "-p N, or --prio N"),
    row(&["--priority", "-P"], "rtla", "--prio N with --policy fifo, rr or deadline"),
    row(&["--rtprio", "-f"], "oslat", "-p N, or --prio N; the class is SCHED_FIFO unless --policy says another"),
    row(
        &["--priospread", "-Q"],
        "cyclictest",
        "all threads have the priority of --prio; `kymo preempt --levels 8` has a thread for each of 8 priorities",
    ),
    row(&["--mlockall", "-m"], "cyclictest", "memory is locked unless --no-lock is given"),
    row(
        &["--histogram", "--histofall", "-H", "--histfile"],
        "cyclictest",
        "each run has a histogram of all samples, without an upper end: as text, with --json, and in the file of -o",
    ),
    row(
        &["--bucket-size", "-b", "--bucket-width", "-W", "--zero-omit", "-z"],
        "oslat",
        "a bucket is no wider than a 128th of its value, and there are as many as samples need; empty ones are not stored",
    ),
    row(
        &["--entries", "-E", "--bucket-size", "-b", "--with-zeros"],
        "rtla",
        "a bucket is no wider than a 128th of its value, and there are as many as samples need; empty ones are not stored",
    ),
    row(
        &["--json"],
        "cyclictest, oslat",
        "--json alone prints the result on standard output; -o FILE writes it to a file",
    ),
    row(
        &[
            "--quiet",
            "-q",
            "--verbose",
            "-v",
            "--oscope",
            "--refresh_on_max",
            "-M",
            "--unbuffered",
            "-u",
            "--fifo",
            "-F",
        ],
        "cyclictest, oslat, hwlatdetect",
        "nothing is printed while a test runs; --json prints the result as JSON",
    ),
    row(
        &["--nsecs", "-N", "--nano", "-n"],
        "cyclictest, rtla",
        "values are kept in ns, and text has a unit at each value",
    ),
    row(
        &["--latency", "--default-system", "--laptop", "--deepest-idle-state"],
        "cyclictest, rtla",
        "idle states are left as they are; --dma-latency US bounds their exit latency, as cyclictest does by itself with 0",
    ),
    row(
        &["--system", "-s", "--posix_timers", "-x", "--nanosleep", "--clock", "--relative", "-r"],
        "cyclictest",
        "`kymo wakeup --method timerfd`, or futex, signal, clock-nanosleep: what wakes the thread. Expirations are absolute times of CLOCK_MONOTONIC",
    ),
    row(
        &["--aligned", "-A", "--secaligned"],
        "cyclictest",
        "there is no alignment; --distance TIME sets the intervals of several threads apart",
    ),
    row(
        &["--mainaffinity", "--cpu-main-thread", "-C", "--house-keeping"],
        "cyclictest, oslat, rtla",
        "what does not measure sleeps meanwhile; `kymo shield 2-3 -- kymo wakeup -c 2-3` keeps all others off the CPUs",
    ),
    row(
        &["--resolution", "-R"],
        "cyclictest",
        "the time that a reading of the clock takes is printed with each result",
    ),
    row(&["--smi"], "cyclictest", "`kymo hwlat -d 60s` counts system management interrupts"),
    row(
        &["--single-preheat"],
        "oslat",
        "--warmup N discards the first samples; `kymo npt --eval-cpu-speed clock` says where the counter's frequency comes from",
    ),
    row(&["--warm-up"], "rtla", "--warmup N discards the first N samples of each thread"),
    row(
        &["--hardlimit"],
        "hwlatdetect",
        "`kymo eval --test hwlat --load none --deadline 100us -o DIR` ends with status 1 if a gap is longer",
    ),
    row(&["--report", "--watch", "--debug"], "hwlatdetect", "-o FILE writes the result; `kymo report FILE` shows it"),
    row(&["--period"], "rtla timerlat", "-i TIME, or --interval TIME"),
    row(
        &["--period", "--runtime"],
        "rtla osnoise",
        "`kymo hwlat --window 1s --width 500ms`: how long one period is, and how much of it is measured",
    ),
    row(
        &["--user-threads", "--kernel-threads", "--user-load"],
        "rtla",
        "threads measure in user space; `kymo hwlat --kernel-tracer` measures in the kernel",
    ),
];

/// What to say of an option that was refused: nothing, or a line for each tool that has it.
pub fn hints(error: &Error, words: &[OsString]) -> Vec<String> {
    use clap::error::ErrorKind::{TooManyValues, UnknownArgument};
    let is_verb = words.get(1).is_some_and(|verb| VERBS.iter().any(|known| verb == known));
    let option = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(option)) if is_verb => option,
        _ => return Vec::new(),
    };
    let option = option.split(['=', ' ']).next().unwrap_or_default();
    // Of the options that we have, too, only the form is another.
    match error.kind() {
        UnknownArgument => {}
        TooManyValues if option == "--json" => {}
        _ => return Vec::new(),
    }
    let rows = TABLE.iter().filter(|row| row.options.contains(&option));
    rows.map(|row| format!("{option} of {}: {}", row.tools, row.text.replace('`', "\""))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Vec<String> {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        match crate::help::command().try_get_matches_from(&words) {
            Ok(_) => Vec::new(),
            Err(error) => hints(&error, &words),
        }
    }

    #[test]
    fn options_of_other_tools_are_explained() {
        for (line, part) in [
            ("kymo wakeup --breaktrace 100", "--explain 20 --keep-traces DIR"),
            ("kymo wakeup --breaktrace=100", "--explain 20 --keep-traces DIR"),
            ("kymo wakeup -b 100", "-b of oslat: a bucket is"),
            ("kymo wakeup --spike=100 --spike-nodes=10", "--spike of cyclictest: each result has the 20 worst"),
            ("kymo wakeup -D 60", "-D of cyclictest, oslat: -d TIME"),
            ("kymo wakeup -m -Sp80", "-m of cyclictest: memory is locked"),
            ("kymo wakeup --json=x.json", "-o FILE writes it to a file"),
            ("kymo npt --workload=memmove", "kymo load memory"),
            ("kymo npt --workload memmove", "kymo load memory"),
            ("kymo npt -B", "nothing is subtracted"),
            ("kymo npt --bias", "kymo npt -d 10s --json"),
            ("kymo npt --bias=1", "nothing is subtracted"),
            ("kymo wakeup --spike 100", "kymo report FILE --html PAGE"),
            ("kymo npt -w memmove", "kymo load memory"),
            ("kymo npt --workload-mem=1M", "kymo eval --test npt --load none,memory"),
            ("kymo hwlat --hardlimit=100", "--deadline 100us"),
            ("kymo wakeup --user-threads", "user space"),
        ] {
            let hints = of(line);
            assert!(hints.iter().any(|hint| hint.contains(part)), "{line}: {hints:?}");
        }
        // Nobody's option; an option of ours with a wrong value; another verb.
        for line in
            ["kymo wakeup --frobnicate", "kymo wakeup -p 100", "kymo read t --breaktrace 100", "kymo wakeup -c 0"]
        {
            assert!(of(line).is_empty(), "{line}: {:?}", of(line));
        }
    }

    #[test]
    fn each_row_can_be_shown_and_its_commands_are_right() {
        let mut cli = crate::help::command();
        cli.build();
        for row in TABLE {
            for option in row.options {
                let lines = VERBS.map(|verb| format!("kymo {verb} {option}=1"));
                let is_shown = |line: &String| of(line).iter().any(|hint| hint.contains(&row.text.replace('`', "\"")));
                assert!(*option == "--duration" || lines.iter().any(is_shown), "{option}");
            }
            for command in row.text.split('`').skip(1).step_by(2).filter(|text| text.starts_with("kymo ")) {
                let parsed = crate::help::command().try_get_matches_from(command.split(' '));
                assert!(
                    parsed.is_ok(),
                    "{command}: {}",
                    parsed.err().map(|error| error.to_string()).unwrap_or_default()
                );
            }
            let words = row.text.split([' ', ';', ',', ':', '`', '(', ')']).filter(|word| word.starts_with("--"));
            for word in words.filter(|word| word.len() > 2) {
                let has =
                    |verb: &clap::Command| verb.get_arguments().any(|arg| arg.get_long() == word.strip_prefix("--"));
                assert!(cli.get_subcommands().any(has), "{word} in: {}", row.text);
            }
        }
    }
}
