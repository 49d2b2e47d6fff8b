// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which functions used the CPU: samples by call stack, then by the functions in these.

use std::collections::{BTreeMap, HashMap, HashSet};

use kymo_analyze::State;
use kymo_analyze::usage::Usage;
use kymo_ctf::read::Value;
use kymo_export::export::stacks::{Naming, Space};

use crate::verbs::analyze::feed::Seen;
use crate::verbs::symbols::Symbolizer;

/// Different stacks at most.
const STACKS_MAX: usize = 1 << 20;

/// A stack: position of the trace, process, addresses from the innermost on.
type Stack = (usize, u32, Vec<u64>);

/// CPU time of a function, by samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FunctionUse {
    /// Its name.
    pub name: String,
    /// Samples in it, and in no function that it called.
    pub samples: u64,
    /// The CPU time that these stand for, ns.
    pub self_ns: u64,
    /// The same with the functions that it called, ns.
    pub total_ns: u64,
}

/// Samples of a trace.
#[derive(Debug, Default)]
pub struct SampledFunctions {
    /// How many, and the time that they stand for, ns.
    stacks: HashMap<Stack, (u64, u64)>,
    /// Names of processes, for addresses without a function.
    processes: HashMap<u32, String>,
    left_out: u64,
}

impl SampledFunctions {
    /// Takes a record, if it is a sample of what is asked for.
    pub fn record(&mut self, seen: &Seen<'_, '_>, state: &State, usage: &Usage) {
        let record = seen.record;
        if record.event.name != kymo_feed::SAMPLE || !usage.wants(&seen.head, state) {
            return;
        }
        let number = |name: &str| record.payload.get(name).as_ref().and_then(integer);
        let process = number("pid").and_then(|pid| u32::try_from(pid).ok()).unwrap_or(0);
        let addresses = match record.payload.get("callstack") {
            Some(Value::Array(addresses)) => addresses.iter().filter_map(|address| integer(&address)).collect(),
            _ => number("ip").into_iter().collect(),
        };
        self.add((record.trace, process, addresses), number("period").unwrap_or(0));
        if let Some(thread) = i32::try_from(process).ok().and_then(|process| state.thread(process)) {
            self.processes.entry(process).or_insert_with(|| thread.name.to_string());
        }
    }

    fn add(&mut self, stack: Stack, ns: u64) {
        if self.stacks.len() >= STACKS_MAX && !self.stacks.contains_key(&stack) {
            self.left_out += 1;
            return;
        }
        let (samples, sum) = self.stacks.entry(stack).or_default();
        *samples += 1;
        *sum = sum.saturating_add(ns);
    }

    /// Samples whose stacks were too many.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// All functions, those with most time of their own first.
    pub fn named(&self, symbols: &mut Symbolizer) -> Vec<FunctionUse> {
        let mut names: HashMap<(Space, u64), String> = HashMap::new();
        let mut by_name: BTreeMap<String, FunctionUse> = BTreeMap::new();
        for ((trace, process, addresses), (samples, ns)) in &self.stacks {
            let mut met = HashSet::new();
            let mut was_kernel = true;
            for address in addresses {
                let is_kernel = address >> 63 == 1;
                // All others are where a call returns to.
                let is_exact = met.is_empty() || (was_kernel && !is_kernel);
                was_kernel = is_kernel;
                let at = if is_exact { *address } else { address.saturating_sub(1) };
                let space = if is_kernel { Space::Kernel } else { Space::Process(*trace, *process) };
                let name = names.entry((space, at)).or_insert_with(|| self.name(symbols, space, at)).clone();
                let function = by_name.entry(name.clone()).or_default();
                if met.is_empty() {
                    function.samples += samples;
                    function.self_ns = function.self_ns.saturating_add(*ns);
                }
                if met.insert(name) {
                    function.total_ns = function.total_ns.saturating_add(*ns);
                }
            }
        }
        let named = |(name, function): (String, FunctionUse)| FunctionUse { name, ..function };
        let mut all: Vec<FunctionUse> = by_name.into_iter().map(named).collect();
        all.sort_by_key(|function| std::cmp::Reverse((function.self_ns, function.total_ns)));
        all
    }

    fn name(&self, symbols: &mut Symbolizer, space: Space, address: u64) -> String {
        if let Some(name) = symbols.name(space, address) {
            let end = name.rfind("+0x").unwrap_or(name.len());
            return name[..end].to_owned();
        }
        match space {
            Space::Kernel => "[kernel]".to_owned(),
            Space::Process(_, process) => {
                let name = self.processes.get(&process).map_or("", String::as_str);
                format!("[{name} {process}]")
            }
        }
    }
}

fn integer(value: &Value<'_>) -> Option<u64> {
    match value {
        Value::Int(number, _) => Some(i128::from(*number) as u64),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_that_calls_itself_counts_once() {
        let mut functions = SampledFunctions::default();
        // Without names all addresses of a process are one function.
        functions.add((0, 7, vec![0x10, 0x20, 0x30]), 100);
        functions.add((0, 7, vec![0x10, 0x20, 0x30]), 50);
        functions.add((0, 8, vec![0xffff_ffff_8100_0000, 0x20]), 30);
        let mut symbols = Symbolizer::new(None, &[]).unwrap();
        let found = functions.named(&mut symbols);
        let rows: Vec<_> = found
            .iter()
            .map(|function| (function.name.as_str(), function.samples, function.self_ns, function.total_ns))
            .collect();
        assert_eq!(rows, [("[ 7]", 2, 150, 150), ("[kernel]", 1, 30, 30), ("[ 8]", 0, 0, 30)]);
    }
}
