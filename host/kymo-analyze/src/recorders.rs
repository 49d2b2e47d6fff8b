// SPDX-License-Identifier: MIT OR Apache-2.0
//! The threads of the recorder itself [spec/analyze.md 5]: no latency is told of them.

/// What `kymo-probe` is called: it measures, and its latencies are what is asked for.
const PROBE: &str = "kymo-probe";

/// The processes that recorded traces, by their numbers; none: nothing is known of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorders(pub Vec<i32>);

impl Recorders {
    /// Whether a thread is one of kymo's own. Depends on nothing but what is known of the thread now, so that a reader
    /// which begins in the middle of a trace says the same. The trace may count processes in another namespace, where a
    /// number is somebody else's: so the name must be one of kymo's, too.
    pub fn own(&self, tid: Option<i32>, process: Option<i32>, name: &str) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let is_recorder = || [tid, process].into_iter().flatten().any(|number| self.0.contains(&number));
        match name {
            // Not told yet.
            "" => is_recorder(),
            // Also a child that has not begun its program, and other verbs that run beside it.
            "kymo" => true,
            // The dump that tells the process may come late.
            _ => name.starts_with("kymo-") && !name.starts_with(PROBE) && (process.is_none() || is_recorder()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_the_recorder_are_known_by_process_and_name() {
        let own = |tid, process, name| Recorders(vec![7, 50]).own(tid, process, name);
        assert!(own(Some(50), None, "") && own(Some(51), Some(50), "") && own(Some(51), Some(50), "kymo-drain"));
        assert!(own(Some(51), None, "kymo-kernel") && own(Some(60), Some(60), "kymo"));
        assert!(!own(Some(61), Some(60), "kymo-app"), "a program of the user's");
        assert!(!own(Some(61), None, "kymo-probe") && !own(Some(61), Some(50), "kymo-probe-x"));
        assert!(!own(Some(50), Some(50), "kworker/0:1"), "a number of another namespace");
        assert!(!own(Some(9), None, "") && !own(None, None, "kymograph"));
        assert!(!Recorders::default().own(Some(50), Some(50), "kymo"), "a trace of another tracer");
    }
}
