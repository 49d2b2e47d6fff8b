// SPDX-License-Identifier: MIT OR Apache-2.0
//! Slices of records that are given by the names of their events.

use super::*;

const NAMES: [&str; 17] = [
    "a:begin",
    "a:end",
    "b:begin",
    "b:end",
    "work",
    "work_return",
    "alone",
    "syscall_entry_read",
    "syscall_exit_read",
    "syscall_entry_rt_sigreturn",
    "syscall_entry_exit_group",
    "syscall_entry_execve",
    "syscall_exit_execve",
    "syscall_exit_clone",
    "sched_process_exit",
    "sched_process_exec",
    "syscall_entry_futex",
];

const THREAD: (u32, u32) = (7, 8);

/// Slices, and the time of the next record.
struct Run {
    slices: Slices,
    ns: i128,
}

impl Run {
    fn new() -> Run {
        let roles = Roles::of_names(&[NAMES.map(str::to_owned).to_vec()]);
        Run { slices: Slices::of_roles(roles, vec![0], vec![None]), ns: 0 }
    }

    /// A record of a thread of a process; an `exec` is one of its first thread, `old` is who called.
    fn record(&mut self, (pid, tid): (u32, u32), name: &str, old: Option<u32>) -> Steps {
        self.ns += 10;
        self.record_at((pid, tid), name, old, self.ns)
    }

    fn record_at(&mut self, (pid, tid): (u32, u32), name: &str, old: Option<u32>, ns: i128) -> Steps {
        let event = NAMES.iter().position(|known| *known == name).unwrap();
        let track = Track::Thread(pid, tid);
        let mut steps = Steps::instant(track, ns);
        self.slices.processes.tell(0, tid, pid);
        let subject = Subject { place: (0, track), owner: Owner::Kernel(tid), ns };
        let Some(role) = self.slices.roles.of(0, event) else { return steps };
        match role {
            Role::Pair { title, begins, .. } => self.slices.pair(&subject, title, begins, &mut steps),
            Role::Call { title: Some(title), is_entry: true, returns } => {
                self.slices.enter(&subject, title, false, returns, &mut steps);
            }
            Role::Call { title, .. } => self.slices.leave(&subject, title, false, &mut steps),
            Role::ThreadEnds => self.slices.thread_ends(&subject, Some(tid), &mut steps),
            Role::ProgramStarts => self.slices.program_starts(&subject, Some(tid), old, &mut steps),
        }
        steps
    }

    /// Records of one thread, each as `phase name` of what is written for it: `B`, `E`, `i`.
    fn written(&mut self, thread: (u32, u32), names: &[&str]) -> Vec<String> {
        let mut lines = Vec::new();
        for name in names {
            let steps = self.record(thread, name, Some(thread.1));
            lines.extend(self.lines(&steps, name));
        }
        lines
    }

    fn lines(&self, steps: &Steps, name: &str) -> Vec<String> {
        let edge = |edge: &Edge| {
            let why = edge.why.text().map_or("", |_| "!");
            format!("{} {}{why}", if edge.begins { 'B' } else { 'E' }, self.slices.title(edge.title))
        };
        let own = match steps.own {
            Own::Begin(title) => format!("B {}", self.slices.title(title)),
            Own::End(title) => format!("E {}", self.slices.title(title)),
            Own::Instant => format!("i {name}"),
        };
        steps.before.iter().map(edge).chain([own]).chain(steps.after.iter().map(edge)).collect()
    }

    /// What the end of the trace ends, and what was counted.
    fn finish(&mut self) -> (Vec<String>, Done) {
        let mut done = Done::default();
        let edges = self.slices.finish(self.ns, &mut done);
        (edges.iter().map(|edge| self.slices.title(edge.title).to_owned()).collect(), done)
    }
}

#[track_caller]
fn check(names: &[&str], expect: &[&str], open: &[&str]) -> Done {
    let mut run = Run::new();
    assert_eq!(run.written(THREAD, names), expect);
    let (left, done) = run.finish();
    assert_eq!(left, open);
    done
}

fn count(done: &Done, part: &str) -> u64 {
    done.changed.iter().find(|(what, _)| what.contains(part)).map_or(0, |(_, count)| *count)
}

#[test]
fn slices_nest_in_their_thread() {
    let done = check(
        &["a:begin", "a:begin", "work", "work_return", "a:end", "a:end", "alone"],
        &["B a", "B a", "B work", "E work", "E a", "E a", "i alone"],
        &[],
    );
    assert_eq!(done, Done::default());
    // The end of another thread is none of this one's.
    let mut run = Run::new();
    run.record(THREAD, "a:begin", None);
    assert_eq!(run.record((7, 9), "a:end", None).own, Own::Instant);
    let (open, done) = run.finish();
    assert_eq!((open, count(&done, "ends without"), count(&done, "begins without end")), (vec!["a".into()], 1, 1));
}

#[test]
fn what_ends_behind_its_outer_one_is_shown_in_parts() {
    let done = check(
        &["a:begin", "b:begin", "work", "a:end", "work_return", "b:end"],
        &["B a", "B b", "B work", "E work", "E b", "E a", "B b", "B work", "E work", "E b"],
        &[],
    );
    assert_eq!((count(&done, "in parts"), done.changed.len()), (2, 1));
    // Where that would be too many parts the end is an instant.
    let names = [&["a:begin"][..], &["b:begin"; DIVIDED_MAX], &["a:end"]].concat();
    let mut run = Run::new();
    assert_eq!(run.written(THREAD, &names).last().unwrap(), "i a:end");
    assert_eq!(run.finish().0.len(), 1 + DIVIDED_MAX);
}

#[test]
fn calls_that_do_not_return_are_instants() {
    let done = check(
        &["syscall_entry_rt_sigreturn", "syscall_entry_read", "syscall_exit_read", "syscall_entry_exit_group"],
        &["i syscall_entry_rt_sigreturn", "B read", "E read", "i syscall_entry_exit_group"],
        &[],
    );
    assert_eq!(count(&done, "do not return"), 2);
}

#[test]
fn a_call_without_return_ends_with_the_next_one() {
    let done = check(
        &["syscall_entry_futex", "a:begin", "syscall_entry_read", "syscall_exit_read", "a:end"],
        &["B futex", "B a", "E a", "E futex!", "B a", "B read", "E read", "E a"],
        &[],
    );
    assert_eq!(count(&done, "return is not in the trace"), 1);
    // A return of another call: what was open is over, and the return has no entry.
    let done = check(
        &["syscall_entry_futex", "syscall_exit_read", "syscall_exit_clone"],
        &["B futex", "E futex!", "i syscall_exit_read", "i syscall_exit_clone"],
        &[],
    );
    assert_eq!((count(&done, "return is not"), count(&done, "without their entry")), (1, 2));
}

#[test]
fn a_thread_that_ends_ends_its_slices() {
    let done = check(
        &["a:begin", "syscall_entry_read", "sched_process_exit", "a:end"],
        &["B a", "B read", "E read!", "E a!", "i sched_process_exit", "i a:end"],
        &[],
    );
    assert_eq!(count(&done, "program ended"), 2);
}

#[test]
fn a_new_program_ends_what_the_old_one_was_in() {
    check(
        &["a:begin", "syscall_entry_execve", "b:begin", "sched_process_exec", "syscall_exit_execve"],
        &["B a", "B execve", "B b", "E b!", "E execve", "E a!", "B execve", "i sched_process_exec", "E execve"],
        &[],
    );
    // Another thread than the first one has called: the call returns in the first one.
    let mut run = Run::new();
    run.record((7, 7), "syscall_entry_futex", None);
    run.record((7, 9), "syscall_entry_execve", None);
    let steps = run.record((7, 7), "sched_process_exec", Some(9));
    assert_eq!(run.lines(&steps, "exec"), ["E execve!", "E futex!", "i exec"]);
    assert_eq!(steps.before[0].track, Track::Thread(7, 9));
    assert_eq!(run.record((7, 7), "syscall_exit_execve", None).own, Own::Instant);
    assert_eq!(run.finish().0, Vec::<String>::new());
}

/// The process of a thread becomes known while it is in a slice.
#[test]
fn a_slice_ends_where_it_began() {
    let mut run = Run::new();
    run.record((8, 8), "syscall_entry_read", None);
    run.record((3, 3), "alone", None);
    let steps = run.record(THREAD, "syscall_exit_read", None);
    assert_eq!((steps.track, matches!(steps.own, Own::End(_))), (Track::Thread(8, 8), true));
}

#[test]
fn times_that_go_back_do_not_turn_a_slice_around() {
    let mut run = Run::new();
    run.record_at(THREAD, "a:begin", None, 100);
    let steps = run.record_at(THREAD, "a:end", None, 90);
    assert_eq!(steps.ns, 100);
    assert_eq!(run.record_at(THREAD, "alone", None, 90).ns, 90, "an instant keeps its time");
    assert_eq!(count(&run.finish().1, "before an earlier one"), 1);
}

#[test]
fn a_slice_goes_on_in_the_next_part_of_a_trace() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let roles = Roles::of_names(&[names(&["a:begin", "a:end"]), names(&["other", "a:begin", "a:end"])]);
    let title = |role| match role {
        Some(Role::Pair { title, .. }) => Some(title),
        _ => None,
    };
    assert!(title(roles.of(0, 0)).is_some());
    assert_eq!(title(roles.of(0, 0)), title(roles.of(1, 2)));
}
