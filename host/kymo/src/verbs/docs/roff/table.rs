// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables. A narrow one is shown as a table; of a wide one each row becomes a paragraph with the first cell as its
//! head, because roff without a preprocessor cannot break lines inside of cells.

use std::fmt::Write as _;

use super::inline::{Link, inline, plain, text};

/// Columns of text that fit on a terminal of 80, indented as a page is.
const WIDTH: usize = 72;
/// Blanks between two cells.
const GAP: usize = 2;

/// Lines that begin with `|`, in roff.
pub fn table(lines: &[&str], link: &Link) -> String {
    let rows: Vec<Vec<String>> = lines.iter().map(|line| cells(line)).filter(|row| !is_rule(row)).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| plain(cell).chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    match widths.iter().sum::<usize>() + GAP * columns.saturating_sub(1) <= WIDTH {
        true => narrow(&rows, &widths, link),
        false => wide(&rows, link),
    }
}

fn narrow(rows: &[Vec<String>], widths: &[usize], link: &Link) -> String {
    let mut roff = String::from(".nf\n");
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            // Names of files become references, which are longer: here they stay names.
            let _ = link;
            line += &inline(cell, &|_| None);
            line += &" ".repeat(width - plain(cell).chars().count() + GAP);
        }
        let line = line.trim_end();
        let _ = writeln!(roff, "{}{line}", if line.starts_with(['.', '\'']) { "\\&" } else { "" });
    }
    roff + ".fi\n"
}

fn wide(rows: &[Vec<String>], link: &Link) -> String {
    let Some((head, rows)) = rows.split_first() else { return String::new() };
    let mut roff = String::new();
    for row in rows {
        let first = row.first().map(|cell| inline(cell, link)).filter(|cell| !cell.is_empty());
        let _ = writeln!(roff, ".TP\n\\&{}", first.unwrap_or_default());
        let others: Vec<String> =
            row.iter().zip(head).skip(1).filter_map(|(cell, title)| named(cell, title, link)).collect();
        let _ = match (row.len(), others.is_empty()) {
            // Two columns need no names.
            (2, false) => writeln!(roff, "\\&{}", inline(&row[1], link)),
            (_, false) => writeln!(roff, "{}", others.join("\n.br\n")),
            (_, true) => writeln!(roff, "\\&"),
        };
    }
    roff
}

/// `TITLE: CELL`.
fn named(cell: &str, title: &str, link: &Link) -> Option<String> {
    if cell.is_empty() {
        return None;
    }
    let title = match plain(title).is_empty() {
        true => String::new(),
        false => format!("\\fI{}\\fR: ", text(&plain(title))),
    };
    Some(format!("\\&{title}{}", inline(cell, link)))
}

/// The cells of a line; `\|` is part of one.
fn cells(line: &str) -> Vec<String> {
    let line = line.trim().trim_start_matches('|');
    let line = line.strip_suffix('|').filter(|rest| !rest.ends_with('\\')).unwrap_or(line);
    line.replace("\\|", "\0").split('|').map(|cell| cell.trim().replace('\0', "|")).collect()
}

/// The line between head and rows.
fn is_rule(row: &[String]) -> bool {
    row.iter().all(|cell| !cell.is_empty() && cell.chars().all(|c| matches!(c, '-' | ':')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_tables_stay_tables() {
        let made = table(&["| a | long |", "|---|---|", "| `b-c` | x\\|y |"], &|_| None);
        assert_eq!(made, ".nf\na    long\n\\fBb\\-c\\fR  x|y\n.fi\n");
    }

    #[test]
    fn wide_tables_become_paragraphs() {
        let long = "word ".repeat(20);
        let made = table(&["| a | b |", "|---|---|", &format!("| x | {long}|")], &|_| None);
        assert_eq!(made, format!(".TP\n\\&x\n\\&{}\n", long.trim()));
        let made = table(&["| a | b | c |", "|---|---|---|", &format!("| x | | {long}|")], &|_| None);
        assert_eq!(made, format!(".TP\n\\&x\n\\&\\fIc\\fR: {}\n", long.trim()));
    }
}
