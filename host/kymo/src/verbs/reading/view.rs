// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo view`: opens traces and serves the viewer; what it answers is for kymo-query, who may ask for kymo-serve.

mod functions;
mod lake;
mod live;
mod net;
mod notice;
mod opening;
mod results;
mod save;

use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use kymo_index::Indexes;
use kymo_query::Opened;
use kymo_serve::{Others, Relation, Server, Source, Stopper};

use super::analyze::feed::{Input, OfHost, ReadRange};
use crate::verbs::args::{JsonArgs, RangeArgs, TraceArgs};
use crate::verbs::hosts::HostArgs;
use results::Results;

/// View a trace in the browser: CPUs, threads, spans, values, latencies, records
///
/// Serves the viewer on 127.0.0.1 until Ctrl-C, and opens it in the browser. The address has a token that is new each
/// time: who knows it can read the trace. From another machine: ssh -L PORT:127.0.0.1:PORT HOST, then open the same
/// address there. Nothing is loaded whole; with an index (kymo index) each window of a large trace is there soon.
///
/// DIR may be the name of a running session (of `kymo session`), or a directory that is being written: then the picture
/// moves, about 0.3 s late. The key l stops it and lets it go on. net://HOST[:PORT]/host/HOSTNAME/SESSION is a live
/// session of LTTng, which `kymo read net://HOST` lists: it is kept in files without a name in the temporary directory.
///
/// Traces of several kernels are shown host by host, one below the other on one axis; --shift and --align bring their
/// clocks together.
///
/// Files are results of the laboratory (wakeup, npt, eval, compare, and those of other tools that kymo import reads):
/// histograms over each other, tails, worst samples; with their trace, each of these leads to its place there.
///
/// --lake shows a lake (of kymo lake add): distributions of a latency by label, host or kernel, their trends over days
/// with change points, and the worst samples, each with a way to the trace that has it. It needs kymo-sql (make sql).
#[derive(clap::Args)]
#[command(mut_arg("dirs", |arg| arg.value_name("DIR|RESULT").required(false).required_unless_present("lake").help("Trace directories, merged by time; result files of \
    the laboratory")))]
#[command(mut_arg("from", |arg| arg.help("Show the trace from this time on at first: +1.5s from its begin, -1s from its end, or ns since \
    1970 [default: the begin]")))]
#[command(mut_arg("to", |arg| arg.help("Show it up to this time at first [default: the end]")))]
#[command(mut_arg("json", |arg| arg.help("Print address and port as JSON on standard output")))]
#[command(after_help = "Examples:\n  kymo record -k sched,irq,syscalls -o t -- ./program; kymo view t\n  \
    kymo view t --from +1.2s --to +1.3s\n  \
    kymo view motor                      a running session\n  \
    kymo view net://localhost/host/box/s1    a live session of LTTng\n  \
    kymo view before --beside after      two traces, and the distributions of their latencies\n  \
    kymo view host1 host2 --shift host2=+1.5ms   two hosts on one axis\n  \
    kymo view t --from +1s --to +1.2s --save page.html    a part of it as one file, to attach to a report\n  \
    kymo view before.json after.json     results of kymo wakeup -o\n  \
    kymo view --lake /srv/lake           many traces: by label, over days, the worst\n  \
    kymo view t --no-open --port 8000    on a server; at home: ssh -L 8000:127.0.0.1:8000 server\n\n\
    Exit status: 0 it was ended by Ctrl-C, 2 the trace cannot be opened, or the port is taken. The protocol: \
    kymo-view(7).")]
pub struct ViewArgs {
    #[command(flatten)]
    traces: TraceArgs,
    /// Listen on this port; 0: on any that is free
    #[arg(long, value_name = "N", default_value_t = 0)]
    port: u16,
    /// Only print the address, do not open the browser
    #[arg(long)]
    no_open: bool,
    /// Speak the Trace Server Protocol, too, for the trace viewers of VS Code and Theia; its address is printed
    #[arg(long)]
    tsp: bool,
    #[command(flatten)]
    range: RangeArgs,
    #[command(flatten)]
    hosts: HostArgs,
    /// Show this trace below the other one, each with its own time axis
    #[arg(long, value_name = "DIR", conflicts_with_all = ["save", "shift", "align"])]
    beside: Option<PathBuf>,
    /// Show this lake: a directory or a URL
    #[arg(long, value_name = "URL", conflicts_with_all = ["dirs", "beside", "save", "tsp", "from", "to", "ignore_uuid", "intersect", "shift", "align"])]
    lake: Option<String>,
    #[command(flatten)]
    save: save::SaveArgs,
    #[command(flatten)]
    format: JsonArgs,
}

/// What is shown.
struct OpenedView {
    opened: Opened,
    others: Option<Others>,
    stretch: Option<ReadRange>,
    /// It is being written.
    source: Option<Box<dyn Source>>,
}

impl OpenedView {
    /// Without a trace: those of a lake are opened when they are asked for.
    fn none() -> OpenedView {
        OpenedView::of(Opened::new(Vec::new(), Indexes::default(), "lake".to_owned(), Vec::new()))
    }

    /// A trace alone.
    fn of(opened: Opened) -> OpenedView {
        OpenedView { opened, others: None, stretch: None, source: None }
    }

    fn open(args: &ViewArgs) -> anyhow::Result<OpenedView> {
        if let Some(url) = args.traces.dirs.iter().filter_map(|dir| dir.to_str()).find(|dir| kymo_live::is_url(dir)) {
            let is_alone = args.traces.dirs.len() == 1 && args.range.from.is_none() && args.range.to.is_none();
            ensure!(
                is_alone && args.hosts.is_none(),
                "{url} is viewed alone, and at its end: --from, --to, --shift and others need a trace that has ended"
            );
            let mut live = net::NetTrace::attach(url)?;
            let opened = live.first()?;
            return Ok(OpenedView { source: Some(Box::new(live)), ..OpenedView::of(opened) });
        }
        if let Some(mut growing) = live::find(&args.traces.dirs)? {
            let is_part = args.range.from.is_some() || args.range.to.is_some();
            ensure!(
                !is_part,
                "the trace is being written, and is shown at its end: --from and --to are for one that has ended"
            );
            ensure!(
                args.hosts.is_none(),
                "the trace is being written, and is shown alone: --shift and --align are for traces that have ended"
            );
            let opened = growing.first()?;
            return Ok(OpenedView { source: Some(Box::new(growing)), ..OpenedView::of(opened) });
        }
        // A trace is a directory; files are results of the laboratory.
        let (files, dirs) = args.traces.dirs.iter().cloned().partition::<Vec<_>, _>(|path| path.is_file());
        let results = Results::read(&files)?;
        let has_trace = !dirs.is_empty();
        let (ignore_uuid, intersect) = (args.traces.ignore_uuid, args.traces.intersect);
        let mut hosts = Input::by_kernel(&TraceArgs { dirs, ignore_uuid, intersect }, &args.hosts)?;
        let mut shown = match &hosts[..] {
            [_] => OpenedView::one(args, hosts.remove(0).input, has_trace)?,
            _ => OpenedView::several(args, hosts)?,
        };
        if !files.is_empty() {
            shown.opened.results = Some(results.answer(&shown.opened));
        }
        Ok(shown)
    }

    /// Traces of one host.
    fn one(args: &ViewArgs, input: Input, has_trace: bool) -> anyhow::Result<OpenedView> {
        let times = [args.range.from, args.range.to];
        let (opened, stretch) = opening::of(input, opening::name_of(&args.traces.dirs), times)?;
        if has_trace && opened.indexes.states.is_none() {
            eprintln!(
                "kymo: the trace has no index, so windows late in a large trace take longer; kymo index builds it"
            );
        }
        Ok(OpenedView { stretch, ..OpenedView::of(opened) })
    }

    /// Traces of several hosts, one below the other.
    fn several(args: &ViewArgs, hosts: Vec<OfHost>) -> anyhow::Result<OpenedView> {
        let count = hosts.len();
        let names: Vec<String> = hosts.iter().map(|host| host.name.clone()).collect();
        let many = names.join(" and ");
        ensure!(!args.save.is_given(), "--save takes one host, and these are {many}: give the traces of one of them");
        ensure!(!args.tsp, "--tsp takes one host, and these are {many}: give the traces of one of them");
        ensure!(args.beside.is_none(), "--beside is for two traces, and these are of {count} hosts already: {many}");
        let (mut opened, stretch) = opening::several(hosts, [args.range.from, args.range.to])?;
        let without = opened.iter().zip(&names).filter(|(opened, _)| opened.indexes.states.is_none());
        let without: Vec<&str> = without.map(|(_, name)| name.as_str()).collect();
        if !without.is_empty() {
            let of = without.join(" and ");
            eprintln!("kymo: no index of {of} is used, so windows late in a large trace take longer");
        }
        let first = opened.remove(0);
        let opened = opened.into_iter().map(Arc::new).collect();
        let others = Some(Others { relation: Relation::Hosts, names, opened });
        Ok(OpenedView { others, stretch, ..OpenedView::of(first) })
    }
}

/// Runs the verb.
pub fn run(args: ViewArgs) -> anyhow::Result<ExitCode> {
    let lake = args.lake.as_deref().map(lake::LakeView::start).transpose()?;
    let shown = if lake.is_some() { OpenedView::none() } else { OpenedView::open(&args)? };
    if args.save.is_given() {
        return save::run(&args.save, &shown.opened.not_keeping(), shown.stretch);
    }
    ensure!(!args.tsp || shown.source.is_none(), "--tsp is for a trace that has ended, and this one is being written");
    let others = match &args.beside {
        Some(dir) => Some(opening::beside(&shown.opened, dir)?),
        None => shown.others,
    };
    // A browser that closes its connection must not end us.
    crate::verbs::ignore_sigpipe();
    // Before any thread is made: all of them leave these signals to the one that waits for them.
    let signals = block_signals();
    let port = args.port;
    let server = Server::bind(shown.opened, port).with_context(|| format!("cannot listen on 127.0.0.1:{port}"))?;
    let server = server.with_others(others).follow(shown.source).with_notes(opening::note_places(&args.traces.dirs));
    let server = match lake {
        Some(lake) => server.with_lake(Arc::new(lake)),
        None => server,
    };
    let server = if args.tsp { server.with_tsp(tsp_dirs(&args.traces.dirs)) } else { server };
    let tsp = server.tsp_address()?;
    let (port, address) = (server.port()?, server.address()? + &fragment(shown.stretch));
    stop_on_signals(signals, server.stopper())?;
    match args.format.json {
        true => {
            let all = serde_json::json!({ "schema": "kymo-view-1", "address": address, "port": port, "tsp": tsp });
            println!("{all}");
        }
        false => say(&address, tsp.as_deref(), port),
    }
    if !args.no_open {
        open(&address);
    }
    server.run().context("cannot serve")?;
    Ok(ExitCode::SUCCESS)
}

fn say(address: &str, tsp: Option<&str>, port: u16) {
    let uname = rustix::system::uname();
    let host = uname.nodename().to_string_lossy();
    println!("{address}");
    if let Some(tsp) = tsp {
        println!("  Trace Server Protocol: {tsp}");
    }
    println!("  from another machine: ssh -L {port}:127.0.0.1:{port} {host}, then open this address there");
    println!("  Ctrl-C ends it");
}

/// The traces' directories, as they were named and as they are.
fn tsp_dirs(dirs: &[PathBuf]) -> Vec<PathBuf> {
    let whole = dirs.iter().filter_map(|dir| dir.canonicalize().ok());
    whole.chain(dirs.iter().filter(|dir| dir.is_absolute()).cloned()).collect()
}

/// The window that is shown first, as the page reads it.
fn fragment(stretch: Option<ReadRange>) -> String {
    stretch.map_or_else(String::new, |stretch| format!("#window={}~{}", stretch.from, stretch.to))
}

/// Opens the browser, where there is a screen. What it has to say is no part of our output.
fn open(address: &str) {
    let has_screen = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    let open = || {
        let mut command = Command::new("xdg-open");
        command.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
    };
    if !has_screen || open().is_err() {
        eprintln!("kymo: the browser could not be opened: open the address in it");
    }
}

/// Signals that end the server.
const SIGNALS: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// Keeps them from this thread and all that it makes.
fn block_signals() -> libc::sigset_t {
    // SAFETY: the set is initialised by sigemptyset before it is used; all pointers are to it, or null.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for signal in SIGNALS {
            libc::sigaddset(&mut set, signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
        set
    }
}

/// Ends the server at the first of them; at the second, at once.
fn stop_on_signals(signals: libc::sigset_t, stopper: Stopper) -> anyhow::Result<()> {
    let wait = move || {
        let mut signal = 0;
        // SAFETY: the set is initialised, and both pointers are to variables of this thread.
        unsafe { libc::sigwait(&signals, &mut signal) };
        stopper.stop();
        // SAFETY: as above.
        unsafe { libc::sigwait(&signals, &mut signal) };
        std::process::exit(130);
    };
    std::thread::Builder::new().name("kymo-signals".to_owned()).spawn(wait).context("cannot start a thread")?;
    Ok(())
}
