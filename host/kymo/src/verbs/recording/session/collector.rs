// SPDX-License-Identifier: MIT OR Apache-2.0
//! The collector of a session that runs by itself: its own process and terminal session, from the start that somebody
//! waits for to the summary that nobody may be there to read. One loop over what happens and what is asked.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use kymo_collect::{
    Answer, Call, Config, Patterns, Progress, Request, RingUse, RuntimeDir, Server, Session, SnapshotRequest, Summary,
    View,
};
use kymo_command::{figures, unknown};
use serde_json::{Value, json};

use super::definition::DefinitionArgs;
use super::snapshots::Snapshots;
use super::{settings, shipper};
use crate::verbs::command::{self, Happened};
use crate::verbs::record::begin::{self, Begun, CannotRun};
use crate::verbs::record::options::rotation;
use crate::verbs::record::output::Output;
use crate::verbs::record::rotation::Rotating;
use crate::verbs::record::{text, why};

/// Programs that run have this long to be attached before the start returns.
const SETTLING: Duration = Duration::from_secs(1);
/// A command that was told to end has this long, and is recorded meanwhile.
const GRACE: Duration = Duration::from_secs(2);
/// Between two looks at the counters, for rates.
const SAMPLE: Duration = Duration::from_secs(1);
/// Looks that are kept: rates are those of this many seconds at most.
const SAMPLES: usize = 5;

/// Something for the loop.
enum Event {
    Asked(Call),
    Happened(Happened),
}

/// Runs the collector. Who started it reads one line of JSON from standard output: what runs, or why nothing does.
pub fn run(args: DefinitionArgs) -> anyhow::Result<ExitCode> {
    crate::verbs::ignore_sigpipe();
    let to = rustix::io::fcntl_dupfd_cloexec(std::io::stdout(), 3).context("cannot keep standard output")?;
    // Fails where we lead a group already, which is as good.
    let _ = rustix::process::setsid();
    let mut starter = File::from(to);
    match Running::start(args) {
        Ok(running) => {
            let ready = running.ready();
            if writeln!(starter, "{ready}").is_err() {
                // Whoever started us has gone before it was ready.
                return Ok(running.abandon());
            }
            drop(starter);
            Ok(running.live())
        }
        Err(error) => {
            let status = error.downcast_ref::<CannotRun>().map_or(2, CannotRun::status);
            let _ =
                writeln!(starter, "{}", json!({ "error": kymo_command::process::message(&error), "status": status }));
            Ok(ExitCode::from(status))
        }
    }
}

/// A session with all that belongs to it.
struct Running {
    args: DefinitionArgs,
    name: String,
    server: Server,
    events: Receiver<Event>,
    session: Session,
    output: Output,
    log: PathBuf,
    child: Option<u32>,
    patterns: Patterns,
    begun: Instant,
    since: SystemTime,
    samples: VecDeque<(Instant, Progress)>,
    snapshots: Option<Snapshots>,
    ring_bytes: u32,
    rotating: Rotating,
    /// The process that ships the session to a lake.
    shipper: Option<u32>,
    /// Who waits for the end.
    stoppers: Vec<Call>,
}

impl Running {
    fn start(args: DefinitionArgs) -> anyhow::Result<Running> {
        let name = args.name.clone().context("a session needs a name")?;
        let checked = args.options.check(args.quiet)?;
        args.options.check_flight(args.flight)?;
        shipper::check(&args.lake)?;
        let prepared = begin::prepare()?;
        let (sender, events) = mpsc::channel();
        let of_server = sender.clone();
        let deliver = move |call| {
            // After the end the call is dropped, and so answered.
            let _ = of_server.send(Event::Asked(call));
        };
        let server = Server::start(RuntimeDir::own()?, &name, deliver)?;
        let output = Output::prepare(args.options.output.as_deref(), args.options.overwrite)?;
        let log = log_path(output.path());
        let patterns = checked.config.patterns.clone();
        let ring_bytes = checked.config.ring_bytes;
        let settings = |config: &mut Config| {
            config.name = name.clone();
            config.flight = args.flight;
        };
        let result = write_to_log(&log).inspect_err(|_| output.discard()).and_then(|()| {
            let tell = move |happened| sender.send(Event::Happened(happened)).is_ok();
            begin::begin(&args.options, prepared, checked, output, settings, tell)
        });
        let Begun { session, output, child } = result.inspect_err(|_| remove_if_empty(&log))?;
        let snapshots = session.snapshots().map(Snapshots::start).transpose()?;
        let mut running = Running {
            name,
            server,
            events,
            session,
            output,
            log,
            child,
            patterns,
            begun: Instant::now(),
            since: SystemTime::now(),
            samples: VecDeque::new(),
            snapshots,
            ring_bytes,
            rotating: Rotating::default(),
            shipper: None,
            stoppers: Vec::new(),
            args,
        };
        running.change_selection()?;
        running.settle()?;
        running.sample();
        running.shipper = shipper::start(&running.args.lake, &absolute(running.output.path()))?;
        Ok(running)
    }

    /// Obeys --change and --kernel-change.
    fn change_selection(&mut self) -> anyhow::Result<()> {
        for change in &self.args.change {
            self.session.select(std::slice::from_ref(&change.pattern), change.on)?;
        }
        for change in &self.args.kernel_change {
            self.session.select_kernel(std::slice::from_ref(&change.pattern), change.on)?;
        }
        Ok(())
    }

    /// Waits until the programs that run are attached; not for those that do not answer.
    fn settle(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + SETTLING;
        while self.session.view()?.arriving > 0 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    fn ready(&self) -> Value {
        json!({
            "name": self.name,
            "pid": std::process::id(),
            "mode": self.mode(),
            "output": absolute(self.output.path()),
            "log": absolute(&self.log),
            "command": self.child,
        })
    }

    fn mode(&self) -> &'static str {
        if self.args.flight { "flight" } else { "stream" }
    }

    /// Ends a session that nobody knows of.
    fn abandon(self) -> ExitCode {
        if let Some(pid) = self.child {
            command::signal(pid, libc::SIGTERM);
        }
        drop(self.session);
        self.output.discard();
        remove_if_empty(&self.log);
        ExitCode::from(2)
    }

    /// The loop, and the end.
    fn live(mut self) -> ExitCode {
        let mut deadline = self.args.options.duration.map(|time| self.begun + time);
        let mut is_told = false;
        loop {
            let now = Instant::now();
            let mut ends = deadline.is_some_and(|deadline| deadline <= now);
            if !ends {
                let mut next = self.samples.back().map_or(now, |(at, _)| *at + SAMPLE);
                next = self.rotating.next_turn(&self.session).map_or(next, |wait| next.min(now + wait));
                let wait = deadline.map_or(next, |deadline| deadline.min(next)).saturating_duration_since(now);
                match self.events.recv_timeout(wait) {
                    Ok(Event::Asked(call)) => ends = self.serve(call),
                    Ok(Event::Happened(Happened::Ended(_))) => break,
                    Ok(Event::Happened(Happened::Signal { .. })) => ends = true,
                    Err(_) => ends = self.look(),
                }
                self.rotating.turn(&mut self.session);
            }
            match self.child {
                Some(pid) if ends && !is_told => {
                    command::signal(pid, libc::SIGTERM);
                    is_told = true;
                    deadline = Some(Instant::now() + GRACE);
                }
                // Two may ask for the end of a command that takes its time.
                Some(_) if ends && deadline.is_some_and(|deadline| deadline > Instant::now()) => {}
                _ if ends => break,
                _ => {}
            }
        }
        self.end()
    }

    /// Completes the trace, and tells those who wait for that.
    fn end(self) -> ExitCode {
        let Running { args, server, events, session, stoppers, patterns, name, log, snapshots, .. } = self;
        if let Some(snapshots) = snapshots {
            snapshots.finish();
        }
        let result = session.stop();
        let (answer, status): (Answer, u8) = match result {
            Ok(summary) => {
                let lines = lines(&patterns, &summary, &args.options.pid);
                for line in &lines {
                    crate::verbs::say(line);
                }
                let mut value = serde_json::to_value(&summary).unwrap_or_default();
                value["log"] = json!(absolute(&log));
                (Ok(json!({ "summary": value, "text": lines })), unknown::status(&summary))
            }
            Err(error) => {
                crate::verbs::say(&error.to_string());
                (Err(format!("session {name} ended, but not well: {error}")), 2)
            }
        };
        // Not before the log is complete: who finds no session any more may look there.
        server.withdraw();
        for call in stoppers {
            call.answer(answer.clone());
        }
        // Answers those who came too late.
        drop(events);
        drop(server);
        ExitCode::from(status)
    }

    /// Answers a request. True when it asks for the end.
    fn serve(&mut self, call: Call) -> bool {
        let answer = match call.request.clone() {
            Request::Status => self.status(),
            Request::Enable { patterns, kernel } => self.select(&patterns, &kernel, true),
            Request::Disable { patterns, kernel } => self.select(&patterns, &kernel, false),
            Request::Add { ring_bytes, running } => self.add(ring_bytes, running),
            Request::Settings => self.settings(),
            Request::Watch => self.session.watch().map(|watched| json!(watched)).map_err(|error| error.to_string()),
            Request::Rotate { bytes: None, time_ms: None, keep: None } => self.rotate(),
            Request::Rotate { bytes, time_ms, keep } => self.set_rotation(bytes, time_ms, keep),
            Request::Snapshot { dir, reason, before_ns, wait } => {
                let dir = dir.or_else(|| self.session.snapshot_dir()).unwrap_or_default();
                let request = SnapshotRequest { dir, reason, before: before_ns.map(Duration::from_nanos) };
                self.snapshot(call, request, wait);
                return false;
            }
            Request::Stop => {
                self.stoppers.push(call);
                return true;
            }
        };
        call.answer(answer);
        false
    }

    fn select(&mut self, patterns: &[String], kernel: &[String], on: bool) -> Answer {
        let mut of_kernel = None;
        if !kernel.is_empty() {
            of_kernel = Some(self.session.select_kernel(kernel, on).map_err(|error| error.to_string())?);
        }
        let mut value = json!({});
        if !patterns.is_empty() {
            value = self.select_of_programs(patterns, on)?;
        }
        if let Some(changed) = of_kernel {
            value["kernel"] = json!(changed);
        }
        Ok(value)
    }

    fn select_of_programs(&self, patterns: &[String], on: bool) -> Answer {
        let changed = self.session.select(patterns, on).map_err(|error| error.to_string())?;
        let near: Vec<&str> =
            patterns.iter().flat_map(|pattern| kymo_collect::near(pattern, &changed.known, 3)).collect();
        let mut value = json!(changed);
        if !near.is_empty() {
            value["hint"] = format!("near it: {}", near.join(", ")).into();
        }
        Ok(value)
    }

    fn add(&mut self, ring_bytes: u32, running: bool) -> Answer {
        use kymo_abi::ring::{RING_BYTES_MAX, RING_BYTES_MIN};
        if !ring_bytes.is_power_of_two() || !(RING_BYTES_MIN..=RING_BYTES_MAX).contains(&ring_bytes) {
            return Err(format!("{ring_bytes} bytes are no size of a ring: a power of two from 4K to 1G"));
        }
        self.ring_bytes = ring_bytes;
        if running {
            return self.change_rings(ring_bytes).map_err(|error| error.to_string());
        }
        self.session.set_ring_bytes(ring_bytes);
        Ok(json!({ "ring_bytes": ring_bytes, "keep": self.session.progress().programs }))
    }

    /// Other rings for the programs that run, too: what became of them within a second.
    fn change_rings(&self, ring_bytes: u32) -> Result<Value, kymo_collect::Error> {
        let refused_before = self.session.view()?.offers_refused;
        let offered = self.session.change_rings(ring_bytes)?;
        let deadline = Instant::now() + SETTLING;
        let mut view = self.session.view()?;
        while view.offers_open > 0 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
            view = self.session.view()?;
        }
        let refused = view.offers_refused - refused_before;
        let changed = offered.told.saturating_sub(refused + view.offers_open as u64);
        let keep = offered.same + offered.deaf + offered.no_memory + refused;
        Ok(json!({
            "ring_bytes": ring_bytes, "changed": changed, "keep": keep, "late": view.offers_open, "same": offered.same,
            "deaf": offered.deaf, "no_memory": offered.no_memory, "refused": refused,
        }))
    }

    fn settings(&self) -> Answer {
        let view = self.session.view().map_err(|error| error.to_string())?;
        let ring_size = figures::size(self.ring_bytes.into());
        let kernel = self.session.kernel_view().unwrap_or_default();
        settings::of_this_process(&ring_size, (&view.changes, &kernel.changes), self.session.rotation())
            .map_err(|error| error.to_string())
    }

    fn rotate(&mut self) -> Answer {
        let chunk = self.session.rotate("asked for").map_err(|error| error.to_string())?;
        Ok(json!({ "chunk": chunk, "next": self.session.current_dir() }))
    }

    fn set_rotation(&mut self, bytes: Option<u64>, time_ms: Option<u64>, keep: Option<u32>) -> Answer {
        let old = self.session.rotation().cloned().unwrap_or_default();
        let time = time_ms.map(Duration::from_millis).or(old.time);
        let rotation = rotation(bytes.or(old.bytes), time, keep.or(old.keep)).map_err(|error| error.to_string())?;
        self.session.set_rotation(rotation.clone()).map_err(|error| error.to_string())?;
        Ok(json!({ "rotation": rotation }))
    }

    fn snapshot(&self, call: Call, request: SnapshotRequest, wait: bool) {
        match &self.snapshots {
            Some(snapshots) => snapshots.ask(call, request, wait),
            None => call.answer(Err(kymo_collect::Error::NotFlight.to_string())),
        }
    }

    /// Looks at the counters, once a second. Whether a trigger wants the end.
    fn look(&mut self) -> bool {
        let is_due = self.samples.back().is_none_or(|(at, _)| at.elapsed() >= SAMPLE);
        let now = if is_due { self.sample() } else { self.session.progress() };
        now.triggered
    }

    /// Looks at the counters, and keeps them for the rates.
    fn sample(&mut self) -> Progress {
        if self.samples.len() > SAMPLES {
            self.samples.pop_front();
        }
        let now = self.session.progress();
        self.samples.push_back((Instant::now(), now));
        now
    }

    fn status(&self) -> Answer {
        let view = self.session.view().map_err(|error| error.to_string())?;
        let view = with_rings(&view, self.session.ring_use().as_deref());
        let now = self.session.progress();
        let taken = self.snapshots.as_ref().map(Snapshots::taken).unwrap_or_default();
        let (records_per_s, bytes_per_s, over_s) = self.rates(&now);
        let since_ns = self.since.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
        Ok(json!({
            "name": self.name,
            "pid": std::process::id(),
            "uid": rustix::process::geteuid().as_raw(),
            "mode": self.mode(),
            "since_ns": since_ns,
            "seconds": self.begun.elapsed().as_secs_f64(),
            "records": now.records,
            "bytes": now.bytes,
            "lost": now.lost,
            "records_per_s": records_per_s,
            "bytes_per_s": bytes_per_s,
            "rates_over_s": over_s,
            "writing_ended": now.stopped,
            "recorded_programs": now.programs,
            "view": view,
            "kernel": self.session.kernel_view().is_some(),
            "kernel_view": self.session.kernel_view(),
            "rotation": self.session.rotation(),
            "chunk": self.session.current_dir(),
            "snapshots": taken.count,
            "snapshot_error": taken.error,
            "command": self.child,
            "shipper": self.shipper,
            "output": absolute(self.output.path()),
            "log": absolute(&self.log),
        }))
    }

    /// Records and bytes a second, and the seconds over which that was seen.
    fn rates(&self, now: &Progress) -> (f64, f64, f64) {
        let Some((at, before)) = self.samples.front() else { return (0.0, 0.0, 0.0) };
        let seconds = at.elapsed().as_secs_f64().max(1e-3);
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        (rate(now.records, before.records), rate(now.bytes, before.bytes), seconds)
    }
}

/// The view, each program with its rings; with null where they cannot be told now.
fn with_rings(view: &View, rings: Option<&[RingUse]>) -> Value {
    let mut value = json!(view);
    for (at, program) in view.programs.iter().enumerate() {
        let of_it = |rings: &[RingUse]| -> Vec<Value> {
            rings.iter().filter(|ring| Some(ring.serial) == program.serial).map(|ring| json!(ring)).collect()
        };
        value["programs"][at]["rings"] = json!(rings.map(of_it));
    }
    value
}

/// What people read at the end. A flight recorder leaves its snapshots only.
fn lines(patterns: &Patterns, summary: &Summary, pids: &[u32]) -> Vec<String> {
    let mut lines = text::summary(summary);
    lines.extend(summary.flight.iter().flat_map(text::snapshots));
    match (summary.records, &summary.flight) {
        _ if summary.trace_error.is_some() => {}
        (0, _) => lines.extend(why::nothing(patterns, summary, pids, &[])),
        (_, None) => lines.push(text::next(&summary.trace)),
        (_, Some(flight)) => lines.extend(flight.snapshots.last().map(|done| text::next(&done.dir))),
    }
    lines.extend(why::unmatched(patterns, summary));
    lines
}

fn absolute(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// `DIR.log`, beside the directory of the trace.
fn log_path(output: &Path) -> PathBuf {
    let mut path = absolute(output).into_os_string();
    path.push(".log");
    path.into()
}

/// Standard output and error lead to the log from here on: of this process, and of the command.
fn write_to_log(path: &Path) -> anyhow::Result<()> {
    let cannot = || format!("cannot write the log {}; choose another place with -o", path.display());
    let log = File::options().create(true).append(true).mode(0o600).open(path).with_context(cannot)?;
    rustix::stdio::dup2_stdout(&log).with_context(cannot)?;
    rustix::stdio::dup2_stderr(&log).with_context(cannot)
}

fn remove_if_empty(log: &Path) {
    if fs::metadata(log).is_ok_and(|log| log.len() == 0) {
        let _ = fs::remove_file(log);
    }
}
