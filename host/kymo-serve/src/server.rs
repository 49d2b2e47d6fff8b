// SPDX-License-Identifier: MIT OR Apache-2.0
//! The socket: connections, the threads that answer, and the end.

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Read as _};
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use kymo_query::{Error, Opened, Parameters, Stop};
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;

use crate::bookmarks::{self, Notebook};
use crate::keeping::Keeping;
use crate::lake::{self, LakeError, LakeSite, LakeSource};
use crate::live::{HOLD, Looking, Source};
use crate::memory::Memory;
use crate::page;
use crate::route::{QuestionRequest, RequestHead, Route, route};
use crate::site::{Others, Site};
use crate::tsp::{self, Admitted, Call, Tsp};

/// What a page may load: only what came from this server.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; \
    font-src 'self'; connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'";

/// Headers of all responses.
const HEADERS: [(&str, &str); 6] = [
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cache-control", "no-store"),
];

/// Bytes of the head of a request at most.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Time for the head of a request.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// Connections at a time; more are closed at once.
const CONNECTIONS_MAX: usize = 256;
/// Questions that are answered at a time, however few CPUs there are: those about the newest stretch of a live trace
/// are short, and do not wait for the end of a long one.
const THREADS_MIN: usize = 4;
/// Questions that wait for a thread; more are refused.
const WAITING_MAX: usize = 64;
/// Bytes of a body at most, and time for it.
const BODY_BYTES_MAX: usize = bookmarks::BYTES_MAX;
const BODY_TIME: Duration = Duration::from_secs(10);
/// Time for questions to end when the server does.
const END_TIME: Duration = Duration::from_secs(5);

/// A server that listens and has not begun.
pub struct Server {
    listener: TcpListener,
    token: String,
    opened: Opened,
    others: Option<Others>,
    source: Option<Box<dyn Source>>,
    stop: Arc<Notify>,
    tsp: Option<Tsp>,
    notes: Notebook,
    lake: Option<LakeSite>,
}

/// Ends a server from another thread.
#[derive(Clone)]
pub struct Stopper(Arc<Notify>);

impl Stopper {
    /// Ends it.
    pub fn stop(&self) {
        self.0.notify_one();
    }
}

/// What all connections share.
struct Shared {
    token: String,
    site: Arc<Site>,
    lake: Option<LakeSite>,
    threads: Arc<Semaphore>,
    waiting: AtomicUsize,
    memory: Arc<Memory>,
    keeping: Keeping,
    tsp: Option<Arc<Tsp>>,
}

/// Stops the work for an answer when nobody waits for it any more.
struct StopOnDrop(Arc<Stop>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.set();
    }
}

/// Counts who waits.
struct Waiting<'s>(&'s AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// 128 random bits as text.
fn token() -> io::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(format!("{:032x}", u128::from_le_bytes(bytes)))
}

impl Server {
    /// Listens on the loopback interface; port 0: on any that is free.
    ///
    /// # Errors
    /// The port is taken, or there are no random numbers.
    pub fn bind(opened: Opened, port: u16) -> io::Result<Server> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        listener.set_nonblocking(true)?;
        let stop = Arc::new(Notify::new());
        let (tsp, lake, notes) = (None, None, Notebook::default());
        Ok(Server { listener, token: token()?, opened, others: None, source: None, stop, tsp, notes, lake })
    }

    /// Speaks the Trace Server Protocol, too [spec/view.md 10]. `dirs`: what was opened; clients name it.
    #[must_use]
    pub fn with_tsp(mut self, dirs: Vec<PathBuf>) -> Server {
        self.tsp = Some(Tsp::new(dirs));
        self
    }

    /// Keeps bookmarks in the first of these files that is there; else in the first that can be made.
    #[must_use]
    pub fn with_notes(mut self, places: Vec<PathBuf>) -> Server {
        self.notes = Notebook::new(places);
        self
    }

    /// Serves the page over a lake, and below it the traces that are asked for [spec/view.md 11].
    #[must_use]
    pub fn with_lake(mut self, source: Arc<dyn LakeSource>) -> Server {
        self.lake = Some(LakeSite::new(source));
        self
    }

    /// Answers questions about other traces, too.
    #[must_use]
    pub fn with_others(mut self, others: Option<Others>) -> Server {
        self.others = others;
        self
    }

    /// The trace is being written: goes on with what this finds.
    #[must_use]
    pub fn follow(mut self, source: Option<Box<dyn Source>>) -> Server {
        self.source = source;
        self
    }

    /// The port.
    ///
    /// # Errors
    /// The system does not tell.
    pub fn port(&self) -> io::Result<u16> {
        self.listener.local_addr().map(|address| address.port())
    }

    /// Where the page is.
    ///
    /// # Errors
    /// As [`Server::port`].
    pub fn address(&self) -> io::Result<String> {
        Ok(format!("http://127.0.0.1:{}/{}/", self.port()?, self.token))
    }

    /// Where trace viewers of editors ask; none where it does not speak their protocol.
    ///
    /// # Errors
    /// As [`Server::port`].
    pub fn tsp_address(&self) -> io::Result<Option<String>> {
        let address = self.address()?;
        Ok(self.tsp.is_some().then(|| format!("{address}tsp/api")))
    }

    /// What ends it.
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.stop))
    }

    /// Serves until it is stopped.
    ///
    /// # Errors
    /// Threads or the socket.
    pub fn run(self) -> io::Result<()> {
        let threads = std::thread::available_parallelism().map_or(2, usize::from).max(THREADS_MIN);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(threads)
            .thread_name("kymo-serve")
            .enable_all()
            .build()?;
        let site = Site::new(self.opened, self.source.is_some()).with_others(self.others).with_notes(self.notes);
        let looking = self.source.map(|source| Looking::start(source, Arc::clone(&site.current))).transpose()?;
        let memory = Arc::<Memory>::default();
        let shared = Arc::new(Shared {
            token: self.token,
            site: Arc::new(site),
            lake: self.lake,
            threads: Arc::new(Semaphore::new(threads)),
            waiting: AtomicUsize::new(0),
            keeping: Keeping::new(Arc::clone(&memory)),
            memory,
            tsp: self.tsp.map(Arc::new),
        });
        let served = runtime.block_on(serve(self.listener, shared, self.stop));
        drop(looking);
        runtime.shutdown_timeout(END_TIME);
        served
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>, stop: Arc<Notify>) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let mut connections = JoinSet::new();
    loop {
        let stream = tokio::select! {
            () = stop.notified() => break,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                // Too many open files, as a rule: those that are open will close.
                Err(_) => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        if connections.len() >= CONNECTIONS_MAX {
            continue;
        }
        let _ = stream.set_nodelay(true);
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            let service = service_fn(move |request| {
                let shared = Arc::clone(&shared);
                async move { Ok::<_, Infallible>(respond(&shared, request).await) }
            });
            // A connection that ends badly has nobody to tell.
            let _ = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIME)
                .max_buf_size(HEAD_BYTES_MAX)
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
    // What they wait for is stopped with them.
    connections.shutdown().await;
    Ok(())
}

/// The only value of a header.
fn only(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?;
    if values.next().is_some() { None } else { first.to_str().ok() }
}

async fn respond(shared: &Arc<Shared>, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let (parts, body) = request.into_parts();
    let headers = &parts.headers;
    // What is there and cannot be read is another origin.
    let origin = headers.contains_key(header::ORIGIN).then(|| only(headers, header::ORIGIN).unwrap_or_default());
    let head = RequestHead {
        method: parts.method.as_str(),
        path: parts.uri.path(),
        query: parts.uri.query().unwrap_or_default(),
        host: only(headers, header::HOST),
        origin,
        fetch_site: headers.get("sec-fetch-site").map(|site| site.to_str().unwrap_or_default()),
        content_type: only(headers, header::CONTENT_TYPE),
    };
    if let Some(tsp) = &shared.tsp {
        let admitted = tsp::admit(&head, &shared.token);
        if admitted != Admitted::Elsewhere {
            let mut response = speak(shared, tsp, admitted, head.method, body).await;
            let has_asked = headers.contains_key("access-control-request-private-network");
            allow(&mut response, head.origin, has_asked);
            return response;
        }
    }
    let mut response = match route(&head, &shared.token) {
        Route::File(name) if name.is_empty() && shared.lake.is_some() => file("lake.html"),
        Route::OfTrace(trace, route) => of_trace(shared, &trace, *route, body).await,
        Route::Lake(asked) => ask_lake(shared, asked).await,
        route => of_site(shared, &shared.site, route, body).await,
    };
    if head.method == "HEAD" {
        *response.body_mut() = Full::default();
    }
    response
}

/// What is asked of one trace.
async fn of_site(shared: &Arc<Shared>, site: &Arc<Site>, route: Route, body: Incoming) -> Response<Full<Bytes>> {
    match route {
        Route::File(name) => file(&name),
        Route::Questions => of(StatusCode::OK, JSON, site.questions().to_string().into()),
        Route::Question(asked) => ask(shared, site, asked).await,
        Route::Notes(false) => noted(shared, site, None).await,
        Route::Notes(true) => match whole(body).await {
            Ok(body) => noted(shared, site, Some(body)).await,
            Err(status) => failed(status, "parameter", "the body is too large, or did not come"),
        },
        Route::News(after) => news(site, after).await,
        Route::AddSlash => {
            let mut response = said(308, "with a slash at the end");
            if let Ok(place) = HeaderValue::from_str(&format!("/{}/", shared.token)) {
                response.headers_mut().insert(header::LOCATION, place);
            }
            response
        }
        Route::Refused(status, why) => said(status, why),
        Route::Malformed(why) => failed(400, "parameter", why),
        // Nothing of a lake is below a trace.
        Route::Lake(_) | Route::OfTrace(..) => said(404, "there is nothing at this address"),
    }
}

fn file(name: &str) -> Response<Full<Bytes>> {
    match page::file(name) {
        Some((kind, bytes)) => of(StatusCode::OK, kind, bytes.into()),
        None => said(404, "there is nothing at this address"),
    }
}

/// What is asked of a trace of the lake: it is opened by the first question.
async fn of_trace(shared: &Arc<Shared>, trace: &str, route: Route, body: Incoming) -> Response<Full<Bytes>> {
    let Some(lake) = &shared.lake else { return said(404, "there is nothing at this address") };
    if matches!(route, Route::File(_) | Route::Refused(..) | Route::Malformed(_)) {
        return of_site(shared, &shared.site, route, body).await;
    }
    let opening = lake.opening(trace);
    let open = || async {
        let (source, trace) = (lake.source(), trace.to_owned());
        match work(shared, move |stop| lake::open(&*source, &trace, stop)).await {
            Ok(Ok(site)) => Ok(site),
            Ok(Err(error)) => Err(lake_failed(&error)),
            Err(busy) => Err(busy.response()),
        }
    };
    match opening.get_or_try_init(open).await {
        Ok(site) => of_site(shared, site, route, body).await,
        Err(response) => response,
    }
}

async fn ask_lake(shared: &Arc<Shared>, asked: QuestionRequest) -> Response<Full<Bytes>> {
    let Some(lake) = &shared.lake else { return said(404, "there is nothing at this address") };
    let source = lake.source();
    match work(shared, move |stop| lake::ask(&*source, asked, stop)).await {
        Ok(Ok(answer)) => of(StatusCode::OK, if answer.is_json { JSON } else { FRAME }, answer.bytes.into()),
        Ok(Err(error)) => lake_failed(&error),
        Err(busy) => busy.response(),
    }
}

fn lake_failed(error: &LakeError) -> Response<Full<Bytes>> {
    of(status(error.status()), JSON, json!({ "error": error.error }).to_string().into())
}

const JSON: &str = "application/json";
const FRAME: &str = "application/vnd.kymo.columns";

/// A response with the headers of all.
fn of(status: StatusCode, kind: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

fn status(number: u16) -> StatusCode {
    StatusCode::from_u16(number).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

fn said(number: u16, text: &str) -> Response<Full<Bytes>> {
    of(status(number), "text/plain; charset=utf-8", format!("{text}\n").into())
}

fn failed(number: u16, kind: &str, message: &str) -> Response<Full<Bytes>> {
    let error = json!({ "kind": kind, "message": message, "parameter": null, "hint": null });
    of(status(number), JSON, json!({ "error": error }).to_string().into())
}

fn refused(error: &Error) -> Response<Full<Bytes>> {
    let number = match error {
        Error::Parameter { .. } | Error::Refused(_) => 400,
        Error::Question(_) => 404,
        Error::Trace { .. } => 422,
        // Nobody reads it.
        Error::Stopped => 503,
    };
    of(status(number), JSON, error.json().to_string().into())
}

/// What is new behind a number, as soon as there is something; what is there, after a while.
async fn news(site: &Site, after: Option<u64>) -> Response<Full<Bytes>> {
    let mut waiting = site.current.wait();
    let is_new = tokio::time::timeout(HOLD, waiting.news.wait_for(|news| after != Some(news.number))).await;
    drop(is_new);
    let body = waiting.news.borrow().json().to_string();
    of(StatusCode::OK, JSON, body.into())
}

async fn ask(shared: &Arc<Shared>, site: &Site, asked: QuestionRequest) -> Response<Full<Bytes>> {
    let Some(asking) = site.asking(&asked) else {
        return failed(404, "question", "there is no other trace of this number: kymo view A --beside B shows two");
    };
    if let Some((bytes, kind)) = site.kept(&asking) {
        return of(StatusCode::OK, kind, bytes);
    }
    let opened = Arc::clone(&asking.opened);
    let found = work(shared, move |stop| {
        let answer = kymo_query::answer(&opened, &asked.question, Parameters::new(asked.parameters), stop)?;
        Ok::<_, Error>(match asked.json {
            true => (Bytes::from(answer.json().to_string()), JSON),
            false => (Bytes::from(answer.frame()), FRAME),
        })
    });
    match found.await {
        Ok(Ok(sent)) => {
            shared.keeping.answered(&asking.opened);
            site.keep(asking, &sent);
            of(StatusCode::OK, sent.1, sent.0)
        }
        Ok(Err(error)) => refused(&error),
        Err(busy) => busy.response(),
    }
}

/// Why there is no answer, whatever was asked.
enum NoAnswer {
    Busy,
    Ends,
    Defect,
}

impl NoAnswer {
    fn message(&self) -> &'static str {
        match self {
            NoAnswer::Busy => "too many questions at a time: ask again",
            NoAnswer::Ends => "the server ends",
            NoAnswer::Defect => "a defect of kymo: the question ended without an answer",
        }
    }

    fn response(&self) -> Response<Full<Bytes>> {
        match self {
            NoAnswer::Busy | NoAnswer::Ends => failed(503, "busy", self.message()),
            NoAnswer::Defect => failed(500, "internal", self.message()),
        }
    }
}

/// Does the work of an answer on a thread of its own; it is stopped where nobody waits for it any more.
async fn work<T: Send + 'static>(
    shared: &Arc<Shared>,
    go: impl FnOnce(&Stop) -> T + Send + 'static,
) -> Result<T, NoAnswer> {
    let stop = Arc::new(Stop::default());
    let on_drop = StopOnDrop(Arc::clone(&stop));
    if shared.waiting.fetch_add(1, Ordering::Relaxed) >= WAITING_MAX {
        shared.waiting.fetch_sub(1, Ordering::Relaxed);
        return Err(NoAnswer::Busy);
    }
    let waiting = Waiting(&shared.waiting);
    let Ok(permit) = Arc::clone(&shared.threads).acquire_owned().await else { return Err(NoAnswer::Ends) };
    drop(waiting);
    let memory = Arc::clone(&shared.memory);
    let work = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let found = go(&stop);
        memory.answered();
        found
    });
    let found = work.await;
    drop(on_drop);
    found.map_err(|_| NoAnswer::Defect)
}

/// A body, as far as it may be long; else a status.
async fn whole(body: Incoming) -> Result<Bytes, u16> {
    let read = Limited::new(body, BODY_BYTES_MAX).collect();
    match tokio::time::timeout(BODY_TIME, read).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(_)) => Err(413),
        Err(_) => Err(408),
    }
}

/// Loads or saves bookmarks.
async fn noted(shared: &Arc<Shared>, site: &Site, body: Option<Bytes>) -> Response<Full<Bytes>> {
    let notes = Arc::clone(&site.notes);
    let found = work(shared, move |_| match body {
        Some(body) => notes.save(&body),
        None => notes.load(),
    });
    match found.await {
        Ok(Ok(value)) => of(StatusCode::OK, JSON, value.to_string().into()),
        Ok(Err(error)) => {
            let (number, kind) = error.status();
            failed(number, kind, &error.to_string())
        }
        Err(busy) => busy.response(),
    }
}

/// Answers in the Trace Server Protocol. A status above 501 would say that the server is down.
async fn speak(
    shared: &Arc<Shared>,
    tsp: &Arc<Tsp>,
    admitted: Admitted,
    method: &str,
    body: Incoming,
) -> Response<Full<Bytes>> {
    let untold = |number: u16, title: &str| of(status(number), JSON, json!({ "title": title }).to_string().into());
    let path = match admitted {
        Admitted::Call(path) => path,
        Admitted::Preflight => return of(StatusCode::NO_CONTENT, JSON, Bytes::new()),
        Admitted::Refused(number, why) => return untold(number, why),
        Admitted::Elsewhere => return untold(404, "there is nothing at this address"),
    };
    let body = match method {
        "POST" | "PUT" => match whole(body).await {
            Ok(body) => serde_json::from_slice(&body),
            Err(number) => return untold(number, "the body is too large, or did not come"),
        },
        _ => Ok(Value::Null),
    };
    let Ok(body) = body else { return untold(400, "the body is no JSON") };
    let (tsp, call) = (Arc::clone(tsp), Call { method: method.to_owned(), path, body });
    let (_, opened) = shared.site.current.opened();
    let asked = Arc::clone(&opened);
    let found = work(shared, move |stop| {
        let (number, value) = tsp.respond(&asked, &call, stop);
        (number, Bytes::from(value.to_string()))
    });
    match found.await {
        Ok((number, bytes)) => {
            shared.keeping.answered(&opened);
            of(status(number), JSON, bytes)
        }
        Err(NoAnswer::Busy) => untold(429, NoAnswer::Busy.message()),
        Err(other) => untold(500, other.message()),
    }
}

/// Tells a browser that a script of this origin may read the response, if it may.
fn allow(response: &mut Response<Full<Bytes>>, origin: Option<&str>, asks_for_private_network: bool) {
    let headers = response.headers_mut();
    headers.insert(header::VARY, HeaderValue::from_static("Origin"));
    let Some(origin) = origin.filter(|origin| tsp::may_read(origin)) else { return };
    let Ok(origin) = HeaderValue::from_str(origin) else { return };
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    let all = [
        ("access-control-allow-methods", "GET, POST, PUT, DELETE, OPTIONS"),
        ("access-control-allow-headers", "origin, content-type, accept, authorization"),
        ("access-control-max-age", "7200"),
    ];
    for (name, value) in all {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if asks_for_private_network {
        headers.insert("access-control-allow-private-network", HeaderValue::from_static("true"));
    }
}
