// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo list`, `kymo docs`, and the forms of `kymo read` that scripts use.

use kymo_tests::{Build, Lab, Ring, has, skip};
use rustix::process::Signal;
use serde_json::Value;

#[test]
fn running_programs_and_their_events() {
    let mut lab = Lab::new("list_running");
    let none = lab.kymo(&["list"]);
    assert_eq!((none.code, none.stdout.as_str()), (1, ""));
    assert!(
        none.stderr.contains("no running program") && none.stderr.contains("kymo record -- ./program"),
        "{}",
        none.stderr
    );
    let program = lab.cc("runner.c");
    let mut procs = Vec::new();
    for ring in Ring::BOTH {
        lab.ring(ring);
        let proc = lab.spawn(&program, &[]);
        proc.until("ready");
        procs.push(proc);
    }
    lab.wait_for("two sockets", || (lab.sockets("p.").len() == 2).then_some(()));
    let text = lab.kymo(&["list"]).expect(0).stdout;
    for (proc, ring) in procs.iter().zip(Ring::BOTH) {
        let line = text.lines().find(|line| line.trim_start().starts_with(&proc.pid().to_string()));
        let line = line.unwrap_or_else(|| panic!("process {} is not in:\n{text}", proc.pid()));
        assert!(
            line.contains("runner") && line.contains(ring.name()) && line.contains(program.to_str().unwrap()),
            "{line}"
        );
    }
    let events = lab.kymo(&["list", "-v"]).expect(0).stdout;
    assert_eq!(events.matches("runner:rec").count(), 2, "{events}");
    assert!(events.contains("u64 n") && events.contains("u64 check"), "{events}");
    let json: Value = serde_json::from_str(&lab.kymo(&["list", "--json"]).expect(0).stdout).unwrap();
    let ours: Vec<&Value> = json.as_array().unwrap().iter().filter(|of| of["comm"] == "runner").collect();
    assert_eq!(ours.len(), 2);
    assert!(
        ours.iter().all(|of| of["events"][0]["name"] == "runner:rec" && of["events"][0]["fields"][0]["type"] == "u64")
    );
    // By pattern, and what is near one that matches nothing.
    assert!(lab.kymo(&["list", "runner:*"]).expect(0).stdout.contains("runner:rec"));
    let none = lab.kymo(&["list", "runer:rec"]).expect(1);
    assert!(none.stderr.contains("near it: runner:rec"), "{}", none.stderr);
    // They were looked at, and run on; they end, and are gone.
    for proc in procs {
        assert!(proc.is_running());
        proc.wait().expect(0);
    }
    lab.kymo(&["list"]).expect(1);
}

/// A program that was killed leaves its socket: nobody is misled by it, and it goes.
#[test]
fn sockets_of_dead_programs_go() {
    let lab = Lab::new("leftovers");
    let program = lab.cc("runner.c");
    let proc = lab.spawn(&program, &[]);
    proc.until("ready");
    lab.wait_for("a socket", || (lab.sockets("p.").len() == 1).then_some(()));
    proc.end(Signal::KILL).expect(137);
    assert_eq!(lab.sockets("p.").len(), 1, "killed programs cannot clean up");
    lab.wait_for("the leftover to go", || {
        lab.kymo(&["list"]);
        lab.sockets("p.").is_empty().then_some(())
    });
    lab.kymo(&["list"]).expect(1);
    // A session does the same.
    let proc = lab.spawn(&program, &[]);
    proc.until("ready");
    lab.wait_for("a socket", || (lab.sockets("p.").len() == 1).then_some(()));
    proc.end(Signal::KILL).expect(137);
    let session = lab.record("trace").attach();
    session.end(Signal::INT).expect(1);
    // And so does a program, once the leftover cannot be one that is about to listen.
    lab.wait_for("the leftover to go by a later program", || {
        lab.run(&program, &[]).expect(0);
        lab.sockets("").is_empty().then_some(())
    });
}

#[test]
fn events_of_a_file_without_running_it() {
    let lab = Lab::new("list_file");
    let shared = lab.build(&Build::new(&["shared_1.c", "shared_2.c"]), "shared");
    let listed = lab.kymo(&["list", shared.to_str().unwrap()]).expect(0).stdout;
    assert_eq!((listed.matches("shared:work").count(), listed.matches("shared:note").count()), (1, 1), "{listed}");
    assert!(listed.contains("shared_events.h") && listed.contains("first 1, second 2"), "{listed}");
    let json: Value =
        serde_json::from_str(&lab.kymo(&["list", "--json", shared.to_str().unwrap()]).expect(0).stdout).unwrap();
    assert_eq!(json[0]["events"].as_array().unwrap().len(), 2);
    // Objects, archives' members and libraries have the section as well; stripping keeps it.
    let library = lab.build(&Build::new(&["plugin.c"]).library().flag("-DTAG=1"), "plug.so");
    assert!(lab.kymo(&["list", library.to_str().unwrap()]).expect(0).stdout.contains("plug:rec"));
    assert!(std::process::Command::new("strip").arg(&shared).status().unwrap().success());
    assert!(lab.kymo(&["list", shared.to_str().unwrap()]).expect(0).stdout.contains("shared:work"));
    let none = lab.kymo(&["list", "/bin/true"]).expect(1);
    assert!(none.stderr.contains("no tracepoints of kymo") && none.stderr.contains("--with malloc"), "{}", none.stderr);
    let text = lab.write("text", "not an ELF file");
    let none = lab.kymo(&["list", text.to_str().unwrap()]).expect(2);
    assert!(none.stderr.contains("not an executable"), "{}", none.stderr);
}

#[test]
fn pages_and_completions_are_made() {
    let lab = Lab::new("docs");
    let docs = lab.path("docs");
    let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    lab.kymo(&["docs", docs.to_str().unwrap(), "--sources", sources]).expect(0);
    let pages =
        ["man1/kymo.1", "man1/kymo-record.1", "man1/kymo-list.1", "man3/kymo-tracepoint.3", "man7/kymo-filter.7"];
    for page in pages {
        let path = docs.join(page);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{page}: {error}"));
        assert!(text.contains(".TH"), "{page}");
        if has("man") {
            let shown = lab.run("man", &["-l", "--warnings", path.to_str().unwrap()]).expect(0);
            assert!(shown.stdout.contains("NAME") && shown.stderr.is_empty(), "{page}: {}", shown.stderr);
        }
    }
    if !has("man") {
        skip("pages_and_completions_are_made", "no man, so pages are not shown");
    }
    let bash = docs.join("bash/kymo.bash");
    lab.run("bash", &["-n", bash.to_str().unwrap()]).expect(0);
    for file in ["zsh/_kymo", "fish/kymo.fish"] {
        let text = std::fs::read_to_string(docs.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(text.contains("kymo") && text.contains("__complete"), "{file}");
    }
}

/// Strings that JSON must escape, one object a line.
#[test]
fn every_line_of_json_is_valid() {
    let lab = Lab::new("json");
    let program = lab.cc_text("odd", "#include \"common.h\"\nKYMO_EVENT(odd, text, (str, text), (f64, value))\n\
        int main(void) { char c[2] = \"x\"; for (int i = 1; i < 256; i++) { c[0] = (char)i; kymo_trace(odd, text, c, i * 1e300 * 1e10); }\n\
        kymo_trace(odd, text, \"\\xff\\xfe broken \\xe2\\x82\", 0.0); kymo_trace(odd, text, \"\\xed\\xa0\\x80 surrogate\", 0.0); return 0; }\n");
    let recorded = lab.record("trace").run(&[program.to_str().unwrap()]).expect(0).lossless();
    // Lab::read parses each line; text that is not UTF-8 comes with replacement characters.
    let read = recorded.read(&lab);
    assert_eq!(read.records.len(), 257);
    for (at, record) in read.records[..127].iter().enumerate() {
        assert_eq!(record.fields["text"].as_str().unwrap().as_bytes(), [at as u8 + 1]);
    }
    assert!(read.records[255].fields["text"].as_str().unwrap().contains(" broken "));
    // The text form shows no control character: a trace cannot drive a terminal.
    let text = lab.kymo(&["read", recorded.dir.to_str().unwrap()]).expect(0).stdout;
    assert_eq!(text.lines().count(), 257);
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "control characters in the text form");
    // Both forms stop quietly when nobody reads on.
    let script = format!(
        "{} read --json {} | head -n 1 >/dev/null; echo ${{PIPESTATUS[0]}}",
        kymo_tests::paths::kymo().display(),
        recorded.dir.display()
    );
    let status = lab.run("bash", &["-c", &script]).stdout;
    assert!(["0", "141"].contains(&status.trim()), "{status}");
}
