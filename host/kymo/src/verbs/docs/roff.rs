// SPDX-License-Identifier: MIT OR Apache-2.0
//! Markdown to roff, as far as the project's own pages use it: headings, paragraphs, lists, tables, indented code,
//! and code, emphasis and links inside of a line. Pictures are left out. No other macros than those of man(7) are used,
//! so that every formatter accepts the pages.

mod inline;
mod table;

use std::fmt::Write as _;

pub use inline::text;
use inline::{Link, inline, plain};

/// Blanks in front of code.
const CODE_INDENT: usize = 4;
/// Blanks in front of what continues an item of a list.
const ITEM_INDENT: usize = 2;

/// The text of a page behind its name: what is in front of the first part is the description.
pub fn body(markdown: &str, link: &Link) -> String {
    let mut page = Body {
        link,
        roff: String::from(".SH DESCRIPTION\n"),
        paragraph: String::new(),
        lists: Vec::new(),
        is_after_item: false,
    };
    let lines: Vec<&str> = markdown.lines().collect();
    let mut at = 0;
    while at < lines.len() {
        at += page.block(&lines[at..]);
    }
    page.end_lists();
    page.roff
}

struct Body<'a> {
    link: &'a Link,
    roff: String,
    /// Lines that are not yet written.
    paragraph: String,
    /// Blanks in front of the lists that are open.
    lists: Vec<usize>,
    /// The paragraph is the first one of an item.
    is_after_item: bool,
}

impl Body<'_> {
    /// Takes what begins with the first line. How many lines.
    fn block(&mut self, lines: &[&str]) -> usize {
        let line = lines[0];
        let indent = line.len() - line.trim_start().len();
        let content = line.trim();
        if content.is_empty() {
            self.end_paragraph();
            return 1;
        }
        if indent == 0 && content.starts_with('#') {
            self.heading(content);
            return 1;
        }
        if content.starts_with('|') {
            return self.table(lines);
        }
        let is_new = self.paragraph.is_empty();
        if let Some(item) = item(content).filter(|_| is_new || indent < CODE_INDENT || !self.lists.is_empty()) {
            self.item(indent, item);
            return 1;
        }
        let code_indent = CODE_INDENT + self.lists.last().map_or(0, |list| list + ITEM_INDENT);
        if is_new && indent >= code_indent {
            return self.code(lines, code_indent);
        }
        if is_new && indent == 0 {
            self.end_lists();
        }
        if !self.paragraph.is_empty() {
            self.paragraph.push('\n');
        }
        self.paragraph += content;
        1
    }

    fn heading(&mut self, content: &str) {
        self.end_lists();
        let title = plain(content.trim_start_matches('#').trim());
        let macro_name = match content.bytes().take_while(|byte| *byte == b'#').count() {
            // The title of the page is its name.
            1 => return,
            2 => "SH",
            _ => "SS",
        };
        // Nothing in front of the first part: it needs no description.
        if self.roff == ".SH DESCRIPTION\n" {
            self.roff.clear();
        }
        let _ = writeln!(self.roff, ".{macro_name} \"{}\"", text(&title).replace('"', "\\(dq"));
    }

    /// Begins a paragraph (`.PP`), or an indented block (`.sp`). Formatters warn of either behind a heading.
    fn space(&mut self, macro_name: &str) {
        let last = self.roff.lines().last().unwrap_or_default();
        if !last.starts_with(".SH") && !last.starts_with(".SS") {
            let _ = writeln!(self.roff, "{macro_name}");
        }
    }

    fn item(&mut self, indent: usize, (mark, content): (&str, &str)) {
        self.end_paragraph();
        while self.lists.last().is_some_and(|list| *list > indent) {
            self.end_list();
        }
        if self.lists.last().is_none_or(|list| *list < indent) {
            if !self.lists.is_empty() {
                self.roff += ".RS 2\n";
            }
            self.lists.push(indent);
        }
        match mark {
            "-" | "*" => self.roff += ".IP \\(bu 2\n",
            number => drop(writeln!(self.roff, ".IP {number} 4")),
        }
        self.is_after_item = true;
        self.paragraph = content.to_owned();
    }

    /// Lines of code; a blank line between two of them is part of it.
    fn code(&mut self, lines: &[&str], indent: usize) -> usize {
        let is_code = |line: &&str| line.trim().is_empty() || line.len() - line.trim_start().len() >= indent;
        let mut count = lines.iter().take_while(|line| is_code(line)).count();
        while count > 0 && lines[count - 1].trim().is_empty() {
            count -= 1;
        }
        if self.lists.is_empty() {
            self.space(".sp");
        }
        self.roff += ".RS 4\n.nf\n";
        for line in &lines[..count] {
            let code = inline::code(line.get(indent..).unwrap_or_default());
            let _ = writeln!(self.roff, "{}{code}", if code.starts_with(['.', '\'']) { "\\&" } else { "" });
        }
        self.roff += ".fi\n.RE\n";
        count
    }

    fn table(&mut self, lines: &[&str]) -> usize {
        self.end_paragraph();
        if lines[0].starts_with('|') {
            self.end_lists();
        }
        let count = lines.iter().take_while(|line| line.trim_start().starts_with('|')).count();
        self.space(".sp");
        self.roff += &table::table(&lines[..count], self.link);
        count
    }

    fn end_paragraph(&mut self) {
        let paragraph = std::mem::take(&mut self.paragraph);
        if paragraph.is_empty() || is_picture(&paragraph) {
            return;
        }
        if !std::mem::take(&mut self.is_after_item) {
            match self.lists.is_empty() {
                true => self.space(".PP"),
                false => self.roff += ".IP \"\" 2\n",
            }
        }
        self.roff += &protected(&inline(&paragraph, self.link));
    }

    fn end_list(&mut self) {
        self.lists.pop();
        if !self.lists.is_empty() {
            self.roff += ".RE\n";
        }
    }

    fn end_lists(&mut self) {
        self.end_paragraph();
        while !self.lists.is_empty() {
            self.end_list();
        }
    }
}

/// A mark and the text behind it.
fn item(content: &str) -> Option<(&str, &str)> {
    let (mark, rest) = content.split_once(' ')?;
    let is_number = mark.strip_suffix('.').is_some_and(|number| number.len() < 3 && number.parse::<u8>().is_ok());
    (matches!(mark, "-" | "*") || is_number).then_some((mark, rest.trim_start()))
}

fn is_picture(paragraph: &str) -> bool {
    paragraph.starts_with("![") && paragraph.ends_with(')')
}

/// Lines that do not begin a request.
fn protected(roff: &str) -> String {
    let line = |line: &str| match line.starts_with(['.', '\'']) {
        true => format!("\\&{line}\n"),
        false => format!("{line}\n"),
    };
    roff.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(markdown: &str, expect: &str) {
        let link = |file: &str| file.ends_with("ring.md").then(|| "kymo-ring(7)".to_owned());
        assert_eq!(body(markdown, &link), expect, "{markdown}");
    }

    #[test]
    fn parts_and_paragraphs() {
        check("# Title\nOne\ntwo.\n\nThree.\n", ".SH DESCRIPTION\nOne\ntwo.\n.PP\nThree.\n");
        check("# Title\n\n## 1. First `x`\n### Sub\nText\n", ".SH \"1. First x\"\n.SS \"Sub\"\nText\n");
        check("# T\n.dot\n'quote\n", ".SH DESCRIPTION\n\\&.dot\n\\&'quote\n");
        check("# T\n![a\npicture](x.svg)\n\nText\n", ".SH DESCRIPTION\nText\n");
    }

    #[test]
    fn lists() {
        check(
            "# T\n- one\n  more\n  - nested\n- two\n\n  again\n\nafter\n",
            ".SH DESCRIPTION\n.IP \\(bu 2\none\nmore\n.RS 2\n.IP \\(bu 2\nnested\n.RE\n.IP \\(bu 2\ntwo\n.IP \"\" 2\nagain\n.PP\nafter\n",
        );
        check("# T\n1. one\n2. two\n", ".SH DESCRIPTION\n.IP 1. 4\none\n.IP 2. 4\ntwo\n");
    }

    #[test]
    fn code_is_as_it_was() {
        check(
            "# T\nText\n\n    a \\n 'b'\n\n    .c-d\n\nafter\n",
            ".SH DESCRIPTION\nText\n.sp\n.RS 4\n.nf\na \\en \\(aqb\\(aq\n\n\\&.c\\-d\n.fi\n.RE\n.PP\nafter\n",
        );
    }

    #[test]
    fn files_become_pages() {
        check(
            "# T\n[Rings](../spec/ring.md), ring.md 3, other.md\n",
            ".SH DESCRIPTION\nRings (\\fBkymo\\-ring\\fR(7)), \\fBkymo\\-ring\\fR(7) 3, other.md\n",
        );
    }
}
