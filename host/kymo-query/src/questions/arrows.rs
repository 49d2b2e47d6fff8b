// SPDX-License-Identifier: MIT OR Apache-2.0
//! Wake-ups, as arrows from who wakes to where the woken thread runs [spec/view.md 4.8].

pub(super) mod index;
pub(super) mod pass;

use kymo_index::WakeArrow;

use crate::columns::{Answer, Table};
use crate::doing::{self, By};
use crate::error::Error;
use crate::opened::Opened;
use crate::parameters::Parameters;
use crate::people::People;
use crate::questions::arrows::index::indexed;
use crate::questions::arrows::pass::ArrowPass;
use crate::questions::begun::{begin, doubt_bits};
use crate::walk::{Stop, Walk};

/// Answers `arrows`.
///
/// # Errors
/// Parameters; a trace without the scheduler's events.
pub fn arrows(of: &Opened, parameters: &mut Parameters, stop: &Stop) -> Result<Answer, Error> {
    let window = parameters.window(of)?;
    let (tids, limit) = (parameters.tids()?, parameters.limit(2000)?);
    if !of.has_switches() {
        return Err(Error::no_switches());
    }
    let (tids, mut notes) = (tids.as_deref(), Vec::new());
    let (mut pass, walked, source) = match indexed(of, window, (tids, limit), &mut notes, stop)? {
        Some((pass, walked)) => (pass, walked, "index"),
        None => {
            let mut pass = ArrowPass::new(tids, limit);
            let walked = Walk::new(of, window).run(&mut pass, stop)?;
            (pass, walked, "records")
        }
    };
    pass.longest.cut();
    pass.people.finish(&walked.state);
    let mut list = pass.longest.list;
    let mut answer = begin("arrows", of, window);
    answer.set("source", source);
    answer.set("total", pass.total);
    answer.set("left_out", pass.total.map(|total| total.saturating_sub(list.len() as u64)));
    answer.notes.extend(notes);
    list.sort_by_key(|arrow| (arrow.at, arrow.tid, arrow.rank()));
    let table = table(&mut answer, &list, &pass.people);
    answer.push(table);
    walked.tell(&mut answer);
    Ok(answer)
}

fn table(answer: &mut Answer, list: &[WakeArrow], people: &People) -> Table {
    let (mut wakers, mut names) = (Vec::new(), Vec::new());
    for arrow in list {
        let by = doing::by_waker(&arrow.waker);
        let waker = match by {
            Some(By::Thread(tid)) => people.name(tid, arrow.at).to_string(),
            Some(by) => by.other().unwrap_or_default(),
            None => String::new(),
        };
        wakers.push(answer.texts.name(&waker));
        names.push(answer.texts.name(people.name(arrow.tid, arrow.at).as_str()));
    }
    let by = |arrow: &WakeArrow| doing::by_waker(&arrow.waker).and_then(By::tid);
    Table::new("arrows")
        .column("at", list.iter().map(|arrow| answer.time(arrow.at)))
        .column("from_cpu", list.iter().map(|arrow| Some(arrow.waker.cpu).filter(|cpu| *cpu != u32::MAX)))
        .column("from_tid", list.iter().map(by))
        .column("from_name", wakers)
        .column("tid", list.iter().map(|arrow| arrow.tid))
        .column("name", names)
        .column("runs_at", list.iter().map(|arrow| arrow.cpu.map(|_| answer.time(arrow.to))))
        .column("cpu", list.iter().map(|arrow| arrow.cpu))
        .column("wait_ns", list.iter().map(|arrow| arrow.wait_ns()))
        .column("doubt", list.iter().map(|arrow| doubt_bits(arrow.doubt)))
}
