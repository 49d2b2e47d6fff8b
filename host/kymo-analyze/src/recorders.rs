// SPDX-License-Identifier: MIT OR Apache-2.0
//! The threads of the recorder itself [spec/analyze.md 5]: no latency is told of them.

/// What threads of kymo are called: of its processes, and `kymo` of libkymo's helper in traced programs.
pub const THREADS: [&str; 18] = [
    "kymo",
    "kymo-children",
    "kymo-control",
    "kymo-drain",
    "kymo-interrupt",
    "kymo-kernel",
    "kymo-kwatch",
    "kymo-lake",
    "kymo-look",
    "kymo-remote",
    "kymo-samples",
    "kymo-serve",
    "kymo-signals",
    "kymo-snapshot",
    "kymo-spare",
    "kymo-tables",
    "kymo-trigger",
    "kymo-watch",
];

/// Who recorded traces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorders {
    /// Numbers of the processes, as the kernel counts; none where that is not known.
    pub pids: Vec<i32>,
    /// One of the traces was recorded by kymo.
    pub is_kymo: bool,
}

impl Recorders {
    /// Whether a thread is one of kymo's own. Depends on nothing but what is known of the thread now, so that a reader
    /// which begins in the middle of a trace says the same.
    pub fn own(&self, tid: Option<i32>, process: Option<i32>, name: &str) -> bool {
        let is_recorder = || [tid, process].into_iter().flatten().any(|number| self.pids.contains(&number));
        // By its name where its number is not known yet, and of others of kymo that run beside the recorder.
        self.is_kymo && (is_recorder() || THREADS.contains(&name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_the_recorder_are_known_by_process_and_name() {
        let recorders = Recorders { pids: vec![7, 50], is_kymo: true };
        let own = |tid, process, name| recorders.own(tid, process, name);
        assert!(own(Some(50), None, "") && own(Some(51), Some(50), "") && own(Some(51), Some(50), "any"));
        assert!(own(Some(51), None, "kymo-kernel") && own(Some(60), Some(60), "kymo"));
        assert!(own(Some(71), Some(70), "kymo-kernel"), "of another session");
        assert!(!own(Some(61), Some(60), "kymo-app"), "a program of the user's");
        assert!(!own(Some(61), None, "kymo-probe"), "it measures, and its latencies are asked for");
        assert!(!own(Some(9), None, "") && !own(None, None, "kymograph"));
        assert!(!Recorders { is_kymo: false, ..recorders }.own(Some(51), None, "kymo"), "a trace of another tracer");
        // In a container the number is not known.
        let unknown = Recorders { pids: Vec::new(), is_kymo: true };
        assert!(unknown.own(Some(51), Some(50), "kymo-drain") && !unknown.own(Some(51), Some(50), "any"));
    }

    #[test]
    fn names_are_as_the_kernel_has_them() {
        assert!(THREADS.iter().all(|name| name.len() <= 15) && THREADS.is_sorted());
    }
}
