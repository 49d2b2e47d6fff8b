// SPDX-License-Identifier: MIT OR Apache-2.0
//! Putting an index in its place: one builder at a time, and whole or not at all [spec/index.md 4].

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use kymo_ctf::read::Trace;
use kymo_feed::Classes;
use rustix::fs::{FlockOperation, OFlags, flock};

use crate::build::Builder;
use crate::build::stop::Stop;
use crate::error::Error;
use crate::file::Writer;
use crate::file::head::IndexHead;
use crate::file::identity::{TraceIdentity, beside, in_cache};
use crate::open::{Loaded, Named, load};
use crate::states::Spacing;

/// Behind the name of an index that is being built.
const NEW_SUFFIX: &str = ".new";

/// Names spans of a trace, as `kymo latency --span` has them.
pub type NamedSpans = fn(&[Trace], &Classes) -> Vec<String>;

/// How an index is built.
#[derive(Clone, Copy, Debug, Default)]
pub struct How {
    /// Also where one holds.
    pub anew: bool,
    /// Not into the directory of the trace, but into the cache.
    pub in_cache: bool,
    /// Of checkpoints.
    pub spacing: Spacing,
    /// Which spans of a program's own events it has; none without it.
    pub spans: Option<NamedSpans>,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    /// Where the index is.
    pub path: PathBuf,
    /// Bytes of all files of it.
    pub bytes: u64,
    /// It was built now; false: one was there, and holds.
    pub is_new: bool,
    /// Why one that was there does not hold.
    pub stale: Option<String>,
}

/// Builds the index of a trace, where there is none that holds. `wait` is told that another process builds it.
pub fn build(named: &Named, traces: &[Trace], how: How, stop: &Stop, wait: &dyn Fn(&Path)) -> Result<Built, Error> {
    let identity = |(dir, trace): (&PathBuf, &Trace)| TraceIdentity::of(dir, trace).ok_or(Error::Changing);
    let now = named.parts.iter().zip(traces).map(identity).collect::<Result<Vec<_>, _>>()?;
    let classes = Classes::new(traces);
    let spans = how.spans.map_or_else(Vec::new, |named| named(traces, &classes));
    let builder = Builder { traces, classes: &classes, stop, spacing: how.spacing, spans: &spans };
    let is_one = named.parts.len() == 1 && named.parts[0] == named.dir;
    let mut bytes = 0;
    if !is_one {
        for (index, dir) in named.parts.iter().enumerate() {
            let target = Target { dir, now: &now[index..=index], how, needs: Needs::Streams, stop, wait };
            bytes += target.put(|to| Ok((Some(builder.part(index, to)?), None)))?.bytes;
        }
    }
    let needs = if is_one { Needs::Both } else { Needs::States };
    let target = Target { dir: &named.dir, now: &now, how, needs, stop, wait };
    let built = target.put(|to| match is_one {
        true => builder.whole(to).map(|(streams, states)| (Some(streams), Some(states))),
        false => Ok((None, Some(builder.all_states(to)?))),
    })?;
    Ok(Built { bytes: built.bytes + bytes, ..built })
}

/// What an index must have to be of use.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Needs {
    Streams,
    States,
    Both,
}

/// One file of an index.
struct Target<'t> {
    dir: &'t Path,
    now: &'t [TraceIdentity],
    how: How,
    needs: Needs,
    stop: &'t Stop,
    wait: &'t dyn Fn(&Path),
}

type Heads = (Option<crate::file::head::StreamsHead>, Option<crate::file::head::StatesHead>);

impl Target<'_> {
    /// Takes what is there, or makes it.
    fn put(&self, make: impl FnOnce(&mut Writer<'_>) -> Result<Heads, Error>) -> Result<Built, Error> {
        let mut stale = Vec::new();
        if let Some(built) = self.existing(&mut stale) {
            return Ok(built);
        }
        let stale = stale.pop().map(|(_, why)| why);
        let mut new = self.reserve()?;
        // Whoever held us up may have built it.
        if let (true, Some(built)) = (new.waited, self.existing(&mut Vec::new())) {
            return Ok(built);
        }
        let mut writer = Writer::new(&new.file).map_err(|error| new.error(error))?;
        let (streams, states) = make(&mut writer)?;
        let head = IndexHead { traces: self.now.to_vec(), streams, states };
        let bytes = writer.finish(&head.encode()).map_err(|error| new.error(error))?;
        let path = new.place()?;
        Ok(Built { path, bytes, is_new: true, stale })
    }

    fn existing(&self, stale: &mut Vec<(PathBuf, String)>) -> Option<Built> {
        let Loaded { path, pieces, head } = load(self.dir, self.now, stale)?;
        let has = match self.needs {
            Needs::Streams => head.streams.is_some(),
            Needs::States => head.states.is_some(),
            Needs::Both => head.streams.is_some() && head.states.is_some(),
        };
        (has && !self.how.anew).then_some(Built { path, bytes: pieces.bytes, is_new: false, stale: None })
    }

    /// The file to write, beside the trace or in the cache.
    fn reserve(&self) -> Result<New, Error> {
        let there = beside(self.dir);
        if !self.how.in_cache {
            match New::open(&there, self) {
                Err(error) if is_refused(&error) => {}
                opened => return opened.map_err(|source| Error::Io { path: there, source }),
            }
        }
        let cache = in_cache(self.dir).ok_or(Error::NoCache)?;
        if let Some(dir) = cache.parent() {
            fs::create_dir_all(dir).map_err(|source| Error::Io { path: dir.to_owned(), source })?;
        }
        New::open(&cache, self).map_err(|source| Error::Io { path: cache, source })
    }
}

/// The directory cannot be written by us.
fn is_refused(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

/// A file that will be an index. Removed again where it does not become one.
struct New {
    path: PathBuf,
    new_path: PathBuf,
    file: File,
    /// Another process held it.
    waited: bool,
    is_placed: bool,
}

impl New {
    /// Opens it and locks out other builders; what a killed one has left is overwritten.
    fn open(path: &Path, target: &Target<'_>) -> io::Result<New> {
        let mut name = path.as_os_str().to_owned();
        name.push(NEW_SUFFIX);
        let new_path = PathBuf::from(name);
        let mut waited = false;
        loop {
            let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(flags);
            let file = options.open(&new_path)?;
            if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
                if !waited {
                    (target.wait)(path);
                }
                waited = true;
                wait_for(&file, target.stop)?;
            }
            // The one before us may have renamed or removed what we have locked.
            let is_there = fs::symlink_metadata(&new_path).is_ok_and(|there| {
                file.metadata()
                    .is_ok_and(|ours| (ours.dev(), ours.ino()) == (there.dev(), there.ino()) && ours.is_file())
            });
            if is_there {
                file.set_len(0)?;
                return Ok(New { path: path.to_owned(), new_path, file, waited, is_placed: false });
            }
        }
    }

    fn place(&mut self) -> Result<PathBuf, Error> {
        fs::rename(&self.new_path, &self.path).map_err(|error| self.error(error))?;
        self.is_placed = true;
        Ok(self.path.clone())
    }

    fn error(&self, source: io::Error) -> Error {
        Error::Io { path: self.new_path.clone(), source }
    }
}

/// Waits until nobody else has it. Looks now and then whether it shall go on with that.
fn wait_for(file: &File, stop: &Stop) -> io::Result<()> {
    const LOOK: Duration = Duration::from_millis(20);
    while flock(file, FlockOperation::NonBlockingLockExclusive).is_err() {
        if stop.check().is_err() {
            return Err(io::Error::other("stopped while another process builds it"));
        }
        thread::sleep(LOOK);
    }
    Ok(())
}

impl Drop for New {
    fn drop(&mut self) {
        if !self.is_placed {
            // The lock is still held: nobody else has it open for writing.
            let _ = fs::remove_file(&self.new_path);
        }
    }
}
