// SPDX-License-Identifier: MIT OR Apache-2.0
//! A story put together from a scene.

use super::names::StoryNames;
use super::scene::Scene;
use super::story::{Slice, Story};
use super::symbols::Symbols;
use super::text::marks;
use super::{advice, chain, evidence, headline, rows};
use crate::cause::{CausePart, Ground, Limit, MissingEvents, Segment};
use crate::names::Vocabulary;
use crate::record::Class;
use crate::span::CpuSpan;
use crate::units::duration;

impl Scene {
    /// The story, with at most `rows_max` records told. `classes`: those that notes are of.
    pub fn story(&self, classes: &[Class], vocabulary: &Vocabulary, symbols: &dyn Symbols, rows_max: usize) -> Story {
        tell(&StoryNames { scene: self, classes, vocabulary, symbols }, rows_max)
    }

    /// What the time went to, the largest part first.
    pub fn budget(&self, vocabulary: &Vocabulary, symbols: &dyn Symbols) -> Vec<Slice> {
        budget(&StoryNames { scene: self, classes: &[], vocabulary, symbols }, &self.segments())
    }
}

impl Scene {
    /// Kinds of events that are not in the trace, and that could have been a part of what the time went to.
    pub fn missing_events(&self, vocabulary: &Vocabulary, budget: &[Slice]) -> MissingEvents {
        evidence::missing_events(&vocabulary.facts(), &self.question, budget)
    }
}

/// Everything that can be told.
fn tell(names: &StoryNames<'_>, rows_max: usize) -> Story {
    let question = &names.scene.question;
    let segments = names.scene.segments();
    let budget = budget(names, &segments);
    let gap = rows::gap(names, &segments, budget.first());
    let silence = rows::silence(names);
    let chain = chain::chain(names);
    let doubt = evidence::marks(names, &segments);
    let evidence = &names.scene.evidence;
    let of_thread = |tid: i32| evidence.faults_of(tid, question.from, question.to).count() as u64;
    Story {
        headline: headline::headline(names, &budget),
        what: question.what,
        of: question.of.clone(),
        tid: question.tid,
        name: question.tid.map(|tid| evidence.name(tid, names.moment())).unwrap_or_default(),
        prio: names.own_prio(),
        cpu: question.cpu,
        from: question.from,
        to: question.to,
        late_ns: question.late_ns,
        faults: question.thread().map_or(0, of_thread),
        rows: rows::rows(names, &segments, gap.as_ref(), rows_max),
        advice: advice::advice(names, &budget, &segments),
        missing_events: names.scene.missing_events(names.vocabulary, &budget).list(),
        blind: evidence::blind(names, &budget, &segments, silence.as_ref()),
        doubts: evidence::doubts(names, doubt),
        cpus: cpus(names),
        budget,
        gap,
        silence,
        chain: chain.links,
        chain_left_out: chain.left_out,
        chain_left_out_ns: chain.left_out_ns,
        doubt,
    }
}

/// The pieces summed up by cause, the largest first.
pub(super) fn budget(names: &StoryNames<'_>, segments: &[Segment]) -> Vec<Slice> {
    let scene = names.scene;
    let slice = |part: &CausePart| {
        let group = scene.question.tid.and_then(|tid| scene.evidence.limiting_group(part.cause, tid));
        Slice {
            cause: part.cause,
            ground: part.ground,
            kind: part.cause.word(),
            text: names.cause(part),
            shared: names.shared_cause(part),
            tid: part.cause.tid(),
            limit: part.cause.limit().map(Limit::word),
            group: group.map(|group| group.path.clone()),
            group_found: group.map(|group| group.found.word()),
            seen: part.ground == Ground::Seen,
            ns: part.ns,
            pieces: part.pieces,
            doubt: part.doubt,
        }
    };
    scene.evidence.sum(segments).iter().map(slice).collect()
}

/// Of a moment: what each CPU was in the middle of.
fn cpus(names: &StoryNames<'_>) -> Vec<String> {
    let mut spans = names.scene.cpus.clone();
    spans.sort_by_key(|span| span.cpu);
    let line = |span: &CpuSpan| {
        let since = duration(names.scene.question.from.abs_diff(span.from));
        let under = if span.context == span.current {
            String::new()
        } else {
            format!(", over {}", names.context(span.current))
        };
        format!("cpu {}: {}{under}, for {since}{}", span.cpu, names.context(span.context), marks(span.doubt))
    };
    spans.iter().map(line).collect()
}
