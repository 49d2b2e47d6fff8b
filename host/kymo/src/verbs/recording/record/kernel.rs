// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's part of `kymo record`: its options, and what is said of it at the end.

use kymo_collect::{KernelCause, KernelConfig, KernelLoss, KernelSummary, Only};
use kymo_command::figures::{bytes, count, plural};
use kymo_ftrace::Naming;
use kymo_tracefs::{ProbeSpec, Wanted, parse_probe};

use crate::verbs::args::CpuArgs;
use crate::verbs::units;

/// Losses that are named one by one.
const LOSSES_SHOWN: usize = 8;

/// Whose names the kernel's events get.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Names {
    /// LTTng's: names of events and fields as kernel analyses of LTTng traces expect them
    Lttng,
    /// The kernel's own: system:event, and fields as in its format files
    Kernel,
}

/// Options of the kernel part.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Kernel events")]
#[command(mut_arg("cpu", |arg| arg.help("Kernel events of these CPUs only, as 0-3,6")))]
pub struct KernelArgs {
    /// Kernel events: system:event with globs, a group (sched irq syscalls timer block net power faults mark all), a
    /// filter in brackets, fields in braces; perf:cpu-clock@997 samples what each CPU runs, 997 times a second; several
    /// are separated by commas
    #[arg(short = 'k', long = "kernel", value_name = "PATTERN")]
    kernel: Vec<String>,
    /// A function or USDT probe of a program as an event: 'BINARY:FUNCTION[+OFFSET][%return] ARGS' or
    /// BINARY:PROVIDER:NAME. Names may be those of C++ (motor::step) and have * and ?. ARGS: parameters by name (n,
    /// text:str), $params for all of them (both need -g), or NAME=%REGISTER:TYPE; `kymo list BINARY` shows what there
    /// is
    #[arg(short = 'U', long = "probe", value_name = "PLACE")]
    probe: Vec<String>,
    /// Set %return probes even in programs that these can crash: of Go, and with C++ exceptions or Rust panics
    #[arg(long)]
    force_return: bool,
    /// Kernel events of the command (or of --pid) and its descendants only, instead of the whole system
    #[arg(long)]
    only: bool,
    /// Record without the kernel if it is not available, and say why
    #[arg(long)]
    kernel_optional: bool,
    /// Kernel ring per CPU: bytes, or with K, M, G [default: 8M, less on a machine with more than 64 CPUs]
    #[arg(long, value_name = "SIZE", value_parser = units::bytes)]
    kernel_ring: Option<u64>,
    /// A full kernel ring drops new records instead of overwriting its oldest
    #[arg(long)]
    kernel_discard: bool,
    #[command(flatten)]
    cpus: CpuArgs,
    /// Real-time priority (SCHED_RR) of the thread that reads the kernel's rings; 0: none
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=99))]
    kernel_priority: u8,
    /// Names and layout of kernel events
    #[arg(long, value_enum, default_value_t = Names::Lttng)]
    names: Names,
    /// State dump at start and end: processes and threads only, with files and maps, or none
    #[arg(long, alias = "state", value_enum, value_name = "WHAT", default_value_t = StateDump::Full)]
    state_dump: StateDump,
}

/// How much the state dump says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum StateDump {
    /// Processes, threads, open files, memory maps, interrupts, CPUs
    Full,
    /// The same without open files and memory maps
    Short,
    /// No state dump
    None,
}

impl KernelArgs {
    /// Whether the kernel part is asked for at all.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.kernel.is_empty() || !self.probe.is_empty()
    }

    pub(crate) fn is_optional(&self) -> bool {
        self.kernel_optional
    }

    /// The settings; without events where none are asked for. `pids`: those of --pid.
    pub(crate) fn config(&self, has_command: bool, pids: &[u32]) -> anyhow::Result<KernelConfig> {
        anyhow::ensure!(
            self.is_wanted() || !self.only,
            "--only restricts kernel events; say which with -k, such as -k sched"
        );
        let only = match (self.only, has_command) {
            (false, _) => Only::Everything,
            (true, true) => Only::Command,
            (true, false) if !pids.is_empty() => Only::Pids(pids.to_vec()),
            (true, false) => anyhow::bail!("--only needs a command or --pid"),
        };
        let probe = |place: &String| parse_probe(place).map(|probe| probe.force(self.force_return));
        let probes = self.probe.iter().map(probe).collect::<Result<Vec<ProbeSpec>, _>>()?;
        let details = self.state_dump == StateDump::Full;
        let of = if only == Only::Everything || has_command { None } else { Some(pids.to_vec()) };
        let options = kymo_state::Options { files: details, maps: details, pids: of, ..kymo_state::Options::default() };
        Ok(KernelConfig {
            wanted: Wanted::parse(&self.kernel)?,
            probes,
            naming: match self.names {
                Names::Lttng => Naming::Lttng,
                Names::Kernel => Naming::Kernel,
            },
            ring_bytes: self.kernel_ring.unwrap_or_else(kymo_collect::kernel_ring_bytes),
            subbuf_bytes: None,
            overwrite: !self.kernel_discard,
            cpus: self.cpus.list().map(<[u32]>::to_vec),
            only,
            priority: self.kernel_priority,
            state: (self.state_dump != StateDump::None).then_some(options),
        })
    }
}

/// What people read of the kernel part.
pub(crate) fn summary(kernel: &KernelSummary) -> Vec<String> {
    let state = kernel.state.as_ref().map_or_else(String::new, |state| {
        format!("; state dump: {} and {}", plural(state.processes, "process"), plural(state.threads, "thread"))
    });
    let mut lines = vec![format!(
        "kernel: {} of {} in {}, rings of {} a CPU, clock {}{state}",
        plural(kernel.records, "record"),
        plural(kernel.events.len() as u64, "event"),
        bytes(kernel.bytes),
        bytes(kernel.ring_bytes),
        kernel.clock
    )];
    losses(kernel, &mut lines);
    lines.extend(kernel.damage.iter().map(|what| format!("damage in the kernel's rings: {what}")));
    let of_state = kernel.state.iter().flat_map(|state| &state.caveats);
    lines.extend(kernel.caveats.iter().chain(of_state).map(|caveat| format!("note: {caveat}")));
    lines
}

fn losses(kernel: &KernelSummary, lines: &mut Vec<String>) {
    let mut lost = kernel.lost;
    let total = lost.total();
    if total == 0 {
        return;
    }
    let causes: Vec<String> = KernelCause::ALL
        .into_iter()
        .map(|cause| (*lost.of(cause), cause.text()))
        .filter(|(records, _)| *records > 0)
        .map(|(records, text)| format!("{text}: {}", count(records)))
        .collect();
    let share = 100.0 * total as f64 / total.saturating_add(kernel.records) as f64;
    lines.push(format!("kernel: LOST {} ({share:.2} % of all): {}", plural(total, "record"), causes.join(", ")));
    let mut largest: Vec<&KernelLoss> = kernel.losses.iter().collect();
    largest.sort_by_key(|loss| std::cmp::Reverse(loss.records));
    largest.truncate(LOSSES_SHOWN);
    largest.sort_by_key(|loss| loss.from);
    for loss in &largest {
        lines.push(format!(
            "  {:.6} s to {:.6} s: {} on CPU {}, {}",
            loss.from_s,
            loss.to_s,
            plural(loss.records, "record"),
            loss.cpu,
            loss.cause.text()
        ));
    }
    let more = kernel.losses.len() - largest.len();
    if more > 0 {
        lines.push(format!("  and {more} more intervals: see {}", kymo_collect::SUMMARY_FILE));
    }
    lines.push(
        "  helped by a larger --kernel-ring, fewer events, or a filter: -k 'sched:sched_switch[next_prio < 100]'"
            .to_owned(),
    );
}
