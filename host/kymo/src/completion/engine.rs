// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can follow on a command line: goes along the words as clap would, and answers for the last one. Asks a
//! [`World`] for what is not in the definition.

use clap::{Arg, Command};
use kymo_analyze::What;

/// A word, and what it is.
pub type Candidate = (String, String);

/// What runs and what there is on this machine.
pub trait World {
    /// Names of running sessions.
    fn sessions(&self) -> Vec<Candidate>;
    /// Events of running programs, `provider:name`.
    fn program_events(&self) -> Vec<Candidate>;
    /// Events in traces.
    fn trace_events(&self, dirs: &[String]) -> Vec<Candidate>;
    /// Threads that traces tell of: numbers and names.
    fn trace_threads(&self, dirs: &[String]) -> Vec<Candidate>;
    /// Processes that traces tell of: numbers and names.
    fn trace_processes(&self, dirs: &[String]) -> Vec<Candidate>;
    /// Groups, systems and events of the kernel.
    fn kernel_events(&self) -> Vec<Candidate>;
    /// Process ids.
    fn processes(&self) -> Vec<Candidate>;
    /// Numbers of CPUs.
    fn cpus(&self) -> Vec<Candidate>;
}

/// What the shell completes besides the candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    Nothing,
    Files,
    Dirs,
    /// A command of its own, from this word on.
    Command(usize),
}

/// The answer for the last word.
#[derive(Debug)]
pub struct Answer {
    pub candidates: Vec<Candidate>,
    pub rest: Rest,
}

/// What the words before the last one have led to.
struct Progress<'a> {
    /// The verb, `session` and its own among them.
    path: Vec<&'a str>,
    command: &'a Command,
    /// The option that wants the last word as its value.
    pending: Option<&'a Arg>,
    /// Words that were no options.
    positional: Vec<String>,
    /// `--` was there.
    is_behind_dashes: bool,
    has_kernel_flag: bool,
    /// Where the words of another command begin.
    foreign: Option<usize>,
}

/// Answers for the last of the words; the first one is the program.
pub fn answer(cli: &Command, words: &[String], world: &dyn World) -> Answer {
    let Some((current, before)) = words.split_last() else { return nothing() };
    let progress = Progress::along(cli, before);
    if let Some(at) = progress.foreign {
        return Answer { candidates: Vec::new(), rest: Rest::Command(at) };
    }
    if let Some(arg) = progress.pending {
        return progress.value(arg, current, "", world);
    }
    if !progress.is_behind_dashes && current.starts_with('-') {
        return match current.split_once('=') {
            Some((option, value)) => match progress.option(option) {
                Some(arg) => progress.value(arg, value, &format!("{option}="), world),
                None => nothing(),
            },
            None => Answer { candidates: starting(progress.options(), current), rest: Rest::Nothing },
        };
    }
    progress.positional(current, before.len(), world)
}

fn nothing() -> Answer {
    Answer { candidates: Vec::new(), rest: Rest::Nothing }
}

fn starting(all: Vec<Candidate>, text: &str) -> Vec<Candidate> {
    all.into_iter().filter(|(candidate, _)| candidate.starts_with(text)).collect()
}

fn takes_value(arg: &Arg) -> bool {
    arg.get_action().takes_values() && arg.get_num_args().is_none_or(|range| range.max_values() > 0)
}

impl<'a> Progress<'a> {
    fn along(cli: &'a Command, before: &[String]) -> Progress<'a> {
        let mut progress = Progress {
            path: Vec::new(),
            command: cli,
            pending: None,
            positional: Vec::new(),
            is_behind_dashes: false,
            has_kernel_flag: false,
            foreign: None,
        };
        for (at, word) in before.iter().enumerate().skip(1) {
            progress.word(at, word);
        }
        progress
    }

    fn word(&mut self, at: usize, word: &str) {
        if self.foreign.is_some() || self.pending.take().is_some() {
            return;
        }
        if !self.is_behind_dashes && word == "--" {
            self.is_behind_dashes = true;
            let is_command = self.arg_behind_dashes().is_some_and(|arg| has_value_name(arg, "COMMAND"));
            self.foreign = is_command.then_some(at + 1);
        } else if !self.is_behind_dashes && word.starts_with("--") {
            let arg = self.option(word.split('=').next().unwrap_or_default());
            self.has_kernel_flag |= arg.is_some_and(|arg| arg.get_long() == Some("kernel"));
            self.pending = arg.filter(|arg| !word.contains('=') && takes_value(arg) && !arg.is_require_equals_set());
        } else if !self.is_behind_dashes && word.len() > 1 && word.starts_with('-') {
            self.shorts(&word[1..]);
        } else if let Some(below) = self.command.find_subcommand(word).filter(|_| self.positional.is_empty()) {
            self.path.push(below.get_name());
            self.command = below;
        } else {
            if self.arg_of_position().is_some_and(Arg::is_trailing_var_arg_set) {
                self.foreign = Some(at);
            }
            self.positional.push(word.to_owned());
        }
    }

    /// `-k`, `-qk`, `-ksched`.
    fn shorts(&mut self, letters: &str) {
        for (at, letter) in letters.char_indices() {
            let Some(arg) = self.command.get_arguments().find(|arg| arg.get_short() == Some(letter)) else { return };
            self.has_kernel_flag |= arg.get_long() == Some("kernel");
            if takes_value(arg) {
                self.pending = (at + letter.len_utf8() == letters.len()).then_some(arg);
                return;
            }
        }
    }

    /// By its long name, old ones too, or its short one.
    fn option(&self, word: &str) -> Option<&'a Arg> {
        let long = word.strip_prefix("--");
        let has_name = |arg: &&Arg| match long {
            Some(long) => {
                arg.get_long() == Some(long) || arg.get_all_aliases().is_some_and(|aliases| aliases.contains(&long))
            }
            None => arg.get_short().is_some_and(|short| word.strip_prefix('-') == Some(short.to_string().as_str())),
        };
        self.command.get_arguments().find(has_name)
    }

    fn options(&self) -> Vec<Candidate> {
        let visible = self.command.get_arguments().filter(|arg| !arg.is_hide_set());
        visible
            .filter_map(|arg| {
                let about = arg.get_help().map(ToString::to_string).unwrap_or_default();
                Some((format!("--{}", arg.get_long()?), about))
            })
            .chain([("--help".to_owned(), "Print help".to_owned())])
            .collect()
    }

    fn arg_behind_dashes(&self) -> Option<&'a Arg> {
        self.command.get_positionals().find(|arg| arg.is_last_set() || arg.is_trailing_var_arg_set())
    }

    /// What a word that is no option is.
    fn arg_of_position(&self) -> Option<&'a Arg> {
        if let Some(arg) = self.arg_behind_dashes().filter(|_| self.is_behind_dashes) {
            return Some(arg);
        }
        let mut all: Vec<&Arg> = self.command.get_positionals().filter(|arg| !arg.is_last_set()).collect();
        all.sort_by_key(|arg| arg.get_index());
        let many = all.last().copied().filter(|arg| arg.get_num_args().is_some_and(|range| range.max_values() > 1));
        all.get(self.positional.len()).copied().or(many)
    }

    fn positional(&self, current: &str, at: usize, world: &dyn World) -> Answer {
        if self.command.has_subcommands() && self.positional.is_empty() {
            let visible = self.command.get_subcommands().filter(|verb| !verb.is_hide_set());
            let verbs = visible.map(|verb| {
                (verb.get_name().to_owned(), verb.get_about().map(ToString::to_string).unwrap_or_default())
            });
            return Answer { candidates: starting(verbs.collect(), current), rest: Rest::Nothing };
        }
        match self.arg_of_position() {
            None => nothing(),
            Some(arg) if has_value_name(arg, "COMMAND") => Answer { candidates: Vec::new(), rest: Rest::Command(at) },
            Some(arg) => self.value(arg, current, "", world),
        }
    }

    /// Values of an option or a position. `front` is what stands before the value in the same word.
    fn value(&self, arg: &Arg, current: &str, front: &str, world: &dyn World) -> Answer {
        let is_list = arg.get_value_delimiter() == Some(',') || arg.get_long() == Some("kernel");
        let (list, last) = match current.rsplit_once(',').filter(|_| is_list) {
            Some((list, last)) => (format!("{list},"), last),
            None => (String::new(), current),
        };
        let (all, rest) = self.values(arg, world);
        let found = starting(all, last).into_iter();
        let candidates = found.map(|(candidate, about)| (format!("{front}{list}{candidate}"), about)).collect();
        Answer { candidates, rest }
    }

    fn values(&self, arg: &Arg, world: &dyn World) -> (Vec<Candidate>, Rest) {
        let possible: Vec<Candidate> = arg
            .get_possible_values()
            .iter()
            .filter(|value| !value.is_hide_set())
            .map(|value| (value.get_name().to_owned(), value.get_help().map(ToString::to_string).unwrap_or_default()))
            .collect();
        if !possible.is_empty() && takes_value(arg) {
            return (possible, Rest::Nothing);
        }
        let names = arg.get_value_names().unwrap_or_default();
        let name = names.first().map_or("", |name| name.as_str());
        if matches!(arg.get_long(), Some("what" | "worst")) {
            // Spans are named by --span.
            let kinds = What::ALL.iter().filter(|(what, _)| *what != What::Span);
            return (kinds.map(|(_, name)| ((*name).to_owned(), String::new())).collect(), Rest::Nothing);
        }
        let known: &[&str] = match (arg.get_long(), self.path.first()) {
            (Some("by"), Some(&"stats")) => &["event", "process", "thread", "cpu"],
            (Some("context"), _) => &["prio", "prio:now", "cgroup", "callstack", "perf:page-faults"],
            (Some("load"), Some(&"eval")) | (None, Some(&"load")) => {
                &["none", "hackbench", "compile", "memory", "io", "timer", "net"]
            }
            _ => &[],
        };
        if !known.is_empty() {
            return (known.iter().map(|word| ((*word).to_owned(), String::new())).collect(), Rest::Nothing);
        }
        match (arg.get_long(), name) {
            (Some("kernel"), _) => (world.kernel_events(), Rest::Nothing),
            (Some("user" | "exclude" | "rare"), _) => (world.program_events(), Rest::Nothing),
            (Some("event"), _) => (world.trace_events(&self.positional), Rest::Nothing),
            (Some("thread"), _) => (world.trace_threads(&self.positional), Rest::Nothing),
            (Some("process"), _) => (world.trace_processes(&self.positional), Rest::Nothing),
            (Some("session"), _) => (world.sessions(), Rest::Nothing),
            (Some("pid"), _) => (world.processes(), Rest::Nothing),
            (_, "CPUS") => (world.cpus(), Rest::Nothing),
            (None, "NAME") if self.is_of_sessions() => (world.sessions(), Rest::Nothing),
            (None, "PATTERN") => (world.program_events(), Rest::Nothing),
            (None, "FILE|PATTERN") if self.has_kernel_flag => (world.kernel_events(), Rest::Nothing),
            (None, "FILE|PATTERN") => (world.program_events(), Rest::Files),
            (None, "DIR") if self.path == ["read"] => (world.sessions(), Rest::Dirs),
            (_, "DIR" | "RING_DIR" | "TRACE" | "URL") => (Vec::new(), Rest::Dirs),
            (_, "FILE" | "FILE|DIR" | "DIR|REPORT" | "A" | "B" | "SOURCE" | "TO") => (Vec::new(), Rest::Files),
            _ => (Vec::new(), Rest::Nothing),
        }
    }

    /// A verb of `kymo session` about one that runs.
    fn is_of_sessions(&self) -> bool {
        matches!(self.path[..], ["session", verb] if verb != "start")
    }
}

fn has_value_name(arg: &Arg, name: &str) -> bool {
    arg.get_value_names().is_some_and(|names| names.iter().any(|known| known.as_str() == name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::completion::line;

    struct Fake;

    fn list(words: &[&str]) -> Vec<Candidate> {
        words.iter().map(|word| ((*word).to_owned(), "about".to_owned())).collect()
    }

    impl World for Fake {
        fn sessions(&self) -> Vec<Candidate> {
            list(&["motor", "night"])
        }
        fn program_events(&self) -> Vec<Candidate> {
            list(&["motor:step", "motor:tick", "audio:late"])
        }
        fn trace_events(&self, dirs: &[String]) -> Vec<Candidate> {
            dirs.iter().map(|dir| (format!("of-{dir}"), String::new())).collect()
        }
        fn trace_threads(&self, dirs: &[String]) -> Vec<Candidate> {
            dirs.iter().map(|dir| (format!("thread-of-{dir}"), String::new())).collect()
        }
        fn trace_processes(&self, dirs: &[String]) -> Vec<Candidate> {
            dirs.iter().map(|dir| (format!("process-of-{dir}"), String::new())).collect()
        }
        fn kernel_events(&self) -> Vec<Candidate> {
            list(&["sched", "irq", "sched:sched_switch"])
        }
        fn processes(&self) -> Vec<Candidate> {
            list(&["1", "1234"])
        }
        fn cpus(&self) -> Vec<Candidate> {
            list(&["0", "1"])
        }
    }

    #[track_caller]
    fn check(typed: &str, expect: &[&str], rest: Rest) {
        let answer = answer(&crate::help::command(), &line::words(typed), &Fake);
        let found: Vec<&str> = answer.candidates.iter().map(|(candidate, _)| candidate.as_str()).collect();
        assert_eq!((&found[..], answer.rest), (expect, rest), "{typed}");
    }

    #[test]
    fn verbs_and_options() {
        check("kymo cri", &["critical"], Rest::Nothing);
        check("kymo session st", &["start", "status", "stop"], Rest::Nothing);
        check("kymo __", &[], Rest::Nothing);
        check("kymo stats --lim", &["--limit"], Rest::Nothing);
        check("kymo stats --top", &[], Rest::Nothing);
        check("kymo export t --format p", &["perfetto", "parquet"], Rest::Nothing);
        check("kymo export t --format=p", &["--format=perfetto", "--format=parquet"], Rest::Nothing);
        check("kymo stats t --by event,p", &["event,process"], Rest::Nothing);
        check("kymo wakeup --method f", &["futex"], Rest::Nothing);
        check("kymo latency t --what pre", &["preempted", "preempt-off"], Rest::Nothing);
        check("kymo read t --from +1s ", &["motor", "night"], Rest::Dirs);
        check("kymo read t --from ", &[], Rest::Nothing);
    }

    #[test]
    fn what_runs() {
        check("kymo session stop ", &["motor", "night"], Rest::Nothing);
        check("kymo session start ", &[], Rest::Nothing);
        check("kymo session enable motor au", &["audio:late"], Rest::Nothing);
        check("kymo record -u motor:s", &["motor:step"], Rest::Nothing);
        check("kymo record -u 'motor:s", &["motor:step"], Rest::Nothing);
        check("kymo record --exclude=audio", &["--exclude=audio:late"], Rest::Nothing);
        check("kymo record -k irq,sched:", &["irq,sched:sched_switch"], Rest::Nothing);
        check("kymo record -qk sch", &["sched", "sched:sched_switch"], Rest::Nothing);
        check("kymo record -p 12", &["1234"], Rest::Nothing);
        check("kymo doctor --pid ", &["1", "1234"], Rest::Nothing);
        check("kymo mark --session n", &["night"], Rest::Nothing);
        check("kymo wakeup --cpus ", &["0", "1"], Rest::Nothing);
        check("kymo stats a b --event of-", &["of-a", "of-b"], Rest::Nothing);
        check("kymo stats a b --thread th", &["thread-of-a", "thread-of-b"], Rest::Nothing);
        check("kymo explain a --process=p", &["--process=process-of-a"], Rest::Nothing);
        check("kymo list -k ir", &["irq"], Rest::Nothing);
        check("kymo list mo", &["motor:step", "motor:tick"], Rest::Files);
    }

    #[test]
    fn what_the_shell_knows() {
        check("kymo stats ", &[], Rest::Dirs);
        check("kymo report ", &[], Rest::Files);
        check("kymo record ", &[], Rest::Command(2));
        check("kymo record -q -- gcc -", &[], Rest::Command(4));
        check("kymo record gcc -", &[], Rest::Command(2));
        check("kymo shield 2-3 -- ./pro", &[], Rest::Command(4));
        check("kymo compare a -- ", &[], Rest::Files);
    }
}
