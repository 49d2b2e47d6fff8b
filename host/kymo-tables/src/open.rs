// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opens traces, and puts together what is of one machine: a state is one machine's.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::{fmt, fs};

use kymo_command::input::open_part;
use kymo_command::named::named_silently;
use kymo_ctf::read::{Caveat, Trace, Watch, unite_clocks};
use kymo_feed::Classes;
use kymo_index::{Indexes, Named, range};
use kymo_query::{Machine, host_name, machine};

use crate::error::Error;

/// How traces are opened.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// Read as if there were no index.
    pub without_index: bool,
    /// Read packets whatever UUID they have.
    pub ignore_uuid: bool,
    /// Open also if no trace can be opened: all that there is then is in the table `losses`.
    pub keep_unreadable: bool,
    /// Is told how far the tables are read; none: nobody.
    pub watch: Option<Watcher>,
}

/// Who is told how far tables are read, by several threads at a time.
#[derive(Clone)]
pub struct Watcher(pub Arc<dyn Watch>);

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watcher")
    }
}

/// Traces of one machine that are read together: of one kernel at most.
pub(crate) struct Group {
    /// The machine's name.
    pub host: String,
    pub traces: Vec<Trace>,
    /// As they were named: each directory, and how many of the traces are its parts.
    pub dirs: Vec<(PathBuf, usize)>,
    /// Files beside them that may be results of the laboratory.
    pub results: Vec<PathBuf>,
    /// Those that were named. They are of no machine that is known; the first group has them.
    pub named_results: Vec<PathBuf>,
    /// Traces that could not be opened, and why. They are of no machine that is known; the first group has them.
    pub unreadable: Vec<(PathBuf, String)>,
    pub indexes: Indexes,
    pub classes: Classes,
    /// What was wrong with them when they were opened.
    pub caveats: Vec<Caveat>,
    bounds: OnceLock<Option<(i64, i64)>>,
}

impl Group {
    /// Times of the first record and of the last, ns. Reads all records where an index is missing, once.
    pub fn bounds(&self) -> Option<(i64, i64)> {
        *self.bounds.get_or_init(|| range::bounds(&self.traces, &self.indexes))
    }

    /// Up to when streams have to be read for all records before a time. A reader leaves a stream at its first record
    /// that is not before it: where an index tells of damage or of times that went back, others may follow.
    pub fn read_to(&self, to: Option<i64>) -> Option<i64> {
        let mut streams = self.indexes.traces.iter().flatten().flat_map(|index| &index.streams);
        if streams.any(|stream| stream.damaged > 0) { None } else { to }
    }
}

/// Readers of tables tell nobody how far they are, if nobody is named.
struct Silent;

impl Watch for Silent {
    fn begin(&self, _: Option<u64>) {}

    fn passed(&self, _: u64) {}

    fn end(&self) {}
}

/// A directory that was named, opened.
struct OpenedDir {
    named: Named,
    traces: Vec<Trace>,
    caveats: Vec<Caveat>,
    has_switches: bool,
}

/// Whether a path that is named is that of a result, not of a trace.
fn is_result(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "json") && path.is_file()
}

/// The files in a directory that may be results.
fn beside(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| is_result(path)).collect();
    files.sort();
    files
}

/// All traces of the paths.
pub(crate) fn open(paths: &[PathBuf], options: &OpenOptions) -> Result<Vec<Group>, Error> {
    let (results, paths): (Vec<PathBuf>, Vec<PathBuf>) = paths.iter().cloned().partition(|path| is_result(path));
    let (mut dirs, mut bad) = (Vec::new(), Vec::new());
    for named in named_silently(&paths) {
        let dir = named.dir.clone();
        match open_dir(named, options) {
            Ok(opened) => dirs.push(opened),
            // Of many directories one may always be bad; a path that is not there is a mistake.
            Err(error) if dir.exists() => bad.push((dir, error)),
            Err(error) => return Err(error),
        }
    }
    if dirs.is_empty() && (bad.is_empty() || !options.keep_unreadable) {
        return Err(bad.into_iter().next().map_or(Error::NoTrace, |(_, error)| error));
    }
    let mut groups: Vec<Group> = together(dirs).into_iter().map(|dirs| group(dirs, options)).collect();
    if groups.is_empty() {
        groups.push(group(Vec::new(), options));
    }
    groups[0].named_results = results;
    groups[0].unreadable = bad.into_iter().map(|(dir, error)| (dir, error.to_string())).collect();
    Ok(groups)
}

/// All parts of a trace.
fn open_dir(named: Named, options: &OpenOptions) -> Result<OpenedDir, Error> {
    let (mut traces, mut caveats) = (Vec::new(), Vec::new());
    for part in &named.parts {
        let mut opened = open_part(part)?;
        if options.ignore_uuid {
            opened.value.ignore_uuid();
        }
        opened
            .value
            .watch(options.watch.as_ref().map_or_else(|| Arc::new(Silent) as Arc<dyn Watch>, |of| Arc::clone(&of.0)));
        caveats.extend(opened.caveats);
        traces.push(opened.value);
    }
    let has_switches = traces.iter().any(kymo_command::input::has_switches);
    Ok(OpenedDir { named, traces, caveats, has_switches })
}

/// Those of programs go to the kernel of their machine, else they are with others of their machine.
fn together(dirs: Vec<OpenedDir>) -> Vec<Vec<OpenedDir>> {
    let mut groups: Vec<(Option<Machine>, Vec<OpenedDir>)> = Vec::new();
    let (kernels, programs): (Vec<_>, Vec<_>) = dirs.into_iter().partition(|dir| dir.has_switches);
    groups.extend(kernels.into_iter().map(|dir| (dir.traces.first().map(machine), vec![dir])));
    for dir in programs {
        let own = dir.traces.first().map(machine);
        match groups.iter_mut().find(|(machine, _)| *machine == own) {
            Some((_, dirs)) => dirs.push(dir),
            None => groups.push((own, vec![dir])),
        }
    }
    groups.into_iter().map(|(_, dirs)| dirs).collect()
}

fn group(dirs: Vec<OpenedDir>, options: &OpenOptions) -> Group {
    let (mut traces, mut named, mut caveats) = (Vec::new(), Vec::new(), Vec::new());
    for dir in dirs {
        traces.extend(dir.traces);
        named.push(dir.named);
        caveats.extend(dir.caveats);
    }
    unite_clocks(&mut traces);
    let indexes = match options.without_index || options.ignore_uuid {
        true => Indexes::default(),
        false => Indexes::open(&named, &traces),
    };
    let host = traces.first().map_or_else(String::new, host_name);
    let classes = Classes::new(&traces);
    let results = named.iter().flat_map(|named| beside(&named.dir)).collect();
    let dirs = named.into_iter().map(|named| (named.dir, named.parts.len())).collect();
    let (named_results, unreadable) = (Vec::new(), Vec::new());
    Group { host, classes, traces, dirs, results, named_results, unreadable, indexes, caveats, bounds: OnceLock::new() }
}
