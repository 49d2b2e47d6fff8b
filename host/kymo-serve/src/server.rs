// SPDX-License-Identifier: MIT OR Apache-2.0
//! The socket: connections, the threads that answer, and the end.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Read as _};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use kymo_query::{Error, Opened, Parameters, QUESTIONS, Stop};
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;

use crate::page;
use crate::route::{Asked, RequestHead, Route, route};

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
/// Questions that wait for a thread; more are refused.
const WAITING_MAX: usize = 64;
/// Answers that are the same each time, and take a pass over the trace.
const KEPT: [&str; 3] = ["summary", "places", "overview"];
/// How many of them are kept, and how large they may be.
const KEPT_MAX: usize = 32;
const KEPT_BYTES_MAX: usize = 1 << 20;
/// Time for questions to end when the server does.
const END_TIME: Duration = Duration::from_secs(5);

/// A server that listens and has not begun.
pub struct Server {
    listener: TcpListener,
    token: String,
    opened: Arc<Opened>,
    stop: Arc<Notify>,
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
    opened: Arc<Opened>,
    threads: Arc<Semaphore>,
    waiting: AtomicUsize,
    kept: Mutex<HashMap<String, (Bytes, &'static str)>>,
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
        Ok(Server { listener, token: token()?, opened: Arc::new(opened), stop: Arc::new(Notify::new()) })
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

    /// What ends it.
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.stop))
    }

    /// Serves until it is stopped.
    ///
    /// # Errors
    /// Threads or the socket.
    pub fn run(self) -> io::Result<()> {
        let threads = std::thread::available_parallelism().map_or(2, usize::from).max(2);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(threads)
            .thread_name("kymo-serve")
            .enable_all()
            .build()?;
        let shared = Arc::new(Shared {
            token: self.token,
            opened: self.opened,
            threads: Arc::new(Semaphore::new(threads)),
            waiting: AtomicUsize::new(0),
            kept: Mutex::new(HashMap::new()),
        });
        let served = runtime.block_on(serve(self.listener, shared, self.stop));
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
    // A body is not read.
    let (parts, _) = request.into_parts();
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
    };
    let mut response = match route(&head, &shared.token) {
        Route::File(name) => match page::file(&name) {
            Some((kind, bytes)) => of(StatusCode::OK, kind, bytes.into()),
            None => said(404, "there is nothing at this address"),
        },
        Route::Questions => of(StatusCode::OK, JSON, questions().to_string().into()),
        Route::Question(asked) => ask(shared, asked).await,
        Route::AddSlash => {
            let mut response = said(308, "with a slash at the end");
            if let Ok(place) = HeaderValue::from_str(&format!("/{}/", shared.token)) {
                response.headers_mut().insert(header::LOCATION, place);
            }
            response
        }
        Route::Refused(status, why) => said(status, why),
        Route::Malformed(why) => failed(400, "parameter", why),
    };
    if head.method == "HEAD" {
        *response.body_mut() = Full::default();
    }
    response
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

fn questions() -> Value {
    let one = |of: &kymo_query::Question| json!({ "name": of.name, "about": of.about, "parameters": of.parameters });
    json!({ "version": kymo_query::VERSION, "questions": QUESTIONS.iter().map(one).collect::<Vec<Value>>() })
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

async fn ask(shared: &Arc<Shared>, asked: Asked) -> Response<Full<Bytes>> {
    let key = KEPT.contains(&asked.question.as_str()).then(|| format!("{asked:?}"));
    let kept = || shared.kept.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((bytes, kind)) = key.as_ref().and_then(|key| kept().get(key).cloned()) {
        return of(StatusCode::OK, kind, bytes);
    }
    let stop = Arc::new(Stop::default());
    let on_drop = StopOnDrop(Arc::clone(&stop));
    if shared.waiting.fetch_add(1, Ordering::Relaxed) >= WAITING_MAX {
        shared.waiting.fetch_sub(1, Ordering::Relaxed);
        return failed(503, "busy", "too many questions at a time: ask again");
    }
    let waiting = Waiting(&shared.waiting);
    let Ok(permit) = Arc::clone(&shared.threads).acquire_owned().await else {
        return failed(503, "busy", "the server ends");
    };
    drop(waiting);
    let opened = Arc::clone(&shared.opened);
    let work = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let answer = kymo_query::answer(&opened, &asked.question, Parameters::new(asked.parameters), &stop)?;
        Ok::<_, Error>(match asked.json {
            true => (Bytes::from(answer.json().to_string()), JSON),
            false => (Bytes::from(answer.frame()), FRAME),
        })
    });
    let found = work.await;
    drop(on_drop);
    match found {
        Ok(Ok((bytes, kind))) => {
            if let Some(key) = key.filter(|_| bytes.len() <= KEPT_BYTES_MAX) {
                let mut kept = kept();
                if kept.len() < KEPT_MAX {
                    kept.insert(key, (bytes.clone(), kind));
                }
            }
            of(StatusCode::OK, kind, bytes)
        }
        Ok(Err(error)) => refused(&error),
        Err(_) => failed(500, "internal", "a defect of kymo: the question ended without an answer"),
    }
}
