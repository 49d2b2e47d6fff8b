// SPDX-License-Identifier: MIT OR Apache-2.0
//! A stretch of a trace as one file that opens without kymo and without a network [spec/view.md 9]: the built page, and
//! the answers that it would ask for, at several zooms. What does not fit is left out and counted.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use kymo_query::{Answer, Error, Opened, Parameters, Stop, answer};
use serde_json::{Value, json};

use crate::integrity::{base64, sha256};
use crate::page;

/// Columns of pixels of a tile. A screen shows a quarter of a tile to half of one.
const TILE_PIXELS: u64 = 4096;
/// Tiles of a level are a quarter as long as those of the level before, and each begins in the middle of another one:
/// so every window up to half a tile lies within one.
const SHARE: u64 = 4;
/// Finer than this nobody looks: a pixel is the 2^-26 part of the stretch.
const LEVEL_MAX: u32 = 7;
/// Tiles at most, whatever they weigh.
const TILES_MAX: usize = 2000;
/// Threads that are drawn, those with the longest waits first; and those that are listed.
const THREADS_DRAWN: usize = 64;
const THREADS_LISTED: usize = 256;
/// Waits for a CPU that are at least so long are marked at every zoom, as in the page, ns.
const LATE_NS: u64 = 1_000_000;
/// Records of one question, and the part of the file that records may take.
const RECORDS_PAGE: u64 = 2000;
const RECORDS_SHARE: u64 = 4;
/// The smallest page that makes sense.
const BYTES_MIN: u64 = 1 << 20;

/// How large a page may become.
#[derive(Clone, Copy, Debug)]
pub struct SaveLimits {
    /// Bytes of the file at most, if what is always in it takes less.
    pub bytes_max: u64,
}

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    /// The page was not built.
    #[error("the page of kymo view is not in this build: run make build where node 18 or newer is installed")]
    NoPage,
    /// The built page is not one that can be put into one file.
    #[error("the built page cannot be put into one file: {0}")]
    Page(&'static str),
    /// A stretch of no length.
    #[error("there is nothing in this stretch")]
    Empty,
    /// A question that is always in it.
    #[error("{0}")]
    Query(#[from] Error),
    /// Compression.
    #[error("cannot compress an answer: {0}")]
    Compress(#[from] std::io::Error),
}

/// A page.
#[derive(Debug)]
pub struct Saved {
    /// The file.
    pub html: String,
    /// Answers in it.
    pub answers: usize,
    /// The shortest pixel, ns: where a picture is not exact, it is not finer than this.
    pub finest_ns: f64,
    /// Every stretch of a state is in it exactly.
    pub is_exact: bool,
    /// What was left out, for the user.
    pub left_out: Vec<String>,
}

/// One answer, ready for the file.
struct Entry {
    question: &'static str,
    head: Value,
    data: String,
}

/// Asks and packs.
struct Packer<'o> {
    of: &'o Opened,
    from: i64,
    to: i64,
    stop: Stop,
    entries: Vec<Entry>,
    bytes: u64,
}

/// A stretch of one question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Tile {
    level: u32,
    /// Position among the tiles of its level.
    number: u64,
    /// Position of the question among those with tiles.
    question: usize,
}

impl Tile {
    /// Half tiles of a level: places where one begins.
    fn halves(level: u32) -> u64 {
        2 * SHARE.pow(level)
    }

    /// Where it lies in a stretch of so many ns.
    fn stretch(&self, ns: u64) -> (u64, u64) {
        let halves = u128::from(Tile::halves(self.level));
        let edge = |half: u64| (u128::from(half) * u128::from(ns) / halves) as u64;
        (edge(self.number), edge((self.number + 2).min(Tile::halves(self.level))))
    }

    /// The tiles of the next level that lie in it.
    fn finer(self) -> impl Iterator<Item = Tile> {
        let last = Tile::halves(self.level + 1) - 2;
        let first = self.number * SHARE;
        let numbers = (first..=first + 2 * SHARE - 2).filter(move |number| *number <= last);
        numbers.map(move |number| Tile { level: self.level + 1, number, question: self.question })
    }
}

/// Saves a stretch, ns since 1970.
///
/// # Errors
/// The page was not built, or the stretch is empty.
pub fn save(of: &Opened, (from, to): (i64, i64), limits: SaveLimits) -> Result<Saved, SaveError> {
    let (first, end) = of.whole();
    let (from, to) = (from.max(first), to.min(end));
    if from >= to {
        return Err(SaveError::Empty);
    }
    let frame = PageParts::of_build()?;
    let budget = limits.bytes_max.max(BYTES_MIN).saturating_sub(frame.bytes() + 4096);
    let mut packer = Packer { of, from, to, stop: Stop::default(), entries: Vec::new(), bytes: 0 };
    let mut left_out = Vec::new();
    packer.once()?;
    let threads = packer.threads(&mut left_out)?;
    packer.records(packer.bytes + budget.saturating_sub(packer.bytes) / RECORDS_SHARE, &mut left_out)?;
    let drawn = packer.tiles(&threads, budget)?;
    if drawn.left_out > 0 {
        let count = drawn.left_out;
        left_out.push(format!(
            "{count} finer pictures, because the file would be larger than {} MiB",
            limits.bytes_max >> 20
        ));
    }
    let is_exact = drawn.left_out == 0 && drawn.is_exact;
    let about = json!({
        "version": kymo_query::VERSION,
        "name": of.name,
        "from": from.saturating_sub(of.base()),
        "to": to.saturating_sub(of.base()),
        "is_exact": is_exact,
        "left_out": left_out,
    });
    let answers = packer.entries.len();
    let html = frame.fill(&document(about, packer.entries));
    Ok(Saved { html, answers, finest_ns: drawn.finest_ns, is_exact, left_out })
}

/// What came of the tiles.
struct Drawn {
    left_out: u64,
    finest_ns: f64,
    is_exact: bool,
}

impl Packer<'_> {
    fn ask(&self, question: &'static str, pairs: &[(&str, String)]) -> Result<Answer, Error> {
        let own = pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        answer(self.of, question, Parameters::new(own.collect()), &self.stop)
    }

    /// Of the stretch, with other parameters.
    fn ask_window(&self, question: &'static str, more: &[(&str, String)]) -> Result<Answer, Error> {
        let own = [("from", self.from.to_string()), ("to", self.to.to_string())];
        self.ask(question, &[&own[..], more].concat())
    }

    fn entry(&self, question: &'static str, head: Value, answer: &Answer) -> Result<Entry, SaveError> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(&answer.frame())?;
        Ok(Entry { question, head, data: base64(&encoder.finish()?) })
    }

    fn push(&mut self, entry: Entry) {
        // With the JSON around it.
        self.bytes += entry.data.len() as u64 + 160;
        self.entries.push(entry);
    }

    /// What a question is answered with, or why it is not.
    fn put(&mut self, question: &'static str, head: Value, found: Result<Answer, Error>) -> Result<(), SaveError> {
        let entry = match found {
            Ok(answer) => self.entry(question, head, &answer)?,
            Err(error) => {
                let mut head = head;
                head["error"] = error.json()["error"].take();
                Entry { question, head, data: String::new() }
            }
        };
        self.push(entry);
        Ok(())
    }

    /// Questions that are asked once.
    fn once(&mut self) -> Result<(), SaveError> {
        let summary = self.ask("summary", &[])?;
        self.push(self.entry("summary", json!({}), &summary)?);
        let bins = |bins: u32| ("bins", bins.to_string());
        let limit = |limit: u32| ("limit", limit.to_string());
        self.put("schema", json!({}), self.ask("schema", &[]))?;
        self.put("places", json!({}), self.ask_window("places", &[]))?;
        self.put("overview", json!({}), self.ask_window("overview", &[bins(1000)]))?;
        self.put("latencies", json!({}), self.ask_window("latencies", &[bins(300), limit(1000)]))?;
        self.put("worst", json!({}), self.ask_window("worst", &[limit(200)]))?;
        for by in ["event", "thread", "process", "cpu"] {
            let found = self.ask_window("statistics", &[("by", by.to_owned()), limit(200)]);
            self.put("statistics", json!({ "by": by }), found)?;
        }
        self.put("arrows", json!({}), self.ask_window("arrows", &[limit(2000)]))
    }

    /// The threads that are drawn.
    fn threads(&mut self, left_out: &mut Vec<String>) -> Result<Vec<String>, SaveError> {
        let found = self.ask_window("threads", &[("limit", THREADS_LISTED.to_string())]);
        let json = found.as_ref().map_or(Value::Null, Answer::json);
        self.put("threads", json!({}), found)?;
        let tids = json["tables"]["threads"]["tid"].as_array().cloned().unwrap_or_default();
        let total = json["info"]["total"].as_u64().unwrap_or(0);
        let drawn: Vec<String> =
            tids.iter().filter_map(Value::as_i64).take(THREADS_DRAWN).map(|tid| tid.to_string()).collect();
        let missing = total.saturating_sub(drawn.len() as u64);
        if missing > 0 {
            left_out
                .push(format!("the rows of {missing} threads: those {THREADS_DRAWN} with the longest waits are in it"));
        }
        Ok(drawn)
    }

    /// Records from the first on, as far as there is room.
    fn records(&mut self, bytes_max: u64, left_out: &mut Vec<String>) -> Result<(), SaveError> {
        let mut row = 0;
        loop {
            let page = [("row", row.to_string()), ("limit", RECORDS_PAGE.to_string())];
            let answer = self.ask_window("records", &page)?;
            let rows = answer.table("records").map_or(0, |table| table.rows() as u64);
            let has_more = answer.info.get("has_more") == Some(&Value::Bool(true));
            let entry = self.entry("records", json!({ "row": row }), &answer)?;
            if row > 0 && self.bytes + entry.data.len() as u64 > bytes_max {
                left_out.push(format!("records behind the first {row}"));
                return Ok(());
            }
            self.push(entry);
            row += rows;
            if !has_more || rows == 0 {
                return Ok(());
            }
        }
    }

    /// Pictures, the coarse ones first.
    fn tiles(&mut self, threads: &[String], bytes_max: u64) -> Result<Drawn, SaveError> {
        let questions = ["cpus", "states", "slices"];
        let is_asked = |question: &usize| questions[*question] != "states" || !threads.is_empty();
        let first = (0..questions.len()).filter(is_asked).map(|question| Tile { level: 0, number: 0, question });
        let mut waiting: VecDeque<Tile> = first.collect();
        let mut known: BTreeSet<Tile> = waiting.iter().copied().collect();
        let ns = self.to.abs_diff(self.from);
        let mut drawn = Drawn { left_out: 0, finest_ns: ns as f64, is_exact: true };
        let mut count = 0;
        while let Some(tile) = waiting.pop_front() {
            let (begin, end) = tile.stretch(ns);
            let (from, to) = (self.from.saturating_add_unsigned(begin), self.from.saturating_add_unsigned(end));
            let mut pairs =
                vec![("from", from.to_string()), ("to", to.to_string()), ("pixels", TILE_PIXELS.to_string())];
            if questions[tile.question] == "states" {
                let late = LATE_NS.to_string();
                pairs.extend([("tids", threads.join(",")), ("calls", "1".to_owned()), ("late", late)]);
            }
            let head = json!({ "level": tile.level, "from": from - self.of.base(), "to": to - self.of.base(), "pixels": TILE_PIXELS });
            let answer = match self.ask(questions[tile.question], &pairs) {
                Ok(answer) => answer,
                // The same for each tile: said once.
                Err(error) => {
                    self.put(questions[tile.question], head, Err(error))?;
                    continue;
                }
            };
            let is_whole = is_exact(&answer);
            let mut head = head;
            head["exact"] = json!(is_whole);
            let entry = self.entry(questions[tile.question], head, &answer)?;
            // The first ones are always in it.
            if tile.level > 0 && (self.bytes + entry.data.len() as u64 > bytes_max || count >= TILES_MAX) {
                drawn.left_out += 1;
                continue;
            }
            count += 1;
            self.push(entry);
            let pixel_ns = (end - begin) as f64 / TILE_PIXELS as f64;
            drawn.finest_ns = drawn.finest_ns.min(pixel_ns);
            if is_whole || pixel_ns <= 1.0 {
                continue;
            }
            if tile.level >= LEVEL_MAX {
                drawn.is_exact = false;
                continue;
            }
            waiting.extend(tile.finer().filter(|finer| known.insert(*finer)));
        }
        Ok(drawn)
    }
}

/// Whether every stretch that touches the window is in an answer by itself, so that finer answers would show the same.
/// A pixel with two stretches between pixels that are within one each hides nothing: both are listed.
fn is_exact(answer: &Answer) -> bool {
    let json = answer.json();
    let tables = &json["tables"];
    let numbers = |table: &str, column: &str| -> Vec<i64> {
        let values = tables[table][column].as_array();
        values.map_or_else(Vec::new, |values| values.iter().map(|value| value.as_i64().unwrap_or(-1)).collect())
    };
    // Calls and spans that are shorter than a pixel.
    if !numbers("calls_mixed", "count").is_empty() || !numbers("merged", "count").is_empty() {
        return false;
    }
    let row = if tables["mixed"]["cpu"].is_array() { "cpu" } else { "tid" };
    let places = numbers("mixed", row).into_iter().zip(numbers("mixed", "pixel")).zip(numbers("mixed", "count"));
    let mixed: HashMap<(i64, i64), i64> = places.collect();
    let is_listed = |((row, pixel), count): (&(i64, i64), &i64)| {
        *count <= 2 && !mixed.contains_key(&(*row, pixel - 1)) && !mixed.contains_key(&(*row, pixel + 1))
    };
    mixed.iter().all(is_listed) && lists_interrupts(&json, numbers)
}

/// Whether all time in interrupts is that of interrupts that are listed.
fn lists_interrupts(json: &Value, numbers: impl Fn(&str, &str) -> Vec<i64>) -> bool {
    let (from, to) = (json["from"].as_i64().unwrap_or(0), json["to"].as_i64().unwrap_or(0));
    let pixels = i128::from(TILE_PIXELS);
    let edge = |pixel: i64| from + (i128::from(pixel) * i128::from(to - from) / pixels) as i64;
    let listed = numbers("interrupts", "cpu").into_iter().zip(numbers("interrupts", "from"));
    let listed: Vec<((i64, i64), i64)> = listed.zip(numbers("interrupts", "to")).collect();
    let places = numbers("interrupts_mixed", "cpu").into_iter().zip(numbers("interrupts_mixed", "pixel"));
    places.zip(numbers("interrupts_mixed", "count")).all(|((cpu, pixel), count)| {
        let touches =
            |((of, begin), end): &&((i64, i64), i64)| *of == cpu && *begin < edge(pixel + 1) && *end > edge(pixel);
        listed.iter().filter(touches).count() as i64 >= count
    })
}

/// All answers as one JSON document, which can be put into a page: no tag begins in it.
fn document(mut about: Value, entries: Vec<Entry>) -> String {
    let entry = |entry: Entry| {
        let mut of = entry.head;
        of["question"] = json!(entry.question);
        of["data"] = json!(entry.data);
        of
    };
    about["entries"] = entries.into_iter().map(entry).collect();
    about.to_string().replace('<', "\\u003c")
}

/// The built page, in parts.
struct PageParts {
    before: String,
    after: String,
    script: String,
    style: String,
}

const STYLE_TAG: &str = "<link rel=\"stylesheet\" href=\"style.css\">";
const SCRIPT_TAG: &str = "<script type=\"module\" src=\"app.js\"></script>";

impl PageParts {
    fn of_build() -> Result<PageParts, SaveError> {
        let text = |name: &str| {
            let (_, bytes) = page::file(name).ok_or(SaveError::NoPage)?;
            String::from_utf8(bytes).map_err(|_| SaveError::Page("a file of it is not text"))
        };
        let (script, style) = (text("app.js")?, text("style.css")?);
        PageParts::new(&text("index.html")?, script, style)
    }

    fn new(page: &str, script: String, style: String) -> Result<PageParts, SaveError> {
        let lower = script.to_ascii_lowercase();
        if lower.contains("</script") || lower.contains("<!--") || style.to_ascii_lowercase().contains("</style") {
            return Err(SaveError::Page("a file of it has the tag that ends it"));
        }
        let (before, rest) = page.split_once(STYLE_TAG).ok_or(SaveError::Page("it has no style sheet"))?;
        let (between, after) = rest.split_once(SCRIPT_TAG).ok_or(SaveError::Page("it has no script"))?;
        Ok(PageParts { before: before.to_owned() + between.trim_start(), after: after.to_owned(), script, style })
    }

    fn bytes(&self) -> u64 {
        [&self.before, &self.after, &self.script, &self.style].iter().map(|part| part.len() as u64).sum()
    }

    /// The page with answers. Only its own script runs in it, and it can ask for nothing.
    fn fill(&self, document: &str) -> String {
        let PageParts { before, after, script, style } = self;
        let hash = |text: &str| format!("'sha256-{}'", base64(&sha256(text.as_bytes())));
        let policy = format!(
            "default-src 'none'; script-src {}; style-src {}; img-src data: blob:; base-uri 'none'; form-action 'none'",
            hash(script),
            hash(style)
        );
        format!(
            "{before}<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
             <meta name=\"referrer\" content=\"no-referrer\">\n<style>{style}</style>\n\
             <script type=\"application/json\" id=\"saved\">{document}</script>\n\
             <script type=\"module\">{script}</script>{after}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_window_up_to_half_a_tile_lies_within_one() {
        let ns = 1_000_003;
        for level in 0..4 {
            let tiles: Vec<(u64, u64)> =
                (0..=Tile::halves(level) - 2).map(|number| Tile { level, number, question: 0 }.stretch(ns)).collect();
            assert_eq!((tiles[0].0, tiles.last().unwrap().1), (0, ns));
            let half = ns / Tile::halves(level) - 1;
            for from in (0..ns - half).step_by(997) {
                assert!(tiles.iter().any(|(a, b)| *a <= from && from + half <= *b), "{from} at level {level}");
            }
        }
    }

    #[test]
    fn finer_tiles_fill_a_tile() {
        let ns = 1 << 30;
        for tile in [Tile { level: 0, number: 0, question: 1 }, Tile { level: 1, number: 3, question: 1 }] {
            let finer: Vec<Tile> = tile.finer().collect();
            let (from, to) = tile.stretch(ns);
            assert_eq!(finer.len(), 7);
            assert_eq!((finer[0].stretch(ns).0, finer[6].stretch(ns).1), (from, to));
            assert!(finer.windows(2).all(|two| two[1].stretch(ns).0 < two[0].stretch(ns).1));
            assert!(finer.iter().all(|finer| finer.level == tile.level + 1 && finer.question == 1));
        }
    }

    #[test]
    fn a_page_asks_for_nothing_and_runs_only_its_own_script() {
        let page = format!("<head>\n{STYLE_TAG}\n{SCRIPT_TAG}\n</head><body></body>");
        let frame = PageParts::new(&page, "let a = 1;".into(), "b {}".into()).unwrap();
        let about = json!({ "name": "</script><script>alert(1)</script>" });
        let html = frame.fill(&document(about, Vec::new()));
        assert!(html.contains("default-src 'none'; script-src 'sha256-"), "{html}");
        assert!(!html.contains("src=\"") && !html.contains("href=\"") && !html.contains("alert(1)</script>"), "{html}");
        assert_eq!(html.matches("</script>").count(), 2, "{html}");
        let wrong = |page: &str, script: &str, style: &str| PageParts::new(page, script.into(), style.into()).is_err();
        assert!(wrong("<head></head>", "", "") && wrong(&page, "'</Script>'", "") && wrong(&page, "", "</style>"));
    }
}
