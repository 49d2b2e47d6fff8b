// SPDX-License-Identifier: MIT OR Apache-2.0
//! A server over a lake, over a real socket: who answers is told what was asked, traces are opened once, by identity,
//! and the rules of all addresses hold [spec/view.md 11.1].

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use kymo_ctf::read::{Memory, Trace};
use kymo_index::Indexes;
use kymo_query::{Opened, Stop};
use kymo_serve::{LakeAnswer, LakeError, LakeSource, LakeTrace, Server, Stopper};
use serde_json::Value;

const KNOWN: &str = "0123456789abcdef0123456789abcdef";
const UNKNOWN: &str = "ffffffffffffffffffffffffffffffff";

#[derive(Clone, Debug, PartialEq)]
struct ToldQuestion {
    question: String,
    parameters: Vec<(String, String)>,
    json: bool,
}

/// What was asked, and how often traces were opened.
#[derive(Default)]
struct Told {
    asked: Mutex<Vec<ToldQuestion>>,
    opened: AtomicUsize,
    was_stopped: AtomicBool,
}

impl LakeSource for Told {
    fn ask(
        &self,
        question: &str,
        parameters: Vec<(String, String)>,
        json: bool,
        stop: &Stop,
    ) -> Result<LakeAnswer, LakeError> {
        self.asked.lock().unwrap().push(ToldQuestion { question: question.to_owned(), parameters, json });
        match question {
            "slow" => {
                while stop.goes_on() {
                    std::thread::yield_now();
                }
                self.was_stopped.store(true, Ordering::Relaxed);
                Err(LakeError::new("stopped", "nobody waits"))
            }
            "ended" => Err(LakeError::new("lake", "it has ended")),
            _ => Ok(LakeAnswer { is_json: json, bytes: b"{\"own\": 1}".to_vec() }),
        }
    }

    fn open(&self, trace: &str, _: &Stop) -> Result<LakeTrace, LakeError> {
        if trace != KNOWN {
            return Err(LakeError::new("here", "no addition of this lake is this trace"));
        }
        self.opened.fetch_add(1, Ordering::Relaxed);
        let metadata = "typealias integer { size = 8; } := u8;
            clock { name = c; freq = 1000; };
            stream { event.header := struct { u8 id; integer { size = 8; map = clock.c.value; } timestamp; }; };
            event { id = 7; name = \"motor:step\"; fields := struct { u8 axis; }; };";
        let files = Memory { metadata: metadata.into(), streams: vec![("s".into(), vec![7, 1, 2, 7, 5, 3])] };
        let opened =
            Opened::new(vec![Trace::from_files(&files).unwrap().value], Indexes::default(), "t".into(), vec![]);
        Ok(LakeTrace { opened, notes: Vec::new() })
    }
}

struct Running {
    port: u16,
    token: String,
    told: Arc<Told>,
    stopper: Stopper,
    thread: Option<JoinHandle<std::io::Result<()>>>,
}

impl Running {
    fn start(has_lake: bool) -> Running {
        let told = Arc::new(Told::default());
        let none = Opened::new(Vec::new(), Indexes::default(), "lake".into(), Vec::new());
        let server = Server::bind(none, 0).unwrap();
        let server = if has_lake { server.with_lake(told.clone()) } else { server };
        let (port, address, stopper) = (server.port().unwrap(), server.address().unwrap(), server.stopper());
        let token = address.trim_end_matches('/').rsplit('/').next().unwrap().to_owned();
        let thread = Some(std::thread::spawn(move || server.run()));
        Running { port, token, told, stopper, thread }
    }

    fn begin(&self, rest: &str, headers: &str) -> TcpStream {
        let (port, token) = (self.port, &self.token);
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let request =
            format!("GET /{token}/{rest} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    fn with(&self, rest: &str, headers: &str) -> (u16, String, String) {
        let mut all = String::new();
        self.begin(rest, headers).read_to_string(&mut all).unwrap();
        let (head, body) = all.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, head.to_lowercase(), body.to_owned())
    }

    fn get(&self, rest: &str) -> (u16, String) {
        let (status, _, body) = self.with(rest, "");
        (status, body)
    }

    #[track_caller]
    fn json(&self, rest: &str) -> (u16, Value) {
        let (status, body) = self.get(rest);
        (status, serde_json::from_str(&body).unwrap_or_else(|_| panic!("{rest}: {body}")))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap().unwrap();
        }
    }
}

#[test]
fn questions_are_passed_on_as_they_were_asked() {
    let running = Running::start(true);
    let (status, head, body) = running.with("l/q/worst?is=label:a%3D%27%0A%3Cb%3E&is=host&format=json", "");
    assert_eq!((status, body.as_str()), (200, "{\"own\": 1}"));
    for header in ["content-type: application/json", "content-security-policy: default-src 'none'", "no-store"] {
        assert!(head.contains(header), "{header} in {head}");
    }
    let (_, head, _) = running.with("l/q/worst", "");
    assert!(head.contains("application/vnd.kymo.columns"), "{head}");
    let asked = running.told.asked.lock().unwrap().clone();
    let parameters = vec![("is".to_owned(), "label:a='\n<b>".to_owned()), ("is".to_owned(), "host".to_owned())];
    let told = |parameters, json| ToldQuestion { question: "worst".to_owned(), parameters, json };
    assert_eq!(asked, [told(parameters, true), told(Vec::new(), false)]);
    let (status, error) = running.json("l/q/ended");
    assert_eq!((status, &error["error"]["kind"]), (502, &Value::from("lake")));
}

#[test]
fn traces_are_opened_once_and_by_identity() {
    let running = Running::start(true);
    let page = running.get(&format!("t/{KNOWN}/"));
    assert_eq!(page.0, 200);
    assert_eq!(running.told.opened.load(Ordering::Relaxed), 0, "the page alone opens nothing");
    let (status, summary) = running.json(&format!("t/{KNOWN}/q/summary?format=json"));
    assert_eq!((status, &summary["info"]["records"]), (200, &Value::from(2)));
    assert_eq!(running.json(&format!("t/{KNOWN}/live")).1["state"], "whole");
    assert_eq!(running.json(&format!("t/{KNOWN}/notes")).0, 200);
    assert_eq!(running.told.opened.load(Ordering::Relaxed), 1);
    let (status, error) = running.json(&format!("t/{UNKNOWN}/q/summary?format=json"));
    assert_eq!((status, &error["error"]["kind"]), (422, &Value::from("here")));
    for rest in
        ["t/../q/summary", "t//etc/passwd/q/summary", "t/0123/q/summary", "l/q/", "l/", "t/", &format!("t/{KNOWN}")]
    {
        assert_eq!(running.get(rest).0, 404, "{rest}");
    }
    assert_eq!(running.get(&format!("t/{KNOWN}/l/q/worst")).0, 404, "nothing of the lake is below a trace");
    assert!(running.told.asked.lock().unwrap().is_empty());
}

#[test]
fn other_origins_get_nothing() {
    let running = Running::start(true);
    for rest in ["l/q/worst".to_owned(), format!("t/{KNOWN}/q/summary"), format!("t/{KNOWN}/live")] {
        for headers in ["Origin: http://evil.example\r\n", "Sec-Fetch-Site: cross-site\r\n"] {
            assert_eq!(running.with(&rest, headers).0, 403, "{rest} {headers}");
        }
    }
    let mut stream = TcpStream::connect(("127.0.0.1", running.port)).unwrap();
    let request =
        format!("GET /{}/l/q/worst HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n", running.token);
    stream.write_all(request.as_bytes()).unwrap();
    let mut all = String::new();
    stream.read_to_string(&mut all).unwrap();
    assert!(all.starts_with("HTTP/1.1 403"), "{all}");
    let token = running.token.replace(|c: char| c.is_ascii_digit(), "a");
    let mut stream = TcpStream::connect(("127.0.0.1", running.port)).unwrap();
    let port = running.port;
    let request = format!("GET /{token}/l/q/worst HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    all.clear();
    stream.read_to_string(&mut all).unwrap();
    assert!(all.starts_with("HTTP/1.1 404"), "{all}");
    assert!(running.told.asked.lock().unwrap().is_empty());
    assert_eq!(running.told.opened.load(Ordering::Relaxed), 0);
}

#[test]
fn an_answer_that_nobody_waits_for_is_stopped() {
    let running = Running::start(true);
    let stream = running.begin("l/q/slow", "");
    while running.told.asked.lock().unwrap().is_empty() {
        std::thread::yield_now();
    }
    drop(stream);
    let begun = Instant::now();
    while !running.told.was_stopped.load(Ordering::Relaxed) {
        assert!(begun.elapsed() < Duration::from_secs(60), "it goes on");
        std::thread::yield_now();
    }
}

#[test]
fn without_a_lake_there_are_no_such_addresses() {
    let running = Running::start(false);
    for rest in
        ["l/q/worst".to_owned(), format!("t/{KNOWN}/"), format!("t/{KNOWN}/q/summary"), format!("t/{KNOWN}/app.js")]
    {
        assert_eq!(running.get(&rest).0, 404, "{rest}");
    }
    assert_eq!(running.get("").0, 200);
}
