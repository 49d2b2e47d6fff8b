// SPDX-License-Identifier: MIT OR Apache-2.0
//! A story put together from a scene.

use super::names::Names;
use super::scene::Scene;
use super::story::Story;
use super::symbols::Symbols;
use super::text::marks;
use super::{advice, chain, evidence, headline, rows, stretches};
use crate::names::Vocabulary;
use crate::record::Class;
use crate::span::CpuSpan;
use crate::units::duration;

impl Scene {
    /// The story, with at most `rows_max` records told. `classes`: those that notes are of.
    pub fn story(&self, classes: &[Class], vocabulary: &Vocabulary, symbols: &dyn Symbols, rows_max: usize) -> Story {
        tell(&Names { scene: self, classes, vocabulary, symbols }, rows_max)
    }
}

/// Everything that can be told.
fn tell(names: &Names<'_>, rows_max: usize) -> Story {
    let question = &names.scene.question;
    let stretches = stretches::stretches(names.scene);
    let budget = stretches::budget(names, &stretches);
    let gap = rows::gap(names, &stretches, budget.first().map(|slice| slice.cause));
    let silence = rows::silence(names);
    let chain = chain::chain(names);
    let doubt = evidence::marks(names, &stretches);
    let who = question.tid.and_then(|tid| names.scene.threads.get(&tid)).copied().unwrap_or_default();
    Story {
        headline: headline::headline(names, &budget, &chain),
        what: question.what,
        of: question.of.clone(),
        tid: question.tid,
        name: who.name,
        prio: who.prio,
        cpu: question.cpu,
        from: question.from,
        to: question.to,
        rows: rows::rows(names, &stretches, gap.as_ref(), rows_max),
        advice: advice::advice(names, &budget, &stretches, &chain),
        blind: evidence::blind(names, &budget, silence.as_ref()),
        doubts: evidence::doubts(names, doubt),
        cpus: cpus(names),
        budget,
        gap,
        silence,
        chain,
        doubt,
    }
}

/// Of a moment: what each CPU was in the middle of.
fn cpus(names: &Names<'_>) -> Vec<String> {
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
