// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo export`: the verb is kymo-command's. Here are the formats of kymo-export, and the names of addresses; Parquet
//! is `kymo-sql`'s.

use std::cell::RefCell;
use std::ffi::OsString;
use std::process::ExitCode;
use std::rc::Rc;

use kymo_command::export::{self, ExportWriter};
use kymo_command::interrupt::take_signals;
use kymo_ctf::read::{Record, Trace};
use kymo_export::export::stacks::{Naming, Space};
use kymo_export::export::{Format, begin};

use super::sql;
use crate::verbs::symbols::Symbolizer;

pub use kymo_command::export::{ExportArgs, ExportFormat};

/// Runs the verb, whose words on the command line are `words`.
pub fn run(args: ExportArgs, words: &[OsString]) -> anyhow::Result<ExitCode> {
    match args.format().of_kymo_export() {
        Some(format) => export::run(&args, |traces| writer(format, &args, traces)),
        None => Err(sql::become_kymo_sql(words, "--format parquet")),
    }
}

fn writer<'t>(format: Format, args: &ExportArgs, traces: &'t [Trace]) -> anyhow::Result<ExportWriter<'t>> {
    let mut known = Symbolizer::new(None, traces)?;
    if matches!(format, Format::Speedscope | Format::Collapsed) {
        known.learn_all(traces)?;
    }
    let known = Rc::new(RefCell::new(known));
    let symbols = Box::new(FrameNames(Rc::clone(&known)));
    take_signals();
    let exporter = begin(format, traces, args.output(), symbols)?;
    Ok(ExportWriter { exporter, unnamed: Box::new(move || known.borrow().reasons()) })
}

/// What is known of addresses; who exports asks, and we tell at the end what was not known.
struct FrameNames(Rc<RefCell<Symbolizer>>);

impl Naming for FrameNames {
    fn learn(&mut self, record: &Record<'_>) {
        self.0.borrow_mut().learn(record);
    }

    fn name(&mut self, space: Space, address: u64) -> Option<String> {
        self.0.borrow_mut().name(space, address)
    }

    fn of_fields(&mut self, record: &Record<'_>) -> Vec<(String, String)> {
        self.0.borrow_mut().of_fields(record)
    }
}
