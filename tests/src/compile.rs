// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles C and C++ programs as a user would: the headers by -I, libkymo by name.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::paths;

/// How a program is linked.
#[derive(Clone, Copy, PartialEq, Eq)]
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

    /// Compiles to `to`; warnings are as bad as errors.
    #[track_caller]
    pub fn to(&self, to: &Path) -> PathBuf {
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
