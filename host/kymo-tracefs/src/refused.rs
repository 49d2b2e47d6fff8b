// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's own words about what it refused: `error_log`, or the filter file on kernels before 5.2.

use std::path::{Path, PathBuf};

use crate::file;

/// Looks at error logs before a write, so that only what the write added is shown.
#[derive(Debug)]
pub struct Watch {
    logs: Vec<(PathBuf, Vec<String>)>,
}

impl Watch {
    /// Notes what `logs` hold now. Logs that a kernel does not have, or that may not be read, are empty.
    pub fn begin(logs: &[PathBuf]) -> Watch {
        Watch { logs: logs.iter().map(|path| (path.clone(), entries_of(path))).collect() }
    }

    /// The kernel's lines about `command`, which was just refused; `None` if it wrote none.
    pub fn words(&self, command: &str) -> Option<String> {
        let mut words = Vec::new();
        for (path, before) in &self.logs {
            words.extend(entries_of(path).into_iter().filter(|entry| !before.contains(entry) && about(entry, command)));
        }
        // The last entry is about the last thing tried.
        words.pop().map(|entry| strip_time(&entry).to_owned())
    }
}

/// The message that a filter file holds after it refused: lines behind the filter itself. `None` if it has none.
pub fn from_filter_file(path: &Path) -> Option<String> {
    let text = file::read("read the filter", path).ok()?;
    let text = text.trim_end();
    text.contains('\n').then(|| text.to_owned())
}

fn entries_of(path: &Path) -> Vec<String> {
    entries(&file::read("read the error log", path).unwrap_or_default())
}

/// Entries of a log. Each begins with a line such as `[12065.004968] event filter parse error: ...`.
fn entries(text: &str) -> Vec<String> {
    let mut entries: Vec<String> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        match entries.last_mut() {
            Some(entry) if !line.starts_with('[') => {
                entry.push('\n');
                entry.push_str(line);
            }
            _ => entries.push(line.to_owned()),
        }
    }
    entries
}

/// Whether an entry is about `command`. Kernels may cut long commands, and some name only a part of it.
fn about(entry: &str, command: &str) -> bool {
    let Some((_, logged)) = entry.split_once("Command: ") else { return true };
    let logged = logged.lines().next().unwrap_or_default().trim();
    let command = command.trim();
    command.starts_with(logged) || logged.starts_with(command) || command.contains(logged)
}

/// Without the time stamp in front, which is of a clock that nobody sees.
fn strip_time(entry: &str) -> &str {
    match entry.strip_prefix('[').and_then(|rest| rest.split_once("] ")) {
        Some((_, rest)) => rest,
        None => entry,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "[12065.004968] event filter parse error: error: Field not found\n  Command: bad ==\n    ^\n\
                       [12066.1] trace_uprobe: error: Invalid argument\n  Command: p:a/b /x:1\n           ^\n";

    #[test]
    fn entries_have_their_carets() {
        let entries = entries(LOG);
        assert_eq!(entries.len(), 2);
        assert_eq!(
            strip_time(&entries[1]),
            "trace_uprobe: error: Invalid argument\n  Command: p:a/b /x:1\n           ^"
        );
    }

    #[test]
    fn only_what_is_new_and_ours() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("error_log");
        std::fs::write(&path, &LOG[..LOG.find("[12066").unwrap()]).unwrap();
        let watch = Watch::begin(&[path.clone(), folder.path().join("none")]);
        assert_eq!(watch.words("bad =="), None);
        std::fs::write(&path, LOG).unwrap();
        assert_eq!(watch.words("bad =="), None);
        assert!(watch.words("p:a/b /x:1").unwrap().starts_with("trace_uprobe"));
    }

    #[test]
    fn the_words_of_an_old_filter_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("filter");
        std::fs::write(&path, "bad ==\n    ^\nparse_error: Field not found\n").unwrap();
        assert!(from_filter_file(&path).unwrap().ends_with("Field not found"));
        std::fs::write(&path, "none\n").unwrap();
        assert_eq!(from_filter_file(&path), None);
    }
}
