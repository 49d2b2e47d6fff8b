// SPDX-License-Identifier: MIT OR Apache-2.0
//! What one user can see and do of what another one records [docs/security.md], with users that have no name here. As
//! root only.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use kymo_abi::desc::{Desc, EventDesc, Field, FieldType, encode};
use kymo_abi::wire::{DescEntry, FromProgram, Hello};
use kymo_tests::session::ask;
use kymo_tests::{Lab, Outcome, Proc, paths, skip};
use rustix::fs::{Gid, Uid, chown};
use rustix::process::Signal;

/// Two users; nobody has these numbers.
const A: u32 = 54_321;
const B: u32 = 54_322;
/// The thing of the machine that they are.
const USERS: &str = "users 54321 and 54322";

/// A user with the default runtime directory, /tmp/kymo-UID, which must not exist before the test.
struct User<'a> {
    lab: &'a Lab,
    uid: u32,
}

impl<'a> User<'a> {
    /// Users of a lab that they can enter; none, with a visible skip, where that cannot be had.
    fn pair(lab: &'a Lab) -> Option<[User<'a>; 2]> {
        if !rustix::process::geteuid().is_root() {
            skip(lab.name(), "needs root, to be other users");
            return None;
        }
        std::fs::set_permissions(lab.path(""), PermissionsExt::from_mode(0o755)).expect("it is ours");
        let users = [A, B].map(|uid| User { lab, uid });
        for user in &users {
            assert!(!user.runtime_dir().exists(), "{} is left from somewhere", user.runtime_dir().display());
            std::fs::create_dir(user.home()).expect("a directory");
            own(&user.home(), user.uid);
        }
        let outcome = users[0].kymo(&["--version"]);
        if outcome.code != 0 {
            skip(lab.name(), &format!("other users cannot run {}: {}", paths::kymo().display(), outcome.stderr));
            return None;
        }
        Some(users)
    }

    fn runtime_dir(&self) -> PathBuf {
        PathBuf::from(format!("/tmp/kymo-{}", self.uid))
    }

    /// The user's own directory in the lab.
    fn home(&self) -> PathBuf {
        self.lab.path(&self.uid.to_string())
    }

    fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = self.lab.command("setpriv");
        let ids = ["--reuid", "--regid"].map(|option| format!("{option}={}", self.uid));
        command.args(ids).arg("--clear-groups").arg(program.as_ref());
        command.env_remove("KYMO_RUNTIME_DIR").env_remove("XDG_RUNTIME_DIR").current_dir(self.home());
        command
    }

    #[track_caller]
    fn spawn(&self, program: impl AsRef<Path>, args: &[&str]) -> Proc {
        let mut command = self.command(program);
        command.args(args);
        self.lab.start(command)
    }

    #[track_caller]
    fn kymo(&self, args: &[&str]) -> Outcome {
        self.spawn(paths::kymo(), args).wait()
    }

    /// `kymo` with the runtime directory of somebody else.
    #[track_caller]
    fn kymo_in(&self, dir: &Path, args: &[&str]) -> Outcome {
        let mut command = self.command(paths::kymo());
        command.args(args).env("KYMO_RUNTIME_DIR", dir);
        self.lab.start(command).wait()
    }

    #[track_caller]
    fn runner(&self) -> Proc {
        let program = match self.lab.path("runner") {
            there if there.exists() => there,
            _ => self.lab.cc("runner.c"),
        };
        let proc = self.spawn(program, &[]);
        proc.until("ready");
        proc
    }

    /// Sockets in the user's runtime directory that begin with `start`.
    fn sockets(&self, start: &str) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.runtime_dir()).into_iter().flatten().flatten();
        let is_one = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(start));
        entries.map(|entry| entry.path()).filter(is_one).collect()
    }
}

impl Drop for User<'_> {
    fn drop(&mut self) {
        let dir = self.runtime_dir();
        match dir.symlink_metadata() {
            Ok(of) if of.is_dir() => drop(std::fs::remove_dir_all(dir)),
            Ok(_) => drop(std::fs::remove_file(dir)),
            Err(_) => {}
        }
    }
}

fn own(path: &Path, uid: u32) {
    chown(path, Some(Uid::from_raw(uid)), Some(Gid::from_raw(uid))).expect("root gives it away");
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("root may");
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).mode() & 0o7777
}

#[track_caller]
fn contains(text: &str, part: &str) {
    assert!(text.contains(part), "{part:?} is not in:\n{text}");
}

/// Connects to a socket and says what comes: `refused`, `nothing`, or `bytes`.
const CONNECT: &str = "
import socket, sys
kind = socket.SOCK_DGRAM if '/m.' in sys.argv[1] else socket.SOCK_SEQPACKET
s = socket.socket(socket.AF_UNIX, kind)
s.settimeout(5)
try:
    s.connect(sys.argv[1])
    s.send(b'{\"request\": \"stop\"}')
    got = s.recv(65536) if kind == socket.SOCK_SEQPACKET else b'x'
except PermissionError:
    print('refused')
except (BrokenPipeError, ConnectionResetError):
    print('nothing')
else:
    print('bytes' if got else 'nothing')
";

#[test]
fn one_user_neither_sees_nor_disturbs_what_another_records() {
    let lab = Lab::with_the_only(USERS, "users_apart");
    let Some([a, b]) = User::pair(&lab) else { return };
    let mut program = a.runner();
    a.kymo(&["session", "start", "secret", "-o", "trace", "--ring-dir", "rings"]).expect(0);
    ask(&mut program, "enabled", "enabled");
    ask(&mut program, "burst 100", "done");
    // B finds nothing, in the usual places.
    b.kymo(&["list"]).expect(1);
    b.kymo(&["session", "list"]).expect(1);
    contains(&b.kymo(&["session", "stop", "secret"]).expect(1).stderr, "there is no session secret");
    // Nor by knowing where it is.
    let dir = a.runtime_dir();
    for args in [&["list"][..], &["session", "stop", "secret"], &["mark", "x"], &["record", "--for", "1ms"]] {
        contains(&b.kymo_in(&dir, args).expect(2).stderr, "KYMO_RUNTIME_DIR");
    }
    // Modes, whatever the umask.
    assert_eq!(mode(&dir), 0o700);
    assert_eq!(mode(&a.home().join("trace")), 0o700);
    assert_eq!(mode(&a.home().join("trace.log")), 0o600);
    assert_eq!(mode(&a.home().join("rings")), 0o700);
    for ring in std::fs::read_dir(a.home().join("rings")).expect("a directory").flatten() {
        assert_eq!(mode(&ring.path()), 0o600);
    }
    let descriptors = format!("/proc/{}/fd", program.pid());
    assert_ne!(b.spawn("ls", &[&descriptors]).wait().code, 0, "descriptors of the program can be listed");
    // Even where A leaves the door open, sockets are for A.
    set_mode(&dir, 0o755);
    contains(&b.kymo_in(&dir, &["list"]).expect(2).stderr, &format!("belongs to user {A} and not to user {B}"));
    let all = a.sockets("");
    assert_eq!(all.len(), 4, "{all:?}");
    let connect = |path: &PathBuf| {
        let path = path.to_str().expect("UTF-8");
        b.spawn("/usr/bin/python3", &["-c", CONNECT, path]).wait().expect(0).stdout.trim().to_owned()
    };
    assert!(all.iter().all(|path| connect(path) == "refused"), "{all:?}");
    // And if that is given away as well, the other side of each connection says nothing to B.
    all.iter().for_each(|path| set_mode(path, 0o777));
    for path in all.iter().filter(|path| !path.to_string_lossy().contains("/m.")) {
        assert_eq!(connect(path), "nothing", "{}", path.display());
    }
    let status = a.kymo(&["session", "status", "secret", "--json"]).expect(0).stdout;
    contains(&status, "\"recorded_programs\": 1");
    ask(&mut program, "burst 100", "done");
    let stopped = a.kymo(&["session", "stop", "secret"]).expect(0).stderr;
    contains(&stopped, &format!("of user {B} was turned away"));
    let numbers = lab.kymo(&["read", a.home().join("trace").to_str().expect("UTF-8")]).expect(0).stdout;
    assert_eq!(numbers.lines().count(), 200);
    assert_ne!(b.kymo(&["read", a.home().join("trace").to_str().expect("UTF-8")]).code, 0);
}

#[test]
fn a_directory_that_somebody_prepared_is_not_used() {
    let lab = Lab::with_the_only(USERS, "users_squat");
    let Some([a, b]) = User::pair(&lab) else { return };
    let check = |what: &str, message: &str| {
        let mut program = a.runner();
        contains(&a.kymo(&["list"]).expect(2).stderr, message);
        contains(&a.kymo(&["record", "--for", "1ms", "-o", "trace"]).expect(2).stderr, message);
        contains(&a.kymo(&["session", "start", "x", "-o", "trace"]).expect(2).stderr, message);
        assert!(!a.home().join("trace").exists(), "{what}: a start that failed left its directory");
        ask(&mut program, "burst 10", "done");
        assert_eq!(program.wait().expect(0).stderr, "", "{what}");
        assert!(a.sockets("").is_empty(), "{what}: the program went in");
    };
    let dir = a.runtime_dir();
    std::fs::create_dir(&dir).expect("a directory");
    own(&dir, B);
    set_mode(&dir, 0o777);
    check("a directory of B's", &format!("belongs to user {B} and not to user {A}"));
    own(&dir, A);
    check("a directory that all can write", "can be written by others");
    std::fs::remove_dir(&dir).expect("it is empty");
    // A link, even one to a place of A's own: who made it can lead it elsewhere.
    let target = a.home().join("own");
    std::fs::create_dir(&target).expect("a directory");
    own(&target, A);
    set_mode(&target, 0o700);
    symlink(&target, &dir).expect("a link");
    check("a link", "cannot be opened");
    drop(b);
}

#[test]
fn root_records_programs_of_all_users_each_in_memory_of_its_own() {
    let lab = Lab::with_the_only(USERS, "users_root");
    let Some([a, b]) = User::pair(&lab) else { return };
    let (mut of_a, mut of_b) = (a.runner(), b.runner());
    let mut command = lab.command(paths::kymo());
    let dir = lab.path("trace");
    command.env_remove("KYMO_RUNTIME_DIR").env_remove("XDG_RUNTIME_DIR").args(["record", "-u", "runner:*", "-o"]);
    command.arg(&dir).args(["-p", &of_a.pid().to_string(), "-p", &of_b.pid().to_string()]);
    let collector = lab.start(command);
    collector.until_stderr("Ctrl-C ends it");
    for (proc, count) in [(&mut of_a, 100), (&mut of_b, 200)] {
        ask(proc, "enabled", "enabled");
        ask(proc, &format!("burst {count}"), "done");
    }
    assert_eq!(collector.end(Signal::INT).code, 0);
    assert_eq!(lab.read("trace").records.len(), 300);
    // Root's trace of A is not for A.
    assert_eq!(mode(&dir), 0o700);
    assert_ne!(a.kymo(&["read", dir.to_str().expect("UTF-8")]).code, 0);
    // A directory that exists is as whoever made it wanted it.
    let open = lab.path("open");
    std::fs::create_dir(&open).expect("a directory");
    set_mode(&open, 0o755);
    lab.record("open").run(&["true"]);
    assert_eq!(mode(&open), 0o755);
}

/// What a program makes of the memory that it is given: it tries to change its size, in every way.
const ATTACK: &str = "
import array, ctypes, os, socket, sys
path, hello, descriptions, end = sys.argv[1], *map(bytes.fromhex, sys.argv[2:5])
os.umask(0o077)
os.makedirs(os.path.dirname(path), exist_ok=True)
door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
door.bind(path)
door.listen(8)
print('ready', flush=True)
line, _ = door.accept()
for message in (hello, descriptions, end):
    line.send(message)
descriptor = None
while descriptor is None:
    message, extra, _, _ = line.recvmsg(65536, socket.CMSG_SPACE(4))
    for _, _, data in extra:
        descriptor = array.array('i', data)[0]
before = os.fstat(descriptor)
for size in (0, 4096, 1 << 34):
    try:
        os.ftruncate(descriptor, size)
        print('changed', size)
    except OSError:
        pass
again = '/proc/self/fd/%d' % descriptor
try:
    os.truncate(again, 0)
    print('changed by name')
except OSError:
    pass
libc = ctypes.CDLL(None, use_errno=True)
PUNCH = 3
libc.fallocate(descriptor, PUNCH, ctypes.c_long(0), ctypes.c_long(before.st_size))
print('size', os.fstat(descriptor).st_size == before.st_size, os.readlink(again).split(':')[0], flush=True)
sys.stdin.read()
";

/// No program of another user gets a descriptor by which it could take the collector's memory away; its rings are no
/// files, and that is said.
#[test]
fn a_program_of_another_user_cannot_cut_the_rings_of_root_short() {
    let lab = Lab::with_the_only(USERS, "users_rings");
    let Some([a, b]) = User::pair(&lab) else { return };
    let rings = lab.path("rings");
    let mut of_b = b.runner();
    let pid = std::process::id();
    let fields = vec![Field { name: "n".to_owned(), ty: FieldType::Str }];
    let (file, line) = (String::new(), 1);
    let desc = Desc::Event(EventDesc { provider: "runner".to_owned(), name: "evil".to_owned(), file, line, fields });
    let hello = Hello {
        abi: kymo_abi::ABI_VERSION,
        pid,
        kind: 1,
        clock: 1,
        cpu_count: 2,
        nonce: 0x1234_5678,
        comm: "evil".to_owned(),
        exe: "/evil".to_owned(),
    };
    let messages = [
        FromProgram::Hello(hello),
        FromProgram::Descs(vec![DescEntry { index: Some(0), desc: encode(&desc) }]),
        FromProgram::DescsEnd { generation: 1 },
    ];
    let hex = messages.map(|message| message.encode().iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    let socket = a.runtime_dir().join(format!("p.{pid}.12345678"));
    let socket = socket.to_str().expect("UTF-8");
    let evil = a.spawn("/usr/bin/python3", &["-c", ATTACK, socket, &hex[0], &hex[1], &hex[2]]);
    evil.until("ready");
    let mut command = lab.command(paths::kymo());
    let dir = lab.path("trace");
    command.env_remove("KYMO_RUNTIME_DIR").env_remove("XDG_RUNTIME_DIR").args(["record", "-u", "runner:*", "-o"]);
    command.arg(&dir).arg("--ring-dir").arg(&rings);
    for runner in [&evil, &of_b] {
        command.args(["-p", &runner.pid().to_string()]);
    }
    let collector = lab.start(command);
    collector.until_stderr("Ctrl-C ends it");
    assert_eq!(evil.line(), "size True /memfd");
    ask(&mut of_b, "enabled", "enabled");
    ask(&mut of_b, "burst 100", "done");
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", of_b.pid())).expect("maps");
    assert!(maps.contains("/memfd:kymo") && !maps.contains("rings."), "{maps}");
    let outcome = collector.end(Signal::INT);
    contains(&outcome.stderr, &format!("rings of user {A}'s programs are not kept in --ring-dir"));
    contains(&outcome.stderr, &format!("rings of user {B}'s programs are not kept in --ring-dir"));
    let summary = std::fs::read_to_string(dir.join(".kymo.json")).expect("a summary");
    contains(&summary, "\"rings_not_kept\": 2");
    assert_eq!(lab.read("trace").of("runner:rec").count(), 100);
    drop(evil);
}

#[test]
fn rings_are_shared_with_programs_of_the_same_user_only() {
    let lab = Lab::with_the_only(USERS, "users_shared");
    let Some([a, b]) = User::pair(&lab) else { return };
    let mut runners = [a.runner(), a.runner(), b.runner()];
    let mut command = lab.command(paths::kymo());
    let dir = lab.path("trace");
    command.env_remove("KYMO_RUNTIME_DIR").env_remove("XDG_RUNTIME_DIR");
    command.args(["record", "--shared-rings", "-u", "runner:*", "-o"]).arg(&dir);
    for runner in &runners {
        command.args(["-p", &runner.pid().to_string()]);
    }
    let collector = lab.start(command);
    collector.until_stderr("Ctrl-C ends it");
    // Files of memory that a process has mapped, by device and inode.
    let rings = |proc: &Proc| -> Vec<String> {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", proc.pid())).expect("maps");
        let of_kymo = maps.lines().filter(|line| line.contains("/memfd:kymo"));
        let mut files: Vec<String> = of_kymo.map(|line| line.split_whitespace().nth(4).unwrap().to_owned()).collect();
        files.dedup();
        files
    };
    for runner in &mut runners {
        ask(runner, "enabled", "enabled");
        ask(runner, "burst 100", "done");
    }
    let [of_a, again, of_b] = [0, 1, 2].map(|at| rings(&runners[at]));
    assert_eq!((of_a.len(), of_b.len()), (1, 1));
    assert!(of_a == again && of_a != of_b, "{of_a:?} {again:?} {of_b:?}");
    assert_eq!(collector.end(Signal::INT).code, 0);
    let read = lab.read("trace");
    assert_eq!(read.records.len(), 300);
    for runner in &runners {
        let own = read.records.iter().filter(|record| record.pid == u64::from(runner.pid())).count();
        assert_eq!(own, 100, "records of process {}", runner.pid());
    }
}

#[test]
fn a_set_user_id_program_is_not_traced_into_the_directory_of_who_runs_it() {
    let lab = Lab::with_the_only(USERS, "users_setuid");
    let Some([a, b]) = User::pair(&lab) else { return };
    let program = lab.cc("runner.c");
    own(&program, A);
    set_mode(&program, 0o4755);
    // B's surroundings, which the program must not follow.
    let dir = b.home().join("rt");
    std::fs::create_dir(&dir).expect("a directory");
    own(&dir, B);
    set_mode(&dir, 0o700);
    let mut session = b.command(paths::kymo());
    session.env("KYMO_RUNTIME_DIR", &dir).args(["record", "-o", "trace"]);
    let session = lab.start(session);
    session.until_stderr("Ctrl-C ends it");
    let mut command = b.command(&program);
    command.env("KYMO_RUNTIME_DIR", &dir).env("XDG_RUNTIME_DIR", &dir).env("KYMO_RING", "portable");
    let mut proc = lab.start(command);
    proc.until("ready");
    if !a.runtime_dir().exists() {
        return skip("users_setuid", "set-user-ID programs do not change their user here (nosuid)");
    }
    ask(&mut proc, "burst 10", "done");
    // The helper thread makes it, and nobody waits for that where no session is seen.
    let is_there = || (a.sockets("p.").len() == 1).then_some(());
    lab.wait_for("its socket: its own user's directory is the one that it uses", is_there);
    assert_eq!(a.runtime_dir().metadata().expect("it is there").uid(), A);
    let outcome = session.end(Signal::INT).expect(1);
    contains(&outcome.stderr, "no program with tracepoints of kymo was seen");
    // Its own user records it.
    let listed = a.kymo(&["list"]).expect(0).stdout;
    contains(&listed, "rseq");
    assert_eq!(proc.wait().code, 0);
}

#[test]
fn root_does_not_follow_links_among_ring_files() {
    let lab = Lab::new("users_recover");
    let rings = lab.path("rings");
    std::fs::create_dir(&rings).expect("a directory");
    let program = lab.cc("produce.c");
    let recorded = lab.record("trace").run(&[program.to_str().expect("UTF-8"), "1", "10"]).expect(0);
    let precious = lab.write("precious", &"x".repeat(100_000));
    symlink(&precious, rings.join("rings.0000000000000001")).expect("a link");
    let fifo = rings.join("rings.0000000000000002");
    rustix::fs::mknodat(rustix::fs::CWD, fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).expect("a fifo");
    let outcome =
        lab.kymo(&["recover", rings.to_str().expect("UTF-8"), recorded.dir.to_str().expect("UTF-8")]).expect(1);
    contains(&outcome.stderr, "rings.0000000000000001");
    contains(&outcome.stderr, "rings.0000000000000002");
    assert_eq!(std::fs::metadata(precious).expect("it is there").len(), 100_000);
}
