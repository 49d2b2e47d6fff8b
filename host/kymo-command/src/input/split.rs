// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces of several kernels: a state is one machine's, so that each host is analysed for itself [spec/hosts.md 6].

use std::process::ExitCode;

use anyhow::Context as _;
use kymo_ctf::read::Trace;
use kymo_query::{Machine, host_name, machine};
use serde_json::{Value, json};

use super::{Input, has_switches};
use crate::args::TraceArgs;
use crate::hosts::HostArgs;
use crate::when::When;

/// What belongs to one machine.
pub struct OfHost {
    /// The machine's name, and the directory where two have the same.
    pub name: String,
    /// Its traces.
    pub input: Input,
}

impl Input {
    /// Opens traces of which several may have the scheduler's events of different kernels: one input for each kernel,
    /// with the traces of programs of the same machine; one for all where there is one kernel at most.
    pub fn by_kernel(args: &TraceArgs, hosts: &HostArgs) -> anyhow::Result<Vec<OfHost>> {
        let (input, of_kernels) = Self::all(args, hosts)?;
        Ok(by_kernel(input, &of_kernels))
    }
}

/// Divides traces among the kernels of which they are; `of_kernels`: directories with the scheduler's events. A trace
/// of programs goes to the kernel of its machine, else to the first one.
fn by_kernel(input: Input, of_kernels: &[usize]) -> Vec<OfHost> {
    if of_kernels.len() < 2 {
        return vec![OfHost { name: input.traces.first().map_or_else(String::new, host_name), input }];
    }
    let Input { traces, named, caveats, told, is_corrected, common } = input;
    let mut caveats = Some(caveats);
    let mut hosts: Vec<OfHost> = of_kernels
        .iter()
        .map(|_| {
            // Damage of metadata is told once.
            let caveats = caveats.take().unwrap_or_default();
            OfHost { name: String::new(), input: Input { caveats, common, ..Input::nothing(is_corrected) } }
        })
        .collect();
    let mut traces = traces.into_iter();
    let groups: Vec<(_, Vec<Trace>)> = named
        .into_iter()
        .map(|named| {
            let count = named.parts.len();
            (named, traces.by_ref().take(count).collect())
        })
        .collect();
    let machines: Vec<Option<Machine>> = of_kernels
        .iter()
        .map(|&position| groups[position].1.iter().find(|trace| has_switches(trace)).map(machine))
        .collect();
    for (position, (named, traces)) in groups.into_iter().enumerate() {
        let own = of_kernels.iter().position(|kernel| *kernel == position);
        let same = || {
            let machine = traces.first().map(machine);
            machines.iter().position(|known| known.is_some() && *known == machine)
        };
        let host = &mut hosts[own.or_else(same).unwrap_or(0)];
        if own.is_some() {
            host.name = traces.first().map_or_else(String::new, host_name);
        }
        host.input.traces.extend(traces);
        host.input.named.push(named);
    }
    tell_apart(&mut hosts);
    hosts[0].input.told = told;
    hosts
}

/// Copies of one machine have one name.
fn tell_apart(hosts: &mut [OfHost]) {
    let names: Vec<String> = hosts.iter().map(|host| host.name.clone()).collect();
    for (position, host) in hosts.iter_mut().enumerate() {
        let is_shared = names.iter().filter(|name| **name == names[position]).count() > 1;
        if let (true, Some(named)) = (is_shared, host.input.named.first()) {
            host.name = format!("{} ({})", host.name, named.dir.display());
        }
    }
}

/// Times from the ends of all traces together, as times that mean the same for each host.
pub fn absolute(hosts: &[OfHost], times: [Option<When>; 2]) -> anyhow::Result<[Option<When>; 2]> {
    let is_relative = |when: &When| !matches!(when, When::At(_));
    if hosts.len() < 2 || !times.iter().flatten().any(is_relative) {
        return Ok(times);
    }
    let bounds = hosts.iter().filter_map(|host| host.input.bounds(&host.input.indexes()));
    let bounds = bounds.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).context("the traces have no records")?;
    Ok(times.map(|when| when.map(|when| When::At(when.at(bounds.0, bounds.1)))))
}

/// What a verb finds of each host, as text with a line above each, or as JSON: of one host its own document, else one
/// of `schema` with all.
pub fn each(
    hosts: &[OfHost],
    (schema, is_json): (&str, bool),
    find: &mut dyn FnMut(&OfHost) -> anyhow::Result<(String, ExitCode)>,
) -> anyhow::Result<(String, ExitCode)> {
    if let [host] = hosts {
        return find(host);
    }
    let (mut texts, mut documents, mut code) = (String::new(), Vec::new(), ExitCode::SUCCESS);
    for host in hosts {
        let (text, damaged) = find(host).with_context(|| format!("host {}", host.name))?;
        if damaged != ExitCode::SUCCESS {
            code = damaged;
        }
        match is_json {
            true => {
                let found: Value = serde_json::from_str(&text).context("a document of one host")?;
                let traces = host.input.named.iter().map(|named| named.dir.to_string_lossy()).collect::<Vec<_>>();
                documents.push(json!({ "host": host.name, "traces": traces, "found": found }));
            }
            false => {
                let gap = if texts.is_empty() { "" } else { "\n" };
                texts.push_str(&format!("{gap}=== host {} ===\n{text}", host.name));
            }
        }
    }
    match is_json {
        true => Ok((json!({ "schema": schema, "by_host": documents }).to_string() + "\n", code)),
        false => Ok((texts, code)),
    }
}
