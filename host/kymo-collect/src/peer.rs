//! One connection to a program: packets in within bounds, packets out through a queue. What they mean is for `control`.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use kymo_abi::desc::{EnumDesc, EventDesc};
use kymo_abi::wire::{ByeReason, FromCollector, Hello};

use crate::control::Channel;
use crate::socket::{self, PACKET_ROOM, PeerId};

/// Messages that a program may send at once, and per second in the long run.
const BURST: f64 = 20_000.0;
const PER_SECOND: f64 = 2_000.0;
/// Bytes that wait for a program which does not read.
const QUEUE_BYTES_MAX: usize = 4 << 20;
/// Messages that are read from one program before the others have their turn.
pub(crate) const TURN_MESSAGES: usize = 64;
/// Descriptions that one program may have at a time.
pub(crate) const DESCS_MAX: usize = 65_535;
/// Bytes of the descriptions that one program may have sent.
pub(crate) const DESCS_BYTES_MAX: usize = 64 << 20;
/// From the connection to the end of the first descriptions, when the program came to us.
pub(crate) const GREETING_TIME: Duration = Duration::from_secs(5);

/// An event of a program.
pub(crate) struct Known {
    pub event: EventDesc,
    /// Bytes of its description.
    pub bytes: usize,
    /// The id under which the program was told to switch it on.
    pub id: Option<u16>,
    /// It was told of a filter.
    pub has_filter: bool,
    /// It refused that, with this errno value.
    pub refused: Option<u32>,
}

/// Other rings that a program was offered, and has not answered yet.
pub(crate) struct Offer {
    pub serial: u64,
    pub ring_bytes: u32,
}

/// A connection.
pub(crate) struct Peer {
    pub socket: OwnedFd,
    pub id: PeerId,
    /// Which rings it is about.
    pub channel: Channel,
    /// Until when the program must have introduced itself; none where we came to it.
    pub deadline: Option<Instant>,
    pub hello: Option<Hello>,
    /// Index in the list of processes, once there is a HELLO.
    pub process: usize,
    /// Serial of the memory that the program was given.
    pub serial: Option<u64>,
    /// Bytes of each of its rings.
    pub ring_bytes: u32,
    pub offer: Option<Offer>,
    /// The ring size was changed again, or before it had its first rings: another offer is due.
    pub offer_again: bool,
    /// Events by the program's index.
    pub events: HashMap<u32, Known>,
    /// Enumerations by name.
    pub enums: HashMap<String, EnumDesc>,
    /// Events that were not looked at yet.
    pub undecided: Vec<u32>,
    pub desc_bytes: usize,
    /// All descriptions of a generation came, and were answered.
    pub is_decided: bool,
    /// It has answered ATTACH.
    pub is_mapped: bool,
    /// When its memory is looked at next, and how long after the look before; `None` where nobody asks for it.
    pub maps_next: Option<(Instant, Duration)>,
    /// BYE was queued: nothing more is read from here but the end.
    pub leaving: bool,
    queue: VecDeque<(Vec<u8>, Option<OwnedFd>)>,
    queue_bytes: usize,
    credit: f64,
    credited: Instant,
}

/// What reading brought.
pub(crate) enum Read<'a> {
    Packet(&'a [u8]),
    Nothing,
    End,
}

impl Peer {
    pub(crate) fn new(socket: OwnedFd, id: PeerId, channel: Channel, deadline: Option<Instant>, now: Instant) -> Peer {
        Peer {
            socket,
            id,
            channel,
            deadline,
            hello: None,
            process: usize::MAX,
            serial: None,
            ring_bytes: 0,
            offer: None,
            offer_again: false,
            events: HashMap::new(),
            enums: HashMap::new(),
            undecided: Vec::new(),
            desc_bytes: 0,
            is_decided: false,
            is_mapped: false,
            maps_next: None,
            leaving: false,
            queue: VecDeque::new(),
            queue_bytes: 0,
            credit: BURST,
            credited: now,
        }
    }

    /// Whether the program has its rings, or wants none.
    pub(crate) fn has_arrived(&self) -> bool {
        self.leaving || (self.is_decided && (self.serial.is_none() || self.is_mapped))
    }

    /// The next packet, if there is one.
    pub(crate) fn read<'a>(&self, room: &'a mut [u8; PACKET_ROOM]) -> Read<'a> {
        match socket::receive(&self.socket, room) {
            Ok(Some(packet)) => Read::Packet(packet),
            Ok(None) => Read::End,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                Read::Nothing
            }
            Err(_) => Read::End,
        }
    }

    /// Takes one message from the program's allowance; false when it has used that up.
    pub(crate) fn may_speak(&mut self, now: Instant) -> bool {
        let since = now.saturating_duration_since(self.credited).as_secs_f64();
        self.credit = (self.credit + since * PER_SECOND).min(BURST) - 1.0;
        self.credited = now;
        self.credit >= 0.0
    }

    /// Queues a message. What the program does not read in time ends the connection, see [`Self::flush`].
    pub(crate) fn say(&mut self, message: &FromCollector, descriptor: Option<OwnedFd>) {
        if self.leaving {
            return;
        }
        let packet = message.encode();
        self.queue_bytes += packet.len();
        self.queue.push_back((packet, descriptor));
    }

    /// Queues BYE. Nothing follows it.
    pub(crate) fn bye(&mut self, reason: ByeReason, text: &str) {
        self.say(&FromCollector::Bye { reason, text: text.to_owned() }, None);
        self.leaving = true;
    }

    /// Sends what the socket takes. False when the connection is of no use any more.
    pub(crate) fn flush(&mut self) -> bool {
        while let Some((packet, descriptor)) = self.queue.front() {
            match socket::send(&self.socket, packet, descriptor.as_ref().map(AsFd::as_fd)) {
                Ok(()) => {
                    self.queue_bytes -= packet.len();
                    self.queue.pop_front();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return self.queue_bytes <= QUEUE_BYTES_MAX,
                Err(_) => return false,
            }
        }
        true
    }

    /// Whether something waits to be sent.
    pub(crate) fn has_output(&self) -> bool {
        !self.queue.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_uses_up_its_allowance_and_time_gives_it_back() {
        let start = Instant::now();
        let (left, _right) = std::os::unix::net::UnixDatagram::pair().unwrap();
        let mut peer = Peer::new(left.into(), PeerId { pid: 1, uid: 0 }, Channel::Main, None, start);
        assert_eq!((0..30_000).filter(|_| peer.may_speak(start)).count(), 20_000);
        peer.credit = 0.0;
        assert_eq!((0..5_000).filter(|_| peer.may_speak(start + Duration::from_secs(1))).count(), 2_000);
    }
}
