// SPDX-License-Identifier: MIT OR Apache-2.0
//! One connection to a program: packets in within bounds, packets out through a queue. What they mean is for `control`.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kymo_abi::desc::{Desc, EnumDesc, EventDesc, parse};
use kymo_abi::wire::{ByeReason, FromCollector, Hello};

use crate::channel::Channel;
use crate::control::Link;
use crate::ready_rings::ReadyRings;
use crate::socket::{PACKET_ROOM, PeerId};
use crate::texts::{cost as text_cost, is_of_one};

/// Messages of a program that are read at once, and per second in the long run: what is more waits in its socket.
const BURST: f64 = 20_000.0;
const PER_SECOND: f64 = 20_000.0;
/// A longer message counts for one more for each of these bytes.
const MESSAGE_BYTES: usize = 4096;
/// Who has used that up is read again after this.
const PAUSE: Duration = Duration::from_millis(2);
/// Bytes that wait for a program which does not read.
const QUEUE_BYTES_MAX: usize = 4 << 20;
/// Messages that are read from one program before the others have their turn.
pub(crate) const TURN_MESSAGES: usize = 64;
/// Descriptions that one program may have at a time.
pub(crate) const DESCS_MAX: usize = 65_535;
/// Bytes of the descriptions that one program may have at a time.
pub(crate) const DESCS_BYTES_MAX: usize = 16 << 20;
/// Memory of a connection without descriptions and messages, and of an event beside its text: no less than they take.
const PEER_COST: usize = 2048;
const EVENT_COST: usize = 128;
/// A message that waits, beside its bytes.
const MESSAGE_COST: usize = 64;
/// From the connection to the end of the first descriptions, when the program came to us.
pub(crate) const GREETING_TIME: Duration = Duration::from_secs(5);

/// An event of a program.
pub(crate) struct PeerEvent {
    /// Its description, which was understood once.
    pub text: Arc<[u8]>,
    /// The id under which the program was told to switch it on.
    pub id: Option<u16>,
    /// It was told of a filter.
    pub has_filter: bool,
    /// It refused that, with this errno value.
    pub refused: Option<u32>,
}

impl PeerEvent {
    /// What the description says.
    pub(crate) fn event(&self) -> Option<EventDesc> {
        match parse(&self.text) {
            Ok(Desc::Event(event)) => Some(event),
            _ => None,
        }
    }

    /// `provider:name`.
    pub(crate) fn name(&self) -> String {
        self.event().map(|event| event.full_name()).unwrap_or_default()
    }
}

/// Other rings that a program was offered, and has not answered yet.
pub(crate) struct Offer {
    pub serial: u64,
    pub ring_bytes: u32,
}

/// A connection.
pub(crate) struct Peer {
    pub link: Box<dyn Link>,
    pub id: PeerId,
    /// Which rings it is about.
    pub channel: Channel,
    /// Until when the program must have introduced itself; none where we came to it.
    pub deadline: Option<Instant>,
    pub hello: Option<Hello>,
    /// It belongs to what the session records, as far as that could be seen when it came.
    pub is_in_scope: bool,
    /// Why its records could not be taken, if so.
    pub misfit: Option<String>,
    /// Index in the list of processes, once there is a HELLO.
    pub process: usize,
    /// Serial of the memory that the program was given.
    pub serial: Option<u64>,
    /// Bytes of each of its rings.
    pub ring_bytes: u32,
    /// Which of its rings are ready; none where nothing can be done for that.
    pub ready: Option<ReadyRings>,
    pub offer: Option<Offer>,
    /// The ring size was changed again, or before it had its first rings: another offer is due.
    pub offer_again: bool,
    /// Events by the program's index.
    pub events: HashMap<u32, PeerEvent>,
    /// Descriptions of enumerations by name.
    pub enums: HashMap<String, Arc<[u8]>>,
    /// Events that were not looked at yet.
    pub undecided: Vec<u32>,
    pub desc_bytes: usize,
    /// What it counts for in its user's memory.
    pub charged: usize,
    /// All descriptions of a generation came, and were answered.
    pub is_decided: bool,
    /// It has answered ATTACH.
    pub is_mapped: bool,
    /// It went on before it was answered, and no entry says so yet.
    pub late: bool,
    /// The first generation that was decided.
    pub generation: Option<u32>,
    /// When its memory is looked at next, and how long after the look before; `None` where nobody asks for it.
    pub maps_next: Option<(Instant, Duration)>,
    /// BYE was queued: nothing more is read from here but the end.
    pub leaving: bool,
    /// It said too much, and is not read until then.
    pub paused_until: Option<Instant>,
    queue: VecDeque<(Vec<u8>, Option<OwnedFd>)>,
    queue_bytes: usize,
    credit: f64,
    credited: Instant,
}

/// What reading brought.
pub(crate) enum Read<'a> {
    Packet(&'a [u8]),
    Nothing,
    /// The program has closed its end and had not read all: what it said comes next.
    Reset,
    End,
}

/// What became of the messages for a program.
pub(crate) enum Sent {
    All,
    /// The rest waits until the program has read.
    Some,
    /// The program has not read for too long.
    Stuck,
    Failed(io::Error),
}

/// Whether the other side is gone.
pub(crate) fn is_hang_up(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, NotConnected};
    matches!(error.kind(), BrokenPipe | ConnectionReset | NotConnected)
}

impl Peer {
    pub(crate) fn new(
        link: Box<dyn Link>,
        id: PeerId,
        channel: Channel,
        deadline: Option<Instant>,
        now: Instant,
    ) -> Peer {
        Peer {
            link,
            id,
            channel,
            deadline,
            hello: None,
            is_in_scope: false,
            misfit: None,
            process: usize::MAX,
            serial: None,
            ring_bytes: 0,
            ready: None,
            offer: None,
            offer_again: false,
            events: HashMap::new(),
            enums: HashMap::new(),
            undecided: Vec::new(),
            desc_bytes: 0,
            charged: 0,
            is_decided: false,
            is_mapped: false,
            late: false,
            generation: None,
            maps_next: None,
            leaving: false,
            paused_until: None,
            queue: VecDeque::new(),
            queue_bytes: 0,
            credit: BURST,
            credited: now,
        }
    }

    /// An enumeration of the program.
    pub(crate) fn labels(&self, name: &str) -> Option<EnumDesc> {
        match parse(self.enums.get(name)?) {
            Ok(Desc::Enum(labels)) => Some(labels),
            _ => None,
        }
    }

    /// Memory that it takes, but for the texts of descriptions.
    pub(crate) fn bytes(&self) -> usize {
        let descriptions = self.events.len().max(self.events.capacity() / 2) + self.enums.len();
        PEER_COST + descriptions * EVENT_COST + self.undecided.capacity() * 4 + self.queue_bytes
    }

    /// Memory that its end would give back, and that of all its descriptions.
    pub(crate) fn bytes_alone(&self) -> (usize, usize) {
        let texts = || self.events.values().map(|known| &known.text).chain(self.enums.values());
        let alone: usize = texts().filter(|text| is_of_one(text)).map(|text| text_cost(text)).sum();
        (alone + self.bytes(), self.desc_bytes)
    }

    /// Whether the program has its rings, or wants none.
    pub(crate) fn has_arrived(&self) -> bool {
        self.leaving || (self.is_decided && (self.serial.is_none() || self.is_mapped))
    }

    /// The next packet, if there is one.
    pub(crate) fn read<'a>(&self, room: &'a mut [u8; PACKET_ROOM]) -> Read<'a> {
        match self.link.receive(room) {
            Ok(Some(packet)) => Read::Packet(packet),
            Ok(None) => Read::End,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                Read::Nothing
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Read::Reset,
            Err(_) => Read::End,
        }
    }

    /// Takes a message of these bytes from the program's allowance.
    pub(crate) fn charge(&mut self, bytes: usize) {
        self.credit -= (1 + bytes / MESSAGE_BYTES) as f64;
    }

    /// Whether the program has used up its allowance. Then it is not read until [`Self::paused_until`].
    pub(crate) fn must_wait(&mut self, now: Instant) -> bool {
        let since = now.saturating_duration_since(self.credited).as_secs_f64();
        self.credit = (self.credit + since * PER_SECOND).min(BURST);
        self.credited = now;
        self.paused_until = (self.credit < 1.0).then(|| now + PAUSE);
        self.paused_until.is_some()
    }

    /// Queues a message. What the program does not read in time ends the connection, see [`Self::flush`].
    pub(crate) fn say(&mut self, message: &FromCollector, descriptor: Option<OwnedFd>) {
        // Beyond the bound the connection ends with the next flush: nothing more is of use to it.
        if self.leaving || self.queue_bytes > QUEUE_BYTES_MAX {
            return;
        }
        let packet = message.encode();
        self.queue_bytes += packet.len() + MESSAGE_COST;
        self.queue.push_back((packet, descriptor));
    }

    /// Queues BYE. Nothing follows it.
    pub(crate) fn bye(&mut self, reason: ByeReason, text: &str) {
        self.say(&FromCollector::Bye { reason, text: text.to_owned() }, None);
        self.leaving = true;
    }

    /// Sends what the socket takes.
    pub(crate) fn flush(&mut self) -> Sent {
        while let Some((packet, descriptor)) = self.queue.front() {
            match self.link.send(packet, descriptor.as_ref().map(AsFd::as_fd)) {
                Ok(()) => {
                    self.queue_bytes -= packet.len() + MESSAGE_COST;
                    self.queue.pop_front();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return if self.queue_bytes <= QUEUE_BYTES_MAX { Sent::Some } else { Sent::Stuck };
                }
                Err(error) => return Sent::Failed(error),
            }
        }
        Sent::All
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
        let mut peer = Peer::new(
            Box::new(std::os::fd::OwnedFd::from(left)),
            PeerId { pid: 1, uid: 0 },
            Channel::Main,
            None,
            start,
        );
        let read_at = |peer: &mut Peer, now, bytes| {
            let mut read = 0;
            while !peer.must_wait(now) {
                peer.charge(bytes);
                read += 1;
            }
            read
        };
        assert_eq!(read_at(&mut peer, start, 100), 20_000);
        assert_eq!(peer.paused_until, Some(start + PAUSE));
        let later = start + Duration::from_millis(100);
        assert_eq!(read_at(&mut peer, later, 32_768), 2_000_usize.div_ceil(9), "long messages count for more");
        assert_eq!(read_at(&mut peer, later, 8), 0);
    }
}
