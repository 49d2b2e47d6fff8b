// SPDX-License-Identifier: MIT OR Apache-2.0
//! This machine's own /proc and /sys. What this machine does not permit is said on standard error and not checked.

use crate::support;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

use kymo_state::{Options, Root};
use support::{Row, Value, of, rows, thread as thread_row};

/// Files and maps of this process, of the machine's own trees.
fn own() -> Options {
    Options { files: true, maps: true, pids: Some(vec![std::process::id()]), root: Root::default() }
}

/// Runs `set` in a thread of its own, which then waits, and gives its row in a dump made meanwhile, if `set` was
/// permitted.
fn row_of_thread(set: impl FnOnce() -> Result<(), String> + Send) -> Option<Row> {
    thread::scope(|scope| {
        let (tell, told) = mpsc::channel();
        let (go, wait) = mpsc::channel::<()>();
        scope.spawn(move || {
            let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
            tell.send(set().map(|()| tid)).expect("is awaited");
            // Ends with an error when the other end is dropped.
            let _ = wait.recv();
        });
        let tid = match told.recv().expect("answers") {
            Ok(tid) => tid,
            Err(why) => {
                eprintln!("not checked, because not permitted here: {why}");
                return None;
            }
        };
        until_asleep(tid);
        let (rows, _) = rows(&Options::default());
        drop(go);
        Some(thread_row(&rows, tid).expect("a thread that waits is dumped").clone())
    })
}

/// It told before it waits; what is wanted is how it waits. At most ten seconds.
fn until_asleep(tid: u32) {
    let path = format!("/proc/self/task/{tid}/stat");
    for _ in 0..10_000 {
        let stat = std::fs::read_to_string(&path).expect("the thread is there");
        if stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('S')) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    panic!("the thread does not wait");
}

#[test]
fn own_threads_name_affinity_and_policy() {
    let set = || {
        rustix::thread::set_name(c"state(of) it").map_err(|errno| errno.to_string())?;
        let mut cpus = rustix::thread::CpuSet::new();
        cpus.set(0);
        rustix::thread::sched_setaffinity(None, &cpus).map_err(|errno| errno.to_string())
    };
    let row = row_of_thread(set).expect("is permitted to all");
    assert_eq!(row.int("pid"), i128::from(std::process::id()));
    assert_eq!(row.int("ppid"), i128::from(std::os::unix::process::parent_id()));
    assert_eq!((row.text("name"), row.text("affinity"), row.text("policy")), ("state(of) it", "0", "other"));
    assert_eq!((row.int("status"), row.int("type"), row.int("cpu")), (5, 0, 0));
    assert_eq!(row.int("prio"), 20 + row.int("nice"));
}

#[test]
fn a_thread_of_fifo_50() {
    let set = || {
        let param = libc::sched_param { sched_priority: 50 };
        // SAFETY: the call reads `param`, which lives longer.
        let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &param) };
        if result == 0 { Ok(()) } else { Err(format!("SCHED_FIFO: {}", std::io::Error::last_os_error())) }
    };
    if let Some(row) = row_of_thread(set) {
        assert_eq!((row.text("policy"), row.int("prio"), row.int("rt_priority")), ("fifo", -51, 50));
    }
}

#[test]
fn a_thread_with_a_deadline() {
    let set = || {
        // size 48, policy 6; flags; nice and priority; runtime, deadline, period [sched_setattr(2)].
        let attr: [u64; 6] = [6 << 32 | 48, 0, 0, 2_000_000, 20_000_000, 40_000_000];
        // SAFETY: the call reads the 48 bytes of `attr`.
        let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, attr.as_ptr(), 0) };
        if result == 0 { Ok(()) } else { Err(format!("SCHED_DEADLINE: {}", std::io::Error::last_os_error())) }
    };
    if let Some(row) = row_of_thread(set) {
        assert_eq!((row.text("policy"), row.int("prio")), ("deadline", -101));
        assert_eq!((row.int("runtime"), row.int("deadline"), row.int("period")), (2_000_000, 20_000_000, 40_000_000));
    }
}

#[test]
fn kernel_threads_and_idle_threads() {
    let (rows, report) = rows(&Options::default());
    let idle = rows.iter().filter(|row| row.name.ends_with("process_state") && row.tid == 0);
    let names: Vec<String> = idle.map(|row| row.text("name").to_owned()).collect();
    let online = of(&rows, "lttng_statedump_cpu_topology").iter().filter(|row| row.int("online") == 1).count();
    assert_eq!(names, (0..online).map(|cpu| format!("swapper/{cpu}")).collect::<Vec<_>>());
    if let Some(row) = thread_row(&rows, 2).filter(|row| row.text("name") == "kthreadd") {
        assert_eq!((row.int("type"), row.int("ppid")), (1, 0));
    }
    assert!(report.processes > 0 && report.threads >= report.processes);
}

#[test]
fn the_kernel_and_its_devices() {
    let (rows, _) = rows(&Options::default());
    let release = rustix::system::uname().release().to_str().expect("is ASCII").to_owned();
    assert_eq!(of(&rows, "kymo_statedump_kernel")[0].text("release"), release);
    for block in fs::read_dir("/sys/class/block").expect("is there").flatten() {
        let dev = fs::read_to_string(block.path().join("dev")).expect("a disk has a number");
        let (major, minor) = dev.trim().split_once(':').expect("of two parts");
        let dev = major.parse::<i128>().expect("a number") << 20 | minor.parse::<i128>().expect("a number");
        let found = of(&rows, "lttng_statedump_block_device").into_iter().find(|row| row.int("dev") == dev);
        assert_eq!(
            found.expect("is dumped").text("diskname"),
            block.file_name().to_str().expect("is ASCII").replace('!', "/")
        );
    }
    let local = of(&rows, "lttng_statedump_network_interface").into_iter().find(|row| row.text("name") == "lo");
    let up = fs::read_to_string("/proc/self/net/fib_trie").is_ok_and(|trie| trie.contains("-- 127.0.0.1"));
    if let Some(row) = local.filter(|_| up) {
        assert_eq!(row.get("address_ipv4"), &Value::Bytes(vec![127, 0, 0, 1]));
    }
}

#[test]
fn an_open_file() {
    let path = tempfile::NamedTempFile::new().expect("a file").into_temp_path();
    let mut file = File::options().read(true).write(true).open(&path).expect("opens");
    file.write_all(b"12345").expect("writes");
    let (rows, report) = rows(&own());
    let fd = i128::from(file.as_raw_fd());
    let row =
        of(&rows, "lttng_statedump_file_descriptor").into_iter().find(|row| row.int("fd") == fd).expect("is dumped");
    assert_eq!(row.text("filename"), path.to_str().expect("is UTF-8"));
    assert_eq!((row.int("pos"), row.int("fmode"), row.int("flags") & 3), (5, 3, 2));
    assert_eq!((row.int("pid"), row.tid), (i128::from(std::process::id()), std::process::id()));
    assert!(report.files >= 3);
}

/// The build id as `readelf` shows it.
fn readelf(path: &Path) -> Option<String> {
    let output = Command::new("readelf").arg("-n").arg(path).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.split_once("Build ID: ").map(|(_, id)| id.lines().next().unwrap_or("").trim().to_owned())
}

#[test]
fn build_ids_are_those_of_readelf() {
    let (rows, _) = rows(&own());
    let mut checked = 0;
    for map in of(&rows, "lttng_statedump_vm_map").into_iter().filter(|map| map.int("inode") != 0) {
        let Some(id) = readelf(Path::new(map.text("path"))) else { continue };
        assert_eq!(map.get("build_id").to_string(), id, "{map}");
        checked += 1;
    }
    if checked == 0 {
        eprintln!("not checked: no readelf here, or no mapped file with a build id");
    }
}

/// A child process that is ended when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a copy of `cat`, and comes back when it has begun to do its work.
fn run_copy(copy: &Path) -> Running {
    let cat = fs::canonicalize("/bin/cat").expect("is there");
    kymo_testing::copy_program(&cat, copy);
    let mut child = Command::new(copy).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("runs");
    child.stdin.as_mut().expect("a pipe").write_all(b"here\n").expect("writes");
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("answers");
    assert_eq!(line, "here\n");
    Running(child)
}

/// Whether we may open mapped files themselves, also deleted ones.
fn sees_mapped_files() -> bool {
    let mut files = fs::read_dir("/proc/self/map_files").expect("is ours").flatten();
    files.any(|file| fs::metadata(file.path()).is_ok())
}

#[test]
fn a_program_whose_file_is_gone_or_strangely_named() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, deleted) in [("gone", true), ("new\nline and (blank)", false)] {
        let copy: PathBuf = folder.path().join(name);
        let child = run_copy(&copy);
        let id = readelf(&copy);
        if deleted {
            fs::remove_file(&copy).expect("deletes");
        }
        let pid = child.0.id();
        let (rows, report) = rows(&Options { pids: Some(vec![pid]), ..own() });
        let shown = copy.to_str().expect("is UTF-8").to_owned() + if deleted { " (deleted)" } else { "" };
        let map =
            of(&rows, "lttng_statedump_vm_map").into_iter().find(|map| map.text("path") == shown).expect("is dumped");
        if deleted && !sees_mapped_files() {
            assert!(report.caveats.iter().any(|caveat| caveat.contains("build ids")), "{report:?}");
            continue;
        }
        match id {
            Some(id) => assert_eq!(map.get("build_id").to_string(), id, "{map}"),
            None => eprintln!("not checked: no readelf here, or cat has no build id"),
        }
    }
}

/// Ends a thread's loop when it goes, also by a panic.
struct Flag<'a>(&'a AtomicBool);

impl Drop for Flag<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn processes_that_vanish_meanwhile() {
    let stop = AtomicBool::new(false);
    let all = Options { files: true, maps: true, ..Options::default() };
    let before = rows(&all).1.caveats;
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let mut child = Command::new("/bin/cat").stdin(Stdio::piped()).spawn().expect("runs");
                    thread::spawn(|| ()).join().expect("ends");
                    child.kill().expect("is ours");
                    child.wait().expect("is ours");
                }
            });
        }
        let _flag = Flag(&stop);
        for _ in 0..25 {
            let (_, report) = rows(&all);
            // Only what permissions hide may be said: nothing failed, nothing was read by halves.
            let unexpected =
                |caveat: &&String| caveat.contains("could not be read") || caveat.contains("not as this version");
            assert_eq!(report.caveats.iter().find(unexpected), None, "before: {before:?}");
            assert!(report.threads > 0);
        }
    });
}
