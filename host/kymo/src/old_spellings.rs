// SPDX-License-Identifier: MIT OR Apache-2.0
//! Command lines as earlier versions took them. Most old spellings are hidden aliases in the definition; here is what
//! an alias cannot do: an option whose old name now means something else.

use std::ffi::{OsStr, OsString};

use clap::ValueEnum as _;

use crate::verbs::export::ExportFormat;

/// The words of a command line, of today. The first one is the program.
pub fn current(words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = words.into_iter().collect();
    if words.get(1).is_some_and(|verb| verb == "export") {
        formats_of_export(&mut words[2..]);
    }
    words
}

/// `kymo export --to FORMAT` was `--format FORMAT`; `--to` is a time. No time is the name of a format.
fn formats_of_export(words: &mut [OsString]) {
    let is_format = |text: &OsStr| text.to_str().is_some_and(|text| ExportFormat::from_str(text, false).is_ok());
    for at in 0..words.len() {
        if words[at] == "--" {
            return;
        }
        let value = words[at].to_str().and_then(|word| word.strip_prefix("--to="));
        if words[at] == "--to" && words.get(at + 1).is_some_and(|value| is_format(value)) {
            words[at] = "--format".into();
        } else if let Some(value) = value.filter(|value| is_format(OsStr::new(value))) {
            words[at] = format!("--format={value}").into();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_of_export_were_called_to() {
        let check = |line: &str, expect: &str| {
            let words = current(line.split(' ').map(OsString::from));
            assert_eq!(words.join(OsStr::new(" ")), expect, "{line}");
        };
        check("kymo export t --to csv -o t.csv", "kymo export t --format csv -o t.csv");
        check("kymo export t --to=perfetto -o t --to +2s", "kymo export t --format=perfetto -o t --to +2s");
        check("kymo export t --format csv --to -1s", "kymo export t --format csv --to -1s");
        check("kymo export -- --to csv", "kymo export -- --to csv");
        check("kymo read t --to csv", "kymo read t --to csv");
        check("kymo", "kymo");
    }
}
