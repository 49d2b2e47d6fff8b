// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where programs are: those of kymo beside the running one or installed, all others where a shell finds them.

use std::path::{Path, PathBuf};

/// The file that a shell would run for `command`.
pub fn in_path(command: &str) -> Option<PathBuf> {
    if command.contains('/') {
        return Some(PathBuf::from(command)).filter(|path| path.is_file());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(command)).find(|path| path.is_file())
}

/// A program of kymo: beside the executable `exe`, where it is built; in `../lib/kymo`, where it is installed; else in
/// PATH.
pub fn of_kymo(name: &str, exe: &Path) -> Option<PathBuf> {
    places(exe).into_iter().map(|place| place.join(name)).find(|path| path.is_file()).or_else(|| in_path(name))
}

/// The directories of kymo's own programs, by where the running one is.
pub fn places(exe: &Path) -> Vec<PathBuf> {
    let beside = exe.parent();
    let installed = beside.and_then(Path::parent).map(|above| above.join("lib/kymo"));
    beside.map(Path::to_owned).into_iter().chain(installed).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_program_of_kymo_is_beside_or_installed() {
        let root = tempfile::tempdir().unwrap();
        let (bin, lib) = (root.path().join("bin"), root.path().join("lib/kymo"));
        fs::create_dir_all(&bin).unwrap();
        fs::create_dir_all(&lib).unwrap();
        let (exe, name) = (bin.join("kymo"), "kymo-that-no-path-has");
        assert_eq!(of_kymo(name, &exe), None);
        // A directory of that name is no program.
        fs::create_dir(bin.join(name)).unwrap();
        assert_eq!(of_kymo(name, &exe), None);
        fs::write(lib.join(name), "").unwrap();
        assert_eq!(of_kymo(name, &exe), Some(lib.join(name)));
        fs::remove_dir(bin.join(name)).unwrap();
        fs::write(bin.join(name), "").unwrap();
        assert_eq!(of_kymo(name, &exe), Some(bin.join(name)));
        // What any system has.
        assert!(of_kymo("sh", &exe).is_some_and(|path| path.ends_with("sh")));
        assert!(in_path("/bin/sh").is_some() && in_path("./no/such/program").is_none());
    }
}
