// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is known of other readers: where they disagree with the specifications (`disagreements.txt`), and which broken
//! rules they refuse (`verdicts.txt`). Columns are parted by ` | `; `#` begins a remark.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A disagreement.
#[derive(Clone, Debug)]
pub struct Disagreement {
    pub reader: String,
    /// `refuses`, `crashes`, or `differs`.
    pub outcome: String,
    /// Of `features`.
    pub feature: String,
    /// What decides.
    pub clause: String,
    /// What the reader does.
    pub what: String,
}

fn rows(text: &str) -> impl Iterator<Item = Vec<String>> {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    lines.map(|line| line.split(" | ").map(|cell| cell.trim().to_owned()).collect())
}

/// All of them.
pub fn disagreements() -> Vec<Disagreement> {
    let row = |cells: Vec<String>| {
        let [reader, outcome, feature, clause, what] =
            <[String; 5]>::try_from(cells).expect("five columns in disagreements.txt");
        Disagreement { reader, outcome, feature, clause, what }
    };
    rows(&text("disagreements.txt")).map(row).collect()
}

/// Features that a reader disagrees on, and those that it is not held to.
pub fn avoided(reader: &str) -> BTreeSet<String> {
    let disagreements = disagreements().into_iter().filter(|known| known.reader == reader).map(|known| known.feature);
    disagreements.chain(of_kymo_alone()).collect()
}

/// Features that no other reader is held to.
pub fn of_kymo_alone() -> impl Iterator<Item = String> {
    super::features::OF_KYMO_ALONE.into_iter().map(str::to_owned)
}

/// The disagreements that may be behind an outcome of a case with these features.
pub fn explains(reader: &str, outcome: &str, features: &BTreeSet<&'static str>) -> Vec<String> {
    let all = disagreements().into_iter();
    let fitting = all.filter(|known| known.reader == reader && known.outcome == outcome);
    fitting.map(|known| known.feature).filter(|feature| features.contains(feature.as_str())).collect()
}

/// Name of the broken rule, reader, and its word.
pub fn verdicts() -> Vec<(String, String, String)> {
    rows(&text("verdicts.txt"))
        .flat_map(|cells| {
            let name = cells[0].clone();
            super::readers::NAMES
                .into_iter()
                .zip(cells[1..].to_vec())
                .map(move |(reader, word)| (name.clone(), reader.to_owned(), word))
        })
        .collect()
}

/// Where they are written anew.
pub fn verdicts_file() -> PathBuf {
    file("verdicts.txt")
}

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/generator").join(name)
}

fn text(name: &str) -> String {
    std::fs::read_to_string(file(name)).expect("a data file of the tests")
}
