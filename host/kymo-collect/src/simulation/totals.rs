// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was done, so that nobody takes an idle simulation for a test.

macro_rules! totals {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Counts of what happened.
        #[derive(Clone, Copy, Debug, Default)]
        pub(super) struct Totals {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Totals {
            pub(super) fn add(&mut self, other: &Totals) {
                $(self.$name += other.$name;)*
            }

            /// Everything that can happen has happened.
            pub(super) fn assert_busy(&self) {
                $(assert!(self.$name > 0, "no {}: {self:?}", stringify!($name));)*
            }
        }
    };
}

totals! {
    runs,
    sessions,
    seconds,
    programs,
    forks,
    executed,
    killed,
    records,
    lost,
    unknown,
    /// Programs of which records are missing that nobody could count.
    missed,
    verbs,
    faults,
    /// Disks that said something else than that they are full.
    disk_errors,
    marks,
    snapshots,
    /// Records in snapshots.
    frozen,
    /// Rings that were looked at.
    rings,
    /// Records of rare events.
    rare,
    /// Events of the kernel that were switched on.
    kernel_events,
    /// Times that triggers fired.
    fired,
    /// Collectors that died, and records in their traces after recovery.
    dead,
    recovered,
    /// Memories that programs shared.
    shared,
    /// Filters that programs refused.
    unfiltered,
    /// Programs that were sent away because their user took too much.
    sent_away,
    /// Programs that were refused for want of memory.
    without_memory,
}
