// SPDX-License-Identifier: MIT OR Apache-2.0
//! Running the command, and what may happen meanwhile: it ends, or a signal comes.
//!
//! Signals are taken by one thread with `sigwaitinfo`, because only the siginfo tells whether the terminal sent the
//! signal to the command as well.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

/// Signals that end a recording.
const ENDING: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// Something that ends a recording.
pub(crate) enum Happened {
    /// The command ended, with this status in the manner of a shell.
    Ended(u8),
    /// We were sent a signal.
    Signal {
        /// Which.
        number: libc::c_int,
        /// The kernel sent it, to the whole foreground group.
        from_terminal: bool,
    },
}

/// What the command is to have as this process had it: before the collector raised a limit and signals were blocked.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    files: libc::rlimit,
    mask: libc::sigset_t,
}

impl Limits {
    pub(crate) fn take() -> Limits {
        let mut files = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: `files` and `mask` are valid places to be filled in; a null set changes nothing.
        let mask = unsafe {
            let mut mask: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut mask);
            libc::getrlimit(libc::RLIMIT_NOFILE, &mut files);
            libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &mut mask);
            mask
        };
        Limits { files, mask }
    }

    /// A process of `command` begins with them.
    pub(crate) fn restore_in(self, command: &mut Command) {
        // SAFETY: `restore` makes system calls only, on the child's own limit, disposition and mask.
        unsafe { command.pre_exec(move || self.restore()) };
    }

    /// Between fork and exec. Async-signal-safe.
    fn restore(self) -> io::Result<()> {
        // SAFETY: async-signal-safe calls only; limit, disposition and mask are valid.
        unsafe {
            libc::setrlimit(libc::RLIMIT_NOFILE, &self.files);
            libc::signal(libc::SIGXFSZ, libc::SIG_DFL);
            libc::sigprocmask(libc::SIG_SETMASK, &self.mask, std::ptr::null_mut());
        }
        Ok(())
    }
}

/// A process of `command` is told to end (SIGTERM) when the thread that starts it dies: call it from the main thread.
pub(crate) fn end_with_us(command: &mut Command) {
    let parent = std::process::id();
    let tie = move || {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))?;
        // It may have died before that.
        match rustix::process::getppid() {
            Some(now) if now.as_raw_nonzero().get() as u32 == parent => Ok(()),
            _ => Err(rustix::io::Errno::SRCH.into()),
        }
    };
    // SAFETY: `tie` makes two system calls on the child itself, and allocates nothing.
    unsafe { command.pre_exec(tie) };
}

/// What a session gives its command.
pub(crate) struct Extras {
    /// The file for marks, in the environment as KYMO_MARK.
    pub marker: Option<PathBuf>,
    /// Where the command's process says that it is to be recorded.
    pub child_files: Option<kymo_collect::ChildFiles>,
}

/// Starts the command. Returns its process id.
pub(crate) fn spawn(words: &[OsString], preload: &[PathBuf], limits: &Limits, extras: Extras) -> io::Result<u32> {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    if !preload.is_empty() {
        let mut list: Vec<OsString> =
            std::env::var_os("LD_PRELOAD").filter(|value| !value.is_empty()).into_iter().collect();
        list.extend(preload.iter().map(|path| path.as_os_str().to_owned()));
        command.env("LD_PRELOAD", list.join(std::ffi::OsStr::new(":")));
    }
    if let Some(marker) = extras.marker {
        command.env("KYMO_MARK", marker);
    }
    let limits = *limits;
    let begin = extras.child_files;
    let restore = move || {
        if let Some(files) = &begin {
            announce(files)?;
        }
        limits.restore()
    };
    // SAFETY: `restore` touches nothing but the child's own limit, disposition and mask.
    unsafe { command.pre_exec(restore) };
    // Not waited for through this handle: the watcher reaps all children.
    command.spawn().map(|child| child.id())
}

/// In the command's process, before it becomes the command: has itself recorded. Async-signal-safe.
fn announce(files: &kymo_collect::ChildFiles) -> io::Result<()> {
    let mut digits = [0u8; 12];
    let mut at = digits.len();
    let mut pid = std::process::id();
    while at > 0 {
        at -= 1;
        digits[at] = b'0' + (pid % 10) as u8;
        pid /= 10;
        if pid == 0 {
            break;
        }
    }
    rustix::io::write(&files.pids, &digits[at..])?;
    rustix::io::write(&files.on, b"1")?;
    Ok(())
}

/// Sends a signal to a process that we started.
pub(crate) fn signal(pid: u32, number: libc::c_int) {
    // SAFETY: plain system call; the process is our child and not reaped while the recording goes on.
    unsafe { libc::kill(pid as libc::pid_t, number) };
}

/// Signals are blocked; nobody looks at them yet.
pub(crate) struct Watcher {
    set: libc::sigset_t,
}

impl Watcher {
    /// Blocks the ending signals in this thread and all that it starts, makes orphans of the command ours, and keeps a
    /// full file-size limit from killing us.
    pub(crate) fn prepare() -> io::Result<Watcher> {
        // SAFETY: `set` is initialised by sigemptyset before use; the calls have no other preconditions.
        let set = unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            for number in ENDING.into_iter().filter(|number| !is_nohup(*number)) {
                libc::sigaddset(&mut set, number);
            }
            let error = libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
            if error != 0 {
                return Err(io::Error::from_raw_os_error(error));
            }
            libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            set
        };
        Ok(Watcher { set })
    }

    /// Starts to look for signals, and for the end of the command `child`. What happens goes to `tell`, which says
    /// whether it wants more.
    pub(crate) fn start(
        self,
        child: Option<u32>,
        tell: impl Fn(Happened) -> bool + Clone + Send + 'static,
    ) -> io::Result<()> {
        let of_children = tell.clone();
        let set = self.set;
        std::thread::Builder::new().name("kymo-signals".to_owned()).spawn(move || take_signals(&set, tell))?;
        if let Some(child) = child {
            std::thread::Builder::new().name("kymo-children".to_owned()).spawn(move || reap(child, of_children))?;
        }
        Ok(())
    }
}

/// Whether this is SIGHUP and we were started to survive it (nohup). SIGINT counts even where a shell script's
/// background jobs ignore it: it is how such a script ends a recording.
fn is_nohup(number: libc::c_int) -> bool {
    // SAFETY: a null new action only asks; `old` is a valid place for the answer.
    let old = unsafe {
        let mut old: libc::sigaction = std::mem::zeroed();
        libc::sigaction(number, std::ptr::null(), &mut old);
        old
    };
    number == libc::SIGHUP && old.sa_sigaction == libc::SIG_IGN
}

fn take_signals(set: &libc::sigset_t, tell: impl Fn(Happened) -> bool) {
    loop {
        // SAFETY: `info` is plain data that sigwaitinfo fills in; the set was made by `prepare`.
        let (number, code) = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let number = libc::sigwaitinfo(set, &mut info);
            (number, info.si_code)
        };
        if number <= 0 {
            continue;
        }
        const SI_KERNEL: libc::c_int = 0x80;
        if !tell(Happened::Signal { number, from_terminal: code == SI_KERNEL }) {
            return;
        }
    }
}

/// Waits for all children, the command's orphans too; tells of the command.
fn reap(child: u32, tell: impl Fn(Happened) -> bool) {
    loop {
        let mut status = 0;
        // SAFETY: `status` is a valid place for the result.
        let pid = unsafe { libc::waitpid(-1, &mut status, 0) };
        if pid < 0 {
            match io::Error::last_os_error().kind() {
                io::ErrorKind::Interrupted => continue,
                _ => return,
            }
        }
        if pid as u32 == child {
            let status = match libc::WIFSIGNALED(status) {
                true => 128 + libc::WTERMSIG(status),
                false => libc::WEXITSTATUS(status),
            };
            if !tell(Happened::Ended(status as u8)) {
                return;
            }
        }
    }
}
