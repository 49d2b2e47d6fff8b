// SPDX-License-Identifier: MIT OR Apache-2.0
//! Man pages of the verbs: clap_mangen makes them of the definition; here the examples get a part of their own.

use std::path::Path;

use anyhow::Context as _;

use super::roff;

/// What clap_mangen calls the part behind the options.
const EXTRA: &str = ".SH EXTRA\n";

/// Writes all pages into a directory.
pub fn write(definition: clap::Command, dir: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    clap_mangen::generate_to(definition, dir).with_context(|| format!("cannot write to {}", dir.display()))?;
    for entry in dir.read_dir().with_context(|| format!("cannot read {}", dir.display()))? {
        let path = entry?.path();
        let page = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let name = path.file_stem().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        std::fs::write(&path, with_examples(&with_title(&page, &name)))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// The same page with a title as other pages have it, and with one macro where there are two of the same effect.
fn with_title(page: &str, name: &str) -> String {
    let title =
        format!(".TH {} 1 \"\" \"kymo {}\" \"kymo\"\n", roff::text(&name.to_uppercase()), env!("CARGO_PKG_VERSION"));
    let lines = page.split_inclusive('\n').map(|line| if line.starts_with(".TH ") { &title } else { line });
    lines.collect::<String>().replace("\n.br\n\n.br\n", "\n.sp\n")
}

/// The same page with EXAMPLES and NOTES instead of EXTRA.
fn with_examples(page: &str) -> String {
    let Some((front, extra)) = page.split_once(EXTRA) else { return page.to_owned() };
    let (extra, back) = match extra.find("\n.SH ") {
        Some(at) => extra.split_at(at + 1),
        None => (extra, ""),
    };
    let (examples, notes) = match extra.split_once("\n\n") {
        Some((examples, notes)) => (examples, notes.trim_end()),
        None => (extra.trim_end(), ""),
    };
    let mut made = front.to_owned();
    match examples.strip_prefix("Examples:\n") {
        Some(examples) => made += &format!(".SH EXAMPLES\n.nf\n{examples}\n.fi\n"),
        None => made += &format!(".SH NOTES\n{examples}\n"),
    }
    if !notes.is_empty() {
        made += &format!(".SH NOTES\n{}\n", notes.replace("\n\n", "\n.PP\n"));
    }
    made + back
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_have_a_part_of_their_own() {
        let check = |page: &str, expect: &str| assert_eq!(with_examples(page), expect, "{page}");
        check(
            "a\n.SH EXTRA\nExamples:\n  b\n  c\n\nd\n\ne\n.SH VERSION\nf\n",
            "a\n.SH EXAMPLES\n.nf\n  b\n  c\n.fi\n.SH NOTES\nd\n.PP\ne\n.SH VERSION\nf\n",
        );
        check("a\n.SH EXTRA\nExamples:\n  b\n.SH VERSION\nf\n", "a\n.SH EXAMPLES\n.nf\n  b\n.fi\n.SH VERSION\nf\n");
        check("a\n.SH EXTRA\nd\n", "a\n.SH NOTES\nd\n");
        check("a\n", "a\n");
    }
}
