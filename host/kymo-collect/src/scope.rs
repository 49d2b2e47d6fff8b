// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which programs a session wants [spec/session.md 2], decided by the kernel's word on who the peer is.

/// Longest chain of parents that is followed.
const DEPTH_MAX: usize = 4096;

/// Programs that a session wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Every program that can be reached.
    All,
    /// Descendants of this process. For a collector that starts a command, its own: it is their subreaper.
    Tree(u32),
    /// These processes and their descendants.
    Pids(Vec<u32>),
}

impl Scope {
    /// Whether the process `pid` is wanted; 0 is a process of another pid namespace, of which nothing is known.
    pub fn wants(&self, pid: u32) -> bool {
        self.wants_by(pid, parent)
    }

    fn wants_by(&self, pid: u32, parent: impl Fn(u32) -> Option<u32>) -> bool {
        let roots = match self {
            Scope::All => return true,
            Scope::Tree(root) => std::slice::from_ref(root),
            Scope::Pids(pids) => pids,
        };
        let mut chain =
            std::iter::successors(Some(pid), |pid| parent(*pid)).take_while(|pid| *pid != 0).take(DEPTH_MAX);
        chain.any(|ancestor| roots.contains(&ancestor))
    }
}

/// The parent of a process, as /proc says.
pub(crate) fn parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain anything, parentheses too.
    let behind = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let text = std::str::from_utf8(&stat[behind..]).ok()?;
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_and_pids() {
        // 1 <- 10 <- 20 <- 30, and a loop that /proc can show for a moment when ids are reused.
        let parent = |pid| match pid {
            30 => Some(20),
            20 => Some(10),
            10 => Some(1),
            7 => Some(8),
            8 => Some(7),
            1 => Some(0),
            _ => None,
        };
        let check = |scope: Scope, pid, expect| assert_eq!(scope.wants_by(pid, parent), expect, "{scope:?} {pid}");
        check(Scope::All, 0, true);
        check(Scope::Tree(10), 30, true);
        check(Scope::Tree(10), 1, false);
        check(Scope::Tree(10), 7, false);
        check(Scope::Tree(10), 0, false);
        check(Scope::Pids(vec![20, 7]), 30, true);
        check(Scope::Pids(vec![20, 7]), 10, false);
    }

    #[test]
    fn our_own_parent_is_known() {
        assert_eq!(parent(std::process::id()), Some(std::os::unix::process::parent_id()));
    }
}
