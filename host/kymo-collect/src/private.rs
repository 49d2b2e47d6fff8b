// SPDX-License-Identifier: MIT OR Apache-2.0
//! Directories that only their user can look into: what programs record is as confidential as they are
//! [docs/security.md].

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

/// Makes `path`, and what is missing above it, unless it exists. What is made at `path` has mode 0700, whatever the
/// umask; one that existed keeps its mode: whoever made it has decided.
pub fn make_private_dir(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(above) = path.parent().filter(|above| !above.as_os_str().is_empty()) {
        fs::create_dir_all(above)?;
    }
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn only_what_is_made_is_made_private() {
        let base = tempfile::tempdir().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let (above, dir) = (base.path().join("a"), base.path().join("a/b"));
        make_private_dir(&dir).unwrap();
        assert_eq!(mode(&dir), 0o700);
        assert_eq!(mode(&above) & 0o500, 0o500);
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
        make_private_dir(&dir).unwrap();
        assert_eq!(mode(&dir), 0o755);
        fs::write(base.path().join("file"), "").unwrap();
        assert!(make_private_dir(&base.path().join("file")).is_err());
    }
}
