// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random valid traces of CTF 1.8 and CTF 2, and edits of them that break one rule [spec/conformance-ctf.md 7]: kymo
//! against the model that they are made of, and babeltrace 1.5, babeltrace2 2.0 and babeltrace2 2.1 against it too,
//! value by value. What other readers are known to do otherwise is in `generator/disagreements.txt`.
//!
//! The seed is printed first. `KYMO_SEED=N KYMO_ROUNDS=1` repeats one case; `KYMO_STRESS=1` runs thousands, from a new
//! seed. The files of a case that fails are kept, and named; `KYMO_SHOWN` (8) failures are shown.

use crate::generator;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use generator::breaks::{Break, Broken, BrokenPart};
use generator::features::Features;
use generator::make::Format;
use generator::readers::{Foreign, Outcome};
use generator::{breaks_json, breaks_stream, breaks_tsdl, check, check_stream, known};
use kymo_ctf::read::{Error, Memory, Trace};
use kymo_testing::{Random, setting, skip_this, tell};

fn is_stress() -> bool {
    std::env::var_os("KYMO_STRESS").is_some_and(|value| value == "1")
}

/// The seeds of a test, which it prints: `usual` of them, or `long` from a new seed.
fn seeds(test: &str, usual: u64, long: u64) -> std::ops::Range<u64> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| time.as_secs());
    let (first, rounds) = if is_stress() { (now, long) } else { (1, usual) };
    let (first, rounds) = (setting("KYMO_SEED", first), setting("KYMO_ROUNDS", rounds));
    tell(&format!("{test}: KYMO_SEED={first} KYMO_ROUNDS={rounds}"));
    first..first + rounds
}

/// Keeps a trace for a look at it; gives the folder.
fn kept(name: &str, memory: &Memory) -> String {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("generated-{name}"));
    let _ = std::fs::create_dir_all(&dir);
    for (file, bytes) in [("metadata".to_owned(), memory.metadata.clone())].into_iter().chain(memory.streams.clone()) {
        let _ = std::fs::write(dir.join(file), bytes);
    }
    dir.display().to_string()
}

/// Fails with the first few of `wrong`, if there are any.
fn judge(wrong: &[String]) {
    let most = setting("KYMO_SHOWN", 8) as usize;
    let shown = wrong.iter().take(most).cloned().collect::<Vec<_>>().join("\n");
    assert!(wrong.is_empty(), "{} are wrong\n{shown}", wrong.len());
}

#[test]
fn generated_traces_are_read_as_they_were_made() {
    let (mut wrong, mut records, mut cases) = (Vec::new(), 0, 0);
    let mut features: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in seeds("generated traces", 200, 20_000) {
        for format in [Format::Tsdl, Format::Json] {
            let (case, metadata) = generator::case(seed, format, Features::default());
            let memory = check::memory(&case, metadata);
            case.features.used.iter().for_each(|feature| *features.entry(feature).or_default() += 1);
            cases += 1;
            match check::kymo(&case, &memory) {
                Ok(count) => records += count,
                Err(what) => {
                    let dir =
                        if wrong.len() < 8 { kept(&format!("{seed}-{format:?}"), &memory) } else { String::new() };
                    wrong.push(format!("KYMO_SEED={seed}, {format:?}: {what}\n  {dir}"));
                }
            }
        }
    }
    judge(&wrong);
    tell(&format!("{cases} cases with {records} records were read as they were made; cases by feature: {features:?}"));
    assert!(records > cases, "{records} records in {cases} cases");
}

/// One case read by one reader; `Err`: what is neither right nor known.
fn one(reader: &Foreign, seed: u64, format: Format, avoids: bool) -> Result<String, String> {
    let avoided = if avoids { known::avoided(reader.name) } else { known::of_kymo_alone().collect() };
    let (case, metadata) = generator::case(seed, format, Features { avoided, ..Features::default() });
    let memory = check::memory(&case, metadata);
    let in_seconds = seed % 2 == 0 && case.clock.as_ref().is_some_and(|clock| clock.frequency == 1_000_000_000);
    let outcome = reader.read(&memory, in_seconds);
    let (word, why) = match outcome {
        Outcome::Read(lines) => match check::foreign(&case, lines, in_seconds) {
            Ok(()) => return Ok("agrees".into()),
            Err(why) => ("differs", why),
        },
        Outcome::Unclear(why) => ("differs", why),
        Outcome::Refused(why) => ("refuses", why),
        Outcome::Crashed => ("crashes", String::new()),
    };
    let explained = known::explains(reader.name, word, &case.features.used);
    if explained.is_empty() {
        let dir = kept(&format!("{seed}-{format:?}"), &memory);
        let (used, why) = (&case.features.used, why.lines().take(3).collect::<Vec<_>>().join("\n    "));
        let name = reader.name;
        return Err(format!("KYMO_SEED={seed}, {format:?}: {name} {word}: {why}\n  {used:?}\n  {dir}"));
    }
    Ok(format!("{word} ({})", explained.join(" or ")))
}

#[test]
fn other_readers_read_the_same() {
    let readers = Foreign::all(skip_this);
    let mut wrong = Vec::new();
    let mut tally: BTreeMap<(&str, String), u64> = BTreeMap::new();
    for seed in seeds("generated traces, other readers", 20, 1500) {
        for reader in &readers {
            let is_ctf2 = reader.has_ctf2() && seed % 4 != 0;
            let format = if is_ctf2 { Format::Json } else { Format::Tsdl };
            // Mostly without what is known, so that what is behind it is seen.
            match one(reader, seed, format, seed % 4 != 3) {
                Ok(word) => *tally.entry((reader.name, word)).or_default() += 1,
                Err(what) => wrong.push(what),
            }
        }
    }
    tell(&tally.iter().map(|((name, word), n)| format!("{name} {word}: {n}")).collect::<Vec<_>>().join("\n"));
    judge(&wrong);
}

fn all_breaks() -> impl Iterator<Item = &'static Break> {
    breaks_tsdl::BREAKS.iter().chain(breaks_json::BREAKS)
}

/// Whether kymo refuses it and names the place.
fn refused(broken: &Broken, memory: &Memory) -> Result<(), String> {
    let error = match Trace::from_files(memory) {
        Ok(_) => return Err("was read".into()),
        Err(error) => error,
    };
    let is_there = match (&error, broken.place) {
        (Error::Text { line, .. }, BrokenPart::Lines(first, last)) => (first..=last).contains(line),
        (Error::Torn { what, .. }, BrokenPart::Lines(first, last)) => {
            (first..=last).any(|line| what.contains(&format!("line {line},")))
        }
        (Error::Torn { what, .. }, BrokenPart::Fragment(place)) => what.contains(&format!("fragment {place} ")),
        (Error::Fragment { fragment, .. }, BrokenPart::Fragment(place)) => *fragment == place,
        _ => false,
    };
    if is_there { Ok(()) } else { Err(format!("was refused elsewhere than at {:?}: {error}", broken.place)) }
}

#[test]
fn what_breaks_one_rule_is_refused_at_its_place() {
    let (mut wrong, mut count) = (Vec::new(), 0);
    for seed in seeds("broken rules", 2, 100) {
        for rule in all_breaks() {
            let Some(broken) = rule.apply(seed * 1000, &Features::default()) else {
                wrong.push(format!("KYMO_SEED={seed}: no place was found for: {}", rule.name));
                continue;
            };
            let memory = check::memory(&broken.case, broken.metadata.clone());
            count += 1;
            if let Err(what) = refused(&broken, &memory) {
                let dir = if wrong.len() < 8 { kept(&format!("{seed}-broken"), &memory) } else { String::new() };
                wrong.push(format!("KYMO_SEED={seed}: {}: {what}\n  {dir}", rule.name));
            }
        }
    }
    judge(&wrong);
    tell(&format!("{count} cases that break one rule each were refused at their place"));
}

#[test]
fn what_breaks_a_stream_is_told_at_its_place_and_loses_nothing_in_front_of_it() {
    let mut wrong = Vec::new();
    let mut counts: BTreeMap<&str, u64> = breaks_stream::BREAKS.iter().map(|rule| (rule.name, 0)).collect();
    for seed in seeds("broken streams", 40, 2000) {
        for format in [Format::Tsdl, Format::Json] {
            let (case, metadata) = generator::case(seed, format, Features::default());
            let mut random = Random(seed ^ 0x57E4);
            for rule in breaks_stream::BREAKS {
                let Some(broken) = rule.apply(&case, &mut random) else { continue };
                *counts.entry(rule.name).or_default() += 1;
                let memory = check::memory(&broken.case, metadata.clone());
                if let Err(what) = check_stream::kymo(&broken, &memory) {
                    let dir = if wrong.len() < 8 {
                        kept(&format!("{seed}-{format:?}-stream"), &memory)
                    } else {
                        String::new()
                    };
                    wrong.push(format!("KYMO_SEED={seed}, {format:?}: {}: {what}\n  {dir}", rule.name));
                }
            }
        }
    }
    judge(&wrong);
    tell(&format!("{} broken streams were told of: {counts:?}", counts.values().sum::<u64>()));
    let without: Vec<_> = counts.iter().filter(|(_, count)| **count == 0).collect();
    assert!(without.is_empty() || setting("KYMO_ROUNDS", 40) < 40, "no case has a place for {without:?}");
}

/// What each reader does with a broken rule is on file. In the long tests: it takes two minutes.
#[test]
fn verdicts_of_other_readers_are_those_on_file() {
    if !is_stress() {
        return;
    }
    let readers = Foreign::all(skip_this);
    let features = Features {
        avoided: generator::readers::NAMES.into_iter().flat_map(known::avoided).collect(),
        ..Features::default()
    };
    let is_blessing = std::env::var_os("KYMO_BLESS").is_some();
    let on_file = known::verdicts();
    let (mut wrong, mut rows) = (Vec::new(), String::new());
    for rule in all_breaks() {
        // Always of the same case.
        let Some(broken) = rule.apply(7, &features) else { continue };
        let memory = check::memory(&broken.case, broken.metadata);
        let mut words: BTreeMap<&str, &str> = BTreeMap::new();
        for reader in readers.iter().filter(|reader| reader.has_ctf2() || broken.case.format == Format::Tsdl) {
            let word = reader.read(&memory, false).word();
            words.insert(reader.name, word);
            let known = on_file.iter().find(|(name, of, _)| name == rule.name && of == reader.name);
            if known.is_none_or(|(_, _, known)| known != word) {
                let known = known.map_or("nothing", |(_, _, known)| known);
                wrong.push(format!("{}: {} {word}; on file is {known}", rule.name, reader.name));
            }
        }
        let words = generator::readers::NAMES.map(|reader| words.get(reader).copied().unwrap_or("-"));
        rows += &format!("{} | {}\n", rule.name, words.join(" | "));
    }
    if is_blessing {
        let head = std::fs::read_to_string(known::verdicts_file()).unwrap();
        let head: String = head.lines().filter(|line| line.starts_with('#')).map(|line| format!("{line}\n")).collect();
        std::fs::write(known::verdicts_file(), head + &rows).unwrap();
    }
    judge(&wrong);
}

#[test]
fn the_page_has_every_disagreement() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("../../spec/conformance-ctf.md")).unwrap();
    for known in known::disagreements() {
        let row = format!(
            "| {} | {} | `{}` | {} | {} |",
            known.reader, known.outcome, known.feature, known.clause, known.what
        );
        assert!(page.contains(&row), "spec/conformance-ctf.md has no row {row}");
    }
}
