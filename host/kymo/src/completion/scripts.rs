// SPDX-License-Identifier: MIT OR Apache-2.0
//! The scripts that shells load. Each asks `kymo __complete` and hands on what it answers.

/// Folder, name of the file, and text.
pub const ALL: [(&str, &str, &str); 3] =
    [("bash", "kymo.bash", BASH), ("zsh", "_kymo", ZSH), ("fish", "kymo.fish", FISH)];

const BASH: &str = include_str!("kymo.bash");
const ZSH: &str = include_str!("_kymo");
const FISH: &str = include_str!("kymo.fish");
