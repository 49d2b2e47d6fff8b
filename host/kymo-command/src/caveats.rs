// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is wrong with traces, on standard error, and the exit status by that: 1 where something could not be read.
//! Times and counts of losses that do not fit each other are told, and are no damage: all records were read.

use std::process::ExitCode;

use kymo_ctf::read::{Caveat, Reader, Severity};
use kymo_feed::Missing;
use kymo_index::Named;

use crate::input::Input;
use crate::unknown;

/// Odd times, and remarks, that are told one by one; old tracers write thousands.
const LISTED_MAX: u64 = 3;

/// How much is wrong with streams, more than is listed where a file has very many caveats.
#[derive(Clone, Copy, Debug, Default)]
pub struct CaveatCounts {
    /// All of it.
    pub all: u64,
    /// Where something could not be read.
    pub damage: u64,
}

/// How many there are, and how many of them were listed.
#[derive(Default)]
struct ListedOf {
    all: u64,
    listed: u64,
}

impl ListedOf {
    /// Whether one more is listed.
    fn take(&mut self, most: u64) -> bool {
        let is_listed = self.listed < most;
        self.listed += u64::from(is_listed);
        is_listed
    }

    /// `7 places, 4 of them not listed`.
    fn places(&self) -> String {
        let places = if self.all == 1 { "1 place".into() } else { format!("{} places", self.all) };
        match self.all.saturating_sub(self.listed) {
            0 => places,
            left => format!("{places}, {left} of them not listed"),
        }
    }
}

/// What was lost, as JSON.
pub fn missing(lost: &Missing) -> serde_json::Value {
    serde_json::json!({ "records": lost.records, "packets": lost.packets, "places": lost.places })
}

/// Says on standard error what the sessions of these traces could not count.
pub fn say_unknown(named: &[Named]) {
    let lines = named.iter().flat_map(|named| unknown::lines_of_trace(&named.dir));
    lines.for_each(|line| eprintln!("kymo: {line}"));
}

/// Says on standard error what is damaged; the exit status by that.
pub fn damage(input: &Input, reader: &Reader<'_>) -> ExitCode {
    say_unknown(&input.named);
    let counts = CaveatCounts { all: reader.caveat_count(), damage: reader.damage_count() };
    let of_streams = reader.caveats().map(|(_, caveat)| (String::new(), caveat));
    say(&input.caveats, of_streams, counts, ": findings are of what could be read")
}

/// Says it: of metadata, then of streams, each caveat with what is put before the name of its file. `counts`: of
/// streams. `end`: of the sentence about damage.
pub fn say<'c>(
    metadata: &'c [Caveat],
    streams: impl Iterator<Item = (String, &'c Caveat)>,
    counts: CaveatCounts,
    end: &str,
) -> ExitCode {
    let of_metadata = |severity| metadata.iter().filter(|caveat| caveat.damage.severity() == severity).count() as u64;
    let streams: Vec<_> = streams.collect();
    // One of a file at most, and it is listed.
    let unfinished = streams.iter().filter(|(_, caveat)| caveat.damage.severity() == Severity::Remark).count() as u64;
    let mut damage = ListedOf { all: counts.damage + of_metadata(Severity::Unread), listed: 0 };
    let mut odd = ListedOf { all: counts.all.saturating_sub(counts.damage + unfinished), listed: 0 };
    let mut remarks = ListedOf { all: of_metadata(Severity::Remark), listed: 0 };
    let of_metadata = metadata.iter().map(|caveat| (String::new(), caveat, true));
    let of_streams = streams.into_iter().map(|(front, caveat)| (front, caveat, false));
    for (front, caveat, is_metadata) in of_metadata.chain(of_streams) {
        let is_listed = match caveat.damage.severity() {
            Severity::Unread => damage.take(u64::MAX),
            Severity::OddTime => odd.take(LISTED_MAX),
            Severity::Remark => !is_metadata || remarks.take(LISTED_MAX),
        };
        if is_listed {
            eprintln!("kymo: {front}{caveat}");
        }
    }
    if remarks.all > remarks.listed {
        eprintln!("kymo: something was passed over in the metadata in {}", remarks.places());
    }
    if odd.all > 0 {
        eprintln!(
            "kymo: times or counts of losses do not fit each other in {}: all was read, as written",
            odd.places()
        );
    }
    if damage.all == 0 {
        return ExitCode::SUCCESS;
    }
    eprintln!("kymo: the trace is damaged in {}{end}", damage.places());
    ExitCode::from(1)
}
