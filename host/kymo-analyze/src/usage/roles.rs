// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which system calls move bytes, and which change what a descriptor leads to.

use crate::CallId;
use crate::hash::Map;
use crate::names::Vocabulary;

/// What a system call does with descriptors. Numbers are positions among its first two arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Reads from its first argument as many bytes as it returns.
    Reads,
    /// Writes them to its first argument.
    Writes,
    /// Reads them from its second argument, and writes them to its first.
    Sends,
    /// Reads them from its first argument, and writes them to one that is not looked at.
    Moves,
    /// Returns a descriptor of a file, whose path was told before.
    Opens,
    /// Returns a descriptor of something without a path.
    Makes,
    /// Returns another descriptor of its first argument.
    Copies,
    /// The same, if its second argument says so.
    Controls,
    /// Closes its first argument.
    Closes,
    /// Closes from its first argument to its second.
    ClosesRange,
}

impl Role {
    /// Whether it moves bytes.
    pub fn is_transfer(self) -> bool {
        matches!(self, Role::Reads | Role::Writes | Role::Sends | Role::Moves)
    }
}

const ROLES: &[(Role, &[&str])] = &[
    (Role::Reads, &["read", "pread64", "readv", "preadv", "preadv2", "recv", "recvfrom", "recvmsg"]),
    (Role::Writes, &["write", "pwrite64", "writev", "pwritev", "pwritev2", "send", "sendto", "sendmsg"]),
    (Role::Sends, &["sendfile", "sendfile64"]),
    (Role::Moves, &["splice", "copy_file_range"]),
    (Role::Opens, &["open", "openat", "openat2", "creat"]),
    (
        Role::Makes,
        &[
            "socket",
            "accept",
            "accept4",
            "epoll_create",
            "epoll_create1",
            "eventfd",
            "eventfd2",
            "timerfd_create",
            "signalfd",
            "signalfd4",
            "memfd_create",
            "memfd_secret",
            "inotify_init",
            "inotify_init1",
            "fanotify_init",
            "perf_event_open",
            "pidfd_open",
            "pidfd_getfd",
            "userfaultfd",
            "io_uring_setup",
            "mq_open",
            "open_by_handle_at",
            "open_tree",
            "fsopen",
            "fsmount",
            "fspick",
            "landlock_create_ruleset",
        ],
    ),
    (Role::Copies, &["dup", "dup2", "dup3"]),
    (Role::Controls, &["fcntl", "fcntl64"]),
    (Role::Closes, &["close"]),
    (Role::ClosesRange, &["close_range"]),
];

/// The roles of a trace's system calls.
#[derive(Clone, Debug, Default)]
pub(super) struct Roles {
    by_call: Map<CallId, (Role, &'static str)>,
    /// There are events of `close` and of `dup3`.
    has_ends: bool,
}

impl Roles {
    pub fn new(vocabulary: &Vocabulary) -> Roles {
        let all = ROLES.iter().flat_map(|(role, names)| names.iter().map(|name| (*role, *name)));
        let known = all.flat_map(|(role, name)| vocabulary.call_ids(name).map(move |call| (call, (role, name))));
        let has_ends = ["close", "dup3"].iter().all(|name| vocabulary.call_id(name).is_some());
        Roles { by_call: known.collect(), has_ends }
    }

    /// The role of a system call, and its name.
    pub fn of(&self, call: CallId) -> Option<(Role, &'static str)> {
        self.by_call.get(&call).copied()
    }

    /// The trace has the calls that end what a descriptor leads to: else another file may have its number by now. The
    /// one that each architecture has stands for those that copy to a number that is in use.
    pub fn has_ends(&self) -> bool {
        self.has_ends
    }

    /// The trace has system calls that move bytes.
    pub fn has_transfers(&self) -> bool {
        self.by_call.values().any(|(role, _)| role.is_transfer())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::Architecture;
    use crate::record::{Class, Field, ValueKind};

    #[test]
    fn calls_by_number_have_roles_where_their_numbers_are_known() {
        let field = |name: &str, kind, position| Field { name: name.to_owned(), kind, position };
        let fields = vec![field("id", ValueKind::Integer, 0), field("args", ValueKind::Other, 1)];
        let class = Class { name: "raw_syscalls:sys_enter".to_owned(), fields };
        let roles = |architecture| {
            let mut vocabulary = Vocabulary::new();
            vocabulary.set_architecture(architecture);
            vocabulary.learn(&class);
            Roles::new(&vocabulary)
        };
        let of = |roles: &Roles, number| roles.of(CallId::by_number(number).unwrap());
        let known = roles(Some(Architecture::X86_64));
        assert!(known.has_transfers() && known.has_ends());
        let arm = roles(Some(Architecture::Aarch64));
        assert_eq!(
            [63, 56].map(|number| of(&arm, number)),
            [Some((Role::Reads, "read")), Some((Role::Opens, "openat"))]
        );
        assert!(arm.has_ends() && of(&arm, 0).is_none(), "the numbers of another architecture");
        assert_eq!(
            [0, 1, 257].map(|number| of(&known, number)),
            [Some((Role::Reads, "read")), Some((Role::Writes, "write")), Some((Role::Opens, "openat"))]
        );
        assert_eq!(of(&known, 230), None, "clock_nanosleep moves nothing");
        assert!(!roles(None).has_transfers(), "of another architecture a number is no call");
        assert!(!Roles::new(&Vocabulary::new()).has_transfers(), "no calls");
    }

    #[test]
    fn a_call_with_events_of_its_own_and_a_number_has_one_role() {
        let field = |name: &str, kind, position| Field { name: name.to_owned(), kind, position };
        let fields = vec![field("id", ValueKind::Integer, 0), field("args", ValueKind::Other, 1)];
        let mut vocabulary = Vocabulary::new();
        vocabulary.set_architecture(Some(Architecture::X86_64));
        vocabulary.learn(&Class { name: "syscalls:sys_enter_openat".to_owned(), fields: Vec::new() });
        let named = Roles::new(&vocabulary);
        let own = vocabulary.call_id("openat").unwrap();
        assert_eq!(named.of(own), Some((Role::Opens, "openat")));
        assert_eq!(named.of(CallId::by_number(257).unwrap()), None, "no calls by number");
        assert!(!named.has_ends(), "what is closed is not known");
        vocabulary.learn(&Class { name: "raw_syscalls:sys_enter".to_owned(), fields });
        let both = Roles::new(&vocabulary);
        assert_eq!(
            [own, CallId::by_number(257).unwrap()].map(|call| both.of(call)),
            [Some((Role::Opens, "openat")); 2]
        );
        assert!(both.has_ends());
    }
}
