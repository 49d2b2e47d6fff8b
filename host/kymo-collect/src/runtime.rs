// SPDX-License-Identifier: MIT OR Apache-2.0
//! The runtime directory [spec/session.md 1]: where it is, whether it is safe, and the sockets in it.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};

use crate::{Error, socket};

/// A socket that refuses connections is a leftover once it is this old: one that was just bound does not listen yet.
const LEFTOVER_AGE: Duration = Duration::from_secs(1);

/// An opened runtime directory that was found safe.
#[derive(Debug)]
pub struct RuntimeDir {
    path: PathBuf,
    fd: OwnedFd,
    uid: u32,
}

/// Name of a socket: `p.PID.NONCE`, `s.PID.NONCE`, `m.PID.NONCE`, or `c.PID.NONCE.SESSION`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SocketName(pub String);

impl SocketName {
    /// `name`, if it is that of a program's socket (`p`), a collector's (`s`), or a collector's for marks (`m`) or
    /// control (`c`).
    pub(crate) fn parse(role: char, name: &str) -> Option<SocketName> {
        let mut parts = name.splitn(4, '.');
        let matches = parts.next()? == role.to_string()
            && parts.next()?.parse::<u32>().is_ok()
            && parts.next()?.bytes().all(|byte| byte.is_ascii_hexdigit())
            && match role {
                'c' => parts.next().is_some_and(is_session_name),
                _ => parts.next().is_none(),
            };
        matches.then(|| SocketName(name.to_owned()))
    }

    /// `name`, if it is that of a collector's socket which has not got its own name yet: the same behind a dot.
    fn parse_early(name: &str) -> Option<SocketName> {
        let own = name.strip_prefix('.')?;
        let matches = ['s', 'c'].into_iter().any(|role| SocketName::parse(role, own).is_some());
        matches.then(|| SocketName(name.to_owned()))
    }

    /// The session's name, of a socket for control.
    pub(crate) fn session(&self) -> &str {
        self.0.splitn(4, '.').nth(3).unwrap_or_default()
    }

    /// The nonce in the name; 0 where it is none.
    pub(crate) fn nonce(&self) -> u32 {
        self.0.split('.').nth(2).and_then(|nonce| u32::from_str_radix(nonce, 16).ok()).unwrap_or(0)
    }

    /// The process id in the name: as the owner sees itself.
    pub(crate) fn pid(&self) -> u32 {
        self.0.split('.').nth(1).and_then(|pid| pid.parse().ok()).unwrap_or(0)
    }
}

/// Longest name of a session, bytes.
pub const SESSION_NAME_MAX: usize = 40;

/// Whether a session may be called this: letters, digits, `_`, `.` and `-`, at most [`SESSION_NAME_MAX`] of them.
pub fn is_session_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    (1..=SESSION_NAME_MAX).contains(&name.len()) && name.bytes().all(is_plain)
}

/// Where this process's runtime directory is.
fn default_path() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|value: &OsString| !value.is_empty()).map(PathBuf::from);
    path_for(rustix::process::geteuid().as_raw(), set)
}

/// Where a process of `uid` looks, with what is `set` in its environment.
pub(crate) fn path_for(uid: u32, set: impl Fn(&str) -> Option<PathBuf>) -> PathBuf {
    if let Some(dir) = set("KYMO_RUNTIME_DIR") {
        return dir;
    }
    if uid == 0 {
        return PathBuf::from("/run/kymo");
    }
    let xdg = set("XDG_RUNTIME_DIR").filter(|dir| dir.is_absolute());
    xdg.map_or_else(|| PathBuf::from(format!("/tmp/kymo-{uid}")), |dir| dir.join("kymo"))
}

impl RuntimeDir {
    /// This user's runtime directory; it is made if it does not exist.
    pub fn own() -> Result<RuntimeDir, Error> {
        RuntimeDir::make(&default_path())
    }

    /// The runtime directory at `path`, made if it does not exist; it must belong to this user, and be absolute:
    /// programs come to it from wherever they are.
    pub fn make(path: &Path) -> Result<RuntimeDir, Error> {
        if !path.is_absolute() {
            return Err(Error::RuntimeDir { path: path.to_owned(), why: "is not an absolute path".to_owned() });
        }
        if let Some(above) = path.parent() {
            let _ = std::fs::create_dir_all(above);
        }
        match rustix::fs::mkdir(path, Mode::RWXU) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(Error::file("make runtime directory", path)(error.into())),
        }
        RuntimeDir::open(path, rustix::process::geteuid().as_raw())
    }

    /// An existing runtime directory that must belong to `uid`.
    fn open(path: &Path, uid: u32) -> Result<RuntimeDir, Error> {
        let bad = |why: String| Error::RuntimeDir { path: path.to_owned(), why };
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
        let fd =
            rustix::fs::open(path, flags, Mode::empty()).map_err(|error| bad(format!("cannot be opened: {error}")))?;
        let stat = rustix::fs::fstat(&fd).map_err(|error| bad(format!("cannot be examined: {error}")))?;
        if stat.st_uid != uid {
            return Err(bad(format!("belongs to user {} and not to user {uid}", stat.st_uid)));
        }
        if stat.st_mode & 0o022 != 0 {
            return Err(bad("can be written by others".to_owned()));
        }
        Ok(RuntimeDir { path: path.to_owned(), fd, uid })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Device and inode, by which the same directory is known under another path.
    pub(crate) fn identity(&self) -> Option<(u64, u64)> {
        let stat = rustix::fs::fstat(&self.fd).ok()?;
        Some((stat.st_dev, stat.st_ino))
    }

    /// The user that it belongs to.
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// A path to `name` through the opened directory: short enough for a socket address, and safe from renames above.
    pub(crate) fn through_fd(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}/{name}", self.fd.as_raw_fd()))
    }

    /// Sockets of programs in it, which belong to the owner of the directory.
    pub(crate) fn programs(&self) -> Vec<SocketName> {
        self.sockets('p')
    }

    /// Sockets that sessions take marks from.
    pub(crate) fn mark_sockets(&self) -> Vec<SocketName> {
        self.sockets('m')
    }

    /// Sockets by which sessions are controlled.
    pub(crate) fn control_sockets(&self) -> Vec<SocketName> {
        self.sockets('c')
    }

    /// Waits until no other process of this user has the directory locked; the lock ends with what is returned.
    pub(crate) fn lock(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
        let own = rustix::fs::openat(&self.fd, ".", flags, Mode::empty())?;
        rustix::fs::flock(&own, rustix::fs::FlockOperation::LockExclusive)?;
        Ok(own)
    }

    fn sockets(&self, role: char) -> Vec<SocketName> {
        self.names()
            .filter_map(|name| SocketName::parse(role, &name))
            .filter(|name| self.is_owned_socket(name))
            .collect()
    }

    /// Removes the sockets of collectors that were killed. Those that seem alive are not disturbed.
    pub(crate) fn remove_dead_sessions(&self) {
        // Whether there is a process of that number says nothing: it may be another one, or one of another pid
        // namespace.
        let early =
            self.names().filter_map(|name| SocketName::parse_early(&name)).filter(|name| self.is_owned_socket(name));
        for name in ['s', 'm', 'c'].into_iter().flat_map(|role| self.sockets(role)).chain(early) {
            if self.connect(&name).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
                self.remove_leftover(&name);
            }
        }
    }

    fn names(&self) -> impl Iterator<Item = String> {
        let entries = rustix::fs::Dir::read_from(&self.fd).into_iter().flatten().flatten();
        entries.filter_map(|entry| Some(entry.file_name().to_str().ok()?.to_owned()))
    }

    fn is_owned_socket(&self, name: &SocketName) -> bool {
        rustix::fs::statat(&self.fd, name.0.as_str(), AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Socket && stat.st_uid == self.uid)
    }

    /// Connects to a socket, without waiting.
    pub(crate) fn connect(&self, name: &SocketName) -> io::Result<OwnedFd> {
        if !self.is_owned_socket(name) {
            return Err(io::ErrorKind::NotFound.into());
        }
        socket::connect(&self.through_fd(&name.0))
    }

    /// Removes a socket that refused a connection, if it is old enough to be a leftover. Returns whether it went.
    pub(crate) fn remove_leftover(&self, name: &SocketName) -> bool {
        let Ok(stat) = rustix::fs::statat(&self.fd, name.0.as_str(), AtFlags::SYMLINK_NOFOLLOW) else { return false };
        let made = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(stat.st_ctime).unwrap_or(0));
        let is_old = made.elapsed().is_ok_and(|age| age > LEFTOVER_AGE);
        is_old && rustix::fs::unlinkat(&self.fd, name.0.as_str(), AtFlags::empty()).is_ok()
    }

    /// Removes a socket of our own.
    pub(crate) fn remove(&self, name: &str) {
        let _ = rustix::fs::unlinkat(&self.fd, name, AtFlags::empty());
    }

    /// Gives a socket of our own its final name.
    pub(crate) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.fd, from, &self.fd, to)?)
    }
}

/// Runtime directories of other users that exist and are safe: for root, which may attach to their programs.
///
/// None where `KYMO_RUNTIME_DIR` names the only one to be used.
pub fn other_users_dirs() -> Vec<RuntimeDir> {
    if !rustix::process::geteuid().is_root() || std::env::var_os("KYMO_RUNTIME_DIR").is_some_and(|dir| !dir.is_empty())
    {
        return Vec::new();
    }
    let names = |dir: &str| -> Vec<String> {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    };
    let run =
        names("/run/user").into_iter().filter_map(|name| Some((format!("/run/user/{name}/kymo"), name.parse().ok()?)));
    let tmp = names("/tmp").into_iter().filter_map(|name| {
        let uid = name.strip_prefix("kymo-")?.parse().ok()?;
        Some((format!("/tmp/{name}"), uid))
    });
    run.chain(tmp).filter_map(|(path, uid): (String, u32)| RuntimeDir::open(Path::new(&path), uid).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn socket_names() {
        let check =
            |name: &str, expect| assert_eq!(SocketName::parse('p', name).map(|name| name.pid()), expect, "{name}");
        check("p.12.0abcdef9", Some(12));
        check("p.12", None);
        check("p.12.xyz", None);
        check("s.12.0abcdef9", None);
        check("p.12.0a.b", None);
        check("p.-1.0a", None);
    }

    #[test]
    fn names_of_sessions() {
        let check = |name: &str, expect: Option<&str>| {
            let parsed = SocketName::parse('c', name);
            assert_eq!(parsed.as_ref().map(SocketName::session), expect, "{name}");
        };
        check("c.12.0abcdef9.motor", Some("motor"));
        check("c.12.0abcdef9.a.b-c_9", Some("a.b-c_9"));
        check("c.12.0abcdef9", None);
        check("c.12.0abcdef9.", None);
        check("c.12.0abcdef9.a b", None);
        check(&format!("c.12.0a.{}", "x".repeat(40)), Some("x".repeat(40).as_str()));
        check(&format!("c.12.0a.{}", "x".repeat(41)), None);
        for bad in ["", "a/b", "a b", "é", "a\n"] {
            assert!(!is_session_name(bad), "{bad:?}");
        }
    }

    #[test]
    fn relative_directories_are_not_used() {
        let relative = |name: &str| Some(PathBuf::from(name));
        let only_xdg = |name: &str| relative(name).filter(|_| name == "XDG_RUNTIME_DIR");
        assert_eq!(path_for(1000, only_xdg), Path::new("/tmp/kymo-1000"));
        assert_eq!(path_for(1000, |_| Some("/run/user/1000".into())), Path::new("/run/user/1000"));
        let error = RuntimeDir::make(&path_for(1000, relative)).unwrap_err();
        assert!(error.to_string().contains("absolute"), "{error}");
    }

    #[test]
    fn unsafe_directories_are_refused() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("run");
        assert!(RuntimeDir::make(&dir).is_ok());
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o777)).unwrap();
        assert!(RuntimeDir::make(&dir).unwrap_err().to_string().contains("written by others"));
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o700)).unwrap();
        let link = base.path().join("link");
        std::os::unix::fs::symlink(&dir, &link).unwrap();
        assert!(RuntimeDir::make(&link).is_err());
        let file = base.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(RuntimeDir::make(&file).is_err());
    }
}
