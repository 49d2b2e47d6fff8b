// SPDX-License-Identifier: MIT OR Apache-2.0
//! A relay daemon that answers nonsense, too much, too little or nothing: a viewer says so, takes no memory for what
//! was only announced, and never waits beyond the time limit of its connection.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use kymo_live::probe::view;
use kymo_live::{Error, Viewer};
use kymo_testing::Random;

const STREAM_BYTES: usize = 4371;

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn hello() -> Vec<u8> {
    [&9u64.to_be_bytes()[..], &words(&[2, 11, 1])].concat()
}

/// One session, number 5.
fn session_list() -> Vec<u8> {
    let mut session = vec![0; 339];
    session[7] = 5;
    [words(&[1]), session].concat()
}

fn stream(id: u8, is_metadata: bool) -> Vec<u8> {
    let mut stream = vec![0; STREAM_BYTES];
    (stream[7], stream[19]) = (id, is_metadata.into());
    stream
}

fn index(offset: u64, bits: u64, status: u32) -> Vec<u8> {
    let mut index = vec![0; 64];
    index[..8].copy_from_slice(&offset.to_be_bytes());
    index[8..16].copy_from_slice(&bits.to_be_bytes());
    index[56..60].copy_from_slice(&status.to_be_bytes());
    index
}

/// A session with metadata of 3 bytes and one packet of 8, told as new: answers one by one.
fn honest() -> Vec<Vec<u8>> {
    vec![
        hello(),
        session_list(),
        words(&[1]),
        [words(&[1, 1]), stream(1, true)].concat(),
        [words(&[1, 1]), stream(2, false)].concat(),
        [&3u64.to_be_bytes()[..], &words(&[1]), b"abc"].concat(),
        index(0, 64, 1),
        [words(&[1, 8, 0]), vec![7; 8]].concat(),
    ]
}

/// The honest answers but for one.
fn with(at: usize, answer: Vec<u8>) -> Vec<u8> {
    let mut all = honest();
    all[at] = answer;
    all.concat()
}

#[test]
fn an_honest_one_is_understood() {
    assert_eq!(view(&honest().concat()).unwrap(), 11);
    // Nothing new, nothing yet, nothing any more.
    assert_eq!(view(&with(4, words(&[2, 0]))).unwrap(), 3);
    assert_eq!(view(&with(4, words(&[4, 0]))).unwrap(), 3);
    for status in 2..=6 {
        assert_eq!(view(&with(6, index(0, 0, status))).unwrap(), 3, "status {status}");
    }
    for status in 2..=4 {
        assert_eq!(view(&with(7, words(&[status, 0, 3]))).unwrap(), 3, "status {status}");
    }
    for status in 2..=3 {
        assert_eq!(view(&with(5, [&0u64.to_be_bytes()[..], &words(&[status])].concat())).unwrap(), 8, "{status}");
    }
    for status in 2..=4 {
        assert_eq!(view(&with(3, words(&[status, 0]))).unwrap(), 0, "status {status}");
    }
}

#[test]
fn nonsense_is_named() {
    let metadata = |len: u64, status: u32| [&len.to_be_bytes()[..], &words(&[status])].concat();
    for (at, answer, part) in [
        (0, [&9u64.to_be_bytes()[..], &words(&[3, 0, 1])].concat(), "version 3.0"),
        (0, [&9u64.to_be_bytes()[..], &words(&[2, 3, 1])].concat(), "version 2.3"),
        (0, b"HTTP/1.1 400 Bad Request\r\n".to_vec(), "speaks version"),
        (1, words(&[u32::MAX]), "LIST_SESSIONS makes no sense: 4294967295 sessions or streams"),
        (2, words(&[2]), "CREATE_SESSION makes no sense: status 2"),
        (3, words(&[9, 0]), "ATTACH_SESSION makes no sense: status 9"),
        (3, words(&[1, 1 << 20]), "1048576 sessions or streams"),
        (4, words(&[0, 0]), "GET_NEW_STREAMS makes no sense: status 0"),
        (5, metadata(u64::MAX, 1), "GET_METADATA makes no sense: 18446744073709551615 bytes"),
        (5, metadata(5, 2), "5 bytes with status 2"),
        (5, metadata(0, 4), "status 4"),
        (6, index(0, 12, 1), "GET_NEXT_INDEX makes no sense: a packet of 12 bits"),
        (6, index(0, u64::MAX - 7, 1), "a packet of 2305843009213693951 bytes"),
        (6, index(0, 64, 77), "status 77"),
        (6, index(u64::MAX, (1 << 21) * 8, 1), "GET_PACKET"),
        (7, words(&[1, 9, 0]), "GET_PACKET makes no sense: 9 bytes instead of 8"),
        (7, words(&[5, 8, 0]), "status 5"),
    ] {
        let error = view(&with(at, answer)).unwrap_err().to_string();
        assert!(error.contains(part), "{part}: {error}");
    }
}

#[test]
fn what_is_announced_takes_no_memory_before_it_comes() {
    // 256 MiB of metadata, a packet of 1 GiB, of which nothing comes.
    let metadata = [&(256u64 << 20).to_be_bytes()[..], &words(&[1])].concat();
    let cut = honest()[..5].concat();
    assert!(matches!(view(&[cut, metadata].concat()), Err(Error::Closed)));
    let cut = honest()[..6].concat();
    let packet = [index(0, 8 << 30, 1), words(&[1, 1 << 20, 0]), vec![0; 100]].concat();
    assert!(matches!(view(&[cut, packet].concat()), Err(Error::Closed)));
}

#[test]
fn every_cut_is_a_closed_connection() {
    let whole = honest().concat();
    let ends = [0, 1, 19, 20, 23, 24, 362, 363, 367, 375, whole.len() - 1];
    for end in ends {
        assert!(matches!(view(&whole[..end]), Err(Error::Closed)), "{end}");
    }
}

#[test]
fn mutated_answers_come_to_an_end() {
    let whole = honest().concat();
    let mut random = Random::new("live", 7);
    for _ in 0..2000 {
        let mut bytes = whole.clone();
        random.mutate(&mut bytes);
        // Whatever it says: it returns.
        let _ = view(&bytes);
    }
}

#[test]
fn silence_ends_with_the_time_limit() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        // What the viewer says is read, and nothing is answered until it gives up.
        let mut said = Vec::new();
        connection.read_to_end(&mut said).unwrap();
        said.len()
    });
    let connection = TcpStream::connect(address).unwrap();
    connection.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    assert!(matches!(Viewer::connect(connection), Err(Error::Silent)));
    assert_eq!(server.join().unwrap(), 36);
}

#[test]
fn a_connection_that_is_closed_is_told() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        let mut hello_of_viewer = [0; 36];
        connection.read_exact(&mut hello_of_viewer).unwrap();
        connection.write_all(&hello()).unwrap();
    });
    let mut viewer = Viewer::connect(TcpStream::connect(address).unwrap()).unwrap();
    server.join().unwrap();
    assert!(matches!(viewer.sessions(), Err(Error::Closed)));
}
