// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pairs of the user's events that names tell, such as `axis:begin` and `axis:end` [spec/exchange.md 2], as spans. The
//! pairs of the kernel's own events, such as interrupts, are states already.

use kymo_export::export::named_pairs;

use kymo_ctf::read::Trace;
use kymo_feed::Classes;

use crate::learn::is_state;
use crate::opened::Opened;

/// Spans at most that a question has by itself.
const SPANS_MAX: usize = 64;

/// Those of what a question is about.
pub(crate) fn spans(of: &Opened) -> Vec<String> {
    named_spans(&of.traces, &of.classes)
}

/// Spans that the names of events tell, as `kymo latency --span` has them: `axis:begin, axis:end`.
pub fn named_spans(traces: &[Trace], classes: &Classes) -> Vec<String> {
    let mut spans: Vec<String> = Vec::new();
    for (position, trace) in traces.iter().enumerate() {
        let names: Vec<&str> = trace.metadata.events.iter().map(|event| event.name.as_str()).collect();
        let is_of_user = |event: usize| {
            let class = classes.at(position, event);
            let is_own = class.is_some_and(|class| !classes.is_followed(class)) && !is_state(names[event]);
            is_own && is_plain(names[event])
        };
        for (_, begin, end) in named_pairs(&names) {
            let span = format!("{}, {}", names[begin], names[end]);
            if is_of_user(begin) && is_of_user(end) && !spans.contains(&span) {
                spans.push(span);
            }
        }
    }
    spans.truncate(SPANS_MAX);
    spans
}

/// Whether a name can be written in a span as it is.
fn is_plain(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':'))
}
