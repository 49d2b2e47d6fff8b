// SPDX-License-Identifier: MIT OR Apache-2.0
//! Asking running programs for their events, without a session: `kymo list`.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use kymo_abi::RingKind;
use kymo_abi::desc::{self, Desc, EnumDesc, EventDesc};
use kymo_abi::wire::FromProgram;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::runtime::RuntimeDir;
use crate::socket::{self, PACKET_ROOM};

/// Messages that are read from one program.
const MESSAGES_MAX: usize = 100_000;

/// A program that can be traced now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningProgram {
    /// Process id by the kernel's word; 0 where it is not visible from here.
    pub pid: u32,
    /// User.
    pub uid: u32,
    /// Process id, as the process sees itself.
    pub vpid: u32,
    /// Name of the process.
    pub comm: String,
    /// Executable.
    pub exe: String,
    /// How it writes its rings; `None` where it did not say something that we know.
    pub ring: Option<RingKind>,
    /// Its events, in the order in which it names them, equal ones once.
    pub events: Vec<EventDesc>,
    /// Its enumerations.
    pub enums: Vec<EnumDesc>,
    /// Why what is above is not complete, if so.
    pub caveat: Option<String>,
}

/// The programs of `dirs`, each of which has `patience` to answer. Sockets of the dead are removed on the way.
pub fn running(dirs: &[RuntimeDir], patience: Duration) -> Vec<RunningProgram> {
    let mut found = Vec::new();
    for dir in dirs {
        dir.remove_dead_sessions();
        for name in dir.programs() {
            match dir.connect(&name) {
                Ok(socket) => {
                    let answer = ask(socket, name.pid(), dir.uid(), patience);
                    // What ended while it was asked is not a program that runs.
                    let is_cut = answer.as_ref().is_some_and(|program| program.caveat.is_some());
                    match is_cut.then(|| dir.connect(&name)) {
                        Some(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
                            dir.remove_leftover(&name);
                        }
                        _ => found.extend(answer),
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    dir.remove_leftover(&name);
                }
                Err(_) => {}
            }
        }
    }
    found.sort_by_key(|program| (program.pid, program.vpid));
    found
}

/// One program; `None` where somebody else than the directory's owner is behind the socket.
fn ask(socket: OwnedFd, vpid: u32, uid: u32, patience: Duration) -> Option<RunningProgram> {
    let id = socket::peer(&socket).ok().filter(|id| id.uid == uid)?;
    let mut program = RunningProgram {
        pid: id.pid,
        uid,
        vpid,
        comm: String::new(),
        exe: String::new(),
        ring: None,
        events: Vec::new(),
        enums: Vec::new(),
        caveat: None,
    };
    program.caveat = listen(&socket, &mut program, Instant::now() + patience).err();
    Some(program)
}

fn listen(socket: &OwnedFd, program: &mut RunningProgram, deadline: Instant) -> Result<(), String> {
    let mut room = Box::new([0; PACKET_ROOM]);
    let mut bad = None;
    let mut seen = std::collections::HashSet::new();
    for _ in 0..MESSAGES_MAX {
        let packet = match socket::receive(socket, &mut room) {
            Ok(Some(packet)) => packet,
            Ok(None) => return Err("it closed the connection".to_owned()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                wait(socket, deadline)?;
                continue;
            }
            Err(error) => return Err(error.to_string()),
        };
        match FromProgram::decode(packet).map_err(|error| error.to_string())? {
            FromProgram::Hello(hello) => {
                program.vpid = hello.pid;
                program.ring = RingKind::from_code(hello.kind);
                (program.comm, program.exe) = (hello.comm, hello.exe);
            }
            FromProgram::Descs(list) => {
                for entry in list {
                    match desc::parse(&entry.desc) {
                        Ok(Desc::Event(event)) => {
                            if seen.insert((event.provider.clone(), event.name.clone(), event.fields.clone())) {
                                program.events.push(event);
                            }
                        }
                        Ok(Desc::Enum(labelled)) => program.enums.push(labelled),
                        Err(error) => bad = Some(format!("a description was refused: {error}")),
                    }
                }
            }
            FromProgram::DescsEnd { .. } => return bad.map_or(Ok(()), Err),
            FromProgram::Gone(_)
            | FromProgram::Attached(_)
            | FromProgram::Filtered { .. }
            | FromProgram::Late { .. } => {}
        }
    }
    Err("it did not come to an end".to_owned())
}

fn wait(socket: &OwnedFd, deadline: Instant) -> Result<(), String> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err("it does not answer; is it stopped?".to_owned());
    }
    let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
    let mut set = [PollFd::new(socket, PollFlags::IN)];
    match poll(&mut set, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}
