// SPDX-License-Identifier: MIT OR Apache-2.0
//! What people may have meant: names within a small edit distance.

use kymo_names::{Containing, Near};

/// A third of the characters may be mistyped, but 2 in short names and 1 up to 4 characters.
pub const NEAR: Near = Near {
    edits_max: |characters| match characters {
        0..=4 => 1,
        _ => (characters / 3).max(2),
    },
    containing: Containing::Last,
    count: 5,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_name_finds_it() {
        let names = ["sched_migrate_task", "page_fault"];
        assert_eq!(NEAR.of("migrate", names.map(|name| (name, [name]))), ["sched_migrate_task"]);
        assert_eq!(NEAR.of("page_flat", names.map(|name| (name, [name]))), ["page_fault"]);
        assert_eq!(NEAR.of("fage_pault", names.map(|name| (name, [name]))), ["page_fault"]);
        assert_eq!(NEAR.of("page", [("cage", ["cage"]), ("came", ["came"])]), ["cage"]);
    }
}
