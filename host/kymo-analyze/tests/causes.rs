// SPDX-License-Identifier: MIT OR Apache-2.0
//! The words for causes of a sample: those of the cases are those of spec/lab-result.schema.json, and each has its row
//! in the one table of spec/analyze.md 6. docs/extending.md says what a new cause needs.

use std::collections::BTreeSet;
use std::path::Path;

/// Words of the schema that no case has: tests/rules.rs has it.
const WITHOUT_CASE: [&str; 1] = ["switching"];

fn text(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The enumeration of `cause` of a part of a budget.
fn words_of_schema() -> BTreeSet<String> {
    let schema: serde_json::Value = serde_json::from_str(&text("../../spec/lab-result.schema.json")).unwrap();
    let words = schema["$defs"]["part"]["properties"]["cause"]["enum"].as_array().unwrap();
    words.iter().map(|word| word.as_str().unwrap().to_owned()).collect()
}

/// The causes that the cases' answers name: `NS WORD ...` behind a question `? cause`.
fn words_of_cases() -> BTreeSet<String> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut words = BTreeSet::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "expect") {
            continue;
        }
        let answers = std::fs::read_to_string(&path).unwrap();
        let of_causes = answers.split("? ").filter_map(|answer| answer.strip_prefix("cause "));
        for line in of_causes.flat_map(|answer| answer.lines().skip(1)) {
            let mut parts = line.split(' ');
            if parts.next().is_some_and(|ns| ns.parse::<u64>().is_ok()) {
                words.extend(parts.next().map(str::to_owned));
            }
        }
    }
    words
}

#[test]
fn no_step_of_a_cause_is_forgotten() {
    let (schema, cases) = (words_of_schema(), words_of_cases());
    let spec = text("../../spec/analyze.md");
    let table = spec.split("\n## ").find(|section| section.starts_with("6. ")).unwrap();
    let cells = table.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |")?.rsplit(" | ").next());
    let rows: BTreeSet<&str> = cells.flat_map(|cell| cell.split('`')).collect();
    let mut missing = Vec::new();
    let mut step =
        |number, word: &str, what| missing.push(format!("{word}: docs/extending.md, a cause, step {number}: {what}"));
    for word in cases.difference(&schema) {
        step(3, word, "spec/lab-result.schema.json does not list it");
    }
    for word in &schema {
        if !rows.contains(word.as_str()) {
            step(4, word, "the table in spec/analyze.md 6 has no row of it");
        }
        if !cases.contains(word) && !WITHOUT_CASE.contains(&word.as_str()) {
            step(5, word, "no case in host/kymo-analyze/tests/cases has it");
        }
    }
    assert!(missing.is_empty(), "\n{}", missing.join("\n"));
}
