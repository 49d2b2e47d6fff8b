// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo doctor`: is this machine, process or command fit for real time. The list is in kymo-lab; here it is printed.

mod prove;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::bail;
use kymo_lab::{Finding, Machine, Severity, State, Target, examine, is_fit};
use serde_json::json;

use crate::verbs::args::OutputArgs;
use kymo_command::terminal::{Style, paint};

/// Real-time check of this machine, a process or a command: what to change
///
/// Each check has the value found, the value wanted, why, how to set it now and how to make it permanent. A check that
/// could not look says so, with the reason, and is not fine. Changes nothing unless --prove is given.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  kymo doctor                     the machine\n  kymo doctor --pid 1234          and a process: limits, policy, locked memory\n  \
    kymo doctor -- ./control        and what a command would inherit\n  kymo doctor --prove rt-throttling      what it does here, measured\n  \
    kymo doctor --prove stat-interval --measure 'cyclictest -q -p80 -l5000 -h400 --json=/dev/fd/3 3>&1 >/dev/null'\n\n\
    Exit status: 0 no problem above medium was found, 1 problems, 2 errors;\n\
    of --prove: 0 no difference, 1 a difference, 3 not enough data."
)]
pub struct DoctorArgs {
    /// Also check this process
    #[arg(long, value_name = "PID", conflicts_with_all = ["command", "prove"])]
    pid: Option<u32>,
    #[command(flatten)]
    show: OutputArgs,
    /// Also list checks that passed, and that do not apply to this machine
    #[arg(long)]
    all: bool,
    /// Measure what a setting does: short runs with it as it is and as it is wanted, interleaved and compared. It is
    /// put back after each run, after a SIGKILL by the next kymo doctor
    #[arg(long, value_name = "ID", conflicts_with_all = ["command", "all"])]
    prove: Option<String>,
    /// With --prove: a command whose output is a result (of kymo, cyclictest, oslat, ...), instead of kymo's own test
    #[arg(long, value_name = "COMMAND", requires = "prove")]
    measure: Option<String>,
    /// With --prove: number of runs with each value
    #[arg(long, alias = "runs", value_name = "N", default_value_t = 5, requires = "prove", value_parser = clap::value_parser!(u16).range(5..=1000))]
    rounds: u16,
    /// Only restore what a killed kymo doctor --prove or kymo shield has changed
    #[arg(long, conflicts_with_all = ["command", "prove", "pid", "all", "json"])]
    restore: bool,
    /// Also check what this command would inherit; it is not run
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs the verb.
pub fn run(args: DoctorArgs) -> anyhow::Result<ExitCode> {
    if args.restore {
        return Ok(ExitCode::from(u8::from(!super::shield::restore(true)?)));
    }
    // Without a runtime directory nothing can have been left; the list needs none.
    let left = super::shield::restore(false);
    if let Some(id) = &args.prove {
        left?;
        let question =
            prove::Question { id, measure: args.measure.as_deref(), runs: args.rounds.into(), json: args.show.json() };
        return prove::run(&question);
    }
    let machine = Machine::default();
    let target = target(&args, &machine)?;
    let findings = examine(&machine, &target);
    let is_fit = is_fit(&findings);
    args.show.begin();
    args.show.page();
    if args.show.json() {
        let text = json!({ "schema": "kymo-doctor-1", "fit": is_fit, "checks": findings });
        println!("{}", serde_json::to_string_pretty(&text)?);
    } else {
        print(&findings, args.all);
    }
    Ok(ExitCode::from(u8::from(is_fit == Some(false))))
}

fn target(args: &DoctorArgs, machine: &Machine) -> anyhow::Result<Target> {
    match args.pid {
        Some(pid) if !machine.has(&format!("/proc/{pid}/stat")) => bail!("there is no process {pid}"),
        Some(pid) => Ok(Target::Process(pid)),
        None if args.command.is_empty() => Ok(Target::Machine),
        None => Ok(Target::Command),
    }
}

fn print(findings: &[Finding], all: bool) {
    let of = |state| findings.iter().filter(move |finding| finding.state == state);
    for finding in of(State::Problem) {
        let style = if finding.severity > Severity::Medium { Style::Alarm } else { Style::Heading };
        let word = paint(style, &format!("{:<7}", word(finding.severity)));
        println!("{word} {}: {}", paint(Style::Heading, finding.id), finding.title);
        println!("        found   {}", finding.current);
        println!("        wanted  {}", finding.wanted);
        println!("        why     {}", finding.why);
        println!("        now     {}", finding.now);
        println!("        to keep {}", finding.keep);
        println!("        see     {}", finding.see);
        println!();
    }
    let kinds = [(State::Ok, "fine"), (State::NotApplicable, "does not apply")];
    for (state, title) in kinds.into_iter().filter(|_| all) {
        for finding in of(state) {
            println!("{title}: {} ({}): {}", finding.id, finding.title, finding.current);
        }
    }
    for finding in of(State::Unread) {
        let word = paint(Style::Heading, "not looked");
        println!("{word}: {} ({}): {}", finding.id, finding.title, finding.current);
    }
    let count = |state| of(state).count();
    let above = |state| of(state).filter(|finding| finding.severity > Severity::Medium).count();
    println!(
        "{} problems, {} of them above medium; {} fine, {} not looked ({} of them above medium), {} do not apply{}",
        count(State::Problem),
        above(State::Problem),
        count(State::Ok),
        count(State::Unread),
        above(State::Unread),
        count(State::NotApplicable),
        if all { "" } else { " (--all lists them)" }
    );
}

fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "info",
        Severity::Medium => "medium",
        Severity::High => "HIGH",
        Severity::Fatal => "FATAL",
    }
}
