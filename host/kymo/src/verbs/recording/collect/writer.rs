// SPDX-License-Identifier: MIT OR Apache-2.0
//! The trace of a target on disk: packets behind packets, metadata before what needs it, and a summary at the end.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context as _;
use kymo_collect::{Missing, SUMMARY_FILE};
use kymo_command::unknown;
use kymo_target::{Epoch, Receiver, Trace, file_name};
use serde_json::{Value, json};

/// A trace that is being written.
pub struct Writer {
    dir: PathBuf,
    from: String,
    trace: Trace,
    files: Vec<File>,
    begun: Instant,
    bytes: u64,
    packet_bytes: u64,
}

/// What came of it.
pub struct Summary {
    dir: PathBuf,
    from: String,
    epochs: Vec<Epoch>,
    stray_bytes: u64,
    bytes: u64,
    packet_bytes: u64,
    duration_s: f64,
    times_are_known: bool,
    unknown: Vec<Value>,
    error: Option<String>,
}

/// How the listening ended.
pub struct Ending {
    /// The line had its time of day: it was no file.
    pub times_are_known: bool,
    /// Somebody ended it (Ctrl-C, --duration), not the line.
    pub is_asked_for: bool,
    /// Bytes of a frame whose rest did not come.
    pub torn_bytes: usize,
    /// Why it did not go on.
    pub error: Option<String>,
}

impl Writer {
    /// The directory is there, and empty.
    pub fn begin(dir: &Path, from: &str) -> anyhow::Result<Writer> {
        let uuid = fs::read_to_string("/proc/sys/kernel/random/uuid").context("cannot get a random number")?;
        let digits: Vec<u8> = uuid.bytes().filter_map(|c| char::from(c).to_digit(16)).map(|d| d as u8).collect();
        let uuid = std::array::from_fn(|i| {
            let digit = |at: usize| digits.get(at).copied().unwrap_or(0);
            digit(2 * i) << 4 | digit(2 * i + 1)
        });
        let hostname = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let mut writer = Writer {
            dir: dir.to_owned(),
            from: from.to_owned(),
            trace: Trace::new(uuid, &hostname),
            files: Vec::new(),
            begun: Instant::now(),
            bytes: 0,
            packet_bytes: 0,
        };
        writer.write_metadata()?;
        let note = json!({ "tool": "kymo", "version": env!("CARGO_PKG_VERSION"), "complete": false, "from": from });
        writer.replace(SUMMARY_FILE, note.to_string().as_bytes())?;
        Ok(writer)
    }

    /// Bytes that came.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// So many more have come.
    pub fn add_bytes(&mut self, count: usize) {
        self.bytes += count as u64;
    }

    /// Writes what is complete.
    pub fn take(&mut self, receiver: &mut Receiver) -> anyhow::Result<()> {
        let batches = receiver.take();
        let mut parts: Vec<(usize, Vec<u8>)> = Vec::new();
        for batch in batches {
            let packets = self.trace.packets(&batch, receiver.epochs());
            match parts.last_mut() {
                Some((epoch, bytes)) if *epoch == batch.epoch => bytes.extend(packets),
                _ => parts.push((batch.epoch, packets)),
            }
        }
        if self.trace.take_news() {
            self.write_metadata()?;
        }
        for (epoch, packets) in parts {
            while self.files.len() <= epoch {
                let path = self.dir.join(file_name(self.files.len()));
                let file = File::create_new(&path).with_context(|| format!("cannot make {}", path.display()))?;
                self.files.push(file);
            }
            append(&mut self.files[epoch], &packets)
                .with_context(|| format!("cannot write into {}", self.dir.display()))?;
            self.packet_bytes += packets.len() as u64;
        }
        Ok(())
    }

    fn write_metadata(&mut self) -> anyhow::Result<()> {
        let _ = self.trace.take_news();
        self.replace("metadata", self.trace.metadata().as_bytes())
    }

    /// A reader never sees half of it.
    fn replace(&self, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
        let new = self.dir.join(format!(".{}.new", name.trim_start_matches('.')));
        let result = fs::write(&new, bytes).and_then(|()| fs::rename(&new, self.dir.join(name)));
        if result.is_err() {
            let _ = fs::remove_file(&new);
        }
        result.with_context(|| format!("cannot write {name} in {}", self.dir.display()))
    }

    /// Writes the rest and the summary.
    pub fn end(mut self, receiver: &mut Receiver, ending: Ending) -> anyhow::Result<Summary> {
        let unknown = not_known(receiver.epochs(), &ending);
        let Ending { times_are_known, error, .. } = ending;
        // Where the disk is full the error is that of before.
        let written = if error.is_none() { self.take(receiver) } else { Ok(()) };
        let summary = Summary {
            epochs: receiver.epochs().to_vec(),
            stray_bytes: receiver.stray_bytes(),
            bytes: self.bytes,
            packet_bytes: self.packet_bytes,
            duration_s: self.begun.elapsed().as_secs_f64(),
            times_are_known,
            unknown,
            error,
            dir: self.dir.clone(),
            from: self.from.clone(),
        };
        self.replace(SUMMARY_FILE, serde_json::to_string_pretty(&summary.to_json())?.as_bytes())?;
        written.map(|()| summary)
    }
}

/// What was recorded on the target, and of which nobody can say how much it was [spec/target.md 7].
fn not_known(epochs: &[Epoch], ending: &Ending) -> Vec<Value> {
    let entry = |name: &str, what: Missing, why: String, next: &str| json!({ "process": null, "pid": 0, "vpid": 0, "comm": name, "what": what, "why": why, "next": next });
    let shut_down = "let the target call posix_trace_shutdown(), and collect until the line is quiet";
    let mut out = Vec::new();
    if epochs.is_empty() {
        let next = "see that this is the line of a target, at its speed (--baud)";
        out.push(entry("", Missing::Program, "no frame came: nothing is known of the target".to_owned(), next));
    }
    for (index, epoch) in epochs.iter().enumerate() {
        if epoch.hz.is_none() {
            let why = "no head of the stream came: what was sent before is not known".to_owned();
            out.push(entry(&epoch.name, Missing::Beginning, why, "collect for longer: heads come again and again"));
        }
        if epoch.is_final {
            continue;
        }
        let why = if index + 1 < epochs.len() {
            "the target started again before the stream was shut down: what it had recorded and not sent is not known"
                .to_owned()
        } else if ending.is_asked_for {
            "the collecting was ended while the stream went on: what the target had recorded and not sent is not known"
                .to_owned()
        } else if ending.torn_bytes > 0 {
            format!(
                "the line ended within a frame, of which {} bytes came: what was behind is not known",
                ending.torn_bytes
            )
        } else {
            "the line ended before the stream was shut down: what was behind is not known".to_owned()
        };
        out.push(entry(&epoch.name, Missing::Rest, why, shut_down));
    }
    out
}

/// Whole packets or none: what did not fit is taken back, so that a reader finds no half of one at the end.
fn append(file: &mut File, packets: &[u8]) -> std::io::Result<()> {
    let before = file.metadata()?.len();
    file.write_all(packets).inspect_err(|_| {
        let _ = file.set_len(before);
    })
}

impl Summary {
    fn sum(&self, of: fn(&Epoch) -> u64) -> u64 {
        self.epochs.iter().map(of).sum()
    }

    /// Whether something came, and nothing that was sent since is missing or doubtful.
    pub fn is_all(&self) -> bool {
        let missing = |epoch: &Epoch| {
            epoch.lost_target + epoch.lost_line + epoch.frames_missing + epoch.damaged + u64::from(epoch.hz.is_none())
        };
        !self.epochs.is_empty() && self.sum(missing) == 0 && self.error.is_none()
    }

    /// Whether the end of every stream was seen, so that what is missing was counted.
    pub fn is_known(&self) -> bool {
        self.unknown.is_empty()
    }

    /// As the summary of a trace [spec/target.md 7].
    pub fn to_json(&self) -> Value {
        let lost = json!({
            "target": self.sum(|epoch| epoch.lost_target),
            "line": self.sum(|epoch| epoch.lost_line),
        });
        json!({
            "tool": "kymo",
            "version": env!("CARGO_PKG_VERSION"),
            "complete": self.is_known() && self.error.is_none(),
            "ended": true,
            "from": self.from,
            "trace": self.dir,
            "format": "ctf-1.8",
            "duration_s": self.duration_s,
            "line_bytes": self.bytes,
            "stray_bytes": self.stray_bytes,
            "bytes": self.packet_bytes,
            "records": self.sum(|epoch| epoch.records),
            "lost": if self.is_known() { lost.clone() } else { Value::Null },
            "lost_counted": lost,
            "unknown": self.unknown,
            "unknown_count": self.unknown.len(),
            "frames": self.sum(|epoch| epoch.frames),
            "frames_missing": self.sum(|epoch| epoch.frames_missing),
            "epochs": self.epochs.iter().map(epoch_json).collect::<Vec<_>>(),
            "error": self.error,
            "caveats": self.caveats(),
        })
    }

    fn caveats(&self) -> Vec<String> {
        let mut out = Vec::new();
        if self.epochs.is_empty() {
            out.push(format!(
                "no frame came: {} bytes that belong to none; is this the line of a target, at the right speed?",
                self.stray_bytes
            ));
        }
        if !self.epochs.is_empty() && !self.times_are_known {
            out.push(
                "times of day are not known: the file's time of change stands for that of the first head".to_owned(),
            );
        }
        for (index, epoch) in self.epochs.iter().enumerate() {
            if let Some(version) = epoch.other_version {
                out.push(format!(
                    "epoch {index}: frames of version {version}, and this program knows 1: use a newer one"
                ));
            } else if epoch.hz.is_none() {
                out.push(format!("epoch {index}: no head came: its clock is taken for one of 1 GHz"));
            }
            let unknown = epoch.lost_line == 0 && epoch.frames_missing > 0;
            if unknown && !epoch.is_final {
                out.push(format!(
                    "epoch {index}: {} frames are missing; what they told of is not known, or nothing",
                    epoch.frames_missing
                ));
            }
        }
        out
    }

    /// What people want to know, on standard error.
    pub fn say(&self) {
        for caveat in self.caveats() {
            eprintln!("kymo: {caveat}");
        }
        let several = self.epochs.len() > 1;
        for (index, epoch) in self.epochs.iter().enumerate() {
            let name = if epoch.name.is_empty() { "a stream without a name" } else { &epoch.name };
            let which = if several { format!("epoch {index} (boot {}), ", epoch.boot) } else { String::new() };
            eprintln!("kymo: {which}{name}: {} records{}", epoch.records, missing(epoch));
        }
        for line in unknown::lines_of(&json!({ "unknown": self.unknown })) {
            eprintln!("kymo: {line}");
        }
        let stray = self.stray_bytes;
        if stray > 0 && !self.epochs.is_empty() {
            eprintln!("kymo: {stray} bytes of {} belong to no frame", self.bytes);
        }
        eprintln!("kymo: trace in {}", self.dir.display());
    }
}

/// What an epoch lacks, for people.
fn missing(epoch: &Epoch) -> String {
    let counts = [
        (epoch.lost_target, "lost on the target"),
        (epoch.lost_line, "lost on the line"),
        (epoch.frames_missing, "frames missing"),
        (epoch.damaged, "frames make no sense"),
        (epoch.duplicates, "frames came twice"),
        (epoch.late, "frames came late"),
        (epoch.before, "records before it was listened to"),
    ];
    counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!(", {count} {what}")).collect()
}

fn epoch_json(epoch: &Epoch) -> Value {
    let places = epoch.places.iter().map(|place| {
        json!({
            "stamp": place.stamp,
            "lost_target": place.lost_target,
            "lost_line": place.lost_line,
            "frames_missing": place.frames_missing,
        })
    });
    json!({
        "boot": epoch.boot,
        "name": epoch.name,
        "clock_hz": epoch.hz,
        "records": epoch.records,
        "frames": epoch.frames,
        "lost_target": epoch.lost_target,
        "lost_line": epoch.lost_line,
        "frames_missing": epoch.frames_missing,
        "duplicates": epoch.duplicates,
        "late": epoch.late,
        "damaged": epoch.damaged,
        "before": epoch.before,
        "final": epoch.is_final,
        "losses": places.collect::<Vec<_>>(),
    })
}
