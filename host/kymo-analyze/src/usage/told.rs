// SPDX-License-Identifier: MIT OR Apache-2.0
//! What records say that move no state: paths of files that are opened; descriptors, CPUs and block devices of the
//! state dump.

use std::collections::BTreeMap;

use super::sums::Usage;
use crate::names::{Statement, statement_of};
use crate::record::{Class, Head, Record, ValueKind};
use crate::state::State;

/// The flag of an open file that exec closes it.
const O_CLOEXEC: i128 = 0o2_000_000;
/// Fields with the path of a file: LTTng's, and that of kernels that read it for the event.
const PATHS: [&str; 2] = ["filename", "__filename_val"];
/// Fields with the path in a probe, as a user or perf calls them.
const PROBED_PATHS: [&str; 4] = ["filename", "filename_string", "pathname", "pathname_string"];

/// A class, with the positions of its fields.
#[derive(Clone, Copy, Debug)]
enum Tells {
    Opening { path: usize },
    Opened { path: usize },
    Descriptor { process: usize, fd: usize, path: usize, flags: Option<usize> },
    Cpu { number: usize, online: Option<usize> },
    Device { number: usize, name: usize },
}

/// Hands on what records say that are no events.
#[derive(Clone, Debug, Default)]
pub struct Told {
    by_class: Vec<Option<Tells>>,
    devices: BTreeMap<u64, String>,
}

impl Told {
    /// For these classes.
    pub fn new(classes: &[Class]) -> Told {
        Told { by_class: classes.iter().map(tells).collect(), devices: BTreeMap::new() }
    }

    /// Takes a record of the class at position `class`, before the state moves by it.
    pub fn record(&mut self, class: usize, head: &Head, record: &impl Record, state: &State, usage: &mut Usage) {
        let Some(tells) = self.by_class.get(class).copied().flatten() else { return };
        let int = |position: usize| record.integer(position).and_then(|value| i32::try_from(value).ok());
        match tells {
            Tells::Opening { path } => {
                let path = record.text(path).filter(|path| !path.is_empty());
                path.into_iter().for_each(|path| usage.opening(head, state, &path));
            }
            Tells::Opened { path } => {
                let path = record.text(path).filter(|path| !path.is_empty());
                path.into_iter().for_each(|path| usage.opened(head, state, &path));
            }
            Tells::Descriptor { process, fd, path, flags } => {
                let (Some(process), Some(fd), Some(path)) = (int(process), int(fd), record.text(path)) else { return };
                let flags = flags.and_then(|flags| record.integer(flags));
                // Who does not tell the flags (LTTng) leaves open what exec closes.
                let closes = flags.is_none_or(|flags| flags & O_CLOEXEC != 0);
                usage.dumped_file(process, fd, &path, closes, head.time);
            }
            Tells::Cpu { number, online } => {
                let is_online = online.and_then(int).is_none_or(|online| online != 0);
                let number = record.integer(number).and_then(|number| u32::try_from(number).ok());
                number.filter(|_| is_online).into_iter().for_each(|number| usage.expect_cpu(number));
            }
            Tells::Device { number, name } => {
                let number = record.integer(number).and_then(|number| u64::try_from(number).ok());
                if let (Some(number), Some(name)) = (number, record.text(name)) {
                    self.devices.insert(number, name.into_owned());
                }
            }
        }
    }

    /// Names of block devices, by the kernel's number.
    pub fn devices(&self) -> &BTreeMap<u64, String> {
        &self.devices
    }
}

/// Whether records of a class say that the machine has a CPU.
pub fn tells_of_cpus(class: &Class) -> bool {
    matches!(tells(class), Some(Tells::Cpu { .. }))
}

fn tells(class: &Class) -> Option<Tells> {
    let at = |name: &str| class.field(&[name]).map(|field| field.position);
    Some(match statement_of(&class.name)? {
        // The kernel's own field is the address of the path.
        Statement::Opening => Tells::Opening { path: text_of(class, &PATHS)? },
        Statement::Opened => Tells::Opened { path: text_of(class, &PROBED_PATHS)? },
        Statement::Descriptor => {
            Tells::Descriptor { process: at("pid")?, fd: at("fd")?, path: at("filename")?, flags: at("flags") }
        }
        Statement::Cpu => Tells::Cpu { number: at("cpu_id")?, online: at("online") },
        Statement::Device => Tells::Device { number: at("dev")?, name: at("diskname")? },
    })
}

/// The first field of these names that is text.
fn text_of(class: &Class, names: &[&str]) -> Option<usize> {
    let mut named = class.fields.iter().filter(|field| names.contains(&field.name.as_str()));
    Some(named.find(|field| field.kind == ValueKind::Text)?.position)
}
