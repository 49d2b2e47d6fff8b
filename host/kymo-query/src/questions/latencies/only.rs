// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which samples of latencies are points and cells of the density [spec/view.md 4.10]: those of one series, and of some
//! lengths. Series and histograms are of all samples, so that one can be chosen among them.

use std::collections::BTreeMap;

use kymo_analyze::hash::Map;
use kymo_analyze::{Key, Of, Sample, SampleGroup, What};
use kymo_feed::DEVICES;

use crate::error::Error;
use crate::names::NameTable;
use crate::opened::{Functions, Opened};
use crate::parameters::Parameters;

/// A kind of latency by its name.
pub(crate) fn kind(name: &str) -> Option<What> {
    What::ALL.iter().find(|(_, known)| *known == name).map(|(what, _)| *what)
}

/// The choice; what is not given holds for all.
pub(crate) struct Only<'o> {
    kind: Option<What>,
    of: Option<OfText<'o>>,
    process: Option<i32>,
    tid: Option<i32>,
    prio: Option<i16>,
    cpu: Option<u32>,
    low_ns: u64,
    high_ns: u64,
    /// Of wake-ups: those of real-time threads.
    real_time: bool,
}

/// What a series is of, by the text that `series` has for it.
struct OfText<'o> {
    text: String,
    opened: &'o Opened,
    functions: Functions<'o>,
    spans: Vec<String>,
    known: Map<Of, bool>,
}

impl OfText<'_> {
    fn is(&mut self, of: Of, devices: &BTreeMap<u64, String>) -> bool {
        if let Some(known) = self.known.get(&of) {
            return *known;
        }
        let is_device = matches!(of, Of::Device(_));
        let names = NameTable {
            vocabulary: &self.opened.classes.vocabulary,
            devices: if is_device { devices.clone() } else { BTreeMap::new() },
            spans: &self.spans,
            keys: &[],
            functions: &self.functions,
        };
        let is_it = names.of(of) == self.text;
        // The name of a device is told by a record that may come later.
        if !is_device || is_it {
            self.known.insert(of, is_it);
        }
        is_it
    }
}

impl<'o> Only<'o> {
    /// All of them.
    pub fn all() -> Only<'o> {
        let (low_ns, high_ns) = (0, u64::MAX);
        Only {
            kind: None,
            of: None,
            process: None,
            tid: None,
            prio: None,
            cpu: None,
            low_ns,
            high_ns,
            real_time: false,
        }
    }

    /// All wake-ups of real-time threads.
    pub fn real_time() -> Only<'o> {
        Only { real_time: true, ..Only::all() }
    }

    /// Whether samples of a group can be in it.
    pub fn takes_group(&self, group: SampleGroup) -> bool {
        !self.real_time || group.is_real_time()
    }

    /// As it was asked for; `spans` are those of the question.
    ///
    /// # Errors
    /// Parameters.
    pub fn asked(opened: &'o Opened, parameters: &mut Parameters, spans: &[String]) -> Result<Only<'o>, Error> {
        let kind = match parameters.text("kind")? {
            None => None,
            Some(name) => Some(kind(&name).ok_or_else(|| Error::parameter("kind", "one of what"))?),
        };
        let of = parameters.text("of")?.map(|text| OfText {
            text,
            opened,
            functions: Functions::of(opened),
            spans: spans.to_vec(),
            known: Map::default(),
        });
        let mut number = |name: &str, most: u64| parameters.number(name, 0..=most);
        let (process, tid) = (number("process", i32::MAX as u64)?, number("tid", i32::MAX as u64)?);
        let (prio, cpu) = (number("prio", i16::MAX as u64)?, number("cpu", u64::from(u32::MAX))?);
        Ok(Only {
            kind,
            of,
            process: process.map(|process| process as i32),
            tid: tid.map(|tid| tid as i32),
            prio: prio.map(|prio| prio as i16),
            cpu: cpu.map(|cpu| cpu as u32),
            low_ns: number("low", u64::MAX)?.unwrap_or(0),
            high_ns: number("high", u64::MAX)?.unwrap_or(u64::MAX),
            real_time: false,
        })
    }

    /// Whether all samples of a series are in it, or none: whatever their length, and whatever devices are called.
    pub fn is_of_series(&self) -> bool {
        let may_be_device = self.kind.is_none_or(|kind| kind == What::Block);
        let names_device = self.of.as_ref().is_some_and(|of| {
            let has_names = of.opened.classes.list.iter().any(|class| class.name == DEVICES);
            has_names && may_be_device
        });
        self.low_ns == 0 && self.high_ns == u64::MAX && !names_device
    }

    /// Whether a sample is one of them.
    pub fn takes(&mut self, key: &Key, sample: &Sample, devices: &BTreeMap<u64, String>) -> bool {
        let is_chosen = !self.real_time || sample.is_real_time();
        is_chosen && (self.low_ns..=self.high_ns).contains(&sample.value_ns) && self.takes_series(key, devices)
    }

    /// The same, whatever its length.
    pub fn takes_series(&mut self, key: &Key, devices: &BTreeMap<u64, String>) -> bool {
        fn is<T: PartialEq>(wanted: Option<T>, own: Option<T>) -> bool {
            wanted.is_none() || wanted == own
        }
        is(self.kind, Some(key.what))
            && is(self.process, key.process)
            && is(self.tid, key.tid)
            && is(self.prio, key.prio)
            && is(self.cpu, key.cpu)
            && self.of.as_mut().is_none_or(|of| of.is(key.of, devices))
    }
}
