// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo heap`: who allocated what, from the calls of malloc and its kin that `kymo record --with malloc` records. The
//! blocks are followed by `kymo_analyze::heap`; here records become its calls ([`pass`]), stacks are kept ([`stacks`])
//! and named ([`found`]), and the results are shown.

mod args;
mod found;
mod json;
mod pass;
mod picture;
mod stacks;
mod text;

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use kymo_command::unknown;
use kymo_ctf::read::{Caveat, Item, Loss, Reader, Record, Severity};
use kymo_feed::{Choose, Missing, Walker};

use super::analyze::choose::Chosen;
use super::analyze::feed::{Classes, Input};
pub use args::HeapArgs;
use found::HeapReport;
use pass::HeapPass;

/// Which blocks are asked for; counts the records that are missing.
struct HeapChoice {
    chosen: Chosen,
    /// Records of programs, and places.
    lost: Missing,
}

impl Choose for HeapChoice {
    fn begin(&mut self, state: &kymo_analyze::State) {
        self.chosen.begin(state);
    }

    fn selects<'a>(&'a mut self, record: &mut Record<'a>) -> bool {
        self.chosen.selects(record)
    }

    fn lost(&mut self, loss: &Loss<'_>) {
        // Those of the kernel have no process, and no allocations.
        if loss.vpid.is_some() {
            self.lost.add_loss(loss);
        }
        self.chosen.lost(loss);
    }
}

/// Runs the verb.
pub fn run(args: HeapArgs) -> anyhow::Result<ExitCode> {
    args.output.begin();
    let input = Input::open(&args.traces)?;
    let classes = Classes::new(&input.traces);
    let plans = pass::plans(&classes.list);
    if plans.iter().all(Option::is_none) {
        bail!("the trace has no calls of malloc: record with kymo record --with malloc -- COMMAND");
    }
    let indexes = input.indexes();
    let bounds = kymo_index::range::bounds(&input.traces, &indexes).context("the trace has no records")?;
    let stretch = input.stretch(&indexes, args.range.from, args.range.to)?;
    let whole = (first_call(&input, &classes, &plans).unwrap_or(bounds.0), bounds.1.saturating_add(1));
    let range = stretch.map_or(whole, |stretch| (stretch.from, stretch.to));
    let mut pass = HeapPass::new(&input, plans, range, args.steps)?;
    let mut choice =
        HeapChoice { chosen: Chosen::new(&input.traces, &args.scope.expressions())?, lost: Missing::default() };
    // From the first record on: what is freed later was allocated earlier.
    let mut reader = Reader::new(&input.traces);
    let mut walker = Walker::new(&classes);
    walker.go(&mut reader, &mut choice, &mut pass);
    choice.chosen.conclude();
    pass.heap.finish();
    let code = super::analyze::damage(&input, &reader);
    let caveats = caveats(&input, &classes.list, &choice, &pass, reader.damage_count());
    let mut found = HeapReport::new(&args, pass, range, choice.lost, caveats);
    if let Some(path) = &args.svg {
        std::fs::write(path, picture::svg(&mut found)).with_context(|| format!("cannot write {}", path.display()))?;
        eprintln!("kymo: flame graph in {}", path.display());
    }
    let text = if args.output.json() { json::document(&mut found) + "\n" } else { text::report(&mut found) };
    args.output.print(&text)?;
    found.reasons().iter().for_each(|why| eprintln!("kymo: {why}"));
    Ok(code)
}

/// When the allocator was called first: what is in front of that is a program's start.
fn first_call(input: &Input, classes: &Classes, plans: &[Option<pass::HeapPlan>]) -> Option<i64> {
    let mut reader = Reader::new(&input.traces);
    while let Some(item) = reader.next() {
        let Item::Record(record) = item else { continue };
        if plans.get(classes.of(&record)).is_some_and(Option::is_some) {
            return Some(kymo_feed::clamp(record.ns));
        }
    }
    None
}

/// Why the numbers are not exact.
fn caveats(
    input: &Input,
    classes: &[kymo_analyze::Class],
    choice: &HeapChoice,
    pass: &HeapPass,
    damaged: u64,
) -> Vec<String> {
    let mut caveats = Vec::new();
    if !choice.lost.is_none() {
        let lost = choice.lost.text();
        caveats.push(format!(
            "{lost}: live and leaked bytes are too high where a free is missing, \
             and too low where an allocation is"
        ));
    }
    if input.named.iter().any(|named| !unknown::lines_of_trace(&named.dir).is_empty()) {
        caveats
            .push("records may be missing that could not be counted: live and leaked bytes are estimates".to_owned());
    }
    let is_unread = |caveat: &Caveat| caveat.damage.severity() == Severity::Unread;
    if damaged > 0 || input.caveats.iter().any(is_unread) {
        caveats.push("the trace is damaged: live and leaked bytes are estimates".to_owned());
    }
    for name in pass::ENDS.into_iter().filter(|name| !classes.iter().any(|class| class.name == *name)) {
        caveats.push(format!(
            "no record of {name} is in the trace: if it was not recorded, what it let go counts as live"
        ));
    }
    let replaced = pass.heap.total().replaced;
    if replaced > 0 {
        caveats.push(format!(
            "{replaced} blocks were handed out again without a free in the trace: it is missing, or the allocator itself \
             let go of them, or they are of a forked child that ended before the session had seen it"
        ));
    }
    caveats
}
