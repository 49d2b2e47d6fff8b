// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo read net://`: sessions of a real relay daemon of LTTng, while they are recorded; and of one that lies.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener};
use std::path::{Path, PathBuf};

use kymo_tests::{Lab, Proc, paths, skip};

/// A relay daemon and a session daemon.
struct Daemons {
    control: Proc,
    /// Port for viewers.
    port: u16,
    /// Name of this machine.
    host: String,
    /// Where the relay daemon writes.
    out: PathBuf,
}

impl Daemons {
    /// `None`, with a visible skip, where LTTng is not installed.
    fn start(lab: &Lab) -> Option<Daemons> {
        if ["lttng", "lttng-sessiond", "lttng-relayd"].iter().any(|command| !kymo_tests::has(command)) {
            skip(lab.name(), "no lttng-tools");
            return None;
        }
        let folder = paths::programs().join("foreign");
        let program = lab.path("program");
        let mut compile = lab.command("cc");
        compile.arg("-I").arg(&folder).arg(folder.join("lttng.c")).arg("-o").arg(&program).arg("-llttng-ust");
        if lab.start(compile).wait().code != 0 {
            skip(lab.name(), "no liblttng-ust-dev");
            return None;
        }
        let mut why = String::new();
        // A port that was free a moment ago may be somebody else's now.
        for _ in 0..3 {
            match Daemons::with_ports(lab, &folder, &program) {
                Ok(daemons) => return Some(daemons),
                Err(stderr) => why = stderr,
            }
        }
        assert!(rustix::process::geteuid().is_root() && why.contains("unshare"), "{why}");
        skip(lab.name(), "no mount namespaces here");
        None
    }

    /// Or what it said where it did not start.
    fn with_ports(lab: &Lab, folder: &Path, program: &Path) -> Result<Daemons, String> {
        let mut command = match rustix::process::geteuid().is_root() {
            true => {
                let mut command = lab.command("unshare");
                command.args(["--mount", "--propagation", "private", "sh", "-c"]);
                command.args(["mount -t tmpfs tmpfs /run && exec \"$@\"", "sh"]).arg(folder.join("live.sh"));
                command
            }
            false => lab.command(folder.join("live.sh")),
        };
        // All are open before the first is closed: three different ones.
        let free: Vec<TcpListener> = (0..3).map(|_| TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
        let ports: Vec<u16> = free.iter().map(|free| free.local_addr().expect("an address").port()).collect();
        drop(free);
        let out = lab.path("relay");
        command.env("LTTNG_HOME", lab.path("home")).env("HOME", lab.path("home"));
        command.arg(program).args(ports.iter().map(u16::to_string)).arg(&out);
        let control = lab.start(command);
        let Some(ready) = control.line_or_end() else { return Err(control.wait().stderr) };
        let host = ready.strip_prefix("ready ").expect("a line").to_owned();
        Ok(Daemons { control, port: ports[2], host, out })
    }

    fn ask(&mut self, what: &str) {
        self.control.say(what);
        self.control.until(what.split(' ').next().expect("a word"));
    }

    /// What was read live is what the relay daemon has written, in the order of time.
    #[track_caller]
    fn check(&self, lab: &Lab, session: &str, live: &str, count: usize) {
        let below = std::fs::read_dir(self.out.join(&self.host)).expect("traces of this host").flatten();
        let mut below = below.map(|entry| entry.path());
        let is_it = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(session));
        let dir = below.find(is_it).expect("a directory of the session");
        let written = lab.kymo(&["read", "--json", dir.to_str().unwrap()]).expect(0).stdout;
        assert_eq!((live.lines().count(), written.lines().count()), (count, count));
        assert!(records(live) == records(&written), "not what the relay daemon wrote");
        let time = |line: &str| kymo_tests::process::number(&line.replace("\":", "="), "time");
        assert!(live.lines().map(time).is_sorted(), "not in the order of time");
    }

    fn url(&self, session: &str) -> String {
        format!("net://127.0.0.1:{}/host/{}/{session}", self.port, self.host)
    }
}

fn read(lab: &Lab, args: &[&str]) -> Proc {
    lab.spawn(paths::kymo(), &[&["read", "--json"], args].concat())
}

/// The lines of records, without their own order where two CPUs wrote in the same cycle.
fn records(stdout: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = stdout.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn a_live_session_is_read_while_it_is_recorded() {
    let lab = Lab::new("live").within(std::time::Duration::from_secs(120));
    let Some(mut daemons) = Daemons::start(&lab) else { return };
    let root = format!("net://127.0.0.1:{}", daemons.port);
    let none = lab.kymo(&["read", &root]).expect(0);
    assert!(none.stdout.is_empty() && none.stderr.contains("has no sessions"), "{} {}", none.stdout, none.stderr);
    daemons.ask("create s1 uid");
    let listed = lab.kymo(&["read", &root]).expect(0).stdout;
    assert!(listed.starts_with(&daemons.url("s1")) && listed.contains("timer 200ms"), "{listed}");
    let listed = lab.kymo(&["read", "--json", &root]).expect(0).stdout;
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    assert_eq!((&listed["url"], &listed["session"]), (&daemons.url("s1").into(), &"s1".into()));
    let wrong = lab.kymo(&["read", &daemons.url("s2")]).expect(2).stderr;
    assert!(wrong.contains("no such session") && wrong.contains(&daemons.url("s1")), "{wrong}");

    let url = daemons.url("s1");
    let few = read(&lab, &["--limit", "5", &url]);
    daemons.ask("run 3000");
    assert_eq!(few.wait().expect(0).stdout.lines().count(), 5);
    // A relay daemon has one viewer of a session at a time: it must have seen that the one before is gone.
    let alone = |args: &[&str]| {
        lab.wait_for("no other viewer", || {
            Some(lab.kymo(&[&["read", "--json"], args].concat())).filter(|done| !done.stderr.contains("another viewer"))
        })
    };
    let filter = "$procname ~ \"prog*\" && $pthread_id != 0 && $vtid == $vpid";
    let filtered = alone(&["--limit", "900", "--event", "foreign:nothing", "--filter", filter, &url]).expect(0);
    assert_eq!(filtered.stdout.matches("foreign:nothing").count(), 900);
    lab.wait_for("no viewer", || lab.kymo(&["read", &root]).expect(0).stdout.contains("0 viewers").then_some(()));
    let reader = read(&lab, &[&url]);
    // Seen while the session goes on.
    reader.until("{\"time\":");
    let busy = lab.kymo(&["read", &url]).expect(2).stderr;
    assert!(busy.contains("another viewer reads the session"), "{busy}");
    // Another process: per user the same streams, with new metadata or not.
    daemons.ask("run 600");
    daemons.ask("end s1");
    let live = reader.wait().expect(0);
    daemons.check(&lab, "s1", &live.stdout, 3600);
    assert!(lab.kymo(&["read", &url]).expect(2).stderr.contains("has no sessions"));

    daemons.ask("create s2 uid");
    let reader = read(&lab, &[&daemons.url("s2")]);
    daemons.ask("run 300");
    reader.until("{\"time\":");
    daemons.ask("kill-relay");
    let lost = reader.wait().expect(1);
    assert!(lost.stderr.contains("closed the connection; what has arrived was printed"), "{}", lost.stderr);
    let gone = lab.kymo(&["read", &daemons.url("s2")]).expect(2).stderr;
    assert!(gone.contains("does lttng-relayd run there?"), "{gone}");
}

/// What a server that sends these bytes makes of a verb: exit status and standard error.
fn of_server(lab: &Lab, bytes: &[u8]) -> (i32, String) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let bytes = bytes.to_vec();
    let server = std::thread::spawn(move || {
        let (mut connection, _) = listener.accept().expect("a viewer");
        let mut first = [0; 36];
        connection.read_exact(&mut first).expect("its first words");
        connection.write_all(&bytes).expect("an answer");
        // Who does not like the answer may have hung up already.
        let _ = connection.shutdown(Shutdown::Write);
        // What else the viewer says is read, or the connection would be reset.
        let _ = connection.read_to_end(&mut Vec::new());
    });
    let outcome = lab.kymo(&["read", &format!("net://127.0.0.1:{port}/host/h/s")]);
    server.join().expect("the server");
    (outcome.code, outcome.stderr)
}

#[test]
fn what_is_no_relay_daemon_is_refused() {
    let lab = Lab::new("live_hostile");
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
    let hello = words(&[0, 9, 2, 4, 1]);
    for (bytes, part) in [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), "speaks version"),
        (hello[..7].to_vec(), "closed the connection"),
        (hello.clone(), "closed the connection"),
        ([hello.clone(), words(&[u32::MAX])].concat(), "4294967295 sessions or streams"),
        ([hello.clone(), words(&[0])].concat(), "the relay daemon has no sessions"),
    ] {
        let (code, stderr) = of_server(&lab, &bytes);
        assert!(code == 2 && stderr.contains(part), "{part}: {code} {stderr}");
    }
    for (args, part) in [
        (&["read", "net://127.0.0.1:1"][..], "does lttng-relayd run there?"),
        (&["read", "net://127.0.0.1:no"], "the port is a number"),
        (&["read", "net://127.0.0.1/x"], "write net://HOST[:PORT]"),
        (&["read", "net://a", "net://b"], "is read alone"),
        (&["read", "--from", "+1s", "net://127.0.0.1:1"], "--from needs a trace that is there"),
        (&["stats", "net://127.0.0.1:1"], "kymo read prints it"),
    ] {
        let outcome = lab.kymo(args).expect(2);
        assert!(outcome.stderr.contains(part), "{part}: {}", outcome.stderr);
    }
}
