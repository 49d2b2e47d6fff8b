// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files of the page, as they were when kymo was built.

use kymo_query::QUESTIONS;

include!(concat!(env!("OUT_DIR"), "/page.rs"));

/// A file of the page, or the page itself for the empty name: its kind and its bytes.
pub fn file(name: &str) -> Option<(&'static str, Vec<u8>)> {
    let name = if name.is_empty() { "index.html" } else { name };
    let found = FILES.iter().find(|(known, ..)| *known == name);
    match found {
        Some((_, kind, bytes)) => Some((kind, bytes.to_vec())),
        None if matches!(name, "index.html" | "lake.html") => Some(("text/html; charset=utf-8", plain().into_bytes())),
        None => None,
    }
}

/// What is shown where the page was not built.
fn plain() -> String {
    let item = |name: &str, about: &str, query: &str| {
        format!("<li><a href=\"q/{name}?format=json{query}\">{name}</a>: {about}</li>\n")
    };
    let is_alone = |name: &str| !matches!(name, "states" | "values" | "search" | "explain" | "critical" | "results");
    let items: String = QUESTIONS
        .iter()
        .filter(|question| is_alone(question.name))
        .map(|question| item(question.name, question.about, ""))
        .collect();
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>kymo</title></head><body>\n\
         <h1>The page of kymo view is not in this build</h1>\n\
         <p>It is built by node when kymo is built: run <code>make build</code> where node 18 or newer is there, and \
         start kymo view again. The answers that the page draws are here, as JSON:</p>\n<ul>\n{items}</ul>\n\
         <p>Others need parameters: states (tids), values (field), search (filter, at), explain (tid), critical \
         (tid). The protocol is spec/view.md.</p>\n</body></html>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_page_in_every_build() {
        let (kind, bytes) = file("").unwrap();
        assert_eq!(kind, "text/html; charset=utf-8");
        assert!(!bytes.is_empty());
        assert_eq!(file("index.html").map(|(_, bytes)| bytes), Some(bytes));
        for name in ["../Cargo.toml", "/etc/passwd", "x.html", "..", "index.html/"] {
            assert!(file(name).is_none(), "{name}");
        }
    }

    #[test]
    fn the_plain_page_links_answers_and_has_nothing_that_the_policy_forbids() {
        let text = plain();
        for part in ["q/summary?format=json", "q/cpus?format=json", "node 18"] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!text.contains("<script") && !text.contains("style=") && !text.contains("<style"));
    }
}
