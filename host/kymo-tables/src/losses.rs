// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table `losses`: records that are missing, and damage.

use kymo_ctf::read::{Caveat, Item, Loss, Passed, Range, Reader, Severity};
use kymo_feed::clamp;
use kymo_index::range;

use crate::emit::{Emit, Ended};
use crate::known::{Cell, Known, Rows, columns};
use crate::open::Group;
use crate::scan::Scan;

pub(crate) const LOSSES: Known = Known {
    name: "losses",
    about: "Records that are missing, and what is damaged: a row each time that a packet tells of lost records, and a row \
            for each damaged place",
    columns: columns! {
        "time" Time "Not before this time; none of damage";
        "end_time" Time "Not after this time; none of damage";
        "kind" Words "lost (records are missing), damage (something could not be read), odd_time (times, or counts of losses, do not fit each other), remark, unreadable (a trace that could not be opened)";
        "records" Count "Records that were counted as lost";
        "packets" Count "Packets that are missing: what was in them is in records, or is not known";
        "cpu" Id "CPU of the packet that tells of it";
        "pid" Id "Process of that packet";
        "proc" Words "Name of that process";
        "host" Words "Machine that the trace is of";
        "trace" Words "Directory of its trace";
        "stream" Words "File of its stream";
        "what" Text "What is damaged, and where";
    },
};

/// Items between two questions whether somebody wants more.
const ASK_EVERY: u32 = 4096;

struct Sending<'s> {
    scan: &'s Scan,
    group: &'s Group,
    rows: &'s mut Rows,
}

/// Sends the rows of a group.
pub(crate) fn read(group: &Group, scan: &Scan, rows: &mut Rows, emit: &mut Emit) -> Result<(), Ended> {
    let mut sending = Sending { scan, group, rows };
    for caveat in group.caveats.iter().filter(|_| scan.part().0.is_none()) {
        sending.caveat(None, caveat);
    }
    for (path, why) in group.unreadable.iter().filter(|_| scan.part().0.is_none()) {
        sending.place(
            "unreadable",
            &[Cell::Null, path.to_string_lossy().as_ref().into(), Cell::Null, why.as_str().into()],
        );
    }
    let whole = group.indexes.whole();
    let has_none = |index: &&kymo_index::TraceIndex| index.streams.iter().all(|stream| stream.lost == [0; 3]);
    let is_sound = whole.is_some();
    if !whole.is_some_and(|whole| whole.iter().all(has_none)) {
        sending.losses(emit)?;
        // Damage has no time: it is in the first part.
        if !is_sound && scan.part().0.is_none() {
            sending.damage(emit)?;
        }
    }
    rows.send(emit)
}

impl Sending<'_> {
    fn losses(&mut self, emit: &mut Emit) -> Result<(), Ended> {
        let (part_from, part_to) = self.scan.part();
        let from = part_from.max(self.scan.end_from).max(self.scan.from);
        let to = [part_to, self.scan.to, self.scan.end_to].into_iter().flatten().min();
        let group = self.group;
        let to = group.read_to(to);
        let mut reader = range::reader(&group.traces, &group.indexes, from.map(i128::from), to.map(i128::from));
        let mut passed = 0u32;
        while let Some(item) = reader.pass() {
            passed = passed.wrapping_add(1);
            if passed % ASK_EVERY == 0 {
                emit.check()?;
            }
            if !matches!(item, Passed::Loss { .. }) {
                continue;
            }
            if let Some(Item::Loss(loss)) = reader.current() {
                self.loss(&loss);
            }
            if self.rows.is_full() {
                self.rows.send(emit)?;
            }
        }
        Ok(())
    }

    fn loss(&mut self, loss: &Loss<'_>) {
        let (from, to) = (clamp(loss.from_ns), clamp(loss.to_ns));
        let (part_from, part_to) = self.scan.part();
        let is_of_part = part_from.is_none_or(|from| to >= from) && part_to.is_none_or(|part| to < part);
        let scan = self.scan;
        if !is_of_part || !scan.wants_time(Some(from)) || !scan.wants_end(Some(to)) || !scan.wants_cpu(loss.cpu) {
            return;
        }
        self.rows.push(&[
            from.into(),
            to.into(),
            "lost".into(),
            loss.records.into(),
            loss.packets.into(),
            loss.cpu.into(),
            loss.vpid.into(),
            loss.procname.into(),
            self.group.host.as_str().into(),
            self.group.traces[loss.trace].label.as_str().into(),
            loss.stream.into(),
            Cell::Null,
        ]);
    }

    /// Reads all of it, to meet all damage there is.
    fn damage(&mut self, emit: &mut Emit) -> Result<(), Ended> {
        let scan = self.scan;
        if !scan.wants_time(None) || !scan.wants_end(None) || !scan.wants_cpu(None) {
            return Ok(());
        }
        let Some(mut reader) = Reader::between(&self.group.traces, Range::default(), &[]) else { return Ok(()) };
        let mut passed = 0u32;
        while reader.pass().is_some() {
            passed = passed.wrapping_add(1);
            if passed % ASK_EVERY == 0 {
                emit.check()?;
            }
        }
        for (trace, caveat) in reader.caveats() {
            self.caveat(Some(trace), caveat);
        }
        Ok(())
    }

    fn caveat(&mut self, trace: Option<usize>, caveat: &Caveat) {
        let kind = match caveat.damage.severity() {
            Severity::Unread => "damage",
            Severity::OddTime => "odd_time",
            Severity::Remark => "remark",
        };
        let label = trace.map_or("", |trace| self.group.traces[trace].label.as_str());
        let (group, what) = (self.group, caveat.to_string());
        self.place(
            kind,
            &[group.host.as_str().into(), label.into(), caveat.file.as_str().into(), what.as_str().into()],
        );
    }

    /// A row without a time: its last columns, from the machine on.
    fn place(&mut self, kind: &str, last: &[Cell<'_>; 4]) {
        if !self.scan.wants_time(None) || !self.scan.wants_end(None) || !self.scan.wants_cpu(None) {
            return;
        }
        let mut row = [Cell::Null; 12];
        row[2] = kind.into();
        row[8..].copy_from_slice(last);
        self.rows.push(&row);
    }
}
