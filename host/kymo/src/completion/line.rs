// SPDX-License-Identifier: MIT OR Apache-2.0
//! A command line as typed so far, split as a shell splits it: blanks, quotes and backslashes. Bash's own words are cut
//! at colons, which names of events have.

/// The words; the last one, which may be empty, is the one being typed.
pub fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    let mut is_between = true;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        let is_begun = !is_between;
        is_between = false;
        match (quote, c) {
            (Some('\''), '\'') | (Some('"'), '"') => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None | Some('"'), '\\') => push(&mut words, chars.next()),
            (None, c) if c.is_whitespace() => {
                is_between = true;
                if is_begun {
                    words.push(String::new());
                }
            }
            (_, c) => push(&mut words, Some(c)),
        }
    }
    words
}

fn push(words: &mut [String], c: Option<char>) {
    if let (Some(word), Some(c)) = (words.last_mut(), c) {
        word.push(c);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_split_as_a_shell_does() {
        let check = |line: &str, expect: &[&str]| assert_eq!(words(line), expect, "{line:?}");
        check("kymo read", &["kymo", "read"]);
        check("kymo read ", &["kymo", "read", ""]);
        check("  kymo   read  a:b", &["kymo", "read", "a:b"]);
        check("kymo 'a b' \"c\\\"d\" e\\ f", &["kymo", "a b", "c\"d", "e f"]);
        check("kymo -u 'motor:st", &["kymo", "-u", "motor:st"]);
        check("kymo ''", &["kymo", ""]);
        check("kymo '' ", &["kymo", "", ""]);
        check("", &[""]);
    }
}
