// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options that several verbs have. Each is defined here, once, so that it has the same name, form and meaning in all
//! of them: a verb flattens the structs that it needs and, where its help says more, replaces the text with `mut_arg`.
//! `host/kymo/src/verbs/definition_tests.rs` checks all verbs for options that go by one of these names and are
//! something else.

use std::collections::BTreeSet;
use std::path::PathBuf;

use kymo_ctf::read::Trace;

use crate::units::{self, Cpus};
use crate::when::{self, When};

/// Which traces.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct TraceArgs {
    /// Trace directories, or directories with traces below; several are merged by time
    #[arg(required = true, value_name = "DIR")]
    pub dirs: Vec<PathBuf>,
    /// Read also packets whose UUID is not that of the metadata: they may belong to another trace. Without it they are
    /// skipped and reported
    #[arg(long)]
    pub ignore_uuid: bool,
    /// Only the stretch in which all streams of all traces have data: from the latest begin of a stream to the earliest
    /// end, by their packets. It is printed on standard error. --from and --to count from its ends
    #[arg(long)]
    pub intersect: bool,
}

impl TraceArgs {
    /// One trace, whole.
    pub fn of(dir: &std::path::Path) -> TraceArgs {
        TraceArgs { dirs: vec![dir.to_owned()], ignore_uuid: false, intersect: false }
    }

    /// Does with an opened trace what the options say.
    pub fn apply(&self, trace: &mut Trace) {
        if self.ignore_uuid {
            trace.ignore_uuid();
            eprintln!("kymo: {}: packets are read whatever their UUID; they may belong to another trace", trace.label);
        }
    }
}

/// Which part of their time.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct RangeArgs {
    /// Only from this time on: +1.5s from the begin of the trace, -1s from its end, or ns since 1970 as --json prints
    /// them [default: the begin]
    #[arg(long, value_name = "TIME", value_parser = when::parse, allow_hyphen_values = true)]
    pub from: Option<When>,
    /// Only before this time [default: the end]
    #[arg(long, value_name = "TIME", value_parser = when::parse, allow_hyphen_values = true)]
    pub to: Option<When>,
}

/// Which events, by their names.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct EventArgs {
    /// Only events whose name matches, such as `motor:*`, `motor` (all of it) or `sched_[sw]*` (repeatable)
    #[arg(long, value_name = "GLOB")]
    pub event: Vec<String>,
}

impl EventArgs {
    /// Whether an event is wanted; without the option every event is.
    pub fn wants(&self, name: &str) -> bool {
        self.event.is_empty() || self.event.iter().any(|pattern| kymo_names::event_matches(pattern, name))
    }

    /// Says which patterns no event of these traces matches, and what they may have been meant for.
    ///
    /// # Errors
    /// None of them matches: there would be nothing to show.
    pub fn check<'t>(&self, traces: impl IntoIterator<Item = &'t Trace>) -> anyhow::Result<()> {
        let events = traces.into_iter().flat_map(|trace| &trace.metadata.events);
        let names: BTreeSet<&str> = events.map(|event| event.name.as_str()).collect();
        let is_unknown = |pattern: &&String| !names.iter().any(|name| kymo_names::event_matches(pattern, name));
        let unknown: Vec<&String> = self.event.iter().filter(is_unknown).collect();
        let all: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let message = |pattern: &str| {
            let near = kymo_collect::near(pattern, &all, 3);
            let hint = match near.is_empty() {
                true => "`kymo stats` lists those that it has".to_owned(),
                false => format!("near it: {}", near.join(", ")),
            };
            format!("no event of the trace matches {pattern:?}; {hint}")
        };
        match unknown.first() {
            Some(pattern) if unknown.len() == self.event.len() => anyhow::bail!(message(pattern)),
            _ => unknown.iter().for_each(|pattern| eprintln!("kymo: {}", message(pattern))),
        }
        Ok(())
    }
}

/// Which records, by a condition.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct FilterArgs {
    /// Only records for which the condition is true, such as `axis == 2 && position > 0.5`,
    /// `motor:step.duration > 200us`, `name ~ "ab*"`, `$tid == 7`, `latency(req:begin, req:end, by=id) > 5ms`,
    /// `wakeup() > 1ms` (repeatable: all must be true); the language is in kymo-filter(7)
    #[arg(long, value_name = "EXPR")]
    pub filter: Vec<String>,
}

/// Which CPUs.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct CpuArgs {
    /// Only these CPUs, as 0-3,6
    #[arg(short, long, alias = "cpus", value_name = "CPUS", value_parser = units::cpus)]
    pub cpu: Option<Cpus>,
}

impl CpuArgs {
    /// Whether the CPU is one of them; without the option every CPU is.
    pub fn has(&self, cpu: u32) -> bool {
        self.cpu.as_ref().is_none_or(|cpus| cpus.0.contains(&cpu))
    }

    /// The numbers, where some were given.
    pub fn list(&self) -> Option<&[u32]> {
        self.cpu.as_ref().map(|cpus| &cpus.0[..])
    }

    /// The only one. An error where several were given: `verb` can take one.
    pub fn single(&self, verb: &str) -> anyhow::Result<Option<u32>> {
        match self.list() {
            None => Ok(None),
            Some([cpu]) => Ok(Some(*cpu)),
            Some(cpus) => anyhow::bail!("--cpu lists {} CPUs; kymo {verb} takes one", cpus.len()),
        }
    }
}

/// Which thread.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ThreadArgs {
    /// Only this thread: its number, or its name
    #[arg(long, value_name = "TID|NAME")]
    pub thread: Option<String>,
}

/// Which records, by who wrote them and by a condition.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ScopeArgs {
    /// A condition.
    #[command(flatten)]
    pub filters: FilterArgs,
    /// CPUs.
    #[command(flatten)]
    pub cpus: CpuArgs,
    /// A thread.
    #[command(flatten)]
    pub threads: ThreadArgs,
    /// Only this process: its number, or its name
    #[arg(long, value_name = "PID|NAME")]
    pub process: Option<String>,
}

impl ScopeArgs {
    /// All of it as filters [spec/filter.md].
    pub fn expressions(&self) -> Vec<String> {
        let by_number = |context: &str, who: &String| match who.parse::<i64>() {
            Ok(number) => format!("{context} == {number}"),
            Err(_) => format!("$proc == {}", quoted(who)),
        };
        let any_cpu = |cpus: &[u32]| {
            let one: Vec<String> = cpus.iter().map(|cpu| format!("$cpu == {cpu}")).collect();
            one.join(" || ")
        };
        let mut all = self.filters.filter.clone();
        all.extend(self.cpus.list().map(any_cpu));
        all.extend(self.threads.thread.as_ref().map(|thread| by_number("$tid", thread)));
        all.extend(self.process.as_ref().map(|process| by_number("$pid", process)));
        all
    }
}

/// A text of the filter language.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    quoted + "\""
}

/// JSON instead of text.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct JsonArgs {
    /// Print JSON on standard output
    #[arg(long)]
    pub json: bool,
}

/// When text has colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ColorWhen {
    /// If standard output is a terminal and NO_COLOR is not set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// How text and JSON are shown.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
#[command(next_help_heading = "Output")]
pub struct OutputArgs {
    /// Text or JSON.
    #[command(flatten)]
    pub format: JsonArgs,
    /// Colours in the text
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = ColorWhen::Auto, hide_possible_values = true)]
    #[arg(help = "Use colours: auto (if standard output is a terminal and NO_COLOR is not set), always, never")]
    pub color: ColorWhen,
    /// Do not show the output in a pager. On a terminal it is $KYMO_PAGER, else $PAGER, else less
    #[arg(long)]
    pub no_pager: bool,
}

impl OutputArgs {
    /// Whether JSON is asked for.
    pub fn json(&self) -> bool {
        self.format.json
    }

    /// Decides about colours. Called before the text is made.
    pub fn begin(&self) {
        crate::terminal::set_color(match self.color {
            ColorWhen::Auto => None,
            ColorWhen::Always => Some(true),
            ColorWhen::Never => Some(false),
        });
    }

    /// Starts the pager, where there is to be one. Called when the first output is ready.
    pub fn page(&self) {
        if !self.no_pager {
            crate::terminal::start_pager();
        }
    }

    /// Prints all of a text, in the pager where there is to be one.
    pub fn print(&self, text: &str) -> anyhow::Result<()> {
        use anyhow::Context as _;
        use std::io::Write as _;
        self.page();
        std::io::stdout().lock().write_all(text.as_bytes()).context("cannot write to standard output")
    }
}

/// In which time zone times of day are shown.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct ZoneArgs {
    /// Show times of day in UTC; otherwise in the local time zone (of $TZ, or of the system)
    #[arg(long, help_heading = "Output")]
    pub utc: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_filters() {
        let scope = ScopeArgs {
            filters: FilterArgs { filter: vec!["a == 1".into()] },
            cpus: CpuArgs { cpu: Some(Cpus(vec![0, 2])) },
            threads: ThreadArgs { thread: Some("au\"dio".into()) },
            process: Some("12".into()),
        };
        let expressions = scope.expressions();
        assert_eq!(expressions, ["a == 1", "$cpu == 0 || $cpu == 2", r#"$proc == "au\"dio""#, "$pid == 12"]);
        for text in &expressions {
            kymo_filter::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        }
        assert!(ScopeArgs::default().expressions().is_empty());
    }

    #[test]
    fn one_cpu_where_one_is_taken() {
        let of = |list: &[u32]| CpuArgs { cpu: Some(Cpus(list.to_vec())) };
        assert_eq!(CpuArgs::default().single("state").unwrap(), None);
        assert_eq!(of(&[3]).single("state").unwrap(), Some(3));
        assert!(of(&[1, 2]).single("slots").unwrap_err().to_string().contains("kymo slots takes one"));
    }
}
