// SPDX-License-Identifier: MIT OR Apache-2.0
//! Marks: texts that people and scripts put into running sessions [spec/session.md 9].
//!
//! A datagram is `kymo-mark 1 CLOCK TIME PID TID NAME`, a newline, and the text; one without that first line is text
//! alone.

use std::io;
use std::path::Path;

use kymo_abi::{Clock, record_head};
use kymo_ctf::write::{EventClass, Field, FieldClass, Number};
use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType};

use crate::clock::{self, ClockSource};
use crate::runtime::{RuntimeDir, other_users_dirs};
use crate::socket;

/// Id of the event in the kernel's stream class, below those of the state dump.
pub(crate) const MARK_ID: u16 = 64_999;
/// Longest text, bytes; what is longer is cut.
pub const MARK_BYTES_MAX: usize = 4096;
/// First word of a datagram with a first line.
const MAGIC: &str = "kymo-mark 1 ";
/// A mark that is older than this when it arrives gets the time of its arrival.
const AGE_MAX_NS: u64 = 1_000_000_000;

/// One mark.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mark<'a> {
    /// Clock value and the clock, where the sender told them.
    time: Option<(Clock, u64)>,
    pid: i32,
    tid: i32,
    name: &'a str,
    text: &'a str,
}

impl<'a> Mark<'a> {
    fn decode(packet: &'a str) -> Mark<'a> {
        let plain = Mark { time: None, pid: -1, tid: -1, name: "", text: packet.trim_end_matches('\n') };
        let Some((line, text)) = packet.strip_prefix(MAGIC).and_then(|rest| rest.split_once('\n')) else {
            return plain;
        };
        let mut words = line.splitn(5, ' ');
        let mut next = || words.next().unwrap_or_default();
        let clock = match next() {
            "tsc" => Some(Clock::Tsc),
            "monotonic" => Some(Clock::Monotonic),
            "cntvct" => Some(Clock::Cntvct),
            _ => None,
        };
        let time = next().parse().ok();
        let (pid, tid) = (next().parse().unwrap_or(-1), next().parse().unwrap_or(-1));
        Mark { time: clock.zip(time), pid, tid, name: next(), text }
    }

    fn encode(&self) -> String {
        let (clock, time) = self.time.map_or(("none", 0), |(clock, time)| (clock.name(), time));
        format!("{MAGIC}{clock} {time} {} {} {}\n{}", self.pid, self.tid, self.name, self.text)
    }
}

/// What a mark looks like in the trace.
pub(crate) fn class() -> EventClass {
    let fields =
        [("pid", FieldClass::Number(Number::signed(32))), ("procname", FieldClass::Text), ("text", FieldClass::Text)];
    let fields = fields.map(|(name, class)| Field { name: name.to_owned(), class });
    EventClass { id: MARK_ID, name: "kymo_mark".to_owned(), file: String::new(), line: 0, fields: fields.into() }
}

/// A CTF record of the kernel's stream class, and its clock value: not before `newest`, not in the future.
pub(crate) fn record(packet: &[u8], source: ClockSource, cycles_per_second: u64, newest: u64) -> (u64, Vec<u8>) {
    let packet = String::from_utf8_lossy(&packet[..packet.len().min(MARK_BYTES_MAX)]);
    let mark = Mark::decode(&packet);
    let now = source.read();
    let age_max = (u128::from(cycles_per_second) * u128::from(AGE_MAX_NS) / 1_000_000_000) as u64;
    let told = mark.time.filter(|(clock, time)| *clock == source.clock() && *time <= now && now - *time <= age_max);
    let time = told.map_or(now, |(_, time)| time).max(newest);
    let mut bytes = record_head(MARK_ID, time).to_vec();
    bytes.extend_from_slice(&mark.tid.to_le_bytes());
    bytes.extend_from_slice(&[0, 0]);
    bytes.extend_from_slice(&mark.pid.to_le_bytes());
    // Readers take a NUL for the end of a text.
    for text in [mark.name, mark.text].map(|text| text.replace('\0', "\u{fffd}")) {
        bytes.extend_from_slice(&(text.len() as u16).to_le_bytes());
        bytes.extend_from_slice(text.as_bytes());
    }
    (time, bytes)
}

/// A socket for marks at `path`.
pub(crate) fn listen(path: &Path) -> io::Result<OwnedFd> {
    let socket = datagram()?;
    socket::only_for_its_user(&socket)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

fn datagram() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?)
}

/// The next datagram, if there is one.
pub(crate) fn receive<'a>(socket: &OwnedFd, room: &'a mut [u8]) -> Option<&'a [u8]> {
    let (bytes, _) = rustix::net::recv(socket, &mut *room, RecvFlags::DONTWAIT).ok()?;
    Some(&room[..bytes])
}

/// A mark that was sent to a session.
#[derive(Debug)]
pub struct Sent {
    /// Process id of the session's collector, as it sees itself.
    pub collector: u32,
    /// Whether it was taken.
    pub result: io::Result<()>,
}

/// Sends a mark with the present as its time to each running session of this user (root: of all users), or to that of
/// one `collector`. Does not wait: a session whose queue is full refuses.
pub fn send_mark(text: &str, collector: Option<u32>) -> Result<Vec<Sent>, crate::Error> {
    let source = ClockSource::new(clock::choose());
    let time = source.read();
    let mut cut = text.len().min(MARK_BYTES_MAX - 256);
    while !text.is_char_boundary(cut) {
        cut -= 1;
    }
    let parent = std::os::unix::process::parent_id();
    let name = std::fs::read_to_string(format!("/proc/{parent}/comm")).unwrap_or_default();
    // Who marks is who runs the command: the shell or the program, not `kymo mark` itself.
    let (pid, tid) = (parent as i32, parent as i32);
    // A thread's name may have any character, and a newline would end the first line.
    let name = name.trim_end().replace(char::is_control, "?");
    let packet = Mark { time: Some((source.clock(), time)), pid, tid, name: &name, text: &text[..cut] }.encode();
    let mut dirs = other_users_dirs();
    let own = RuntimeDir::own()?;
    dirs.retain(|dir| dir.path() != own.path());
    dirs.push(own);
    let mut sent = Vec::new();
    for dir in &dirs {
        for name in dir.mark_sockets() {
            if collector.is_some_and(|wanted| wanted != name.pid()) {
                continue;
            }
            let result = datagram().and_then(|socket| {
                let address = SocketAddrUnix::new(dir.through_fd(&name.0))?;
                rustix::net::sendto(&socket, packet.as_bytes(), SendFlags::NOSIGNAL | SendFlags::DONTWAIT, &address)?;
                Ok(())
            });
            match result {
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    dir.remove_leftover(&name);
                }
                result => sent.push(Sent { collector: name.pid(), result }),
            }
        }
    }
    Ok(sent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams() {
        let mark = Mark { time: Some((Clock::Tsc, 77)), pid: 3, tid: 4, name: "my shell", text: "a\nb" };
        assert_eq!(Mark::decode(&mark.encode()), mark);
        let plain = Mark::decode("only text\n");
        assert_eq!((plain.time, plain.pid, plain.text), (None, -1, "only text"));
        for hostile in [
            "kymo-mark 1 ",
            "kymo-mark 1 \n",
            "kymo-mark 1 tsc x y z\nt",
            "kymo-mark 1 tsc 99999999999999999999 1 1 a\n",
        ] {
            assert_eq!(Mark::decode(hostile).time, None, "{hostile:?}");
        }
    }

    #[test]
    fn times_are_never_in_the_future_and_never_run_backwards() {
        let source = ClockSource::new(Clock::Monotonic);
        let now = source.read();
        let told =
            |time: u64| Mark { time: Some((Clock::Monotonic, time)), pid: 1, tid: 1, name: "n", text: "t" }.encode();
        let hz = 1_000_000_000;
        assert_eq!(record(told(now - 5).as_bytes(), source, hz, 0).0, now - 5);
        assert_eq!(record(told(now - 5).as_bytes(), source, hz, now - 1).0, now - 1);
        assert!(record(told(now + hz).as_bytes(), source, hz, 0).0 < now + hz);
        assert!(record(told(now.saturating_sub(5 * hz)).as_bytes(), source, hz, 0).0 >= now);
        assert!(record(&[0xff; 9000], source, hz, 0).1.len() < 3 * MARK_BYTES_MAX + 64);
    }
}
