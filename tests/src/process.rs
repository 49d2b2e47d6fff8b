// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes with a deadline. Each is a group of its own, and the group ends with it; output is collected by threads,
//! so that no pipe is ever full.

use std::io::{Read as _, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal};

/// How long output may stay open behind a process that has ended: descendants of it may hold it.
const OUTPUT_GRACE: Duration = Duration::from_secs(2);

/// What a process wrote to one of its outputs.
#[derive(Default)]
struct Sink {
    state: Mutex<SinkState>,
    changed: Condvar,
}

#[derive(Default)]
struct SinkState {
    bytes: Vec<u8>,
    /// Bytes that `line` has given out.
    taken: usize,
    ended: bool,
}

impl Sink {
    fn collect(mut from: impl std::io::Read + Send + 'static) -> Arc<Sink> {
        let sink = Arc::new(Sink::default());
        let ours = Arc::clone(&sink);
        std::thread::spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            loop {
                let got = from.read(&mut buffer).unwrap_or(0);
                let mut state = ours.state.lock().unwrap();
                state.bytes.extend_from_slice(&buffer[..got]);
                state.ended = got == 0;
                ours.changed.notify_all();
                if got == 0 {
                    return;
                }
            }
        });
        sink
    }

    /// The first line for which `wanted` holds, of those not taken yet; none if the output ends or time is up.
    fn line(&self, deadline: Instant, wanted: impl Fn(&str) -> bool) -> Option<String> {
        let mut state = self.state.lock().unwrap();
        loop {
            while let Some(length) = state.bytes[state.taken..].iter().position(|&byte| byte == b'\n') {
                let line = String::from_utf8_lossy(&state.bytes[state.taken..state.taken + length]).into_owned();
                state.taken += length + 1;
                if wanted(&line) {
                    return Some(line);
                }
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if state.ended || left.is_zero() {
                return None;
            }
            state = self.changed.wait_timeout(state, left).unwrap().0;
        }
    }

    fn all(&self, deadline: Instant) -> Vec<u8> {
        let mut state = self.state.lock().unwrap();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if state.ended || left.is_zero() {
                return state.bytes.clone();
            }
            state = self.changed.wait_timeout(state, left).unwrap().0;
        }
    }
}

/// A process that ended.
#[derive(Debug)]
pub struct Outcome {
    /// Exit status in the manner of a shell: 128 + n for signal n.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Outcome {
    /// This outcome, if its exit status is `code`.
    #[track_caller]
    pub fn expect(self, code: i32) -> Outcome {
        assert_eq!(self.code, code, "exit status; stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// The number behind `name=` in standard output.
    #[track_caller]
    pub fn number(&self, name: &str) -> u64 {
        number(&self.stdout, name)
    }
}

/// The number behind `name=` in `text`.
#[track_caller]
pub fn number(text: &str, name: &str) -> u64 {
    let key = format!("{name}=");
    let at = text.find(&key).unwrap_or_else(|| panic!("no {key} in {text:?}"));
    let digits: String = text[at + key.len()..].chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_else(|_| panic!("no number behind {key} in {text:?}"))
}

/// A running process of a test.
pub struct Proc {
    child: Child,
    pidfd: rustix::fd::OwnedFd,
    stdin: Option<std::process::ChildStdin>,
    stdout: Arc<Sink>,
    stderr: Arc<Sink>,
    deadline: Instant,
    what: String,
}

impl Proc {
    /// Starts `command`, which must have ended at `deadline`.
    #[track_caller]
    pub fn start(mut command: Command, deadline: Instant) -> Proc {
        let what = format!("{command:?}");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        // Whoever runs the tests may ignore it (nohup), and children would do so too.
        // SAFETY: signal() is async-signal-safe, and nothing else happens between fork and exec.
        unsafe {
            command.pre_exec(|| {
                libc::signal(libc::SIGHUP, libc::SIG_DFL);
                Ok(())
            });
        }
        let mut child = command.spawn().unwrap_or_else(|error| panic!("cannot run {what}: {error}"));
        let pid = Pid::from_child(&child);
        let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty()).expect("a pidfd of a child");
        let stdin = child.stdin.take();
        let stdout = Sink::collect(child.stdout.take().expect("a pipe"));
        let stderr = Sink::collect(child.stderr.take().expect("a pipe"));
        Proc { child, pidfd, stdin, stdout, stderr, deadline, what }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line of its standard output.
    #[track_caller]
    pub fn line(&self) -> String {
        self.stdout.line(self.deadline, |_| true).unwrap_or_else(|| panic!("no further line from {}", self.state()))
    }

    /// The next line of its standard output; none at its end.
    pub fn line_or_end(&self) -> Option<String> {
        self.stdout.line(self.deadline, |_| true)
    }

    /// Goes on in its standard output until a line that begins with `start`.
    #[track_caller]
    pub fn until(&self, start: &str) -> String {
        let found = self.stdout.line(self.deadline, |line| line.starts_with(start));
        found.unwrap_or_else(|| panic!("no line {start:?} from {}", self.state()))
    }

    /// Goes on in its standard error until a line that contains `part`.
    #[track_caller]
    pub fn until_stderr(&self, part: &str) -> String {
        let found = self.stderr.line(self.deadline, |line| line.contains(part));
        found.unwrap_or_else(|| panic!("no line with {part:?} from {}", self.state()))
    }

    fn state(&self) -> String {
        let now = Instant::now();
        let (stdout, stderr) = (self.stdout.all(now), self.stderr.all(now));
        let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        format!("{}\nstdout:\n{stdout}\nstderr:\n{stderr}", self.what)
    }

    /// Writes a line to its standard input.
    #[track_caller]
    pub fn say(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("standard input is open");
        if let Err(error) = stdin.write_all(format!("{line}\n").as_bytes()).and_then(|()| stdin.flush()) {
            panic!("{error} when writing to {}", self.state());
        }
    }

    /// Sends it a signal, and nobody else.
    pub fn signal(&self, signal: Signal) {
        let _ = rustix::process::pidfd_send_signal(&self.pidfd, signal);
    }

    /// Stops it, all its threads, and comes back when none of them does anything more: a stop is sent to be taken, not
    /// taken.
    pub fn stop(&self) {
        self.signal(Signal::STOP);
        let tasks = format!("/proc/{}/task", self.pid());
        let is_stopped = |task: &std::path::Path| {
            let stat = std::fs::read_to_string(task.join("stat")).unwrap_or_default();
            stat.rsplit_once(") ").is_none_or(|(_, state)| state.starts_with(['T', 't', 'Z', 'X']))
        };
        let deadline = Instant::now() + Duration::from_secs(120);
        loop {
            let mut all = std::fs::read_dir(&tasks).expect("its threads").flatten();
            if all.all(|task| is_stopped(&task.path())) {
                return;
            }
            assert!(Instant::now() < deadline, "process {} does not stop", self.pid());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Whether it has not ended yet.
    pub fn is_running(&self) -> bool {
        !self.ends_before(Instant::now())
    }

    /// Waits for its end until `deadline`.
    fn ends_before(&self, deadline: Instant) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
            let mut fds = [PollFd::new(&self.pidfd, PollFlags::IN)];
            match poll(&mut fds, Some(&left)) {
                Ok(ready) => return ready > 0,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => panic!("poll: {error}"),
            }
        }
    }

    /// Closes its standard input and waits for its end.
    #[track_caller]
    pub fn wait(mut self) -> Outcome {
        self.stdin = None;
        self.finish()
    }

    /// Sends a signal and waits for its end; its standard input stays open.
    #[track_caller]
    pub fn end(self, signal: Signal) -> Outcome {
        self.signal(signal);
        self.finish()
    }

    #[track_caller]
    fn finish(mut self) -> Outcome {
        if !self.ends_before(self.deadline) {
            panic!("still running at the deadline: {}", self.state());
        }
        let grace = Instant::now() + OUTPUT_GRACE;
        let (stdout, stderr) = (self.stdout.all(grace), self.stderr.all(grace));
        self.kill_group();
        let status = self.child.wait().expect("it can be waited for");
        let code = status.code().or(status.signal().map(|signal| 128 + signal)).expect("it has ended");
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Outcome { code, stdout: text(stdout), stderr: text(stderr) }
    }

    /// While the leader is not waited for, nobody else can have the number of its group.
    fn kill_group(&self) {
        let _ = rustix::process::kill_process_group(Pid::from_child(&self.child), Signal::KILL);
    }
}

impl Drop for Proc {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            self.kill_group();
            let _ = self.child.wait();
        }
    }
}

/// Reads what is left of a file, as text.
pub fn text_of(path: &std::path::Path) -> String {
    let mut text = String::new();
    let file = std::fs::File::open(path);
    let _ = file.and_then(|mut file| file.read_to_string(&mut text));
    text
}

/// The count behind the first `words` in what a person reads, such as `LOST 1,234 records`.
#[track_caller]
pub fn count_behind(text: &str, words: &str) -> u64 {
    let behind = text.split(words).nth(1).unwrap_or_else(|| panic!("no {words:?} in {text}"));
    let digits: String = behind.chars().take_while(|c| c.is_ascii_digit() || *c == ',').filter(|c| *c != ',').collect();
    digits.parse().unwrap_or_else(|_| panic!("no count behind {words:?} in {text}"))
}
