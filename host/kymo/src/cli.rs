// SPDX-License-Identifier: MIT OR Apache-2.0
//! The list of verbs: the root of the command line's definition.

use clap::{Parser, Subcommand};

use crate::{completion, verbs};

/// Tracer and latency laboratory for Linux.
#[derive(Parser)]
#[command(name = "kymo", version, propagate_version = true, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    pub verb: Verb,
}

/// One variant per verb.
#[derive(Subcommand)]
pub enum Verb {
    Record(Box<verbs::record::RecordArgs>),
    Session(verbs::session::SessionArgs),
    Read(verbs::read::ReadArgs),
    Index(verbs::index::IndexArgs),
    State(verbs::state::StateArgs),
    Stats(verbs::stats::StatsArgs),
    Top(verbs::top::TopArgs),
    Latency(verbs::latency::LatencyArgs),
    Critical(verbs::critical::CriticalArgs),
    Explain(Box<verbs::explain::ExplainArgs>),
    View(verbs::view::ViewArgs),
    List(verbs::list::ListArgs),
    Mark(verbs::mark::MarkArgs),
    Recover(verbs::recover::RecoverArgs),
    Collect(verbs::collect::CollectArgs),
    Wakeup(verbs::probe::Wakeup),
    Npt(verbs::probe::Npt),
    Hwlat(verbs::probe::Hwlat),
    Preempt(verbs::probe::Preempt),
    Pi(verbs::probe::Pi),
    Slots(verbs::slots::SlotsArgs),
    Functions(verbs::functions::FunctionsArgs),
    Heap(verbs::heap::HeapArgs),
    Export(verbs::export::ExportArgs),
    Sql(verbs::sql::SqlArgs),
    Lake(verbs::lake::LakeArgs),
    Maxrate(verbs::maxrate::MaxrateArgs),
    Load(verbs::load::LoadArgs),
    Eval(verbs::eval::EvalArgs),
    Import(verbs::import::ImportArgs),
    Compare(verbs::compare::CompareArgs),
    Report(verbs::report::ReportArgs),
    Doctor(verbs::doctor::DoctorArgs),
    Shield(verbs::shield::ShieldArgs),
    Docs(verbs::docs::DocsArgs),
    #[command(name = "__complete")]
    Complete(completion::CompletionArgs),
}
