// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which thread is which: the names and processes of a machine's threads at one moment of a trace, kept up by facts as
//! the trace tells them, in the order of time. Pure: `learn` takes the facts out of records.
//!
//! Nothing is guessed. What a fact makes doubtful is forgotten, and is unknown until the trace tells it again.

use std::collections::HashMap;

/// Characters of a thread's name in the kernel.
const NAME_BYTES_MAX: usize = 15;

/// The threads that are known. Tids and pids are those of the kernel's first pid namespace.
#[derive(Debug, Default)]
pub struct Threads {
    by_tid: HashMap<u32, Thread>,
    /// By CPU: the thread that runs there.
    running: HashMap<u32, u32>,
    /// By CPU: the name of its idle thread. All idle threads have tid 0.
    idle: HashMap<u32, String>,
}

/// A thread with another tid than 0.
#[derive(Debug, Default)]
struct Thread {
    pid: Option<u32>,
    /// Empty where it is not known.
    name: String,
    /// Created, and the fork that tells the same is still to come.
    is_created: bool,
    /// It is about to end.
    is_exiting: bool,
}

/// What is known of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Who<'a> {
    /// Its process.
    pub pid: Option<u32>,
    /// Its name; empty where it is not known.
    pub name: &'a str,
}

impl Threads {
    /// What is known of the thread `tid`, which ran on `cpu`.
    pub fn who(&mut self, tid: u32, cpu: Option<u32>) -> Who<'_> {
        if tid != 0 {
            return self.look(tid);
        }
        let name = match cpu {
            Some(cpu) => self.idle.entry(cpu).or_insert_with(|| format!("swapper/{cpu}")).as_str(),
            None => "swapper",
        };
        Who { pid: Some(0), name }
    }

    /// What is known of a thread that is not an idle one.
    pub fn look(&self, tid: u32) -> Who<'_> {
        let known = self.by_tid.get(&tid);
        known.map_or(Who { pid: None, name: "" }, |thread| Who { pid: thread.pid, name: &thread.name })
    }

    /// Whether `tid` is known as a thread of `pid`.
    pub fn is_of(&self, pid: u32, tid: u32) -> bool {
        self.by_tid.get(&tid).is_some_and(|thread| thread.pid == Some(pid))
    }

    /// The process of `tid`, which a program tells as one of `pid`, where that is another one. In a container it sees
    /// other ids than the kernel: the kernel is believed if both know the program's main thread by one name.
    pub fn forked_of(&self, pid: u32, name: &str, tid: u32) -> Option<u32> {
        let other = self.by_tid.get(&tid).and_then(|thread| thread.pid).filter(|other| *other != pid)?;
        let main = self.by_tid.get(&pid).filter(|main| main.pid == Some(pid) && !name.is_empty())?;
        (main.name == cut(name)).then_some(other)
    }

    /// All that are known now, but for idle threads.
    pub fn all(&self) -> impl Iterator<Item = (u32, Who<'_>)> {
        self.by_tid.iter().map(|(tid, thread)| (*tid, Who { pid: thread.pid, name: &thread.name }))
    }

    /// The thread that runs on `cpu`, as its last switch said.
    pub fn running(&self, cpu: u32) -> Option<u32> {
        self.running.get(&cpu).copied()
    }

    /// The state dump names a thread and its process.
    pub fn dumped(&mut self, tid: u32, pid: u32, name: &str) {
        self.put(tid, Some(pid), name);
    }

    /// What is known of a thread, whoever told it.
    pub fn known(&mut self, tid: u32, pid: Option<u32>, name: &str) {
        self.put(tid, pid, name);
    }

    /// The thread `tid` runs on `cpu`.
    pub fn runs(&mut self, tid: u32, cpu: u32) {
        self.running.insert(cpu, tid);
    }

    /// An event names a thread. A name that nothing explains may be that of another thread which got the tid since.
    pub fn named(&mut self, tid: u32, name: &str) {
        if tid == 0 || name.is_empty() {
            return;
        }
        let thread = self.by_tid.entry(tid).or_default();
        if thread.name != name {
            if !thread.name.is_empty() {
                *thread = Thread::default();
            }
            name.clone_into(&mut thread.name);
        }
    }

    /// A new thread of the process `pid`, told by the event that also says whether it shares its parent's process.
    pub fn created(&mut self, tid: u32, pid: Option<u32>, name: &str) {
        self.put(tid, pid, name);
        if let Some(thread) = self.by_tid.get_mut(&tid) {
            thread.is_created = true;
        }
    }

    /// A new thread. `pid`: its process, where the event says so.
    pub fn forked(&mut self, tid: u32, pid: Option<u32>, name: &str) {
        let created = self.by_tid.get(&tid).filter(|thread| thread.is_created);
        let pid = pid.or(created.and_then(|thread| thread.pid));
        self.put(tid, pid, name);
    }

    /// A thread gets the name `new`.
    pub fn renamed(&mut self, tid: u32, new: &str) {
        if tid != 0 {
            new.clone_into(&mut self.by_tid.entry(tid).or_default().name);
        }
    }

    /// A thread that called itself `old` gets the name `new`. The event is told by `tid`, which is that thread if it
    /// has the name.
    pub fn renamed_from(&mut self, tid: u32, old: &str, new: &str) {
        if self.by_tid.get(&tid).is_some_and(|thread| thread.name == old) {
            self.renamed(tid, new);
        }
    }

    /// The thread `old_tid` executes `filename`: it becomes the only thread of its process, and has the process's id
    /// from now on.
    pub fn executed(&mut self, tid: u32, old_tid: Option<u32>, filename: &str) {
        if let Some(old) = old_tid.filter(|&old| old != tid) {
            self.by_tid.remove(&old);
        }
        // A file without a path has a name that only the kernel knows.
        let name = if filename.starts_with("/dev/fd/") { "" } else { filename.rsplit('/').next().unwrap_or_default() };
        self.put(tid, Some(tid), cut(name));
    }

    /// A thread will not return to its program.
    pub fn exiting(&mut self, tid: u32) {
        if let Some(thread) = self.by_tid.get_mut(&tid) {
            thread.is_exiting = true;
        }
    }

    /// The kernel forgets a thread.
    pub fn freed(&mut self, tid: u32) {
        self.by_tid.remove(&tid);
    }

    /// `cpu` goes on with the thread `next`. `is_dead`: the one before will never run again.
    pub fn switched(&mut self, cpu: Option<u32>, before: u32, is_dead: bool, next: u32) {
        if is_dead && self.by_tid.get(&before).is_some_and(|thread| thread.is_exiting) {
            self.by_tid.remove(&before);
        }
        if let Some(cpu) = cpu {
            self.running.insert(cpu, next);
        }
    }

    /// Records of `cpu` are missing, maybe a switch.
    pub fn lost(&mut self, cpu: Option<u32>) {
        match cpu {
            Some(cpu) => drop(self.running.remove(&cpu)),
            None => self.running.clear(),
        }
    }

    /// A program tells that `tid` is a thread of `pid`, as it sees itself. In a container it sees other ids than the
    /// kernel: it is believed where the kernel's events give its main thread the same name.
    pub fn program(&mut self, pid: u32, name: &str, tid: u32) {
        if self.by_tid.get(&tid).is_none_or(|thread| thread.pid.is_some()) {
            return;
        }
        let is_same = !name.is_empty() && self.by_tid.get(&pid).is_some_and(|main| main.name == cut(name));
        if let Some(thread) = self.by_tid.get_mut(&tid).filter(|_| is_same) {
            thread.pid = Some(pid);
        }
    }

    fn put(&mut self, tid: u32, pid: Option<u32>, name: &str) {
        if tid != 0 {
            let thread = self.by_tid.entry(tid).or_default();
            name.clone_into(&mut thread.name);
            (thread.pid, thread.is_created, thread.is_exiting) = (pid, false, false);
        }
    }
}

/// A name as the kernel keeps it.
fn cut(name: &str) -> &str {
    let mut end = name.len().min(NAME_BYTES_MAX);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(threads: &mut Threads, tid: u32, pid: Option<u32>, name: &str) {
        assert_eq!(threads.who(tid, Some(3)), Who { pid, name }, "{tid}");
    }

    #[test]
    fn idle_threads_are_named_by_cpu() {
        let mut threads = Threads::default();
        check(&mut threads, 0, Some(0), "swapper/3");
        assert_eq!(threads.who(0, None).name, "swapper");
        // Nothing that is said of tid 0 is true for every CPU.
        threads.dumped(0, 0, "swapper/0");
        threads.named(0, "x");
        threads.renamed(0, "x");
        check(&mut threads, 0, Some(0), "swapper/3");
    }

    #[test]
    fn a_process_from_fork_to_exit() {
        let mut threads = Threads::default();
        check(&mut threads, 10, None, "");
        threads.forked(10, None, "bash");
        check(&mut threads, 10, None, "bash");
        threads.renamed(10, "ls");
        threads.executed(10, Some(10), "/usr/bin/ls");
        check(&mut threads, 10, Some(10), "ls");
        threads.named(10, "ls");
        threads.exiting(10);
        threads.switched(Some(3), 10, false, 4);
        check(&mut threads, 10, Some(10), "ls");
        threads.switched(Some(3), 10, true, 4);
        check(&mut threads, 10, None, "");
    }

    #[test]
    fn who_does_not_exit_stays_whatever_its_state() {
        let mut threads = Threads::default();
        threads.dumped(10, 9, "a");
        threads.switched(Some(3), 10, true, 4);
        check(&mut threads, 10, Some(9), "a");
        threads.freed(10);
        check(&mut threads, 10, None, "");
    }

    #[test]
    fn a_forked_child_has_its_own_process() {
        let mut threads = Threads::default();
        threads.dumped(9, 9, "motor");
        threads.created(12, Some(12), "motor");
        threads.created(13, Some(9), "motor");
        assert_eq!(threads.forked_of(9, "motor", 12), Some(12));
        assert_eq!(threads.forked_of(9, "motor", 13), None, "a thread of it");
        // Numbers of a container are others.
        assert_eq!(threads.forked_of(9, "pump", 12), None);
        assert!(threads.is_of(9, 13) && !threads.is_of(9, 12));
    }

    #[test]
    fn creation_says_what_fork_does_not() {
        let mut threads = Threads::default();
        threads.created(11, Some(9), "worker");
        threads.forked(11, None, "worker");
        check(&mut threads, 11, Some(9), "worker");
        // The same tid again, of a thread whose creation is not in the trace.
        threads.forked(11, None, "other");
        check(&mut threads, 11, None, "other");
        threads.forked(11, Some(7), "third");
        check(&mut threads, 11, Some(7), "third");
    }

    #[test]
    fn a_name_that_nothing_explains_makes_the_process_unknown() {
        let mut threads = Threads::default();
        threads.dumped(10, 10, "bash");
        threads.named(10, "bash");
        check(&mut threads, 10, Some(10), "bash");
        threads.named(10, "cc1");
        check(&mut threads, 10, None, "cc1");
    }

    #[test]
    fn execution_by_another_thread_than_the_main_one() {
        let mut threads = Threads::default();
        threads.dumped(20, 20, "main");
        threads.dumped(21, 20, "side");
        threads.executed(20, Some(21), "/opt/a-very-long-program-name");
        check(&mut threads, 20, Some(20), "a-very-long-pro");
        check(&mut threads, 21, None, "");
        threads.executed(20, Some(20), "/dev/fd/5");
        check(&mut threads, 20, Some(20), "");
        threads.named(20, "script");
        check(&mut threads, 20, Some(20), "script");
    }

    #[test]
    fn a_rename_without_a_tid_is_that_of_its_teller_if_the_old_name_fits() {
        let mut threads = Threads::default();
        threads.renamed_from(10, "old", "new");
        check(&mut threads, 10, None, "");
        threads.dumped(10, 9, "old");
        threads.renamed_from(10, "another", "new");
        check(&mut threads, 10, Some(9), "old");
        threads.renamed_from(10, "old", "new");
        check(&mut threads, 10, Some(9), "new");
    }

    #[test]
    fn programs_are_believed_outside_of_containers() {
        let mut threads = Threads::default();
        threads.named(30, "motor");
        threads.forked(31, None, "axis");
        threads.program(30, "motor", 31);
        check(&mut threads, 31, Some(30), "axis");
        threads.program(30, "motor", 30);
        check(&mut threads, 30, Some(30), "motor");
        // In a container: tid 5 of pid 4, which outside are kernel threads.
        threads.dumped(4, 4, "kworker/0:0");
        threads.named(5, "kworker/0:1");
        threads.program(4, "motor", 5);
        check(&mut threads, 5, None, "kworker/0:1");
        threads.program(30, "motor", 77);
        check(&mut threads, 77, None, "");
    }

    #[test]
    fn what_runs_is_unknown_behind_a_loss() {
        let mut threads = Threads::default();
        assert_eq!(threads.running(3), None);
        threads.switched(Some(3), 1, false, 2);
        threads.switched(Some(4), 1, false, 5);
        assert_eq!(threads.running(3), Some(2));
        threads.lost(Some(3));
        assert_eq!((threads.running(3), threads.running(4)), (None, Some(5)));
        threads.lost(None);
        assert_eq!(threads.running(4), None);
    }

    #[test]
    fn names_are_cut_at_characters() {
        for (name, expect) in [("", ""), ("exactly15bytes_", "exactly15bytes_"), ("fourteen_bytesü", "fourteen_bytes")]
        {
            assert_eq!(cut(name), expect);
        }
    }
}
