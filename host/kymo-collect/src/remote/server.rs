// SPDX-License-Identifier: MIT OR Apache-2.0
//! The collector's side of control: a thread of its own that nobody can hold up. It accepts, checks who asks, reads one
//! request a connection, and hands it to the session's owner; the owner answers when it can.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;

use super::{Answer, Request, encode_answer};
use crate::runtime::RuntimeDir;
use crate::socket::{self, PACKET_ROOM};
use crate::{Error, clock};

/// Connections at a time. One more takes the place of the one that has been silent for longest.
const CONNECTIONS_MAX: usize = 32;
/// From the connection to the request, and from the answer to its last byte.
const PATIENCE: Duration = Duration::from_secs(5);
/// At the end answers have this long to be taken.
const FAREWELL: Duration = Duration::from_secs(1);

/// A request that waits for its answer. Dropping it answers that the session could not.
pub struct Call {
    /// What is asked.
    pub request: Request,
    token: u64,
    answers: Sender<(u64, Answer)>,
    wake: Arc<OwnedFd>,
    is_answered: bool,
}

impl Call {
    /// Sends the answer. Whether anybody still waits for it is not known.
    pub fn answer(mut self, answer: Answer) {
        self.send(answer);
    }

    fn send(&mut self, answer: Answer) {
        self.is_answered = true;
        let _ = self.answers.send((self.token, answer));
        wake_up(&self.wake);
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if !self.is_answered {
            self.send(Err("the session has ended".to_owned()));
        }
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Call").field("request", &self.request).finish_non_exhaustive()
    }
}

/// The socket of a session, and its thread. Dropping it ends both.
#[derive(Debug)]
pub struct Server {
    dir: RuntimeDir,
    file: String,
    wake: Arc<OwnedFd>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Takes the name `session` for this process, which must be [`crate::is_session_name`], and hands requests to
    /// `deliver`, which must not wait. Fails with [`Error::SessionExists`] where a collector that lives has the name.
    pub fn start(dir: RuntimeDir, session: &str, deliver: impl Fn(Call) + Send + 'static) -> Result<Server, Error> {
        let nonce = clock::ClockSource::new(clock::choose()).read().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let file = format!("c.{}.{nonce:08x}.{session}", std::process::id());
        let path = dir.path().join(&file);
        // Two starts of one name at the same time: one of them looks after the other has bound.
        let lock = dir.lock().map_err(Error::file("lock", dir.path()))?;
        refuse_double(&dir, session)?;
        let early = format!(".{file}");
        let listener = socket::listen(&dir.through_fd(&early)).map_err(Error::file("make socket", &path))?;
        dir.rename(&early, &file).map_err(Error::file("make socket", &path))?;
        drop(lock);
        let wake = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(Error::system("make an eventfd"))?;
        let (wake, stop) = (Arc::new(wake), Arc::new(AtomicBool::new(false)));
        let (answers, answered) = mpsc::channel();
        let service = Service {
            listener: Some(listener),
            wake: Arc::clone(&wake),
            stop: Arc::clone(&stop),
            answers,
            answered,
            deliver,
            connections: BTreeMap::new(),
            next_token: 0,
        };
        let builder = std::thread::Builder::new().name("kymo-remote".to_owned());
        let thread = builder.spawn(move || service.run()).map_err(Error::system("start a thread"))?;
        Ok(Server { dir, file, wake, stop, thread: Some(thread) })
    }

    /// Gives up the name: nobody finds the session any more. Connections stay.
    pub fn withdraw(&self) {
        self.dir.remove(&self.file);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.withdraw();
        self.stop.store(true, Ordering::Release);
        wake_up(&self.wake);
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the control thread of the session's socket failed");
        }
    }
}

/// An error where the name is taken. What dead collectors left under it is removed: nobody binds while the directory is
/// locked.
fn refuse_double(dir: &RuntimeDir, session: &str) -> Result<(), Error> {
    for name in dir.control_sockets().into_iter().filter(|name| name.session() == session) {
        match dir.connect(&name) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => dir.remove(&name.0),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            _ => return Err(Error::SessionExists { name: session.to_owned(), pid: name.pid() }),
        }
    }
    Ok(())
}

fn wake_up(fd: &OwnedFd) {
    // A full counter wakes as well.
    let _ = rustix::io::write(fd, &1u64.to_ne_bytes());
}

/// How far a connection is.
enum State {
    /// Its request has not come yet.
    Silent,
    /// The owner has its request.
    Asked,
    /// It is being sent its answer.
    Answered(VecDeque<Vec<u8>>),
}

struct Connection {
    socket: OwnedFd,
    state: State,
    deadline: Instant,
}

/// The thread's state.
struct Service<F> {
    listener: Option<OwnedFd>,
    wake: Arc<OwnedFd>,
    stop: Arc<AtomicBool>,
    answers: Sender<(u64, Answer)>,
    answered: Receiver<(u64, Answer)>,
    deliver: F,
    /// In the order in which they came.
    connections: BTreeMap<u64, Connection>,
    next_token: u64,
}

impl<F: Fn(Call)> Service<F> {
    fn run(mut self) {
        let mut room = Box::new([0; PACKET_ROOM]);
        while !self.stop.load(Ordering::Acquire) {
            self.turn(&mut room);
        }
        self.listener = None;
        let end = Instant::now() + FAREWELL;
        self.take_answers();
        self.connections.retain(|_, connection| matches!(connection.state, State::Answered(_)));
        while !self.connections.is_empty() && Instant::now() < end {
            self.connections.values_mut().for_each(|connection| connection.deadline = connection.deadline.min(end));
            self.turn(&mut room);
        }
    }

    /// Waits for sockets, and serves those that are ready.
    fn turn(&mut self, room: &mut [u8; PACKET_ROOM]) {
        let (accepts, ready) = self.wait();
        if accepts {
            self.accept();
        }
        self.take_answers();
        for token in ready {
            let keeps = self.connections.contains_key(&token) && self.serve(token, room);
            if !keeps {
                self.connections.remove(&token);
            }
        }
        let now = Instant::now();
        // Who has asked waits for the owner as long as it likes.
        self.connections.retain(|_, of| matches!(of.state, State::Asked) || of.deadline > now);
    }

    /// Whether somebody wants to connect, and the connections that can be served.
    fn wait(&self) -> (bool, Vec<u64>) {
        let silent = self.connections.values().filter(|of| !matches!(of.state, State::Asked));
        let deadline = silent.map(|of| of.deadline).min();
        let timeout = deadline.map(|at| {
            let left = at.saturating_duration_since(Instant::now());
            Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) }
        });
        let mut set = vec![PollFd::new(&self.wake, PollFlags::IN)];
        for connection in self.connections.values() {
            let flags = match connection.state {
                State::Silent => PollFlags::IN,
                // Only its end is of interest, which is always told.
                State::Asked => PollFlags::empty(),
                State::Answered(_) => PollFlags::OUT,
            };
            set.push(PollFd::new(&connection.socket, flags));
        }
        set.extend(self.listener.as_ref().map(|listener| PollFd::new(listener, PollFlags::IN)));
        if poll(&mut set, timeout.as_ref()).is_err() {
            return (false, Vec::new());
        }
        let is_ready = |at: usize| set.get(at).is_some_and(|entry| !entry.revents().is_empty());
        if is_ready(0) {
            let _ = rustix::io::read(&self.wake, &mut [0u8; 8]);
        }
        let ready = self.connections.keys().enumerate().filter(|(at, _)| is_ready(at + 1)).map(|(_, token)| *token);
        (is_ready(self.connections.len() + 1), ready.collect())
    }

    fn accept(&mut self) {
        for _ in 0..CONNECTIONS_MAX {
            let Some(listener) = &self.listener else { return };
            let Ok(socket) = socket::accept(listener) else { return };
            let own = rustix::process::geteuid().as_raw();
            if !socket::peer(&socket).is_ok_and(|peer| peer.uid == own || peer.uid == 0) {
                continue;
            }
            if self.connections.len() >= CONNECTIONS_MAX {
                let silent = self.connections.iter().find(|(_, of)| matches!(of.state, State::Silent));
                let Some(silent) = silent.map(|(token, _)| *token) else { continue };
                self.connections.remove(&silent);
            }
            let deadline = Instant::now() + PATIENCE;
            self.connections.insert(self.next_token, Connection { socket, state: State::Silent, deadline });
            self.next_token += 1;
        }
    }

    fn take_answers(&mut self) {
        while let Ok((token, answer)) = self.answered.try_recv() {
            if let Some(connection) = self.connections.get_mut(&token) {
                connection.give(&answer);
            }
        }
    }

    /// False when the connection is of no use any more.
    fn serve(&mut self, token: u64, room: &mut [u8; PACKET_ROOM]) -> bool {
        let Some(connection) = self.connections.get_mut(&token) else { return false };
        match &mut connection.state {
            State::Asked => false,
            State::Answered(packets) => flush(&connection.socket, packets),
            State::Silent => match socket::receive(&connection.socket, room) {
                Err(error) => matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
                Ok(None) => false,
                Ok(Some(packet)) => {
                    match Request::decode(packet) {
                        Err(text) => connection.give(&Err(text)),
                        Ok(request) => {
                            connection.state = State::Asked;
                            let (answers, wake) = (self.answers.clone(), Arc::clone(&self.wake));
                            (self.deliver)(Call { request, token, answers, wake, is_answered: false });
                        }
                    }
                    true
                }
            },
        }
    }
}

impl Connection {
    fn give(&mut self, answer: &Answer) {
        self.state = State::Answered(encode_answer(answer).into());
        self.deadline = Instant::now() + PATIENCE;
    }
}

/// Sends what the socket takes. False when all was sent, or nothing can be.
fn flush(socket: &OwnedFd, packets: &mut VecDeque<Vec<u8>>) -> bool {
    while let Some(packet) = packets.front() {
        match socket::send(socket, packet, None) {
            Ok(()) => {
                packets.pop_front();
            }
            Err(error) => return matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
        }
    }
    false
}
