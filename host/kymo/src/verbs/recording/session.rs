// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo session`: sessions that run by themselves, in a collector of their own, and are looked at, changed and ended
//! by name.
//!
//! `args` has the options, `definition` those of `start`; `settings` turns the latter into a file and back, `start`
//! makes the collector, `collector` is its life, `ask` finds sessions and asks them, `show` prints what they answer.
//! What goes over the socket is kymo-collect's.

mod args;
pub(crate) mod ask;
mod collector;
mod definition;
mod settings;
mod shipper;
mod show;
mod snapshots;
mod start;

use std::process::ExitCode;

pub use args::SessionArgs;
use args::SessionVerb;

/// Runs the verb.
pub fn run(args: SessionArgs) -> anyhow::Result<ExitCode> {
    match args.verb {
        SessionVerb::Start(args) if args.is_detached() => collector::run(*args),
        SessionVerb::Start(args) => start::run(&args),
        SessionVerb::List(args) => show::list(&args.show),
        SessionVerb::Status(args) => show::status(&args.name, &args.show),
        SessionVerb::Enable(args) => ask::select(&args, true),
        SessionVerb::Disable(args) => ask::select(&args, false),
        SessionVerb::Add(args) => ask::add(&args.name, args.ring_size, args.running, args.out.json),
        SessionVerb::Snapshot(args) => ask::snapshot(args),
        SessionVerb::Rotate(args) => ask::rotate(&args),
        SessionVerb::Stop(args) => ask::stop(&args),
        SessionVerb::Save(args) => settings::save(&args.name, args.file.as_deref(), args.out.json),
    }
}
