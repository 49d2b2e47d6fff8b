// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who wrote a record is the same wherever reading begins, with an index and without, and is what the state says; also
//! where a fork, a new name, another program or a switch is among what was lost [spec/analyze.md 3.1].

use crate::common::lives;

use std::collections::BTreeSet;

use kymo_analyze::{Doing, State};
use kymo_ctf::read::{Item, Reader, Trace};
use kymo_feed::Classes;
use kymo_index::{How, Indexes, Named, Spacing, Stop, build, range};
use kymo_query::Learn;
use kymo_testing::{Random, setting};
use lives::LifePlan;

const HOW: How = How {
    anew: true,
    in_cache: false,
    spacing: Spacing { records: 40, share: 0 },
    spans: Some(kymo_query::named_spans),
};

/// A thread that is known: number, process, name.
type Known = BTreeSet<(u32, Option<u32>, String)>;

/// A record's time, and who wrote it.
type Line = (i128, String);

/// How a record is asked who wrote it.
#[derive(Clone, Copy, Debug)]
enum Ask {
    Own,
    Named,
    Whole,
}

/// Who wrote each record, and who is known before `until`.
fn read(reader: &mut Reader<'_>, mut learn: Learn, ask: Ask, until: Option<i128>) -> (Vec<Line>, Known) {
    let mut lines = Vec::new();
    while let Some(item) = reader.next() {
        match item {
            Item::Record(mut record) => {
                if until.is_some_and(|until| record.ns >= until) {
                    break;
                }
                let at = format!("{} {} {}", record.ns, record.stream, record.event.name);
                let mut names = None;
                match ask {
                    Ask::Own => learn.record(&mut record),
                    Ask::Named => names = learn.named_record(&mut record),
                    Ask::Whole => learn.whole_record(&mut record),
                }
                let who = format!("{}[{:?}/{:?}] {names:?}", record.procname, record.vpid, record.vtid);
                lines.push((record.ns, format!("{at}: {who}")));
            }
            Item::Loss(loss) if until.is_none_or(|until| loss.from_ns < until) => learn.loss(&loss),
            Item::Loss(_) => {}
        }
    }
    let known = learn.all().map(|(tid, who)| (tid, who.pid, who.name.to_owned())).collect();
    (lines, known)
}

fn read_from(traces: &[Trace], indexes: &Indexes, from: i64, ask: Ask) -> (Vec<Line>, State) {
    let classes = Classes::new(traces);
    let state = range::state_before(traces, &classes, indexes, from).state;
    let mut learn = Learn::new(traces).unwrap();
    learn.begin(&state);
    let mut reader = range::reader(traces, indexes, Some(from.into()), None);
    (read(&mut reader, learn, ask, None).0, state)
}

fn known(state: &State) -> Known {
    let living = state.threads().filter(|thread| thread.doing != Doing::Ended);
    let number = |number: i32| u32::try_from(number).unwrap();
    let all = living.map(|thread| (number(thread.tid), thread.process.map(number), thread.name.as_str().to_owned()));
    all.filter(|(_, pid, name)| pid.is_some() || !name.is_empty()).collect()
}

/// Time from which on the first state dump is in the state.
fn end_of_dump(traces: &[Trace]) -> i128 {
    let mut end = 0;
    let mut reader = Reader::new(traces);
    while let Some(item) = reader.next() {
        match item {
            Item::Record(record) if record.event.name.starts_with("lttng_statedump_") => end = record.ns,
            _ => {}
        }
    }
    end
}

fn check(plan: LifePlan) {
    let dir = tempfile::tempdir().unwrap();
    lives::write(dir.path(), plan).unwrap();
    let traces = vec![Trace::open(dir.path()).unwrap().value];
    let named = Named { dir: dir.path().to_owned(), parts: vec![dir.path().to_owned()] };
    build(&named, &traces, HOW, &Stop::new(), &|_| panic!("nobody else builds")).unwrap();
    let (with, without) = (Indexes::open(&[named], &traces), Indexes::default());
    assert!(with.states.as_ref().is_some_and(|states| states.checkpoints.len() > 5));
    let whole = |ask, until| read(&mut Reader::new(&traces), Learn::new(&traces).unwrap(), ask, until);
    let dumped = end_of_dump(&traces);
    let mut random = Random(plan.seed);
    for ask in [Ask::Own, Ask::Named, Ask::Whole] {
        let (lines, _) = whole(ask, None);
        let last = lines.last().unwrap().0 as u64;
        assert!(lines.len() as u64 > plan.records / 3, "{} lines", lines.len());
        for _ in 0..8 {
            let from = 1000 + random.below(last - 1000) as i64;
            let rest: Vec<&Line> = lines.iter().filter(|(ns, _)| *ns >= from.into()).collect();
            let (read_on, state) = read_from(&traces, &without, from, ask);
            let differs = rest.iter().zip(&read_on).find(|(one, other)| **one != *other);
            assert!(differs.is_none() && rest.len() == read_on.len(), "{plan:?} {ask:?} from {from}: {differs:?}");
            assert_eq!(read_from(&traces, &with, from, ask), (read_on, state.clone()), "{plan:?} {ask:?} from {from}");
            if i128::from(from) > dumped {
                assert_eq!(whole(ask, Some(from.into())).1, known(&state), "{plan:?} {ask:?} at {from}");
            }
        }
    }
}

#[test]
fn who_wrote_a_record_is_the_same_wherever_reading_begins() {
    for seed in 0..setting("KYMO_ROUNDS", 60) {
        let bit = |number: u64| seed >> number & 1 != 0;
        check(LifePlan {
            seed: setting("KYMO_SEED", 1) * 1000 + seed,
            records: 400,
            lossy: if seed % 5 == 0 { 0 } else { 12 },
            has_tid: bit(0),
            renames_have_tid: bit(1),
            has_origins: bit(2),
            has_renames: seed % 3 != 0,
        });
    }
}
