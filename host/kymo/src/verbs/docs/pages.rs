// SPDX-License-Identifier: MIT OR Apache-2.0
//! The man pages that are made from the project's Markdown: which, from what, and under what name.

use std::path::Path;

use anyhow::Context as _;

use super::roff;

/// A page.
pub struct Page {
    /// `kymo-NAME(SECTION)`.
    pub name: &'static str,
    /// 3: for programmers in C. 7: all else.
    pub section: u8,
    /// File of the source tree.
    pub source: &'static str,
    /// What `apropos` shows.
    pub about: &'static str,
}

const fn page(name: &'static str, section: u8, source: &'static str, about: &'static str) -> Page {
    Page { name, section, source, about }
}

/// All that help texts, messages and other pages refer to.
pub const PAGES: [Page; 23] = [
    page("analyze", 7, "spec/analyze.md", "state of a machine, latencies, critical paths and causes"),
    page("containers", 7, "docs/containers.md", "tracing programs in containers"),
    page("context", 7, "spec/context.md", "contexts of records: priority, cgroup, call stack, counters"),
    page("event", 7, "spec/event.md", "declaration, description and encoding of events"),
    page("exchange", 7, "spec/exchange.md", "formats of other tools, for export and import"),
    page("filter", 7, "spec/filter.md", "the filter language"),
    page("flight", 7, "spec/flight.md", "flight recorder: snapshots and triggers"),
    page("hosts", 7, "spec/hosts.md", "traces of several hosts on one clock"),
    page("index", 7, "spec/index.md", "the index of a trace"),
    page("kernel", 7, "spec/kernel.md", "events of the kernel, probes, and their names in traces"),
    page("lab", 7, "spec/lab.md", "latency tests, their results and statistics"),
    page("lake", 7, "spec/lake.md", "a lake: tables of many traces as Parquet files"),
    page("posix", 7, "docs/posix.md", "POSIX Trace"),
    page("read", 7, "spec/read.md", "how traces are read, and what happens with damaged ones"),
    page("recording", 7, "docs/record.md", "recording by task: programs, kernel, functions"),
    page("ring", 7, "spec/ring.md", "ring buffers between programs and collectors"),
    page("security", 7, "docs/security.md", "who can record what, and what is trusted"),
    page("session", 7, "spec/session.md", "sessions: programs, memory, losses and rotation"),
    page("sql", 7, "docs/sql.md", "SQL queries of traces: tables, examples, results"),
    page("target", 7, "docs/target.md", "small targets without an operating system"),
    page("trace", 7, "spec/trace.md", "the trace format (CTF)"),
    page("tracepoint", 3, "docs/tracepoint.md", "tracepoints in C and C++"),
    page("view", 7, "spec/view.md", "the protocol of the viewer: questions and answers over HTTP"),
];

impl Page {
    /// `man7/kymo-filter.7`.
    pub fn path(&self) -> String {
        format!("man{0}/kymo-{1}.{0}", self.section, self.name)
    }

    /// The page in roff, from its source.
    pub fn render(&self, source: &str, version: &str) -> String {
        let title = format!("kymo-{}", self.name);
        let head = format!(
            ".TH {} {} \"\" \"kymo {version}\" \"kymo\"\n.SH NAME\n{} \\- {}\n",
            roff::text(&title.to_uppercase()),
            self.section,
            roff::text(&title),
            roff::text(self.about)
        );
        head + &roff::body(source, &link) + ".SH SEE ALSO\n.BR kymo (1)\n"
    }
}

/// What a link or a mention of a file is in a page: the page that is made from it.
fn link(target: &str) -> Option<String> {
    let file = target.split('#').next().unwrap_or_default().rsplit('/').next().unwrap_or_default();
    let is_it = |page: &&Page| page.source.rsplit('/').next() == Some(file);
    PAGES.iter().find(is_it).map(|page| format!("kymo-{}({})", page.name, page.section))
}

/// Writes all pages below `dir`, from the source tree `root`.
pub fn write(root: &Path, dir: &Path) -> anyhow::Result<()> {
    for page in &PAGES {
        let from = root.join(page.source);
        let source = std::fs::read_to_string(&from).with_context(|| format!("cannot read {}", from.display()))?;
        let to = dir.join(page.path());
        let above = to.parent().unwrap_or(dir);
        std::fs::create_dir_all(above).with_context(|| format!("cannot make {}", above.display()))?;
        std::fs::write(&to, page.render(&source, env!("CARGO_PKG_VERSION")))
            .with_context(|| format!("cannot write {}", to.display()))?;
    }
    Ok(())
}
