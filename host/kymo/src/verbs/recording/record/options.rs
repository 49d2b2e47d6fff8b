// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options that every session has: of `kymo record`, and of `kymo session start`. What they ask for is checked
//! before anything is made.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use kymo_collect::{Config, Contexts, Format, Patterns, Rotation, Scope};
use kymo_command::figures;
use kymo_filter::Filter;

use super::{kernel, preload, trigger};
use crate::verbs::units;

/// Rings are made smaller to fit into `--memory`, down to this [spec/session.md 6].
const RING_BYTES_LEAST: u32 = 64 << 10;

/// Formats of traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum TraceFormat {
    /// CTF with metadata of version 1.8
    #[value(name = "ctf1.8", alias = "ctf1")]
    Ctf18,
    /// CTF with metadata of version 2
    #[value(name = "ctf2")]
    Ctf2,
}

/// What to record, of whom, and where to.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Events to record, as provider:name with * ? [a-z]; a provider alone means all its events [default: all]
    #[arg(short, long = "user", value_name = "PATTERN")]
    pub user: Vec<String>,
    /// Events not to record, of those that --user names
    #[arg(short = 'x', long, value_name = "PATTERN")]
    pub exclude: Vec<String>,
    /// Record only records for which the condition is true: 'motor:*: axis == 2 && position > 0.5' (repeatable: all
    /// must be true); the language is in kymo-filter(7)
    #[arg(long, value_name = "EXPR")]
    pub filter: Vec<String>,
    /// Add contexts to every record: prio, prio:now, cgroup, callstack, perf:NAME such as perf:page-faults, separated
    /// by commas (repeatable). prio:now and perf: may cost a system call per record; see kymo-context(7)
    #[arg(long, value_name = "LIST")]
    pub context: Vec<String>,
    /// Use one set of rings for all programs of a user, for many short-lived programs; see kymo-session(7), section 13
    #[arg(long)]
    pub shared_rings: bool,
    /// Write records with 4 bytes in front of their fields instead of 12: smaller traces, but slower tracepoints; see
    /// kymo-recording(7). On x86-64 only
    #[arg(long)]
    pub compact: bool,
    /// Directory of the trace; must be absent or empty [default: kymo-trace-DATE-TIME]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Replace an earlier trace in the output directory (and nothing but a trace)
    #[arg(long)]
    pub overwrite: bool,
    /// Ring memory per CPU and program: bytes, or with K, M, G; a power of two
    #[arg(long, value_name = "SIZE", default_value = "4M", value_parser = units::bytes)]
    pub ring_size: u64,
    /// Ring memory of all programs together [default: 1G, or a quarter of the machine's memory if that is less]
    #[arg(long, value_name = "SIZE", value_parser = units::bytes)]
    pub memory: Option<u64>,
    /// Keep the rings as files in this directory (best on tmpfs or persistent memory). They survive kymo and the
    /// program; see kymo recover
    #[arg(long, value_name = "DIR")]
    pub ring_dir: Option<PathBuf>,
    /// Let programs with KYMO_ALLOW_BLOCKING=1 wait this long for room in a full ring before a record is lost: 50ms, at
    /// most 10s
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    pub block: Option<Duration>,
    /// With --flight: record these events in separate rings (256 KiB at most), so that frequent events cannot overwrite
    /// them; each snapshot has all of them (repeatable)
    #[arg(long, value_name = "PATTERN")]
    pub rare: Vec<String>,
    /// Continue in a new directory (DIR/chunk-0002, ...) when the trace has this size; each chunk is a trace of its own
    #[arg(long, value_name = "SIZE", value_parser = units::bytes)]
    pub rotate_size: Option<u64>,
    /// Continue in a new directory when the trace has this age: 10s, 5m, 1h
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    pub rotate_time: Option<Duration>,
    /// Keep this many closed chunks and remove older ones
    #[arg(long, value_name = "N")]
    pub keep: Option<u32>,
    /// Interval at which the rings are read, in microseconds
    #[arg(long, value_name = "US", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(50..=1_000_000))]
    pub poll_us: u64,
    /// End after this time: 10s, 500ms, 2m. A command that still runs is sent SIGTERM, and the exit status is then 0
    #[arg(short, long, alias = "for", value_name = "TIME", value_parser = units::duration)]
    pub duration: Option<Duration>,
    /// Record this process and its descendants only (repeatable; without a command)
    #[arg(short, long, value_name = "PID", conflicts_with = "command")]
    pub pid: Vec<u32>,
    /// Format of the trace
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = TraceFormat::Ctf18)]
    pub format: TraceFormat,
    /// The same as --format ctf2
    #[arg(long, hide = true, conflicts_with = "format")]
    pub ctf2: bool,
    /// Record calls of an unmodified program: malloc, pthread, or functions (repeatable)
    #[arg(long, value_name = "WHAT", requires = "command")]
    pub with: Vec<preload::Helper>,
    #[command(flatten)]
    pub kernel: kernel::KernelArgs,
    #[command(flatten)]
    pub trigger: trigger::TriggerArgs,
    /// The command and its arguments
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// Options that were found right.
pub struct Checked {
    /// Settings of the session, all but the output directory.
    pub config: Config,
    /// Libraries that the command is to have.
    pub helpers: Vec<PathBuf>,
}

impl Options {
    /// The settings that are asked for. Nothing is made. `quiet`: no notes.
    pub fn check(&self, quiet: bool) -> anyhow::Result<Checked> {
        let patterns = Patterns::new(&self.user, &self.exclude)?;
        let helpers = self.with.iter().map(|helper| preload::find(*helper)).collect::<anyhow::Result<Vec<_>>>()?;
        for pid in &self.pid {
            let is_there = Path::new(&format!("/proc/{pid}")).exists();
            anyhow::ensure!(is_there, "there is no process {pid}; `kymo list` shows the programs that can be recorded");
        }
        let has_command = !self.command.is_empty();
        let mut config = Config::new(PathBuf::new());
        config.ring_bytes = ring_bytes(self.ring_size, quiet)?;
        config.kernel_base = self.kernel.config(has_command, &self.pid)?;
        config.kernel = self.kernel.is_wanted().then(|| config.kernel_base.clone());
        config.kernel_optional = self.kernel.is_optional();
        config.triggers = self.trigger.triggers()?;
        config.name = self.command.first().map_or_else(|| "kymo".to_owned(), |name| base_name(name));
        config.patterns = patterns;
        config.filters = filters(&self.filter)?;
        config.contexts = Contexts::parse(&self.context)?;
        config.contexts.probe()?;
        config.shared_rings = self.shared_rings;
        anyhow::ensure!(
            !self.compact || cfg!(any(target_arch = "x86_64", target_arch = "aarch64")),
            "--compact needs x86-64 or 64-bit Arm: programs of other processors cannot write compact records"
        );
        config.compact = self.compact;
        config.memory_bytes_max = self.memory.unwrap_or_else(units::default_memory);
        anyhow::ensure!(
            config.memory_bytes_max >= u64::from(config.ring_bytes.min(RING_BYTES_LEAST)),
            "--memory {} is less than one ring, of --ring-size or of 64 KiB: no program could be recorded",
            figures::bytes(config.memory_bytes_max)
        );
        config.ring_dir = self.ring_dir.as_deref().map(ring_dir).transpose()?;
        config.block = self.block.map(block_time).transpose()?;
        config.rare = (!self.rare.is_empty()).then(|| Patterns::new(&self.rare, &[])).transpose()?;
        config.rotation = rotation(self.rotate_size, self.rotate_time, self.keep)?;
        config.poll = Duration::from_micros(self.poll_us);
        config.format = match self.format {
            TraceFormat::Ctf2 => Format::Ctf2,
            TraceFormat::Ctf18 if self.ctf2 => Format::Ctf2,
            TraceFormat::Ctf18 => Format::Ctf18,
        };
        config.command = self.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        config.with_other_users = !has_command;
        config.scope = match (has_command, self.pid.is_empty()) {
            (true, _) => Scope::Tree(std::process::id()),
            (false, true) => Scope::All,
            (false, false) => Scope::Pids(self.pid.clone()),
        };
        Ok(Checked { config, helpers })
    }
}

impl Options {
    /// Triggers mean something only to a flight recorder, and waiting for room only without one.
    pub fn check_flight(&self, is_flight: bool) -> anyhow::Result<()> {
        anyhow::ensure!(
            !is_flight || self.block.is_none(),
            "--block and --flight exclude each other: a flight recorder's rings are overwritten and never full"
        );
        let is_cut = self.rotate_size.is_some() || self.rotate_time.is_some() || self.keep.is_some();
        anyhow::ensure!(
            !(is_flight && is_cut),
            "a flight recorder writes snapshots only: --rotate-size, --rotate-time and --keep are for sessions without --flight"
        );
        anyhow::ensure!(
            is_flight || self.rare.is_empty(),
            "--rare is for a flight recorder, where other events are overwritten: add --flight"
        );
        anyhow::ensure!(is_flight || !self.trigger.is_given(), "triggers are for a flight recorder: add --flight");
        Ok(())
    }
}

/// When a trace is cut, checked.
pub fn rotation(bytes: Option<u64>, time: Option<Duration>, keep: Option<u32>) -> anyhow::Result<Rotation> {
    anyhow::ensure!(bytes.is_none_or(|bytes| bytes >= 4096), "a chunk of a trace has 4 KiB at least");
    anyhow::ensure!(
        time.is_none_or(|time| time >= Duration::from_millis(100)),
        "a chunk of a trace lasts 100 ms at least"
    );
    Ok(Rotation { bytes, time, keep })
}

/// Filters that the traced programs can decide.
fn filters(texts: &[String]) -> anyhow::Result<Vec<Filter>> {
    let parse = |text: &String| {
        let filter = kymo_filter::parse(text).and_then(|filter| filter.check_alone().map(|()| filter));
        filter.map_err(|error| anyhow::anyhow!("--filter:\n{error}"))
    };
    let filters = texts.iter().map(parse).collect::<anyhow::Result<Vec<_>>>()?;
    kymo_collect::check_filters(&filters)?;
    Ok(filters)
}

/// How long a record waits at most.
fn block_time(time: Duration) -> anyhow::Result<Duration> {
    let most = Duration::from_nanos(kymo_abi::ring::BLOCK_NS_MAX);
    anyhow::ensure!(time <= most, "--block: a record waits for at most {} s", most.as_secs());
    Ok(time)
}

/// The directory for ring files; it is made where it does not exist.
fn ring_dir(path: &Path) -> anyhow::Result<PathBuf> {
    kymo_collect::make_private_dir(path).with_context(|| format!("cannot make --ring-dir {}", path.display()))?;
    path.canonicalize().with_context(|| format!("cannot use --ring-dir {}", path.display()))
}

fn base_name(path: &std::ffi::OsStr) -> String {
    Path::new(path).file_name().unwrap_or(path).to_string_lossy().into_owned()
}

/// The ring size as a power of two between the bounds of the ABI, with a note where it had to be changed.
pub fn ring_bytes(wanted: u64, quiet: bool) -> anyhow::Result<u32> {
    use kymo_abi::ring::{RING_BYTES_MAX, RING_BYTES_MIN};
    anyhow::ensure!(
        (1..=u64::from(RING_BYTES_MAX)).contains(&wanted),
        "--ring-size {wanted}: a ring has between 4K and 1G"
    );
    let rounded = (wanted as u32).max(RING_BYTES_MIN).next_power_of_two();
    if u64::from(rounded) != wanted && !quiet {
        eprintln!("kymo: --ring-size is a power of two, at least 4K: {} is used", figures::bytes(rounded.into()));
    }
    Ok(rounded)
}
