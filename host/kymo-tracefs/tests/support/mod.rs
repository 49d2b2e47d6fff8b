// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the tests on a real tracefs share: whether there is one, settings, and child processes.

#![allow(dead_code, reason = "each test file uses its part")]

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use kymo_testing::skip_this;
use kymo_tracefs::{CpuReader, Instance, Settings, Tracefs};

/// The tracefs to test on, or why there is none.
pub fn tracefs() -> Option<Tracefs> {
    match Tracefs::find().and_then(|tracefs| tracefs.create(&settings()).map(|instance| (tracefs, instance))) {
        Ok((tracefs, instance)) => {
            instance.remove().unwrap();
            Some(tracefs)
        }
        Err(error) => {
            skip_this(&error.to_string());
            None
        }
    }
}

/// Small rings.
pub fn settings() -> Settings {
    Settings {
        clock: "mono".to_owned(),
        ring_bytes_per_cpu: 64 * 1024,
        subbuf_bytes: None,
        overwrite: true,
        cpus: None,
    }
}

pub fn exists(tracefs: &Tracefs, name: &str) -> bool {
    tracefs.root().join("instances").join(name).exists()
}

/// How long another's cleaning may take.
const CLEANED_WITHIN: Duration = Duration::from_secs(30);

/// Cleans until `gone`. Once would do, if no other test and no other session were at it at the same moment.
pub fn remove_until(tracefs: &Tracefs, gone: impl Fn() -> bool) {
    let begin = Instant::now();
    loop {
        tracefs.remove_dead();
        if gone() {
            return;
        }
        assert!(begin.elapsed() < CLEANED_WITHIN, "still there after {CLEANED_WITHIN:?} of cleaning");
        std::thread::yield_now();
    }
}

/// Text of a file of an instance.
pub fn knob(instance: &Instance, file: &str) -> String {
    std::fs::read_to_string(instance.path().join(file)).unwrap().trim_end().to_owned()
}

/// What the kernel's own reader shows of an instance.
pub fn trace(instance: &Instance) -> String {
    let text = knob(instance, "trace");
    text.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect()
}

/// Everything in a CPU's ring: how many sub-buffers, and their bytes.
pub fn drain(reader: &mut CpuReader, page_bytes: usize) -> (usize, Vec<u8>) {
    let (mut pages, mut all) = (0, Vec::new());
    let mut page = vec![0; page_bytes];
    loop {
        match reader.read(&mut page).unwrap() {
            0 => return (pages, all),
            length => {
                pages += 1;
                all.extend_from_slice(&page[..length]);
            }
        }
    }
}

/// This test program again, running only one test, which finds `variable` set and says `ready`. Ends with us.
pub struct Helper {
    child: Child,
    output: BufReader<ChildStdout>,
    /// What it said behind `ready`.
    pub said: String,
}

impl Helper {
    pub fn start(test: &str, variable: &str, value: &str) -> Helper {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", test, "--nocapture"]).env(variable, value).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = child.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut helper = Helper { child, output, said: String::new() };
        let mut line = String::new();
        while helper.output.read_line(&mut line).unwrap() > 0 {
            if let Some((_, rest)) = line.split_once("ready ") {
                helper.said = rest.trim().to_owned();
                return helper;
            }
            line.clear();
        }
        panic!("the helper ended without saying ready");
    }

    /// Lets it end. Whether its test passed.
    pub fn finish(mut self) -> bool {
        drop(self.child.stdin.take());
        self.output.read_to_string(&mut String::new()).unwrap();
        self.child.wait().unwrap().success()
    }

    /// SIGKILL, and it has gone.
    pub fn kill(self) {}
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// In the helper: says `ready TEXT` and waits until its standard input closes.
pub fn ready_and_wait(text: &str) {
    println!("ready {text}");
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

/// Compiles a C program. `None`, with the reason shown, where there is no compiler.
pub fn compile(folder: &Path, name: &str, source: &str, flags: &[&str]) -> Option<std::path::PathBuf> {
    let (input, output) = (folder.join(format!("{name}.c")), folder.join(name));
    std::fs::write(&input, source).unwrap();
    let built = Command::new("cc").args(["-O1", "-g0", "-o"]).arg(&output).arg(&input).args(flags).output();
    match built {
        Ok(built) if built.status.success() => Some(output),
        Ok(built) => panic!("cc: {}", String::from_utf8_lossy(&built.stderr)),
        Err(error) => {
            skip_this(&format!("cc: {error}"));
            None
        }
    }
}
