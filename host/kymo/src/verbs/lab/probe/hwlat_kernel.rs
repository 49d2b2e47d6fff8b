// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo hwlat --kernel`: the kernel's own tracer, in an instance that is ours. It reads the clock with interrupts off,
//! so that only firmware, hypervisor, hardware and NMIs are left as causes. Window, width and threshold are the whole
//! machine's: they are in an undo file before they are changed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use kymo_command::terminal::Progress;
use kymo_lab::{Ended, KernelGap, Record, Undo, kernel_gaps};
use kymo_tracefs::{Instance, Settings, Tracefs};
use serde_json::Value;

use crate::verbs::command::Watcher;

/// Between two looks at the ring.
const LOOK: Duration = Duration::from_millis(50);
/// Gaps that are kept: more than this many are no gaps but the rule.
const GAPS_MAX: usize = 1 << 20;
/// Bytes of a line that is not finished.
const LINE_MAX: usize = 4096;

/// In `width` of each `window` the tracer looks for gaps above the threshold.
#[derive(Clone, Copy)]
pub(super) struct Windows {
    pub(super) threshold: Duration,
    pub(super) window: Duration,
    pub(super) width: Duration,
}

/// What is looked for.
pub(super) struct GapSearch<'a> {
    pub(super) cpus: &'a [u32],
    pub(super) windows: Windows,
    pub(super) duration: Duration,
}

/// Runs the tracer for its time, or until a signal.
///
/// # Errors
/// The kernel has no such tracer, or it is in use, or tracefs is not for us.
pub(super) fn search(search: &GapSearch<'_>, options: BTreeMap<String, Value>) -> anyhow::Result<Record> {
    if search.windows.width >= search.windows.window {
        bail!("the kernel's tracer wants --width shorter than --window");
    }
    let tracefs = Tracefs::find()?;
    let root = tracefs.root().to_owned();
    let tracers = std::fs::read_to_string(root.join("available_tracers")).unwrap_or_default();
    if !tracers.split_whitespace().any(|name| name == "hwlat") {
        bail!("this kernel has no hwlat tracer (CONFIG_HWLAT_TRACER); without --kernel the search is from user space");
    }
    let stop = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&stop);
    let watcher = Watcher::prepare().context("cannot watch for signals")?;
    let tell = move |_| {
        seen.store(true, Ordering::SeqCst);
        true
    };
    watcher.start(None, tell).context("cannot start a thread")?;
    let clocks = tracefs.clocks()?;
    let clock = if clocks.iter().any(|clock| clock == "x86-tsc") { "x86-tsc" } else { "local" };
    let settings = Settings {
        clock: clock.to_owned(),
        ring_bytes_per_cpu: 256 << 10,
        subbuf_bytes: None,
        overwrite: true,
        cpus: Some(search.cpus.to_vec()),
    };
    let instance = tracefs.create(&settings)?;
    let runtime = kymo_collect::RuntimeDir::own()?;
    let mut undo = Undo::begin(runtime.path(), "hwlat").context("cannot keep a record of what is to be restored")?;
    let begun = Instant::now();
    let found = set(&mut undo, &root, search).and_then(|()| run(&instance, search.duration, &stop));
    let failures = undo.restore();
    instance.remove()?;
    if !failures.is_empty() {
        bail!("not restored: {}; try kymo doctor --restore", failures.join("; "));
    }
    let mut record = Record::new("kymo", "hwlat");
    env!("CARGO_PKG_VERSION").clone_into(&mut record.version);
    "the kernel's hwlat tracer: a kernel thread reads the clock with interrupts off, on one CPU after the other"
        .clone_into(&mut record.method);
    record.options = options;
    record.duration_s = Some(begun.elapsed().as_secs_f64());
    record.ended = if stop.load(Ordering::SeqCst) { Ended::Signal } else { Ended::Time };
    record.environment.insert("clock".to_owned(), if clock == "x86-tsc" { "tsc" } else { "kernel" }.into());
    kernel_gaps(&mut record, search.cpus, &found?);
    Ok(record)
}

/// Window and width never cross, whatever they were.
fn set(undo: &mut Undo, root: &Path, search: &GapSearch<'_>) -> anyhow::Result<()> {
    let us = |time: Duration| time.as_micros().max(1).to_string();
    let width = root.join("hwlat_detector/width");
    let old = std::fs::read_to_string(root.join("hwlat_detector/window")).unwrap_or_default();
    let is_wider = search.windows.width.as_micros() >= old.trim().parse().unwrap_or(u128::MAX);
    let mut both = [(width, search.windows.width), (root.join("hwlat_detector/window"), search.windows.window)];
    if is_wider {
        both.reverse();
    }
    let threshold = (root.join("tracing_thresh"), search.windows.threshold);
    for (path, time) in both.into_iter().chain([threshold]) {
        undo.write(&path, &us(time)).with_context(|| format!("cannot set {}", path.display()))?;
    }
    Ok(())
}

/// The tracer on and off again, and what it wrote.
fn run(instance: &Instance, duration: Duration, stop: &AtomicBool) -> anyhow::Result<Vec<KernelGap>> {
    let tracer = instance.path().join("current_tracer");
    instance.start()?;
    std::fs::write(&tracer, "hwlat").map_err(|error| match error.raw_os_error() {
        Some(libc::EBUSY) => {
            anyhow::anyhow!("the hwlat tracer runs in another instance already, and there is only one")
        }
        _ => anyhow::Error::from(error).context(format!("cannot start the tracer in {}", tracer.display())),
    })?;
    let gaps = listen(instance.path(), duration, stop);
    let stopped =
        std::fs::write(&tracer, "nop").with_context(|| format!("cannot stop the tracer in {}", tracer.display()));
    let gaps = gaps?;
    stopped?;
    Ok(gaps)
}

fn listen(instance: &Path, duration: Duration, stop: &AtomicBool) -> anyhow::Result<Vec<KernelGap>> {
    let path = instance.join("trace_pipe");
    let pipe = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(&path);
    let mut pipe = pipe.with_context(|| format!("cannot open {}", path.display()))?;
    let begun = Instant::now();
    let until = begun + duration;
    let mut progress = Progress::new();
    let (mut gaps, mut rest) = (Vec::new(), Vec::new());
    loop {
        // What came until the end is read once more.
        let is_over = stop.load(Ordering::SeqCst) || Instant::now() >= until;
        take(&mut pipe, &mut rest, &mut gaps).with_context(|| format!("cannot read {}", path.display()))?;
        if is_over {
            return Ok(gaps);
        }
        progress.show_share(begun.elapsed().as_secs_f64() / duration.as_secs_f64(), || "hwlat".to_owned());
        std::thread::sleep(LOOK.min(until.saturating_duration_since(Instant::now())));
    }
}

/// All lines that are there now.
fn take(pipe: &mut File, rest: &mut Vec<u8>, gaps: &mut Vec<KernelGap>) -> std::io::Result<()> {
    let mut buffer = [0; 16 << 10];
    loop {
        match pipe.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(got) => rest.extend_from_slice(&buffer[..got]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        }
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            gaps.extend(KernelGap::parse(&String::from_utf8_lossy(&line)).filter(|_| gaps.len() < GAPS_MAX));
        }
        if rest.len() > LINE_MAX {
            rest.clear();
        }
    }
}
