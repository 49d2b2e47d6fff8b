// SPDX-License-Identifier: MIT OR Apache-2.0
//! What of a file `kymo record -U` can probe: USDT probes and functions.

use std::path::Path;

use kymo_command::figures::plural;
use kymo_tracefs::{Places, places};
use serde_json::{Value, json};

/// Functions that are shown where not all are asked for.
const FUNCTIONS_SHOWN: usize = 20;

/// Which places are wanted: all, or those that match one of the patterns.
pub(super) struct Choice {
    patterns: Vec<String>,
}

/// The places of a file that are wanted. None where no probe can be set in it.
pub(super) struct ProbePlaces(Places);

impl Choice {
    pub(super) fn new(patterns: &[String]) -> Choice {
        Choice { patterns: patterns.to_vec() }
    }

    pub(super) fn of(&self, path: &Path) -> ProbePlaces {
        let Ok(mut found) = places(path) else { return ProbePlaces(Places::default()) };
        if !self.patterns.is_empty() {
            let wants =
                |name: &str| self.patterns.iter().any(|pattern| kymo_names::glob_matches_with_sets(pattern, name));
            let provider = |name: &str| name.split(':').next().unwrap_or_default().to_owned();
            found.usdt.retain(|probe| wants(&probe.name) || wants(&provider(&probe.name)));
            found.functions.retain(|name| wants(name));
        }
        ProbePlaces(found)
    }
}

impl ProbePlaces {
    pub(super) fn is_empty(&self) -> bool {
        self.0.usdt.is_empty() && self.0.functions.is_empty()
    }

    /// `all`: every function; else the first of them.
    pub(super) fn print(&self, file: &str, all: bool) {
        let Places { usdt, functions } = &self.0;
        if !usdt.is_empty() {
            println!("{file}: {}", plural(usdt.len() as u64, "USDT probe"));
        }
        for probe in usdt {
            let sites = if probe.sites > 1 { format!("  ({} sites)", probe.sites) } else { String::new() };
            let args = if probe.args.is_empty() { String::new() } else { format!("  {}", probe.args) };
            println!("    {}{args}{sites}", probe.name);
        }
        if functions.is_empty() {
            return;
        }
        println!("{file}: {}", plural(functions.len() as u64, "function"));
        let shown = if all { functions.len() } else { FUNCTIONS_SHOWN };
        for name in functions.iter().take(shown) {
            println!("    {name}");
        }
        if functions.len() > shown {
            println!("    and {} more; -v or a pattern such as 'work*' shows them", functions.len() - shown);
        }
    }

    pub(super) fn add_to(&self, value: &mut Value) {
        let probe =
            |probe: &kymo_tracefs::UsdtPlace| json!({ "name": probe.name, "sites": probe.sites, "args": probe.args });
        value["usdt"] = self.0.usdt.iter().map(probe).collect();
        value["functions"] = json!(self.0.functions);
    }
}
