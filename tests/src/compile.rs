// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles C and C++ programs as a user would: the headers by -I, libkymo by name.
//!
//! Programs of programs/ that many tests build in the same way are compiled once a run: the others get copies.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::paths;

/// How a program is linked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    /// With libkymo.so, found again by rpath.
    Shared,
    /// With libkymo.a.
    Archive,
    /// Everything static.
    Static,
    /// A shared library of its own, with libkymo.so.
    Library,
}

/// A program to be compiled.
#[derive(Clone)]
pub struct Build {
    compiler: String,
    sources: Vec<PathBuf>,
    flags: Vec<String>,
    link: Link,
}

impl Build {
    /// From source files; names without a folder are those in programs/.
    pub fn new(sources: &[&str]) -> Build {
        let place = |name: &&str| if name.contains('/') { PathBuf::from(name) } else { paths::programs().join(name) };
        let is_cxx = sources.iter().any(|name| [".cc", ".cpp"].iter().any(|ending| name.ends_with(ending)));
        let flags = ["-O2", "-g", if is_cxx { "-std=c++17" } else { "-std=gnu11" }, "-Wall", "-Wextra"];
        Build {
            compiler: if is_cxx { "c++" } else { "cc" }.to_owned(),
            sources: sources.iter().map(place).collect(),
            flags: flags.map(str::to_owned).into(),
            link: Link::Shared,
        }
    }

    /// With another compiler.
    pub fn compiler(mut self, compiler: &str) -> Build {
        self.compiler = compiler.to_owned();
        self
    }

    /// With a further option.
    pub fn flag(mut self, flag: &str) -> Build {
        self.flags.push(flag.to_owned());
        self
    }

    /// Linked with libkymo.a.
    pub fn archive(mut self) -> Build {
        self.link = Link::Archive;
        self
    }

    /// A static executable.
    pub fn fully_static(mut self) -> Build {
        self.link = Link::Static;
        self
    }

    /// A shared library.
    pub fn library(mut self) -> Build {
        self.link = Link::Library;
        self
    }

    /// Compiles to `to`, and gives what the compiler said.
    pub fn output(&self, to: &Path) -> Output {
        let mut command = Command::new(&self.compiler);
        command.args(&self.flags).arg("-I").arg(paths::include()).arg("-I").arg(paths::programs());
        command.args(&self.sources).arg("-o").arg(to).env("LC_ALL", "C");
        let lib = paths::library();
        match self.link {
            Link::Shared | Link::Library => {
                if self.link == Link::Library {
                    command.args(["-shared", "-fPIC"]);
                }
                command.arg("-L").arg(lib).arg("-lkymo").arg(format!("-Wl,-rpath,{}", lib.display()));
            }
            Link::Archive => drop(command.arg(lib.join("libkymo.a"))),
            Link::Static => drop(command.arg("-static").arg(lib.join("libkymo.a"))),
        }
        command.args(["-pthread", "-ldl", "-lm"]);
        command.output().unwrap_or_else(|error| panic!("cannot run {}: {error}", self.compiler))
    }

    /// Compiles to `to`, or copies what was compiled before; warnings are as bad as errors.
    #[track_caller]
    pub fn to(&self, to: &Path) -> PathBuf {
        let Some(built) = self.built_once() else { return self.compile(to) };
        // By a process of its own: a file that this one has open for writing cannot be executed, and whatever another
        // test starts at that moment has it open, too.
        let copied = Command::new("cp").arg(built).arg(to).status();
        assert!(copied.is_ok_and(|status| status.success()), "{} cannot be written", to.display());
        to.to_owned()
    }

    /// The same program, compiled once in this run; none where the result could depend on who compiles it, and where.
    #[track_caller]
    pub fn built_once(&self) -> Option<PathBuf> {
        static BUILT: Mutex<BTreeMap<String, Arc<OnceLock<PathBuf>>>> = Mutex::new(BTreeMap::new());
        // Whatever names a path may mean a file that a test writes, or one that is made beside the program.
        let needs_files = |flag: &String| ["/", "split-dwarf", "save-temps"].iter().any(|part| flag.contains(part));
        let is_ours = |source: &PathBuf| source.parent() == Some(&*paths::programs());
        if !self.sources.iter().all(is_ours) || self.flags.iter().any(needs_files) || self.compiler.contains('/') {
            return None;
        }
        let key = format!("{} {:?} {:?} {:?}", self.compiler, self.flags, self.sources, self.link);
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let path = programs_dir().join(format!("{:016x}", hasher.finish()));
        let slot = Arc::clone(BUILT.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default());
        Some(slot.get_or_init(|| if path.exists() { path } else { self.compile(&path) }).clone())
    }

    /// Compiles to `to`; warnings are as bad as errors.
    #[track_caller]
    fn compile(&self, to: &Path) -> PathBuf {
        let output = self.output(to);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{} {:?} does not compile:\n{said}", self.compiler, self.sources);
        // The linker warns of static programs that call getaddrinfo and the like; that is not the compiler's warning.
        assert!(
            !said.contains("warning: ") || self.link == Link::Static,
            "{} {:?} warns:\n{said}",
            self.compiler,
            self.sources
        );
        to.to_owned()
    }
}

/// Where programs that several tests need are kept until the run ends, or where those are that the machine around a
/// virtual one has built.
pub fn programs_dir() -> &'static Path {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| {
        if let Some(given) = std::env::var_os("KYMO_TEST_PROGRAMS") {
            return PathBuf::from(given);
        }
        // Statics are not dropped: the next run removes what this one leaves.
        let all = std::env::temp_dir();
        let of = |pid: &str| all.join(format!("kymo-test-programs-{pid}"));
        let own = std::process::id().to_string();
        for name in std::fs::read_dir(&all).into_iter().flatten().flatten().map(|entry| entry.file_name()) {
            let pid = name.to_str().and_then(|name| name.strip_prefix("kymo-test-programs-"));
            if let Some(pid) = pid.filter(|pid| *pid == own || !Path::new("/proc").join(pid).exists()) {
                let _ = std::fs::remove_dir_all(of(pid));
            }
        }
        let dir = of(&own);
        std::fs::create_dir(&dir).expect("a directory for programs");
        dir
    })
}
