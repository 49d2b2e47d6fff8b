// SPDX-License-Identifier: MIT OR Apache-2.0
//! The server over a real socket: pages, answers, who is refused, and its end.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use kymo_ctf::read::{Memory, Trace};
use kymo_index::{GrowingIndex, Indexes};
use kymo_query::Opened;
use kymo_serve::{Look, Others, Relation, SaveError, SaveLimits, Server, Source, Stopper, save};
use serde_json::{Value, json};

/// A server of a trace with two records.
struct Running {
    port: u16,
    token: String,
    stopper: Stopper,
    thread: Option<JoinHandle<std::io::Result<()>>>,
}

/// A trace with so many records of `motor:step`, a ms after one another.
fn trace(records: u8) -> Trace {
    let metadata = "typealias integer { size = 8; } := u8;
            clock { name = c; freq = 1000; };
            stream { event.header := struct { u8 id; integer { size = 8; map = clock.c.value; } timestamp; }; };
            event { id = 7; name = \"motor:step\"; fields := struct { u8 axis; string note; }; };";
    let stream = (1..=records).flat_map(|time| [7, time, 2, b'u', b'p', 0]).collect();
    let files = Memory { metadata: metadata.into(), streams: vec![("s".into(), stream)] };
    Trace::from_files(&files).unwrap().value
}

/// A trace that has as many records as it is told.
struct Told {
    records: mpsc::Receiver<Step>,
    index: GrowingIndex,
}

enum Step {
    Grow(u8),
    Fail(&'static str),
    End(u8),
}

impl Told {
    fn open(&mut self, records: u8) -> Opened {
        Opened::growing(vec![trace(records)], &mut self.index, i64::MAX, "told".into(), Vec::new())
    }
}

impl Source for Told {
    fn look(&mut self) -> Look {
        match self.records.try_recv() {
            Ok(Step::Grow(records)) => Look::Grown(self.open(records)),
            Ok(Step::Fail(why)) => Look::Failed(why.into()),
            Ok(Step::End(records)) => {
                self.index.end();
                Look::Ended(self.open(records))
            }
            Err(_) => Look::Same,
        }
    }
}

impl Running {
    fn start() -> Running {
        Running::start_with(|server| server)
    }

    fn start_with(with: impl FnOnce(Server) -> Server) -> Running {
        let metadata = "typealias integer { size = 8; } := u8;
            clock { name = c; freq = 1000; };
            stream { event.header := struct { u8 id; integer { size = 8; map = clock.c.value; } timestamp; }; };
            event { id = 7; name = \"motor:step\"; fields := struct { u8 axis; string note; }; };";
        let stream = vec![7, 1, 2, b'u', b'p', 0, 7, 5, 3, b'o', b'n', 0];
        let files = Memory { metadata: metadata.into(), streams: vec![("s".into(), stream)] };
        let trace = Trace::from_files(&files).unwrap().value;
        let opened = Opened::new(vec![trace], Indexes::default(), "t".into(), Vec::new());
        let server = with(Server::bind(opened, 0).unwrap());
        let (port, address, stopper) = (server.port().unwrap(), server.address().unwrap(), server.stopper());
        let token = address.trim_end_matches('/').rsplit('/').next().unwrap().to_owned();
        assert_eq!(address, format!("http://127.0.0.1:{port}/{token}/"));
        let thread = Some(std::thread::spawn(move || server.run()));
        Running { port, token, stopper, thread }
    }

    /// Status, head in lower case, and body of the response to a request as it is.
    fn raw(&self, request: &str) -> (u16, String, Vec<u8>) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        let end = all.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(all.len());
        let head = String::from_utf8_lossy(&all[..end]).to_lowercase();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        (status, head, all.get(end + 4..).unwrap_or_default().to_vec())
    }

    fn get(&self, path: &str, headers: &str) -> (u16, String, Vec<u8>) {
        let port = self.port;
        self.raw(&format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n{headers}\r\n"))
    }

    fn send(&self, method: &str, rest: &str, headers: &str, body: &str) -> (u16, String, Vec<u8>) {
        let (token, bytes) = (&self.token, body.len());
        self.raw(&format!(
            "{method} /{token}/{rest} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {bytes}\r\n\
             {headers}\r\n{body}"
        ))
    }

    fn own(&self, rest: &str) -> (u16, String, Vec<u8>) {
        self.get(&format!("/{}/{rest}", self.token), "")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stopper.stop();
        let ended = self.thread.take().map(|thread| thread.join().unwrap());
        assert!(matches!(ended, Some(Ok(()))), "{ended:?}");
    }
}

#[test]
fn a_page_and_answers_are_served_with_their_policy() {
    let server = Running::start();
    let (status, head, body) = server.own("");
    assert_eq!(status, 200, "{head}");
    assert!(!body.is_empty() && head.contains("content-type: text/html; charset=utf-8"), "{head}");
    for part in [
        "content-security-policy: default-src 'none'; script-src 'self'",
        "frame-ancestors 'none'",
        "x-content-type-options: nosniff",
        "referrer-policy: no-referrer",
        "cross-origin-resource-policy: same-origin",
        "cache-control: no-store",
    ] {
        assert!(head.contains(part), "{part} in {head}");
    }
    let (status, head, body) = server.own("q/overview?bins=2&format=json");
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
    assert!(head.contains("content-type: application/json"));
    let text = String::from_utf8(body).unwrap();
    assert!(text.contains("\"records\":[1,1]"), "{text}");
    let (status, head, frame) = server.own("q/overview?bins=2");
    assert_eq!((status, &frame[..8]), (200, &b"KYMOCOL1"[..]));
    assert!(head.contains("application/vnd.kymo.columns"));
    let (status, _, list) = server.own("q/");
    assert!(status == 200 && String::from_utf8_lossy(&list).contains("\"cpus\""));
}

#[test]
fn strangers_are_refused() {
    let server = Running::start();
    let (port, token) = (server.port, &server.token);
    let page = format!("/{token}/");
    let with = |request: &str| server.raw(request).0;
    assert_eq!(with(&format!("GET {page} HTTP/1.1\r\nHost: evil.example:{port}\r\nConnection: close\r\n\r\n")), 403);
    assert_eq!(with(&format!("GET {page} HTTP/1.0\r\n\r\n")), 403);
    assert_eq!(
        with(&format!("GET {page} HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n")),
        403
    );
    assert_eq!(server.get(&page, "Origin: http://evil.example\r\n").0, 403);
    assert_eq!(server.get(&page, "Origin: null\r\n").0, 403);
    assert_eq!(server.get(&format!("{page}q/summary"), "Sec-Fetch-Site: cross-site\r\n").0, 403);
    assert_eq!(server.get("/", "").0, 404);
    assert_eq!(server.get("/0123456789abcdef0123456789abcdef/", "").0, 404);
    for path in
        ["../../../etc/passwd", "%2e%2e/%2e%2e/etc/passwd", "..%2f..%2fetc/passwd", "index.html%00", "q/../../x"]
    {
        assert_eq!(server.own(path).0, 404, "{path}");
    }
    assert_eq!(with(&format!("POST {page}q/summary HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")), 405);
    let long = "x".repeat(20_000);
    assert!(matches!(server.get(&page, &format!("X-Long: {long}\r\n")).0, 400..=499));
    assert_eq!(with("nonsense\r\n\r\n"), 400);
}

#[test]
fn errors_are_objects() {
    let server = Running::start();
    for (query, status, kind) in [
        ("q/nothing", 404, "question"),
        ("q/overview?bins=100000", 400, "parameter"),
        ("q/overview?from=NaN", 400, "parameter"),
        ("q/overview?x=1", 400, "parameter"),
        ("q/records?filter=(", 400, "filter"),
        ("q/records?filter=%ff", 400, "parameter"),
        ("q/cpus", 422, "trace"),
    ] {
        let (found, head, body) = server.own(query);
        let text = String::from_utf8_lossy(&body).into_owned();
        assert_eq!(found, status, "{query}: {head} {text}");
        assert!(text.contains(&format!("\"kind\":\"{kind}\"")), "{query}: {text}");
        assert!(head.contains("application/json"), "{query}: {head}");
    }
}

#[test]
fn a_connection_that_is_closed_does_not_hurt_and_one_that_stays_does_not_hold_up_the_end() {
    let server = Running::start();
    for _ in 0..50 {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
        let request = format!("GET /{}/q/summary HTTP/1.1\r\nHost: localhost\r\n\r\n", server.token);
        stream.write_all(request.as_bytes()).unwrap();
    }
    let idle = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    assert_eq!(server.own("q/summary").0, 200);
    drop(server);
    drop(idle);
}

/// What a script of the page sends.
const OF_PAGE: &str = "Content-Type: application/json\r\nOrigin: http://localhost\r\nSec-Fetch-Site: same-origin\r\n";

#[test]
fn bookmarks_are_kept_for_the_page_and_for_nobody_else() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join(".kymo-notes.json");
    let server = Running::start_with(|server| server.with_notes(vec![file.clone()]));
    let body = r#"{"revision": 0, "notes": [{"at": "1500", "to": null, "text": "<b>here"}]}"#;
    for headers in [
        "",
        "Content-Type: text/plain\r\n",
        "Content-Type: application/x-www-form-urlencoded\r\n",
        "Content-Type: application/json\r\nOrigin: http://evil.example\r\n",
        "Content-Type: application/json\r\nOrigin: null\r\n",
        "Content-Type: application/json\r\nSec-Fetch-Site: cross-site\r\n",
    ] {
        let status = server.send("POST", "notes", headers, body).0;
        assert!(matches!(status, 403 | 415), "{headers}: {status}");
    }
    assert_eq!(server.send("OPTIONS", "notes", "Origin: http://evil.example\r\n", "").0, 403);
    assert_eq!(server.send("PUT", "notes", OF_PAGE, body).0, 405);
    assert!(!file.exists());
    let (status, head, found) = server.send("POST", "notes", OF_PAGE, body);
    assert_eq!(status, 200, "{head} {}", String::from_utf8_lossy(&found));
    assert_eq!(server.own("notes").2, found);
    assert!(String::from_utf8_lossy(&found).contains("\"place\":\"beside the trace\""));
    assert_eq!(server.send("POST", "notes", OF_PAGE, body).0, 409);
    assert_eq!(server.send("POST", "notes", OF_PAGE, "{").0, 400);
    // A body that is too long is not read to its end.
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    let (token, long) = (&server.token, "x".repeat(4 << 20));
    let head =
        format!("POST /{token}/notes HTTP/1.1\r\nHost: localhost\r\n{OF_PAGE}Content-Length: {}\r\n\r\n", long.len());
    let _ = stream.write_all((head + &long).as_bytes());
    let mut answered = Vec::new();
    let _ = stream.read_to_end(&mut answered);
    assert!(!answered.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answered));
    assert_eq!(server.own("notes").2, found);
    assert!(std::fs::read_to_string(&file).unwrap().contains("kymo-notes-1"));
}

#[test]
fn the_trace_server_protocol_is_off_unless_asked_for_and_is_told_to_web_views_only() {
    let json = "Content-Type: application/json\r\n";
    let view = "Origin: vscode-webview://0a1b\r\n";
    assert_eq!(Running::start().own("tsp/api/health").0, 404);
    let server = Running::start_with(|server| server.with_tsp(vec!["/traces/t".into()]));
    let (status, head, body) = server.send("GET", "tsp/api/health", &format!("{json}{view}"), "");
    assert_eq!((status, body), (200, br#"{"status":"UP"}"#.to_vec()));
    for part in
        ["content-type: application/json\r\n", "access-control-allow-origin: vscode-webview://0a1b", "vary: origin"]
    {
        assert!(head.contains(part), "{part} in {head}");
    }
    let (status, head, _) = server.send("OPTIONS", "tsp/api/experiments", view, "");
    assert!(status == 204 && head.contains("access-control-allow-headers: origin, content-type"), "{head}");
    assert!(!head.contains("private-network"));
    let (status, head, _) = server.send("GET", "tsp/api/health", "Origin: http://evil.example\r\n", "");
    assert!(status == 403 && !head.contains("access-control"), "{head}");
    assert_eq!(server.send("POST", "tsp/api/traces", "Content-Type: text/plain\r\n", "{}").0, 415);
    assert_eq!(server.send("POST", "tsp/api/traces", json, "{").0, 400);
    let open =
        |uri: &str| server.send("POST", "tsp/api/traces", json, &format!("{{\"parameters\":{{\"uri\":\"{uri}\"}}}}")).0;
    assert_eq!([open("/traces/t"), open("/etc"), open("/traces/t/../x")], [200, 404, 404]);
    assert_eq!(server.get("/0123456789abcdef0123456789abcdef/tsp/api/health", "").0, 404);
    // The rest of the server is as strict as before.
    assert_eq!(server.send("GET", "q/summary", view, "").0, 403);
}

impl Running {
    fn news(&self, query: &str) -> Value {
        let (status, head, body) = self.own(&format!("live{query}"));
        assert!(status == 200 && head.contains("application/json"), "{head}");
        serde_json::from_slice(&body).unwrap()
    }

    fn records(&self) -> u64 {
        let (_, _, body) = self.own("q/overview?bins=1&format=json");
        let answer: Value = serde_json::from_slice(&body).unwrap();
        let bins = answer["tables"]["bins"]["records"].as_array().unwrap().clone();
        bins.iter().filter_map(Value::as_u64).sum()
    }
}

#[test]
fn pages_are_told_what_is_new_when_it_is() {
    let (steps, records) = mpsc::channel();
    let mut source = Told { records, index: GrowingIndex::default() };
    let _ = source.open(2);
    let server = Running::start_with(|server| server.follow(Some(Box::new(source))));
    let now = server.news("");
    assert_eq!((&now["state"], &now["number"]), (&"live".into(), &0.into()));
    let wait = |after: u64| {
        let begin = Instant::now();
        let news = server.news(&format!("?after={after}"));
        assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
        news
    };
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| wait(0));
        std::thread::sleep(Duration::from_millis(100));
        assert!(!waiting.is_finished(), "nothing is new yet");
        steps.send(Step::Grow(5)).unwrap();
        let news = waiting.join().unwrap();
        assert_eq!((&news["number"], &news["records"], &news["to"]), (&1.into(), &5.into(), &4_000_001.into()));
    });
    assert_eq!(server.records(), 5);
    steps.send(Step::Fail("the disk is gone")).unwrap();
    let news = wait(1);
    assert_eq!((&news["state"], &news["problem"]), (&"live".into(), &"the disk is gone".into()));
    assert_eq!(server.records(), 5, "what was read stays");
    steps.send(Step::Grow(6)).unwrap();
    assert_eq!((&wait(2)["problem"], server.records()), (&Value::Null, 6));
    steps.send(Step::End(9)).unwrap();
    let news = wait(3);
    assert_eq!((&news["state"], &news["records"]), (&"ended".into(), &9.into()));
    assert_eq!(server.records(), 9);
}

#[test]
fn a_whole_trace_has_no_news_and_a_page_that_waits_does_not_hold_up_the_end() {
    let server = Running::start();
    assert_eq!(server.news("")["state"], "whole");
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    let request = format!("GET /{}/live?after=0 HTTP/1.1\r\nHost: localhost\r\n\r\n", server.token);
    stream.write_all(request.as_bytes()).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let begin = Instant::now();
    drop(server);
    assert!(begin.elapsed() < Duration::from_secs(5));
    // The page sees at once that the server is gone.
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    assert!(rest.is_empty());
}

#[test]
fn other_traces_answer_at_their_own_addresses() {
    let others = || {
        let opened =
            [7, 9].map(|records| Opened::new(vec![trace(records)], Indexes::default(), String::new(), Vec::new()));
        let names = ["one", "two", "three"].map(String::from).to_vec();
        Others { relation: Relation::Hosts, names, opened: opened.map(Arc::new).to_vec() }
    };
    let server = Running::start_with(|server| server.with_others(Some(others())));
    let count = |path: &str| {
        let (status, _, body) = server.own(path);
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
        let answer: Value = serde_json::from_slice(&body).unwrap();
        answer["info"]["records"].as_u64().unwrap()
    };
    let ask = || ["", "o/1/", "o/2/"].map(|of| count(&format!("{of}q/summary?format=json")));
    // Twice: what is kept is kept apart.
    assert_eq!((ask(), ask()), ([2, 7, 9], [2, 7, 9]));
    assert_eq!(server.own("o/3/q/summary").0, 404);
    let list = |server: &Running| serde_json::from_slice::<Value>(&server.own("q/").2).unwrap();
    assert_eq!(
        (&list(&server)["relation"], &list(&server)["names"]),
        (&json!("hosts"), &json!(["one", "two", "three"]))
    );
    let alone = Running::start();
    assert_eq!((alone.own("o/1/q/summary").0, &list(&alone)["relation"]), (404, &Value::Null));
}

#[test]
fn a_saved_page_is_one_file_of_a_bounded_size() {
    let opened = Opened::new(vec![trace(200)], Indexes::default(), "</script><b>".into(), Vec::new());
    let saved = match save(&opened, opened.whole(), SaveLimits { bytes_max: 2 << 20 }) {
        // Built without node: said, and no file.
        Err(SaveError::NoPage) => return,
        saved => saved.unwrap(),
    };
    assert!(saved.html.len() < 2 << 20 && saved.answers > 5, "{} answers", saved.answers);
    assert!(saved.html.contains("Content-Security-Policy") && saved.html.contains("default-src 'none'"));
    assert!(!saved.html.contains("</script><b>") && !saved.html.contains("127.0.0.1"));
    assert!(matches!(save(&opened, (5, 5), SaveLimits { bytes_max: 1 }), Err(SaveError::Empty)));
}
