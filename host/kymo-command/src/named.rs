// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which traces a command line names: directories of traces, sessions in chunks, and directories that have traces
//! somewhere below (an LTTng session, an experiment).

use std::fs;
use std::path::{Path, PathBuf};

use kymo_index::Named;

/// LTTng nests traces up to five levels; archives of rotations one more.
const LEVELS_MAX: usize = 8;

/// The traces that are named. Says on standard error where some were found below.
pub fn named(dirs: &[PathBuf]) -> Vec<Named> {
    let say = |dir: &PathBuf| {
        let found = one_or_below(dir);
        match &found[..] {
            [one] if one.dir == *dir => {}
            [one] => eprintln!("kymo: the trace below {} is {}", dir.display(), one.dir.display()),
            many => eprintln!("kymo: {} traces were found below {}", many.len(), dir.display()),
        }
        found
    };
    dirs.iter().flat_map(say).collect()
}

/// The same, without a word.
pub fn named_silently(dirs: &[PathBuf]) -> Vec<Named> {
    dirs.iter().flat_map(|dir| one_or_below(dir)).collect()
}

fn one_or_below(dir: &Path) -> Vec<Named> {
    // What is no directory is a log of POSIX Trace, or an error that opening it explains.
    if !dir.is_dir() {
        return vec![Named { dir: dir.to_owned(), parts: vec![dir.to_owned()] }];
    }
    if let Some(trace) = trace(dir) {
        return vec![trace];
    }
    let mut found = Vec::new();
    below(dir, 1, &mut found);
    if found.is_empty() {
        found.push(Named { dir: dir.to_owned(), parts: vec![dir.to_owned()] });
    }
    found
}

/// Looks through directories, in the order of their names. Not through links, which may lead in circles.
fn below(dir: &Path, level: usize, found: &mut Vec<Named>) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    let mut dirs: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect();
    dirs.sort();
    for dir in dirs {
        match trace(&dir) {
            Some(trace) => found.push(trace),
            None if level < LEVELS_MAX => below(&dir, level + 1, found),
            None => {}
        }
    }
}

/// The directory as a trace, or as a session of several chunks.
fn trace(dir: &Path) -> Option<Named> {
    let chunks = kymo_collect::chunk_dirs(dir);
    let parts = match dir.join("metadata").exists() {
        true => [chunks, vec![dir.to_owned()]].concat(),
        false => chunks,
    };
    (!parts.is_empty()).then(|| Named { dir: dir.to_owned(), parts })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_are_found_below() {
        let root = tempfile::tempdir().unwrap();
        let make = |path: &str| {
            fs::create_dir_all(root.path().join(path)).unwrap();
            fs::write(root.path().join(path).join("metadata"), "/* CTF 1.8 */").unwrap();
        };
        let of = |path: &str| {
            let all = named_silently(&[root.path().join(path)]);
            let short = |path: &Path| path.strip_prefix(root.path()).unwrap().display().to_string();
            all.iter().map(|named| short(&named.dir)).collect::<Vec<_>>()
        };
        assert_eq!(of("nothing"), ["nothing"]);
        fs::create_dir(root.path().join("empty")).unwrap();
        assert_eq!(of("empty"), ["empty"]);
        make("s/ust/uid/0/64-bit");
        make("s/kernel");
        // What lies in a trace is its own.
        make("s/kernel/index");
        std::os::unix::fs::symlink(root.path(), root.path().join("s/circle")).unwrap();
        assert_eq!(of("s"), ["s/kernel", "s/ust/uid/0/64-bit"]);
        assert_eq!(of("s/kernel"), ["s/kernel"]);
        make("deep/1/2/3/4/5/6/7/8");
        make("deeper/1/2/3/4/5/6/7/8/9");
        assert_eq!((of("deep"), of("deeper")), (vec!["deep/1/2/3/4/5/6/7/8".to_owned()], vec!["deeper".to_owned()]));
    }
}
