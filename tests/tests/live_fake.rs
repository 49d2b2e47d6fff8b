// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kymo read net://` and a relay daemon that does what a real one does rarely, or never: metadata in pieces, packets
//! that come late or not at all, streams that are new, times without events, and answers that end in the middle.

use std::collections::{BTreeMap, VecDeque};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use kymo_tests::small_trace::{METADATA, Packet};
use kymo_tests::{Lab, Outcome};

/// What a stream has next.
enum Answer {
    /// A packet, with these bytes, up to this time.
    Packet(Vec<u8>, u64),
    /// A packet of so many bits, which is not there.
    Gone(u64, u64),
    Retry,
    Inactive(u64),
    /// The relay daemon has lost the stream.
    Failed,
    /// The connection ends.
    Close,
}

/// A relay daemon with one session. A stream without a further answer is over.
#[derive(Default)]
struct Relay {
    /// By the number of the stream; stream 1 is metadata.
    streams: BTreeMap<u64, VecDeque<Answer>>,
    /// Streams that are told of, one list for each question.
    told: VecDeque<Vec<u64>>,
    metadata: VecDeque<Vec<u8>>,
    /// The packet that was told of last.
    packet: Vec<u8>,
    over: Vec<u64>,
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes[..8].try_into().expect("eight bytes"))
}

impl Relay {
    fn new(streams: Vec<(u64, Vec<Answer>)>, told: &[&[u64]]) -> Relay {
        let streams = streams.into_iter().map(|(id, answers)| (id, answers.into())).collect();
        let told = told.iter().map(|list| list.to_vec()).collect();
        Relay { streams, told, metadata: [METADATA.as_bytes().to_vec()].into(), ..Relay::default() }
    }

    fn list(&mut self, status: u32) -> Vec<u8> {
        let list = self.told.pop_front().unwrap_or_default();
        let stream = |id: &u64| {
            let mut bytes = vec![0; 4371];
            bytes[..8].copy_from_slice(&id.to_be_bytes());
            bytes[15] = 1;
            bytes[19] = u8::from(*id == 1);
            bytes[4116..4118].copy_from_slice(&[b's', b'0' + *id as u8]);
            bytes
        };
        [words(&[status, list.len() as u32]), list.iter().flat_map(stream).collect()].concat()
    }

    fn index(&mut self, stream: u64) -> Option<Vec<u8>> {
        let answer = self.streams.get_mut(&stream).and_then(VecDeque::pop_front);
        let (bits, end, status) = match answer {
            Some(Answer::Packet(bytes, end)) => {
                self.packet = bytes;
                (self.packet.len() as u64 * 8, end, 1)
            }
            Some(Answer::Gone(bits, end)) => {
                self.packet.clear();
                (bits, end, 1)
            }
            Some(Answer::Retry) => (0, 0, 2),
            Some(Answer::Inactive(end)) => (0, end, 5),
            Some(Answer::Failed) => (0, 0, 4),
            Some(Answer::Close) => return None,
            None => {
                self.over.push(stream);
                (0, 0, 3)
            }
        };
        let numbers = [0, bits, bits, 0, end, 0, 0];
        let flags = u32::from(!self.metadata.is_empty());
        Some([numbers.iter().flat_map(|number| number.to_be_bytes()).collect(), words(&[status, flags])].concat())
    }

    /// The answer to a command; `None` ends the connection.
    fn answer(&mut self, command: u32, payload: &[u8]) -> Option<Vec<u8>> {
        Some(match command {
            1 => words(&[0, 1, 2, 11, 1]),
            2 => {
                let mut session = vec![0; 339];
                (session[7], session[20], session[84]) = (5, b'h', b's');
                [words(&[1]), session].concat()
            }
            8 => words(&[1]),
            3 => self.list(1),
            7 if !self.told.is_empty() => self.list(1),
            7 if self.over.len() == self.streams.len() => words(&[4, 0]),
            7 => words(&[2, 0]),
            4 => return self.index(number(payload)),
            5 if self.packet.is_empty() => words(&[3, 0, 0]),
            5 => {
                let from = number(&payload[8..]) as usize;
                let count = u32::from_be_bytes(payload[16..20].try_into().expect("four bytes"));
                [words(&[1, count, 0]), self.packet[from..from + count as usize].to_vec()].concat()
            }
            6 => match self.metadata.pop_front() {
                Some(bytes) => [&(bytes.len() as u64).to_be_bytes()[..], &words(&[1]), &bytes].concat(),
                None => words(&[0, 0, 2]),
            },
            other => panic!("command {other}"),
        })
    }

    fn serve(mut self, mut connection: TcpStream) {
        let mut head = [0; 16];
        // Until the viewer has enough.
        while connection.read_exact(&mut head).is_ok() {
            let mut payload = vec![0; number(&head) as usize];
            connection.read_exact(&mut payload).expect("what was announced");
            let command = u32::from_be_bytes(head[8..12].try_into().expect("four bytes"));
            let Some(answer) = self.answer(command, &payload) else { return };
            if connection.write_all(&answer).is_err() {
                return;
            }
        }
    }
}

/// What `kymo read` makes of its session.
fn read(lab: &Lab, relay: Relay) -> Outcome {
    read_again(lab, vec![relay])
}

/// The same over several connections, each to what the relay daemon has by then.
fn read_again(lab: &Lab, relays: Vec<Relay>) -> Outcome {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("net4://{}/host/h/s", listener.local_addr().expect("an address"));
    let server = std::thread::spawn(move || {
        relays.into_iter().for_each(|relay| relay.serve(listener.accept().expect("a viewer").0));
    });
    let outcome = lab.kymo(&["read", "--json", &url]);
    server.join().expect("the server");
    outcome
}

fn times(outcome: &Outcome) -> Vec<u64> {
    let records = outcome.stdout.lines().filter(|line| line.starts_with("{\"time\":"));
    records.map(|line| kymo_tests::process::number(&line.replace("\":", "="), "time")).collect()
}

fn packet(cpu: u32, number: u64, times: &[u64]) -> Answer {
    let (begin, end) = (times[0], times[times.len() - 1]);
    Answer::Packet(Packet::of_ticks(number, (begin, end), times).encode(cpu), end)
}

#[test]
fn what_comes_late_stands_at_its_time() {
    let lab = Lab::new("live_late");
    // The second stream is behind; the third is new; nothing of the first may be printed before they are known.
    let first = vec![packet(0, 0, &[100, 200]), packet(0, 1, &[300, 400]), Answer::Inactive(900)];
    let late = vec![
        Answer::Retry,
        Answer::Inactive(105),
        Answer::Retry,
        Answer::Inactive(105),
        packet(1, 0, &[110, 120]),
        Answer::Inactive(250),
        packet(1, 1, &[260, 350]),
    ];
    let new = vec![Answer::Retry, packet(2, 0, &[310, 320])];
    let mut relay = Relay::new(vec![(2, first), (3, late), (4, new)], &[&[1, 2, 3], &[], &[4]]);
    // Cut in the middle of a word: it makes sense when the rest has come.
    let (front, rest) = METADATA.as_bytes().split_at(400);
    relay.metadata = [front, b"", rest].map(<[u8]>::to_vec).into();
    let outcome = read(&lab, relay).expect(0);
    assert_eq!(times(&outcome), [100, 110, 120, 200, 260, 300, 310, 320, 350, 400], "{}", outcome.stderr);
}

#[test]
fn what_the_relay_daemon_lost_is_told() {
    let lab = Lab::new("live_lost");
    let stream = vec![packet(0, 0, &[100, 110]), Answer::Gone(800, 210), packet(0, 2, &[300, 310])];
    let outcome = read(&lab, Relay::new(vec![(2, stream)], &[&[1, 2]])).expect(1);
    assert_eq!(times(&outcome), [100, 110, 300, 310]);
    for part in ["does not have a packet of s2 any more", "1 packet is missing, in 1 place"] {
        assert!(outcome.stderr.contains(part), "{part}: {}", outcome.stderr);
    }
    let failed = vec![packet(0, 0, &[100, 110]), Answer::Failed];
    let whole = vec![packet(1, 0, &[105, 115])];
    let mut relay = Relay::new(vec![(2, failed), (3, whole)], &[&[1, 2, 3]]);
    relay.over.push(2);
    let outcome = read(&lab, relay).expect(1);
    assert_eq!(times(&outcome), [100, 105, 110, 115]);
    assert!(outcome.stderr.contains("has lost the stream s2"), "{}", outcome.stderr);
}

#[test]
fn what_has_come_is_printed_before_an_error() {
    let lab = Lab::new("live_cut");
    for (last, part) in [
        (Answer::Close, "closed the connection; what has arrived was printed"),
        (Answer::Gone(12, 0), "makes no sense: a packet of 12 bits; what has arrived was printed"),
        (Answer::Gone(u64::MAX - 7, 0), "makes no sense: a packet of 2305843009213693951 bytes"),
    ] {
        let stream = vec![packet(0, 0, &[100, 110]), last];
        // The other one has told nothing, so that all is held back until the end.
        let silent = (0..4).map(|_| Answer::Retry).collect();
        let outcome = read(&lab, Relay::new(vec![(2, stream), (3, silent)], &[&[1, 2, 3]])).expect(1);
        assert_eq!(times(&outcome), [100, 110], "{part}");
        assert!(outcome.stderr.contains(part), "{part}: {}", outcome.stderr);
    }
}

fn joined(parts: [Vec<Answer>; 2]) -> Vec<Answer> {
    parts.into_iter().flatten().collect()
}

#[test]
fn a_lost_connection_is_made_again() {
    let lab = Lab::new("live_again");
    let first = || vec![packet(0, 0, &[100, 110]), packet(0, 1, &[200, 210])];
    let lost = || Relay::new(vec![(2, joined([first(), vec![Answer::Close]]))], &[&[1, 2]]);
    // The second connection has all packets from the begin on.
    let whole = joined([first(), vec![packet(0, 2, &[300, 310])]]);
    let relays = vec![lost(), Relay::new(vec![(2, whole)], &[&[1, 2]])];
    let outcome = read_again(&lab, relays).expect(0);
    assert_eq!(times(&outcome), [100, 110, 200, 210, 300, 310], "{}", outcome.stderr);
    assert!(outcome.stderr.contains("closed the connection; connected again"), "{}", outcome.stderr);
    // A stream that is not there any more, and one that is new.
    let relays = vec![lost(), Relay::new(vec![(3, vec![packet(1, 0, &[150, 400])])], &[&[1, 3]])];
    let outcome = read_again(&lab, relays).expect(1);
    let mut found = times(&outcome);
    found.sort_unstable();
    assert_eq!(found, [100, 110, 150, 200, 210, 400], "{}", outcome.stderr);
    assert!(outcome.stderr.contains("did not offer the stream s2 again"), "{}", outcome.stderr);
}

#[test]
fn packets_without_metadata_are_told() {
    let lab = Lab::new("live_bare");
    let mut relay = Relay::new(vec![(2, vec![packet(0, 0, &[100, 110])])], &[&[1, 2]]);
    relay.metadata = [b"trace {".to_vec()].into();
    let outcome = read(&lab, relay).expect(1);
    assert!(outcome.stdout.is_empty() && outcome.stderr.contains("no metadata have come for s2"), "{}", outcome.stderr);
}

#[test]
fn noise_for_packets_is_damage() {
    let lab = Lab::new("live_noise");
    let noise = Answer::Packet((0..=255).collect(), 200);
    let stream = vec![packet(0, 0, &[100, 110]), noise, packet(0, 1, &[300, 310])];
    let outcome = read(&lab, Relay::new(vec![(2, stream)], &[&[1, 2]])).expect(1);
    assert_eq!(times(&outcome), [100, 110, 300, 310]);
    assert!(outcome.stderr.contains("damaged in 1 place"), "{}", outcome.stderr);
}
