// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reference in spec/tables.md is that of the code. `KYMO_BLESS=1` writes it anew.

use std::path::Path;

use kymo_sql::sql::functions::FUNCTIONS;

/// The page with what is between two marks replaced.
fn replaced(page: &str, mark: &str, text: &str) -> String {
    let (begin, end) = (format!("<!-- begin: {mark} -->\n"), format!("<!-- end: {mark} -->"));
    let (before, rest) = page.split_once(&begin).unwrap();
    let (_, behind) = rest.split_once(&end).unwrap();
    format!("{before}{begin}{text}{end}{behind}")
}

#[test]
fn reference_is_that_of_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/tables.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let rows = FUNCTIONS.map(|(usage, about)| format!("| `{usage}` | {about} |\n"));
    let functions = format!("| function | gives |\n|---|---|\n{}", rows.concat());
    let expect = replaced(&page, "functions", &functions);
    let expect = replaced(&expect, "tables", &kymo_tables::reference());
    if std::env::var_os("KYMO_BLESS").is_some() {
        std::fs::write(&path, &expect).unwrap();
        return;
    }
    assert!(page == expect, "spec/tables.md is older than the code: KYMO_BLESS=1 writes it");
}
