// SPDX-License-Identifier: MIT OR Apache-2.0
//! Control of a running session by a socket [spec/session.md 10]: what is asked, how it is answered, and in how many
//! bytes.
//!
//! One connection, one request, one answer, all JSON. `server` is the collector's side, `client` that of
//! `kymo session`. What a request means is for the owner of the session.

mod client;
mod server;

use std::path::PathBuf;

use kymo_abi::wire::BYTES_MAX;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use client::{AskError, Remote, remotes};
pub use server::{Call, Server};

/// Patterns in one request.
pub const PATTERNS_MAX: usize = 64;
/// Bytes of an answer, over all its packets.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// First byte of a packet of an answer: others follow, or it is the last.
const MORE: u8 = b'+';
const LAST: u8 = b'.';

/// What a session is asked to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// How it goes.
    Status,
    /// Switches events on, in the programs that run and in those that come.
    Enable {
        /// As those of [`crate::Patterns`].
        patterns: Vec<String>,
        /// As those of `-k`.
        #[serde(default)]
        kernel: Vec<String>,
    },
    /// Switches events off.
    Disable {
        /// As those of [`crate::Patterns`].
        patterns: Vec<String>,
        /// As those of `-k`.
        #[serde(default)]
        kernel: Vec<String>,
    },
    /// Another ring size for the programs that come.
    Add {
        /// Bytes of one ring: a power of two.
        ring_bytes: u32,
        /// And for those that run.
        #[serde(default)]
        running: bool,
    },
    /// Writes out the rings of a flight recorder.
    Snapshot {
        /// An absolute path; else one is chosen in the session's directory.
        dir: Option<PathBuf>,
        /// Why, for people.
        reason: String,
        /// Only this much of the past, nanoseconds.
        before_ns: Option<u64>,
        /// Answer when it is written, with its numbers; else when it is about to be taken.
        wait: bool,
    },
    /// The trace goes on in a new directory, or, where any of these is said, does so by itself from now on.
    Rotate {
        /// When a chunk has so many bytes.
        bytes: Option<u64>,
        /// When it is so old, milliseconds.
        time_ms: Option<u64>,
        /// Closed chunks that stay.
        keep: Option<u32>,
    },
    /// Somebody looks at the trace while it is written: for 2 s records reach the files sooner.
    Watch,
    /// The options that a session like this one is started with.
    Settings,
    /// Ends the session; the answer comes when the trace is complete.
    Stop,
}

impl Request {
    /// Decodes a packet. The text of an error is for whoever sent it.
    fn decode(packet: &[u8]) -> Result<Request, String> {
        if packet.len() > BYTES_MAX {
            return Err(format!("a request has at most {BYTES_MAX} bytes"));
        }
        let request: Request = serde_json::from_slice(packet).map_err(|error| format!("not a request: {error}"))?;
        match &request {
            Request::Enable { patterns, kernel } | Request::Disable { patterns, kernel }
                if !(1..=PATTERNS_MAX).contains(&(patterns.len() + kernel.len())) =>
            {
                Err(format!("a request has 1 to {PATTERNS_MAX} patterns"))
            }
            Request::Snapshot { dir: Some(dir), .. } if !dir.is_absolute() => {
                Err("the directory of a snapshot is an absolute path".to_owned())
            }
            _ => Ok(request),
        }
    }
}

/// An answer: what was asked for, or why not, for people.
pub type Answer = Result<Value, String>;

/// The packets of an answer.
fn encode_answer(answer: &Answer) -> Vec<Vec<u8>> {
    let value = match answer {
        Ok(value) => serde_json::json!({ "ok": value }),
        Err(text) => serde_json::json!({ "error": text }),
    };
    let text = value.to_string().into_bytes();
    let count = text.chunks(BYTES_MAX - 1).count();
    let tagged = |(at, chunk): (usize, &[u8])| {
        let mut packet = vec![if at + 1 == count { LAST } else { MORE }];
        packet.extend_from_slice(chunk);
        packet
    };
    text.chunks(BYTES_MAX - 1).enumerate().map(tagged).collect()
}

/// Puts packets together to an answer.
#[derive(Debug, Default)]
struct Assembly(Vec<u8>);

impl Assembly {
    /// Takes a packet; the answer, if it was the last. The text says what is wrong with it.
    fn take(&mut self, packet: &[u8]) -> Result<Option<Answer>, String> {
        let Some((tag, rest)) = packet.split_first() else { return Err("an empty packet".to_owned()) };
        if self.0.len() + rest.len() > ANSWER_BYTES_MAX {
            return Err(format!("the answer is longer than {} MiB", ANSWER_BYTES_MAX >> 20));
        }
        self.0.extend_from_slice(rest);
        match *tag {
            MORE => Ok(None),
            LAST => read_answer(&self.0).map(Some),
            tag => Err(format!("a packet begins with the byte {tag}")),
        }
    }
}

fn read_answer(text: &[u8]) -> Result<Answer, String> {
    let mut value: Value = serde_json::from_slice(text).map_err(|error| format!("the answer is not JSON: {error}"))?;
    if let Some(text) = value.get("error").and_then(Value::as_str) {
        return Ok(Err(text.to_owned()));
    }
    match value.get_mut("ok") {
        Some(value) => Ok(Ok(value.take())),
        None => Err("the answer has neither ok nor error".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_come_back_as_they_were() {
        let snapshot =
            Request::Snapshot { dir: Some("/a".into()), reason: "late".into(), before_ns: Some(20), wait: true };
        let enable = Request::Enable { patterns: vec!["a:*".into()], kernel: vec!["sched".into()] };
        for request in [Request::Status, enable, snapshot, Request::Watch, Request::Stop] {
            assert_eq!(Request::decode(&serde_json::to_vec(&request).unwrap()), Ok(request));
        }
    }

    #[test]
    fn what_is_no_request_is_refused_with_a_reason() {
        let check = |packet: &[u8], part: &str| {
            let error = Request::decode(packet).unwrap_err();
            assert!(error.contains(part), "{error}");
        };
        check(b"", "not a request");
        check(b"\xff\xfe", "not a request");
        check(b"{\"request\":\"explode\"}", "explode");
        check(b"{\"request\":\"add\",\"ring_bytes\":-1}", "not a request");
        check(b"{\"request\":\"enable\",\"patterns\":[]}", "patterns");
        check(b"{\"request\":\"snapshot\",\"dir\":\"a\",\"reason\":\"\",\"before_ns\":null,\"wait\":true}", "absolute");
        check(&vec![b'['; BYTES_MAX], "not a request");
        check(&vec![b' '; BYTES_MAX + 1], "at most");
    }

    #[test]
    fn long_answers_are_cut_and_put_together() {
        for bytes in [0, 1, BYTES_MAX - 20, BYTES_MAX, 3 * BYTES_MAX] {
            let answer: Answer = Ok(Value::String("x".repeat(bytes)));
            let packets = encode_answer(&answer);
            assert!(packets.iter().all(|packet| packet.len() <= BYTES_MAX));
            let mut assembly = Assembly::default();
            let (last, before) = packets.split_last().unwrap();
            assert!(before.iter().all(|packet| assembly.take(packet) == Ok(None)));
            assert_eq!(assembly.take(last), Ok(Some(answer)));
        }
        assert_eq!(Assembly::default().take(&encode_answer(&Err("no".into()))[0]), Ok(Some(Err("no".into()))));
        for bad in [&b""[..], b"?", b".", b".{}", b".[1"] {
            assert!(Assembly::default().take(bad).is_err(), "{bad:?}");
        }
    }
}
