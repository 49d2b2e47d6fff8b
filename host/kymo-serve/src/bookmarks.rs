// SPDX-License-Identifier: MIT OR Apache-2.0
//! The user's bookmarks of a trace [spec/view.md 1.1]: a small file beside the trace, or in the cache where the trace's
//! directory cannot be written. Paths are those that the command chose; a request has none.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

/// How the file calls its form.
const SCHEMA: &str = "kymo-notes-1";
/// Bytes of the file, and of what a request brings, at most.
pub const BYTES_MAX: usize = 1 << 20;
/// Bookmarks, and characters of one, at most.
const NOTES_MAX: usize = 1000;
const TEXT_MAX: usize = 2000;

/// Where bookmarks are.
#[derive(Debug, Default)]
pub struct Notebook {
    /// Beside the trace; then in the cache.
    places: Vec<PathBuf>,
    /// One writer at a time.
    writing: Mutex<()>,
}

/// Why bookmarks are not there, or not saved.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What came is no list of bookmarks.
    #[error("{0}")]
    Wrong(String),
    /// Somebody saved others meanwhile.
    #[error("other bookmarks were saved meanwhile: load them first")]
    Stale,
    /// A file is there, and is not one of ours: it is left alone.
    #[error("{} is not a file of bookmarks; move it away to save some", .0.display())]
    Foreign(PathBuf),
    /// The disk.
    #[error("bookmarks cannot be saved: {0}")]
    Io(#[from] io::Error),
    /// The trace is not written, and there is no cache.
    #[error("bookmarks cannot be saved: the trace's directory is read-only, and there is no cache")]
    Nowhere,
}

impl Error {
    /// Status, and word of spec/view.md 5.
    pub fn status(&self) -> (u16, &'static str) {
        match self {
            Error::Wrong(_) => (400, "parameter"),
            Error::Stale => (409, "stale"),
            Error::Foreign(_) | Error::Nowhere => (422, "trace"),
            Error::Io(_) => (500, "internal"),
        }
    }
}

/// What is in the file.
#[derive(Clone, Debug, Default, PartialEq)]
struct Notes {
    revision: u64,
    list: Vec<Value>,
}

impl Notebook {
    /// In the first of these files that is there; else in the first that can be made.
    pub fn new(places: Vec<PathBuf>) -> Notebook {
        Notebook { places, writing: Mutex::new(()) }
    }

    /// As they are answered.
    ///
    /// # Errors
    /// A file that is not ours; the disk.
    pub fn load(&self) -> Result<Value, Error> {
        let found = self.find()?;
        let is_beside = found.as_ref().map(|(path, _)| self.places.first() == Some(path));
        let notes = found.map(|(_, notes)| notes).unwrap_or_default();
        let place = is_beside.map(|is_beside| if is_beside { "beside the trace" } else { "in the cache" });
        Ok(json!({ "revision": notes.revision, "notes": notes.list, "place": place }))
    }

    /// Replaces all of them. The body has the revision that it is made from.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn save(&self, body: &[u8]) -> Result<Value, Error> {
        let wrong = |text: &str| Error::Wrong(text.to_owned());
        if body.len() > BYTES_MAX {
            return Err(wrong("more than 1 MiB of bookmarks"));
        }
        let body: Value = serde_json::from_slice(body).map_err(|error| Error::Wrong(format!("no JSON: {error}")))?;
        let revision = body["revision"].as_u64().ok_or_else(|| wrong("revision: the number that was loaded"))?;
        let list = body["notes"].as_array().ok_or_else(|| wrong("notes: a list"))?;
        if list.len() > NOTES_MAX {
            return Err(Error::Wrong(format!("at most {NOTES_MAX} bookmarks")));
        }
        let list = list.iter().map(note).collect::<Result<Vec<Value>, Error>>()?;
        let one_writer = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let found = self.find()?;
        let (path, known) = found.map_or((None, 0), |(path, notes)| (Some(path), notes.revision));
        if known != revision {
            return Err(Error::Stale);
        }
        let file = json!({ "schema": SCHEMA, "revision": revision + 1, "notes": list });
        let mut text = serde_json::to_vec_pretty(&file).map_err(io::Error::from)?;
        text.push(b'\n');
        if text.len() > BYTES_MAX {
            return Err(wrong("more than 1 MiB of bookmarks"));
        }
        self.write(path, &text)?;
        drop(one_writer);
        self.load()
    }

    fn find(&self) -> Result<Option<(PathBuf, Notes)>, Error> {
        for path in &self.places {
            if let Some(notes) = read(path)? {
                return Ok(Some((path.clone(), notes)));
            }
        }
        Ok(None)
    }

    /// Where they are already, or where it can be done.
    fn write(&self, path: Option<PathBuf>, text: &[u8]) -> Result<(), Error> {
        let places = path.map_or_else(|| self.places.clone(), |path| vec![path]);
        let mut last = Error::Nowhere;
        for place in places {
            match replace(&place, text) {
                Ok(()) => return Ok(()),
                Err(error) if is_not_written(&error) => last = Error::Nowhere,
                Err(error) => last = Error::Io(error),
            }
        }
        Err(last)
    }
}

fn is_not_written(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

/// One bookmark, with nothing in it but what is known.
fn note(value: &Value) -> Result<Value, Error> {
    let wrong = || {
        let text =
            format!("a bookmark: at and to (or null) in decimal ns since 1970, text of at most {TEXT_MAX} characters");
        Error::Wrong(text)
    };
    let time = |name: &str| value[name].as_str().and_then(|text| text.parse::<i64>().ok());
    let at = time("at").ok_or_else(wrong)?;
    let to = time("to");
    if !value["to"].is_null() && to.is_none_or(|to| to < at) {
        return Err(wrong());
    }
    let text = value["text"].as_str().filter(|text| text.chars().count() <= TEXT_MAX).ok_or_else(wrong)?;
    Ok(json!({ "at": at.to_string(), "to": to.map(|to| to.to_string()), "text": text }))
}

/// The file; none where it is not there. A trace may come from anywhere: links and what is no file are not followed.
fn read(path: &Path) -> Result<Option<Notes>, Error> {
    let about = match fs::symlink_metadata(path) {
        Ok(about) => about,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if is_not_written(&error) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let foreign = || Error::Foreign(path.to_owned());
    if !about.is_file() || about.len() > BYTES_MAX as u64 {
        return Err(foreign());
    }
    let mut text = Vec::new();
    File::open(path)?.take(BYTES_MAX as u64 + 1).read_to_end(&mut text)?;
    let file: Value = serde_json::from_slice(&text).map_err(|_| foreign())?;
    let list = file["notes"].as_array().filter(|list| list.len() <= NOTES_MAX && file["schema"] == SCHEMA);
    let list: Option<Vec<Value>> = list.and_then(|list| list.iter().map(|one| note(one).ok()).collect());
    let notes = file["revision"].as_u64().zip(list).map(|(revision, list)| Notes { revision, list });
    notes.map(Some).ok_or_else(foreign)
}

/// Puts a whole file in the place of another one: who reads sees the one or the other.
fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(dir)?;
    let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let aside = dir.join(format!("{name}.{}", std::process::id()));
    let written = (|| {
        let mut file = OpenOptions::new().write(true).create_new(true).open(&aside)?;
        file.write_all(text)?;
        file.sync_all()?;
        fs::rename(&aside, path)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&aside);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(revision: u64, texts: &[&str]) -> Vec<u8> {
        let one = |text: &&str| json!({ "at": "1700000000000000001", "to": null, "text": text, "other": 1 });
        json!({ "revision": revision, "notes": texts.iter().map(one).collect::<Vec<_>>() }).to_string().into_bytes()
    }

    #[test]
    fn they_are_kept_beside_the_trace_and_a_stale_list_replaces_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let book = Notebook::new(vec![dir.path().join(".kymo-notes.json"), dir.path().join("cache/x")]);
        assert_eq!(book.load().unwrap(), json!({ "revision": 0, "notes": [], "place": null }));
        let saved = book.save(&body(0, &["<b>\u{1b}", "two"])).unwrap();
        assert_eq!((&saved["revision"], &saved["place"]), (&json!(1), &json!("beside the trace")));
        let first = json!({ "at": "1700000000000000001", "to": null, "text": "<b>\u{1b}" });
        assert_eq!(saved["notes"][0], first);
        assert!(matches!(book.save(&body(0, &[])), Err(Error::Stale)));
        assert_eq!(Notebook::new(book.places.clone()).load().unwrap(), saved);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left aside");
    }

    #[test]
    fn what_is_too_much_or_no_bookmark_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let book = Notebook::new(vec![dir.path().join("n")]);
        let long = "x".repeat(TEXT_MAX + 1);
        let many = vec!["x"; NOTES_MAX + 1];
        let one = |note: Value| json!({ "revision": 0, "notes": [note] }).to_string().into_bytes();
        for wrong in [
            b"{".to_vec(),
            b"[]".to_vec(),
            body(0, &[&long]),
            body(0, &many),
            vec![b' '; BYTES_MAX + 1],
            one(json!({ "at": 5, "text": "" })),
            one(json!({ "at": "5", "to": "4", "text": "" })),
            one(json!({ "at": "5", "to": "x", "text": "" })),
            one(json!({ "at": "99999999999999999999", "text": "" })),
            one(json!({ "at": "5" })),
        ] {
            let shown = String::from_utf8_lossy(&wrong[..wrong.len().min(60)]).into_owned();
            assert!(matches!(book.save(&wrong), Err(Error::Wrong(_))), "{shown}");
        }
        assert!(!dir.path().join("n").exists());
    }

    #[test]
    fn files_of_others_and_links_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("f"), dir.path().join("l"));
        fs::write(&file, "{\"notes\": []}").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        for path in [&file, &link, &dir.path().to_owned()] {
            let book = Notebook::new(vec![path.clone()]);
            assert!(matches!(book.load(), Err(Error::Foreign(_))), "{}", path.display());
            assert!(matches!(book.save(&body(0, &["x"])), Err(Error::Foreign(_))));
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), "{\"notes\": []}");
        assert!(matches!(Notebook::default().save(&body(0, &["x"])), Err(Error::Nowhere)));
    }
}
