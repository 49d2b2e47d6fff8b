// SPDX-License-Identifier: MIT OR Apache-2.0
//! All calls of functions in a trace, and names for them.

use std::collections::HashMap;

use kymo_analyze::functions::Functions;
use kymo_ctf::read::{Item, Reader, Trace};
use kymo_export::export::stacks::{Call, Frame, Who, call_of, name_of, who};
use kymo_feed::Missing;
use kymo_query::Learn;

use crate::verbs::symbols::Symbolizer;

/// All calls, and names for them.
pub(super) struct FunctionCalls {
    pub(super) calls: Functions<Frame, Who>,
    pub(super) symbols: Symbolizer,
    pub(super) names: HashMap<Who, String>,
    pub(super) cache: HashMap<Frame, String>,
    pub(super) lost: Missing,
}

impl FunctionCalls {
    /// What a function is called.
    pub(super) fn name(&mut self, frame: &Frame) -> String {
        name_of(&mut self.symbols, &mut self.cache, frame)
    }

    pub(super) fn is_wanted(&self, who: &Who, wanted: Option<&String>) -> bool {
        let name = self.names.get(who);
        wanted.is_none_or(|wanted| wanted.parse() == Ok(who.tid) || name == Some(wanted))
    }
}

/// Goes through all records.
pub(super) fn read(traces: &[Trace], reader: &mut Reader<'_>) -> anyhow::Result<FunctionCalls> {
    let mut found = FunctionCalls {
        calls: Functions::default(),
        symbols: Symbolizer::new(None, traces)?,
        names: HashMap::new(),
        cache: HashMap::new(),
        lost: Missing::default(),
    };
    let mut learn = Learn::new(traces);
    while let Some(mut item) = reader.next() {
        match &mut item {
            Item::Record(record) => {
                if let Some(learn) = &mut learn {
                    learn.record(record);
                }
                found.symbols.learn(record);
                let Some(call) = call_of(record) else { continue };
                let who = who(record);
                let time = record.ns.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
                match call {
                    Call::Enter(function) => found.calls.enter(who, time, function),
                    Call::Leave(function) => found.calls.leave(who, time, function),
                }
                if !found.names.contains_key(&who) && !record.procname.is_empty() {
                    found.names.insert(who, record.procname.to_owned());
                }
            }
            Item::Loss(loss) => {
                found.lost.add_loss(loss);
                let (trace, pid) = (loss.trace, loss.vpid);
                found.calls.lost(|who| who.trace == trace && pid.is_none_or(|pid| pid == who.pid));
            }
        }
    }
    found.calls.finish();
    Ok(found)
}
