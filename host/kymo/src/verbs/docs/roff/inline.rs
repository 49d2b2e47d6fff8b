// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is inside of a line of Markdown: code, emphasis, links, and names of files that are pages.

/// What the name of a file is, where it is a page.
pub type Link = dyn Fn(&str) -> Option<String>;

/// Prose: characters that roff would change or take for its own.
pub fn text(prose: &str) -> String {
    escaped(prose, false)
}

/// Code: also what roff prints as another character.
pub fn code(code: &str) -> String {
    escaped(code, true)
}

fn escaped(from: &str, is_code: bool) -> String {
    let mut to = String::with_capacity(from.len());
    for c in from.chars() {
        match c {
            '\\' => to += "\\e",
            '-' if is_code => to += "\\-",
            '\'' if is_code => to += "\\(aq",
            '`' => to += "\\(ga",
            '^' => to += "\\(ha",
            '~' => to += "\\(ti",
            c => to.push(c),
        }
    }
    to
}

/// The same text without marks, for headings and widths.
pub fn plain(markdown: &str) -> String {
    let mut text = String::new();
    for piece in pieces(markdown) {
        match piece {
            Piece::Text(piece) | Piece::Code(piece) | Piece::Bold(piece) | Piece::Emphasis(piece) => text += piece,
            Piece::Link(title, _) => text += &plain(title),
        }
    }
    text
}

/// A line, or several, in roff.
pub fn inline(markdown: &str, link: &Link) -> String {
    let mut roff = String::new();
    for piece in pieces(markdown) {
        match piece {
            Piece::Text(piece) => roff += &with_pages(piece, link),
            Piece::Code(piece) => roff += &format!("\\fB{}\\fR", code(&piece.replace('\n', " "))),
            Piece::Bold(piece) => roff += &format!("\\fB{}\\fR", text(piece)),
            Piece::Emphasis(piece) => roff += &format!("\\fI{}\\fR", text(piece)),
            Piece::Link(title, target) => {
                roff += &inline(title, link);
                let page = link(target).map(|page| reference(&page));
                if let Some(place) = page.or_else(|| target.contains("://").then(|| text(target))) {
                    roff += &format!(" ({place})");
                }
            }
        }
    }
    roff
}

/// `kymo-ring(7)` as man pages write it.
fn reference(page: &str) -> String {
    let (name, section) = page.split_once('(').unwrap_or((page, ""));
    let section = section.trim_end_matches(')');
    format!("\\fB{}\\fR({section})", code(name))
}

/// Names of files that are pages become references.
fn with_pages(prose: &str, link: &Link) -> String {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '/' | '-' | '_');
    let mut roff = String::new();
    let mut rest = prose;
    while let Some(at) = rest.find(".md") {
        let begin = rest[..at].rfind(|c: char| !is_of_name(c)).map_or(0, |before| before + 1);
        let end = at + ".md".len();
        roff += &text(&rest[..begin]);
        roff += &link(&rest[begin..end]).map_or_else(|| text(&rest[begin..end]), |page| reference(&page));
        rest = &rest[end..];
    }
    roff + &text(rest)
}

/// A part of a line.
enum Piece<'a> {
    Text(&'a str),
    Code(&'a str),
    Bold(&'a str),
    Emphasis(&'a str),
    /// Title and target.
    Link(&'a str, &'a str),
}

fn pieces(markdown: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let (mut begin, mut at) = (0, 0);
    while at < markdown.len() {
        match marked(markdown, at) {
            Some((piece, end)) => {
                if begin < at {
                    pieces.push(Piece::Text(&markdown[begin..at]));
                }
                pieces.push(piece);
                (begin, at) = (end, end);
            }
            None => at += markdown[at..].chars().next().map_or(1, char::len_utf8),
        }
    }
    if begin < markdown.len() {
        pieces.push(Piece::Text(&markdown[begin..]));
    }
    pieces
}

/// What is marked at a position, and where it ends.
fn marked(markdown: &str, at: usize) -> Option<(Piece<'_>, usize)> {
    let rest = &markdown[at..];
    let between = |mark: &str| {
        let inner = rest.strip_prefix(mark)?;
        let end = inner.find(mark)?;
        Some((&inner[..end], at + 2 * mark.len() + end))
    };
    if rest.starts_with("``") {
        return between("``").map(|(inner, end)| (Piece::Code(inner.trim()), end));
    }
    if rest.starts_with('`') {
        return between("`").map(|(inner, end)| (Piece::Code(inner), end));
    }
    if let Some(inner) = rest.strip_prefix('[') {
        let (title, behind) = inner.split_once("](")?;
        let target = behind.split(')').next().filter(|_| !title.contains(']'))?;
        return Some((Piece::Link(title, target), at + title.len() + target.len() + "[](".len() + ")".len()));
    }
    // A `*` of a pattern has no text on one of its sides.
    let is_begin = markdown[..at].chars().next_back().is_none_or(|c| c.is_whitespace() || c == '(');
    let is_bold = rest.starts_with("**");
    let (inner, end) = between(if is_bold { "**" } else { "*" }).filter(|_| is_begin)?;
    let is_text = |c: Option<char>| c.is_some_and(|c| !c.is_whitespace());
    let is_marked = is_text(inner.chars().next()) && is_text(inner.chars().next_back());
    is_marked.then_some((if is_bold { Piece::Bold(inner) } else { Piece::Emphasis(inner) }, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_inside_of_a_line() {
        let check = |markdown: &str, expect: &str| assert_eq!(inline(markdown, &|_| None), expect, "{markdown}");
        check("a `b-c` d", "a \\fBb\\-c\\fR d");
        check("`a\nb`", "\\fBa b\\fR");
        check("**bold** and *not* a", "\\fBbold\\fR and \\fInot\\fR a");
        check("motor:* and audio:*", "motor:* and audio:*");
        check("2 * 3 * 4", "2 * 3 * 4");
        check("[kymo](https://a.b/c) [x]", "kymo (https://a.b/c) [x]");
        check("C:\\dir ~ ^", "C:\\edir \\(ti \\(ha");
        check("open ` only", "open \\(ga only");
    }

    #[test]
    fn plain_text() {
        assert_eq!(plain("`a` **b** *c* [d `e`](f)"), "a b c d e");
    }
}
