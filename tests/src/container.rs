// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs in namespaces of their own, made by unshare(1): what a container engine does, without the engine.

use crate::{Lab, Proc};

/// A place to start programs in.
pub struct Container<'a> {
    lab: &'a Lab,
    flags: Vec<String>,
    setup: String,
}

impl<'a> Container<'a> {
    /// With these options of unshare(1). None, with a visible skip, where the machine does not allow them.
    pub fn new(lab: &'a Lab, flags: &[&str]) -> Option<Container<'a>> {
        let mut flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        if flags.iter().any(|flag| flag == "--pid") {
            flags.extend(["--fork", "--kill-child"].map(str::to_owned));
        }
        let outcome = lab.run("unshare", &flags.iter().map(String::as_str).chain(["true"]).collect::<Vec<_>>());
        if outcome.code != 0 {
            crate::skip(lab.name(), &format!("unshare {} does not work here: {}", flags.join(" "), outcome.stderr));
            return None;
        }
        Some(Container { lab, flags, setup: String::new() })
    }

    /// With a pid namespace and the /proc that belongs to it.
    pub fn of_processes(lab: &'a Lab) -> Option<Container<'a>> {
        Container::new(lab, &["--pid", "--mount-proc"])
    }

    /// Shell commands that run inside before the program does.
    pub fn setup(mut self, script: &str) -> Container<'a> {
        self.setup = script.to_owned();
        self
    }

    /// Starts a program inside; the result is that of unshare(1), which ends with it.
    #[track_caller]
    pub fn start(&self, program: impl AsRef<std::path::Path>, args: &[&str]) -> Proc {
        self.start_by("exec \"$@\"", program, args)
    }

    /// The same, with the inner process id `pid`, which must be free.
    #[track_caller]
    pub fn start_as(&self, pid: u32, program: impl AsRef<std::path::Path>, args: &[&str]) -> Proc {
        let before = pid - 1;
        let script =
            format!("exec 3<&0; echo {before} > /proc/sys/kernel/ns_last_pid; \"$@\" <&3 3<&- & exec 3<&-; wait $!");
        self.start_by(&script, program, args)
    }

    fn start_by(&self, run: &str, program: impl AsRef<std::path::Path>, args: &[&str]) -> Proc {
        let mut command = self.lab.command("unshare");
        command.args(&self.flags).args(["sh", "-ec", &format!("{}\n{run}", self.setup), "sh"]);
        self.lab.start({
            command.arg(program.as_ref()).args(args);
            command
        })
    }
}

/// The process at the end of the line of single children that begins with `proc`: the program behind unshare and sh.
pub fn innermost(proc: &Proc) -> u32 {
    let mut pid = proc.pid();
    while let Some(child) = children(pid).first() {
        pid = *child;
    }
    pid
}

fn children(pid: u32) -> Vec<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect()
}
