// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reading the texts of /proc and /sys. Any byte can stand anywhere: names are chosen by programs.

/// A decimal number that is the whole of `bytes`; `None` if it is not one or does not fit.
pub(crate) fn number<T: std::str::FromStr>(bytes: &[u8]) -> Option<T> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

/// A number in base `radix` that is the whole of `bytes`.
pub(crate) fn number_in(bytes: &[u8], radix: u32) -> Option<u64> {
    // from_str_radix takes a sign, which the kernel never writes here.
    if bytes.first() == Some(&b'+') {
        return None;
    }
    u64::from_str_radix(std::str::from_utf8(bytes).ok()?, radix).ok()
}

/// The words of a line.
pub(crate) fn words(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

/// The lines of a text, without their ends.
pub(crate) fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|&b| b == b'\n').filter(|line| !line.is_empty())
}

/// The value of a line `key:value`, where `line` has this key; blanks around key and value do not count.
pub(crate) fn value<'a>(line: &'a [u8], key: &str) -> Option<&'a [u8]> {
    let colon = line.iter().position(|&b| b == b':')?;
    (line[..colon].trim_ascii() == key.as_bytes()).then(|| line[colon + 1..].trim_ascii())
}

/// The first line `key:value` of a text.
pub(crate) fn find<'a>(text: &'a [u8], key: &str) -> Option<&'a [u8]> {
    lines(text).find_map(|line| value(line, key))
}

/// Text without the bytes that are not UTF-8 (U+FFFD stands for them) and without the blanks at its ends.
pub(crate) fn tidy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.trim_ascii()).into_owned()
}

/// Undoes the one escape that /proc/PID/maps has: a newline in a path is written `\012`. A file whose name really holds
/// these four characters cannot be told from it; the kernel writes both alike.
pub(crate) fn unescape_newline(path: &[u8], out: &mut Vec<u8>) {
    out.clear();
    let mut rest = path;
    while let Some((&first, tail)) = rest.split_first() {
        if let Some(after) = rest.strip_prefix(b"\\012") {
            out.push(b'\n');
            rest = after;
        } else {
            out.push(first);
            rest = tail;
        }
    }
}

/// No kernel has CPU numbers as large as this; a list that names one is not believed.
const CPUS_MAX: u32 = 1 << 16;

/// The numbers of a list such as `0-3,5`, ascending, each once. What is not a range is left out.
pub fn cpu_list(bytes: &[u8]) -> Vec<u32> {
    let mut cpus: Vec<u32> = Vec::new();
    for part in bytes.trim_ascii().split(|&b| b == b',') {
        let mut ends = part.splitn(2, |&b| b == b'-');
        let Some(first) = ends.next().and_then(number::<u32>) else { continue };
        let last = match ends.next() {
            Some(last) => number::<u32>(last),
            None => Some(first),
        };
        if let Some(last) = last.filter(|&last| last < CPUS_MAX) {
            cpus.extend(first..=last);
        }
        if cpus.len() > CPUS_MAX as usize {
            break;
        }
    }
    cpus.sort_unstable();
    cpus.dedup();
    cpus
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists() {
        let check = |input: &str, expect: &[u32]| assert_eq!(cpu_list(input.as_bytes()), expect, "{input:?}");
        check("", &[]);
        check("\n", &[]);
        check("0\n", &[0]);
        check("0-3,5", &[0, 1, 2, 3, 5]);
        check("5,0-1,1", &[0, 1, 5]);
        check("3-1", &[]);
        check("0-4294967295", &[]);
        check("x,-,1-,2", &[2]);
        check("0-1-2", &[]);
    }

    #[test]
    fn values() {
        assert_eq!(find(b"A:\t1\nNSpid:\t12\t3\n", "NSpid"), Some(&b"12\t3"[..]));
        assert_eq!(find(b"model name\t: X: Y\n", "model name"), Some(&b"X: Y"[..]));
        assert_eq!(find(b"NSpidx: 1\n:\n", "NSpid"), None);
        assert_eq!(number_in(b"+7f", 16), None);
        assert_eq!(number_in(b"7f", 16), Some(127));
    }

    #[test]
    fn newlines_in_paths() {
        let mut out = Vec::new();
        let mut check = |input: &[u8], expect: &[u8]| {
            unescape_newline(input, &mut out);
            assert_eq!(out, expect);
        };
        check(b"/a\\012b", b"/a\nb");
        check(b"\\012\\012", b"\n\n");
        check(b"/a\\01", b"/a\\01");
        check(b"/a\\134\xff", b"/a\\134\xff");
    }
}
