// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo view`: opens traces and serves the viewer; what it answers is for kymo-query, who may ask for kymo-serve.

use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use anyhow::Context as _;
use kymo_query::Opened;
use kymo_serve::{Server, Stopper};

use super::analyze::feed::{Input, ReadRange};
use crate::verbs::args::{JsonArgs, RangeArgs, TraceArgs};

/// View a trace in the browser: CPUs, threads, spans, values, latencies, records
///
/// Serves the viewer on 127.0.0.1 until Ctrl-C, and opens it in the browser. The address has a token that is new each
/// time: who knows it can read the trace. From another machine: ssh -L PORT:127.0.0.1:PORT HOST, then open the same
/// address there. Nothing is loaded whole; with an index (kymo index) each window of a large trace is there soon.
#[derive(clap::Args)]
#[command(mut_arg("from", |arg| arg.help("Show the trace from this time on at first: +1.5s from its begin, -1s from its end, or ns since \
    1970 [default: the begin]")))]
#[command(mut_arg("to", |arg| arg.help("Show it up to this time at first [default: the end]")))]
#[command(mut_arg("json", |arg| arg.help("Print address and port as JSON on standard output")))]
#[command(after_help = "Examples:\n  kymo record -k sched,irq,syscalls -o t -- ./program; kymo view t\n  \
    kymo view t --from +1.2s --to +1.3s\n  \
    kymo view t --no-open --port 8000    on a server; at home: ssh -L 8000:127.0.0.1:8000 server\n\n\
    Exit status: 0 it was ended by Ctrl-C, 2 the trace cannot be opened, or the port is taken. The protocol: \
    kymo-view(7).")]
pub struct Args {
    #[command(flatten)]
    traces: TraceArgs,
    /// Listen on this port; 0: on any that is free
    #[arg(long, value_name = "N", default_value_t = 0)]
    port: u16,
    /// Only print the address, do not open the browser
    #[arg(long)]
    no_open: bool,
    #[command(flatten)]
    range: RangeArgs,
    #[command(flatten)]
    format: JsonArgs,
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let input = Input::open(&args.traces)?;
    let indexes = input.indexes();
    let stretch = input.stretch(&indexes, args.range.from, args.range.to)?;
    if indexes.states.is_none() {
        eprintln!("kymo: the trace has no index, so windows late in a large trace take longer; kymo index builds it");
    }
    let caveats = input.caveats.iter().map(ToString::to_string).collect();
    let opened = Opened::new(input.traces, indexes, name_of(&args.traces.dirs), caveats);
    // A browser that closes its connection must not end us.
    crate::verbs::ignore_sigpipe();
    // Before any thread is made: all of them leave these signals to the one that waits for them.
    let signals = block_signals();
    let port = args.port;
    let server = Server::bind(opened, port).with_context(|| format!("cannot listen on 127.0.0.1:{port}"))?;
    let (port, address) = (server.port()?, server.address()? + &fragment(stretch));
    stop_on_signals(signals, server.stopper())?;
    match args.format.json {
        true => println!("{}", serde_json::json!({ "schema": "kymo-view-1", "address": address, "port": port })),
        false => say(&address, port),
    }
    if !args.no_open {
        open(&address);
    }
    server.run().context("cannot serve")?;
    Ok(ExitCode::SUCCESS)
}

fn say(address: &str, port: u16) {
    let uname = rustix::system::uname();
    let host = uname.nodename().to_string_lossy();
    println!("{address}");
    println!("  from another machine: ssh -L {port}:127.0.0.1:{port} {host}, then open this address there");
    println!("  Ctrl-C ends it");
}

/// What people call the traces: their directories.
fn name_of(dirs: &[PathBuf]) -> String {
    let name = |dir: &PathBuf| {
        let whole = dir.canonicalize().unwrap_or_else(|_| dir.clone());
        whole.file_name().map_or_else(|| dir.display().to_string(), |name| name.to_string_lossy().into_owned())
    };
    dirs.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// The window that is shown first, as the page reads it.
fn fragment(stretch: Option<ReadRange>) -> String {
    stretch.map_or_else(String::new, |stretch| format!("#from={}&to={}", stretch.from, stretch.to))
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
