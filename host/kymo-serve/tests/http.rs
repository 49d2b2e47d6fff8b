// SPDX-License-Identifier: MIT OR Apache-2.0
//! The server over a real socket: pages, answers, who is refused, and its end.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread::JoinHandle;

use kymo_ctf::read::{Memory, Trace};
use kymo_index::Indexes;
use kymo_query::Opened;
use kymo_serve::{Server, Stopper};

/// A server of a trace with two records.
struct Running {
    port: u16,
    token: String,
    stopper: Stopper,
    thread: Option<JoinHandle<std::io::Result<()>>>,
}

impl Running {
    fn start() -> Running {
        let metadata = "typealias integer { size = 8; } := u8;
            clock { name = c; freq = 1000; };
            stream { event.header := struct { u8 id; integer { size = 8; map = clock.c.value; } timestamp; }; };
            event { id = 7; name = \"motor:step\"; fields := struct { u8 axis; string note; }; };";
        let stream = vec![7, 1, 2, b'u', b'p', 0, 7, 5, 3, b'o', b'n', 0];
        let files = Memory { metadata: metadata.into(), streams: vec![("s".into(), stream)] };
        let trace = Trace::from_files(&files).unwrap().value;
        let opened = Opened::new(vec![trace], Indexes::default(), "t".into(), Vec::new());
        let server = Server::bind(opened, 0).unwrap();
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
