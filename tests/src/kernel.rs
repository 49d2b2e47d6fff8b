// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel as a source, seen by a test: tracefs through a mount of the test's own, what sessions leave there, an
//! instance beside theirs that gives the kernel's own text, and records as the reader gives them, without JSON between.

use std::path::{Path, PathBuf};

use kymo_ctf::read::{Fields, Item, Reader, Trace, Value};
use kymo_tracefs::{Chosen, EventName, Instance, Settings, Tracefs};

use crate::{Lab, Recorded};

/// First file descriptor that stands for a number: no process has it, so `close` of it only fails, and is counted.
pub const FIRST_NUMBER: u64 = 0x4000_0000;
/// The tracepoint of such a number, and nothing else.
pub const NUMBERS: &str = "syscalls:sys_enter_close[fd >= 1073741824]";

/// The kernel's tracing, where it can be had.
pub struct Kernel {
    tracefs: Tracefs,
}

impl Kernel {
    /// What there is on this machine; none, with a visible skip, where tracefs cannot be had.
    pub fn find(name: &str) -> Option<Kernel> {
        let found = Tracefs::find_with(None).and_then(|tracefs| {
            tracefs.create(&settings()).and_then(Instance::remove)?;
            Ok(Kernel { tracefs })
        });
        found.inspect_err(|error| crate::skip(name, &error.to_string())).ok()
    }

    /// The directory of tracefs.
    pub fn root(&self) -> &Path {
        self.tracefs.root()
    }

    /// Whether the kernel has an event, `system:name`.
    pub fn has(&self, event: &str) -> bool {
        EventName::parse(event).is_some_and(|event| self.tracefs.format(&event).is_ok())
    }

    /// The instances in tracefs of the session that the process `pid` is or was.
    pub fn instances_of(&self, pid: u32) -> Vec<PathBuf> {
        let start = format!("kymo-{pid}-");
        let entries = std::fs::read_dir(self.root().join("instances")).expect("instances can be listed");
        let is_its = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&start));
        entries.flatten().map(|entry| entry.path()).filter(is_its).collect()
    }

    /// The guards of the session that the process `pid` is.
    pub fn guards_of(&self, pid: u32) -> Vec<u32> {
        let children =
            |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten().map(children);
        let ids: Vec<u32> =
            tasks.flat_map(|text| text.split_whitespace().flat_map(str::parse).collect::<Vec<_>>()).collect();
        let is_guard =
            |id: &u32| std::fs::read_to_string(format!("/proc/{id}/comm")).is_ok_and(|name| name == "kymo-guard\n");
        ids.into_iter().filter(is_guard).collect()
    }

    /// The probes in tracefs of the session that the process `pid` is or was, line by line.
    pub fn probes_of(&self, pid: u32) -> Vec<String> {
        let text = std::fs::read_to_string(self.root().join("uprobe_events")).unwrap_or_default();
        text.lines().filter(|line| line.contains(&format!(":kymo_{pid}_"))).map(str::to_owned).collect()
    }

    /// Fails if the session of the process `pid` left anything in tracefs.
    #[track_caller]
    pub fn assert_clean(&self, pid: u32) {
        assert_eq!(self.instances_of(pid), Vec::<PathBuf>::new(), "instances that the session of {pid} left");
        assert_eq!(self.probes_of(pid), Vec::<String>::new(), "probes that the session of {pid} left");
    }

    /// An instance of the test's own for these events, in text, of what the calling thread starts.
    #[track_caller]
    pub fn beside(&self, events: &[&str]) -> Beside {
        let instance = self.tracefs.create(&settings()).expect("an instance of the test's own");
        let chosen = events.iter().map(|event| Chosen::whole(EventName::parse(event).expect("system:name")));
        instance.only(&[rustix::thread::gettid().as_raw_nonzero().get() as u32]).expect("it can be restricted");
        instance.enable(&chosen.collect::<Vec<_>>()).expect("its events can be switched on");
        instance.start().expect("it can be started");
        Beside(instance)
    }
}

fn settings() -> Settings {
    Settings { clock: "mono".to_owned(), ring_bytes_per_cpu: 4 << 20, subbuf_bytes: None, overwrite: false, cpus: None }
}

/// An instance of the test's own. It follows whatever the thread that made it starts.
pub struct Beside(Instance);

impl Beside {
    /// The kernel's text of all records, a line each, and the end of the instance.
    #[track_caller]
    pub fn text(self) -> String {
        self.0.stop().expect("it can be stopped");
        let text = std::fs::read_to_string(self.0.path().join("trace")).expect("its text can be read");
        self.0.remove().expect("it can be removed");
        text
    }
}

/// One record of a trace with a kernel, with what tests of millions need.
#[derive(Debug)]
pub struct View<'a> {
    /// Clock value.
    pub cycles: u64,
    /// CPU of the packet.
    pub cpu: Option<u32>,
    /// The thread: the kernel's own number for it, or how it sees itself.
    pub tid: i64,
    /// Name of the event.
    pub event: &'a str,
    /// The payload.
    pub fields: Fields<'a>,
    /// File of the stream.
    pub stream: &'a str,
}

impl View<'_> {
    /// A field that is an integer.
    #[track_caller]
    pub fn number(&self, name: &str) -> i64 {
        number(self.fields.get(name)).unwrap_or_else(|| panic!("no number {name} in {self:?}"))
    }
}

fn number(value: Option<Value<'_>>) -> Option<i64> {
    match value? {
        Value::Int(number, _) | Value::Enum(number, _) => i128::from(number).try_into().ok(),
        _ => None,
    }
}

/// Whether this kernel maps its rings [spec/kernel.md 4.1].
fn maps_rings() -> bool {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = text.split(|char: char| !char.is_ascii_digit()).map(|digits| digits.parse().unwrap_or(0));
    let release: (u32, u32) = (numbers.next().unwrap(), numbers.next().unwrap());
    release >= (6, 10)
}

/// The rings were read as `rings`, the value of $KYMO_KERNEL_RINGS, asks for, as far as this kernel does that.
#[track_caller]
pub fn check_rings(recorded: &Recorded, rings: &str) {
    let kernel = recorded.kernel();
    let mapped = kernel["mapped_rings"].as_u64().expect("a count");
    let is_refused = kernel["caveats"].to_string().contains("rings are copied, not mapped");
    let expect = (rings == "mapped" && maps_rings(), rings == "mapped" && !maps_rings());
    assert_eq!((mapped > 0, is_refused), expect, "{rings:?}: {mapped} mapped, {}", kernel["caveats"]);
}

/// Goes through the trace in `dir` in the order of time, but for the maps of programs; the trace must be whole. Gives
/// the losses: file, records, from and to in clock values.
#[track_caller]
pub fn each(dir: &Path, mut visit: impl FnMut(&View<'_>)) -> Vec<(String, u64, u64, u64)> {
    let trace = Trace::open(dir).unwrap_or_else(|error| panic!("{error}"));
    assert!(trace.caveats.is_empty(), "{:?}", trace.caveats);
    let traces = [trace.value];
    let mut reader = Reader::new(&traces);
    let mut losses = Vec::new();
    let mut newest = 0;
    while let Some(item) = reader.next() {
        match item {
            Item::Loss(loss) => losses.push((loss.stream.to_owned(), loss.records, loss.from_cycles, loss.to_cycles)),
            // What was mapped in programs is there whatever was asked for.
            Item::Record(record) if record.stream.starts_with("state_maps_") => {}
            Item::Record(record) => {
                assert!(record.cycles >= newest, "time runs backwards at {record:?}");
                newest = record.cycles;
                let own = || number(record.common_context.get("tid"));
                visit(&View {
                    cycles: record.cycles,
                    cpu: record.cpu,
                    tid: record.vtid.map(i64::from).or_else(own).expect("a thread"),
                    event: &record.event.name,
                    fields: record.payload,
                    stream: record.stream,
                });
            }
        }
    }
    let caveats: Vec<_> = reader.caveats().collect();
    assert!(caveats.is_empty(), "{caveats:?}");
    losses
}

impl Lab {
    /// Whether `record` reached its end as a session with a kernel that lost nothing; the number of kernel records.
    #[track_caller]
    pub fn kernel_lossless(&self, recorded: &Recorded) -> u64 {
        let kernel = recorded.kernel();
        let lost = kernel["lost"].as_object().expect("losses by cause");
        let said = &recorded.outcome.stderr;
        assert!(lost.values().all(|count| *count == 0), "{}: {lost:?}\n{said}", self.name());
        assert_eq!(kernel["damage"], serde_json::json!([]), "{}\n{said}", self.name());
        kernel["records"].as_u64().expect("a count")
    }
}
