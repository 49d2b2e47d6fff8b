// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data: cases/NAME.c and what `kymo read` must print of it, cases/NAME.expect; compile-fail/NAME.c and what compilers
//! must say. The name of a case is what it asserts.
//!
//! A case's first lines say how: `/* read: OPTIONS */`, `/* record: OPTIONS */`. In compile-fail, a line of the .expect
//! file is `COMPILER: TEXT` or TEXT for all of them; `|` stands between texts of which one will do; `(one error)` means
//! one error and no more. `KYMO_BLESS=1` writes what is printed to the .expect files of cases; read the difference
//! before you keep it.

use std::path::{Path, PathBuf};

use kymo_tests::{Build, Lab, Ring, has, skip};

/// Source files in a folder of this crate, by name.
fn sources(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let entries = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let mut sources: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|of| of == "c")).collect();
    sources.sort();
    assert!(!sources.is_empty(), "no case in {}", folder.display());
    sources
}

/// The words behind `/* name: ` in the case's first lines.
fn options<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let line = text
        .lines()
        .take(4)
        .find_map(|line| line.strip_prefix("/* ")?.strip_suffix(" */")?.strip_prefix(name)?.strip_prefix(": "));
    line.map(|words| words.split_whitespace().collect()).unwrap_or_default()
}

#[test]
fn cases() {
    let mut failed = Vec::new();
    for source in sources("cases") {
        let name = source.file_stem().unwrap().to_str().unwrap().to_owned();
        let text = std::fs::read_to_string(&source).unwrap();
        let expect = std::fs::read_to_string(source.with_extension("expect")).unwrap_or_default();
        for ring in Ring::BOTH {
            for format in [&[][..], &["--ctf2"]] {
                let mut lab = Lab::new(&name);
                lab.ring(ring);
                let program = lab.build(&Build::new(&[source.to_str().unwrap()]), "program");
                let mut record = options(&text, "record");
                record.extend_from_slice(format);
                record.extend_from_slice(&["--memory", "16G"]);
                let recorded = lab.record("trace").args(&record).run(&[program.to_str().unwrap()]).expect(0).lossless();
                let mut read = vec!["read"];
                read.extend(options(&text, "read"));
                read.push(recorded.dir.to_str().unwrap());
                let got = lab.kymo(&read).expect(0).stdout;
                if ring == Ring::Rseq {
                    let (from, to) = (recorded.dir.to_str().unwrap(), lab.path("exported"));
                    lab.kymo(&["export", from, "--format", "ctf", "-o", to.to_str().unwrap()]).expect(0);
                    read.pop();
                    read.push(to.to_str().unwrap());
                    assert_eq!(lab.kymo(&read).expect(0).stdout, got, "{name}, exported as CTF");
                }
                if std::env::var_os("KYMO_BLESS").is_some() {
                    std::fs::write(source.with_extension("expect"), &got).unwrap();
                } else if got != expect {
                    let said = &recorded.outcome.stderr;
                    failed.push(format!("{name} ({ring:?} {format:?}): expected\n{expect}and got\n{got}{said}"));
                }
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// The texts that `compiler` must say one of, for each line of an .expect file that concerns it.
fn wanted<'a>(expect: &'a str, compiler: &str) -> Vec<Vec<&'a str>> {
    let compilers = ["gcc", "g++", "clang", "clang++"];
    let owner = |line: &'a str| line.split_once(": ").filter(|(owner, _)| compilers.contains(owner));
    let exact: Vec<&str> =
        expect.lines().filter_map(owner).filter(|(owner, _)| *owner == compiler).map(|(_, text)| text).collect();
    // What gcc says, g++ says as well, unless it has a line of its own.
    let relative = if compiler.starts_with("clang") { "clang" } else { "gcc" };
    let related: Vec<&str> =
        expect.lines().filter_map(owner).filter(|(owner, _)| *owner == relative).map(|(_, text)| text).collect();
    let common = expect.lines().filter(|line| owner(line).is_none());
    common.chain(if exact.is_empty() { related } else { exact }).map(|line| line.split('|').collect()).collect()
}

#[test]
fn what_must_not_compile() {
    let lab = Lab::new("compile_fail");
    let mut failed = Vec::new();
    for (compiler, language) in [("gcc", "-xc"), ("clang", "-xc"), ("g++", "-xc++"), ("clang++", "-xc++")] {
        if !has(compiler) {
            skip("what_must_not_compile", &format!("no {compiler}"));
            continue;
        }
        let standard = if language == "-xc" { "-std=c11" } else { "-std=c++17" };
        for source in sources("compile-fail") {
            let name = source.file_stem().unwrap().to_str().unwrap().to_owned();
            let expect = std::fs::read_to_string(source.with_extension("expect")).unwrap();
            let mut command = lab.command(compiler);
            command.args([language, standard, "-c", "-Werror=int-conversion", "-o", "/dev/null", "-I"]);
            command.arg(kymo_tests::paths::include()).arg(&source).env("LC_ALL", "C");
            let outcome = lab.start(command).wait();
            let said = outcome.stderr.replace(['‘', '’'], "'");
            let wanted = wanted(&expect, compiler);
            // A language in which the mistake is none has nothing to say.
            if wanted.iter().flatten().any(|text| *text == "(compiles)") {
                assert_eq!(outcome.code, 0, "{name} with {compiler}:\n{said}");
                continue;
            }
            let is_said = |text: &&str| match *text {
                "(one error)" => said.matches("error: ").count() == 1 && said.lines().count() < 50,
                text => said.contains(text),
            };
            let all_said = wanted.iter().all(|texts| texts.iter().any(is_said));
            if outcome.code == 0 || !all_said || wanted.is_empty() {
                failed.push(format!(
                    "{name} with {compiler} (ended with {}): not {wanted:?} but\n{said:.1500}",
                    outcome.code
                ));
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
