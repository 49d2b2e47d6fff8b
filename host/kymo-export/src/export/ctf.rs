// SPDX-License-Identifier: MIT OR Apache-2.0
//! CTF 1.8 that every reader reads [spec/exchange.md 2.1]: a trace for each trace, a stream file for each stream file,
//! and the same losses. Of a part of a trace the environment says that records were left out on purpose.

mod streams;

use std::collections::HashSet;
use std::path::{Component, Path, PathBuf};

use kymo_ctf::read::{Loss, Record, Trace};
use kymo_ctf::transcode::Transcoder;
use kymo_ctf::write::EnvValue;

use super::exporter::{Done, Exporter, Trim, note_wide};
use super::output::{NewDirectory, is_stdout};
use crate::Error;
use crate::uuid::uuid_of;
use streams::Streams;

/// Keys of the environment: which kymo wrote the trace, and of a part which options chose it, from when on and up to
/// when it is, and how many of its records were left out.
const EXPORT: &str = "kymo_export";
const TRIM: &str = "kymo_trim";
const TRIM_FROM: &str = "kymo_trim_from_ns";
const TRIM_TO: &str = "kymo_trim_to_ns";
const TRIM_LEFT_OUT: &str = "kymo_trim_left_out";

/// One trace that is written again.
struct TraceCopy<'t> {
    trace: &'t Trace,
    dir: PathBuf,
    uuid: [u8; 16],
    transcoder: Transcoder<'t>,
    streams: Streams,
    /// Records that the conditions of a trim left out.
    left_out: u64,
}

/// The directory.
pub struct Ctf<'t> {
    dir: NewDirectory,
    copies: Vec<TraceCopy<'t>>,
    trim: Option<Trim>,
}

impl<'t> Ctf<'t> {
    pub fn new(traces: &'t [Trace], path: &Path) -> Result<Ctf<'t>, Error> {
        if is_stdout(path) {
            return Err(Error::Nothing("a trace is a directory: name it with -o".to_owned()));
        }
        for trace in traces {
            if trace.metadata.clocks.iter().any(|clock| clock.correction.is_some()) {
                let what = "its times are given by another host's clock, which metadata cannot say; export it alone";
                return Err(Error::Nothing(format!("{}: {what}", trace.label)));
            }
        }
        let dir = NewDirectory::create(path)?;
        let labels: Vec<&str> = traces.iter().map(|trace| trace.label.as_str()).collect();
        let mut copies = Vec::with_capacity(traces.len());
        for (trace, below) in traces.iter().zip(dirs_of(&labels)) {
            let dir = path.join(below);
            std::fs::create_dir_all(&dir).map_err(Error::io(&dir))?;
            copies.push(TraceCopy {
                trace,
                uuid: uuid_of(&seed(trace, "")),
                transcoder: Transcoder::new(trace, tells_of_threads(trace)),
                streams: Streams::new(dir.clone()),
                dir,
                left_out: 0,
            });
        }
        Ok(Ctf { dir, copies, trim: None })
    }
}

impl Exporter for Ctf<'_> {
    fn trim(&mut self, trim: &Trim) {
        for copy in &mut self.copies {
            // A part of a trace is another trace.
            copy.uuid = uuid_of(&seed(copy.trace, &format!("{trim:?}")));
        }
        self.trim = Some(trim.clone());
    }

    fn left_out(&mut self, record: &Record<'_>) {
        if let Some(copy) = self.copies.get_mut(record.trace) {
            copy.left_out += 1;
        }
    }

    fn record(&mut self, record: &Record<'_>) -> Result<(), Error> {
        let Some(copy) = self.copies.get_mut(record.trace) else { return Ok(()) };
        copy.streams.record(&copy.uuid, &mut copy.transcoder, record)
    }

    fn loss(&mut self, loss: &Loss<'_>) -> Result<(), Error> {
        let Some(copy) = self.copies.get_mut(loss.trace) else { return Ok(()) };
        copy.streams.loss(&copy.uuid, &mut copy.transcoder, loss)
    }

    fn finish(self: Box<Self>) -> Result<Done, Error> {
        let mut done = Done::default();
        for mut copy in self.copies {
            note_wide(&mut done, std::slice::from_ref(copy.trace));
            copy.streams.finish(&copy.uuid)?;
            let env = environment(copy.trace, self.trim.as_ref(), copy.left_out);
            let metadata = copy.dir.join("metadata");
            std::fs::write(&metadata, copy.transcoder.metadata(&copy.uuid, &env)).map_err(Error::io(&metadata))?;
            done.files += copy.streams.count() + 1;
            done.change("texts with bytes that are not UTF-8: these were replaced", copy.transcoder.replaced_texts);
            done.change(
                "names of fields that CTF 1.8 cannot have, or that were there twice",
                copy.transcoder.renamed(),
            );
        }
        self.dir.keep();
        Ok(done)
    }
}

/// Whether records of threads come with what the trace has told of these, besides what they have themselves.
fn tells_of_threads(trace: &Trace) -> bool {
    const TELL: [&str; 3] = ["sched_switch", "lttng_statedump_process_state", "kymo_statedump_thread_name"];
    trace.metadata.events.iter().any(|event| TELL.contains(&event.name.trim_start_matches("sched:")))
}

/// What decides the UUID of an export.
fn seed(trace: &Trace, trim: &str) -> Vec<u8> {
    let mut seed = b"kymo export".to_vec();
    match &trace.metadata.uuid {
        Some(uuid) => seed.extend_from_slice(uuid),
        None => seed.extend_from_slice(trace.label.as_bytes()),
    }
    seed.extend_from_slice(trim.as_bytes());
    seed
}

/// The source's environment, and what the export says of itself.
fn environment(trace: &Trace, trim: Option<&Trim>, left_out: u64) -> Vec<(String, EnvValue)> {
    let mut env = trace.metadata.env.clone();
    let before = |key: &str| env.iter().find(|(known, _)| known == key).map(|(_, value)| value.clone());
    // A part of a part: what chose the first one holds, too.
    let (options_before, count_before) = (before(TRIM), before(TRIM_LEFT_OUT));
    let mut set = |key: &str, value: EnvValue| match env.iter_mut().find(|(known, _)| known == key) {
        Some((_, known)) => *known = value,
        None => env.push((key.to_owned(), value)),
    };
    set(EXPORT, EnvValue::Text(format!("kymo {}", env!("CARGO_PKG_VERSION"))));
    let Some(trim) = trim else { return env };
    let options = match options_before {
        Some(EnvValue::Text(before)) => format!("{before}; {}", trim.options),
        _ => trim.options.clone(),
    };
    set(TRIM, EnvValue::Text(options));
    trim.from_ns.iter().for_each(|ns| set(TRIM_FROM, EnvValue::Int(*ns)));
    trim.to_ns.iter().for_each(|ns| set(TRIM_TO, EnvValue::Int(*ns)));
    let count_before = if let Some(EnvValue::Int(count)) = count_before { count } else { 0 };
    let count = i64::try_from(left_out).unwrap_or(i64::MAX).saturating_add(count_before);
    set(TRIM_LEFT_OUT, EnvValue::Int(count));
    env
}

/// Where each trace goes, below the directory: one is the directory itself, several keep their places below the
/// directory that they have in common.
fn dirs_of(labels: &[&str]) -> Vec<PathBuf> {
    if labels.len() == 1 {
        return vec![PathBuf::new()];
    }
    let names = |label: &&str| -> Vec<PathBuf> {
        let names = Path::new(label).components().filter(|part| matches!(part, Component::Normal(_)));
        names.map(|name| PathBuf::from(name.as_os_str())).collect()
    };
    let all: Vec<Vec<PathBuf>> = labels.iter().map(names).collect();
    let first = all.first().map_or(&[][..], Vec::as_slice);
    let common = (0..first.len()).take_while(|at| all.iter().all(|names| names.get(*at) == first.get(*at))).count();
    let below: Vec<PathBuf> = all.iter().map(|names| names[common..].iter().collect()).collect();
    let ups: HashSet<&Path> = below.iter().flat_map(|dir| dir.ancestors().skip(1)).collect();
    let distinct: HashSet<&Path> = below.iter().map(PathBuf::as_path).collect();
    // A trace that lies inside another one, or is named twice.
    match distinct.len() < below.len() || distinct.iter().any(|dir| ups.contains(dir)) {
        true => (1..=labels.len()).map(|number| PathBuf::from(format!("trace-{number}"))).collect(),
        false => below,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_keep_their_places() {
        let check = |labels: &[&str], expect: &[&str]| {
            let expect: Vec<PathBuf> = expect.iter().map(PathBuf::from).collect();
            assert_eq!(dirs_of(labels), expect, "{labels:?}");
        };
        check(&["/a/b"], &[""]);
        check(&["/s/kernel", "/s/ust/uid/0/64-bit"], &["kernel", "ust/uid/0/64-bit"]);
        check(&["a", "b"], &["a", "b"]);
        check(&["/x/a", "/x/a/b"], &["trace-1", "trace-2"]);
        check(&["../a", "a"], &["trace-1", "trace-2"]);
        check(&["a/c", "b/c", "b/d"], &["a/c", "b/c", "b/d"]);
    }
}
