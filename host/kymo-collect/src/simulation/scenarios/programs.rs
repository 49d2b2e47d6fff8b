// SPDX-License-Identifier: MIT OR Apache-2.0
//! What programs are told: which events to switch on, and why they are not recorded.

use kymo_abi::wire::{ByeReason, DescEntry, FromCollector, FromProgram, Hello};
use kymo_abi::{ABI_VERSION, Clock, RingKind};

use super::super::outside::SharedLine;
use super::super::run::{MS, SECOND};
use super::super::session::Traits;
use super::super::stage::{Stage, event};
use crate::channel::Channel;
use crate::control::ToControl;
use crate::pattern::Patterns;
use crate::peer::TURN_MESSAGES;
use crate::runtime::SocketName;
use crate::summary::Outcome;
use crate::unknown::Missing;

fn described(index: u32, provider: &str, name: &str) -> DescEntry {
    DescEntry { index: Some(index), desc: event(provider, name) }
}

#[test]
fn only_wanted_events_are_switched_on_and_ids_are_shared() {
    let wanted = Patterns::new(&["fake:*".into(), "nothing:*".into()], &["fake:secret".into()]).unwrap();
    let mut stage = Stage::with(|config| config.patterns = wanted);
    let events = [("fake", "a"), ("fake", "secret"), ("other", "a"), ("fake", "a"), ("fake", "b")];
    let list = events.iter().enumerate().map(|(index, (provider, name))| described(index as u32, provider, name));
    let hello = FromProgram::Hello(stage.hello(RingKind::Rseq));
    let said = [hello, FromProgram::Descs(list.collect()), FromProgram::DescsEnd { generation: 3 }];
    let mut program = stage.say_to(0, &said);
    assert!(matches!(program.hear(), Some(FromCollector::Attach { .. })));
    assert_eq!(program.hear(), Some(FromCollector::Enable(vec![(0, 1), (3, 1), (4, 2)])));
    assert_eq!(program.hear(), Some(FromCollector::Go { generation: 3 }));
    // A library comes with an event that is known, and one that is new; another goes.
    program.say(&FromProgram::Gone(vec![4]));
    program.say(&FromProgram::Descs(vec![described(9, "fake", "b"), described(10, "fake", "c")]));
    program.say(&FromProgram::DescsEnd { generation: 4 });
    stage.run_for(MS);
    assert_eq!(program.hear(), Some(FromCollector::Enable(vec![(9, 2), (10, 3)])));
    assert_eq!(program.hear(), Some(FromCollector::Go { generation: 4 }));
    assert_eq!(program.hear(), None);
    drop(program);
    let summary = stage.end(0).summary;
    let seen: Vec<_> = summary.events.iter().map(|event| (event.name.as_str(), event.wanted)).collect();
    let expect = [("fake:a", true), ("fake:b", true), ("fake:c", true), ("fake:secret", false), ("other:a", false)];
    assert_eq!(seen, expect);
}

#[test]
fn programs_outside_of_the_scope_are_sent_away() {
    let mut stage = Stage::with(|_| {});
    let hello = stage.hello(RingKind::Rseq);
    let mut program = stage.introduce(0, hello);
    let pid = program.line.get().pid;
    stage.session().hall.lock().unwrap().out_of_scope = vec![pid];
    stage.run_for(MS);
    assert_eq!(program.hear_bye().0, ByeReason::Scope);
    let inside = stage.program();
    assert_eq!(stage.record(&inside, 0, 1), 1);
    drop((program, inside));
    let summary = stage.end(0).summary;
    assert_eq!(summary.processes[0].outcome, Outcome::OutOfScope);
    assert_eq!((summary.records, summary.recorded_count, summary.unknown_count), (1, 1, 0));
}

#[test]
fn programs_that_do_not_fit_are_told_why() {
    let mut stage = Stage::with(|_| {});
    let mut check = |change: &dyn Fn(&mut Hello), expect: &str| {
        let mut hello = stage.hello(RingKind::Rseq);
        change(&mut hello);
        let mut program = stage.introduce(0, hello);
        stage.run_for(MS);
        let (reason, text) = program.hear_bye();
        assert!(reason == ByeReason::Version && text.contains(expect), "{reason:?} {text}");
    };
    check(&|hello| hello.abi = 9, &format!("ABI 9, this kymo has ABI {ABI_VERSION}"));
    check(&|hello| hello.kind = 7, "kind 7");
    check(&|hello| hello.clock = Clock::Tsc.code(), Clock::Tsc.name());
    let summary = stage.end(0).summary;
    assert_eq!((summary.processes.len(), summary.recorded_count), (3, 0));
}

/// On either channel, and again: it is one program. `Case::check` fails where it is listed twice.
#[test]
fn a_program_that_is_refused_again_is_listed_once() {
    let traits = Traits { is_flight: true, has_rare: true, ..Traits::default() };
    let rare = Patterns::new(&["actor:rare".into()], &[]).unwrap();
    let mut stage = Stage::of(traits, |config| config.rare = Some(rare));
    let mut hello = stage.hello(RingKind::Rseq);
    hello.abi = 9;
    for channel in [Channel::Main, Channel::Rare, Channel::Main] {
        let mut program = stage.introduce_on(0, channel, hello.clone());
        stage.run_for(MS);
        assert_eq!(program.hear_bye().0, ByeReason::Version);
        drop(program);
        stage.run_for(MS);
    }
    let summary = stage.end(0).summary;
    assert_eq!((summary.processes.len(), summary.process_count, summary.unknown_count), (1, 1, 1));
}

#[test]
fn a_program_that_did_not_wait_for_its_rings_is_reported() {
    let mut stage = Stage::with(|_| {});
    let hello = stage.hello(RingKind::Rseq);
    let program = stage.introduce(0, hello);
    program.say(&FromProgram::Late { generation: 1 });
    let program = stage.give_rings(program, true);
    assert_eq!(stage.record(&program, 0, 3), 3);
    drop(program);
    let summary = stage.end(0).summary;
    let unknown: Vec<_> = summary.unknown.iter().map(|entry| (entry.process, entry.what)).collect();
    assert_eq!((summary.records, unknown), (3, vec![(Some(0), Missing::Beginning)]));
    assert_eq!(summary.lost, None, "how many are missing is not known");
}

/// What a program said at last is read, whatever it has not read, and whether or not it can still be told something.
#[test]
fn a_program_that_ended_before_it_was_answered_is_reported() {
    let late = FromProgram::Late { generation: 1 };
    let missing = |stage: &mut Stage| {
        let summary = stage.end(0).summary;
        summary.unknown.iter().map(|entry| (entry.process, entry.what)).collect::<Vec<_>>()
    };
    let mut stage = Stage::with(|_| {});
    let hello = stage.hello(RingKind::Rseq);
    let program = stage.introduce(0, hello);
    stage.run_for(MS);
    program.say(&late);
    drop(program);
    assert_eq!(missing(&mut stage), [(Some(0), Missing::Program)], "it has not read what it was sent");

    let mut stage = Stage::with(|_| {});
    let mut said = vec![FromProgram::Hello(stage.hello(RingKind::Rseq))];
    said.extend([FromProgram::Descs(vec![described(0, "fake", "a")]), FromProgram::DescsEnd { generation: 1 }]);
    // More than is read in one turn, so that the answer is tried in between.
    said.extend((0..TURN_MESSAGES as u32).map(|n| FromProgram::Descs(vec![described(1 + n, "fake", "b")])));
    said.push(late);
    let program = stage.connect(0);
    said.iter().for_each(|message| program.say(message));
    drop(program);
    assert_eq!(missing(&mut stage), [(Some(0), Missing::Program)], "it cannot be sent anything");
}

#[test]
fn a_program_that_came_by_itself_is_not_visited() {
    let mut stage = Stage::with(|_| {});
    let socket = |hello: &Hello| (0, SocketName(format!("p.{}.{:x}", hello.pid, hello.nonce)));
    let hello = stage.hello(RingKind::Rseq);
    let came = stage.attach(0, hello.clone());
    let other = stage.hello(RingKind::Rseq);
    for socket in [socket(&hello), socket(&other)] {
        let mut hall = stage.session().hall.lock().unwrap();
        hall.sockets.push(socket.clone());
        hall.new_sockets.push(socket);
    }
    stage.run_for(5 * SECOND);
    let visits: Vec<(u32, SharedLine)> = std::mem::take(&mut stage.session().hall.lock().unwrap().visits);
    let nonces: Vec<u32> = visits.iter().map(|(nonce, _)| *nonce).collect();
    assert_eq!(nonces, [other.nonce]);
    drop(came);
    stage.end(0);
}

/// FILTERED is an answer: who was told of no filter has nothing to refuse, and what is refused often is listed once.
#[test]
fn refused_filters_are_listed_and_bounded() {
    let mut stage = Stage::with(|config| config.filters = vec![kymo_filter::parse("many:*: n == 1").unwrap()]);
    let list = (0..150).map(|index| described(index, "many", &format!("e{index}"))).collect();
    let hello = FromProgram::Hello(stage.hello(RingKind::Rseq));
    let mut program = stage.say_to(0, &[hello, FromProgram::Descs(list), FromProgram::DescsEnd { generation: 1 }]);
    while !matches!(stage.wait_for(&mut program), FromCollector::Go { .. }) {}
    for index in 0..150 {
        for error in [12, 12, 22] {
            program.say(&FromProgram::Filtered { index, error });
        }
    }
    // Of an event that it does not have: its library may have gone.
    program.say(&FromProgram::Filtered { index: 5000, error: 12 });
    let hello = FromProgram::Hello(stage.hello(RingKind::Rseq));
    let refusal = FromProgram::Filtered { index: 7, error: 12 };
    let mut other = stage.say_to(0, &[hello, FromProgram::Descs(vec![described(7, "none", "such")]), refusal]);
    let (reason, text) = other.hear_bye();
    assert!(reason == ByeReason::Protocol && text.contains("has no filter"), "{reason:?} {text}");
    stage.run_for(SECOND);
    let view = stage.ask(ToControl::View);
    assert_eq!(view.programs.iter().map(|program| program.unfiltered.len()).max(), Some(20));
    program.say(&FromProgram::DescsEnd { generation: 2 });
    stage.run_for(MS);
    assert_eq!(program.hear(), Some(FromCollector::Go { generation: 2 }));
    drop((program, other));
    let summary = stage.end(0).summary;
    assert_eq!((summary.unfiltered.len(), summary.unfiltered_count), (100, 150));
    assert!(summary.unfiltered[0].why.contains("8 MiB"), "{:?}", summary.unfiltered[0]);
}
