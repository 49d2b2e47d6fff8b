// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of a lake: in paths [spec/lake.md 2], and of its own columns.

use std::fmt::Write as _;

/// What stands in front of a label's key in the name of its column.
pub const LABEL: &str = "label_";

/// The value of a partition that is not known, as Hive has it.
pub const UNKNOWN: &str = "__HIVE_DEFAULT_PARTITION__";

/// Bytes of a host's name in a path: file systems take 255 for a directory.
const HOST_BYTES: usize = 240;

/// A name in a path: what is ASCII, but letters, digits, `-`, `_` and `.`, as `%XX`, which readers of Hive partitions
/// decode. Other characters stay: Spark takes each `%XX` for a character, not for a byte.
pub fn escaped(name: &str) -> String {
    let mut text = String::new();
    for c in name.chars() {
        match c {
            '-' | '_' | '.' | '0'..='9' | 'A'..='Z' | 'a'..='z' => text.push(c),
            _ if c.is_ascii() => write!(text, "%{:02X}", u32::from(c)).unwrap_or_default(),
            _ => text.push(c),
        }
    }
    text
}

/// The same of a table: it is not hidden, and is not the lake's own directory.
pub fn escaped_table(name: &str) -> String {
    let text = escaped(name);
    match text.strip_prefix(['_', '.']) {
        Some(rest) => format!("%{:02X}{rest}", text.as_bytes()[0]),
        None => text,
    }
}

/// The part of a host's name that a path has room for.
pub fn escaped_host(name: &str) -> &str {
    let mut bytes = 0;
    let end = name.char_indices().find(|(_, c)| {
        bytes += escaped(c.encode_utf8(&mut [0; 4])).len();
        bytes > HOST_BYTES
    });
    end.map_or(name, |(at, _)| &name[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_paths_can_be_decoded() {
        for (name, expect) in [
            ("rt-1.lab_2", "rt-1.lab_2"),
            ("a/b=c d%", "a%2Fb%3Dc%20d%25"),
            ("größe/漢", "größe%2F漢"),
            ("motor:step", "motor%3Astep"),
        ] {
            assert_eq!(escaped(name), expect);
        }
        assert_eq!(escaped_table("_kymo"), "%5Fkymo");
        assert_eq!(escaped_table("..x"), "%2E.x");
        assert_eq!(escaped_table("a_b"), "a_b");
        let long = "ü/".repeat(100);
        let host = escaped_host(&long);
        assert!(long.starts_with(host) && (231..=240).contains(&escaped(host).len()), "{}", escaped(host).len());
        assert_eq!(escaped_host("box"), "box");
    }
}
