//! Prometheus asks for everything that is counted and measured, over HTTP.
//!
//! A thread of its own speaks HTTP. It holds no state of the card: it wakes the event loop, which
//! answers between two pieces of its work.

mod text;

use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use control::Metrics;
use mio::Waker;
use tiny_http::{Header, Method, Request, Response, Server};

/// The event loop answers within microseconds.
const PATIENCE: Duration = Duration::from_secs(5);
/// Content type of the text format.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Who waits for an answer.
type Waiting = Mutex<Vec<SyncSender<Metrics>>>;

/// The HTTP server.
pub struct MetricsServer {
    http: Arc<Server>,
    waiting: Arc<Waiting>,
    thread: Option<JoinHandle<()>>,
}

impl MetricsServer {
    /// Listens on `address`. The event loop is woken by `waker` when it is to call
    /// [`Self::answer`].
    pub fn start(address: SocketAddr, waker: Arc<Waker>) -> io::Result<Self> {
        let http = Arc::new(Server::http(address).map_err(io::Error::other)?);
        let waiting: Arc<Waiting> = Arc::default();
        let thread = {
            let (http, waiting) = (Arc::clone(&http), Arc::clone(&waiting));
            let work = move || {
                for request in http.incoming_requests() {
                    serve(request, &waiting, &waker);
                }
            };
            std::thread::Builder::new().name("metrics".into()).spawn(work)?
        };
        Ok(Self { http, waiting, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> Option<SocketAddr> {
        self.http.server_addr().to_ip()
    }

    /// Answers who waits, if anybody does.
    pub fn answer(&self, metrics: impl FnOnce() -> Option<Metrics>) {
        let waiting = std::mem::take(&mut *lock(&self.waiting));
        if waiting.is_empty() {
            return;
        }
        if let Some(metrics) = metrics() {
            for one in waiting {
                // Who does not wait any more is not told.
                let _ = one.try_send(metrics.clone());
            }
        }
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.http.unblock();
        if let Some(thread) = self.thread.take() {
            // It has said what it has to say.
            let _ = thread.join();
        }
    }
}

fn lock(waiting: &Waiting) -> std::sync::MutexGuard<'_, Vec<SyncSender<Metrics>>> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(request: Request, waiting: &Waiting, waker: &Waker) {
    let plain = |code: u16, text: &str| Response::from_string(text).with_status_code(code);
    let response = if request.url() != "/metrics" {
        plain(404, "there is only /metrics\n")
    } else if !matches!(request.method(), Method::Get | Method::Head) {
        plain(405, "/metrics can only be read\n")
    } else {
        match ask(waiting, waker) {
            Some(metrics) => {
                let response = plain(200, &text::metrics(&metrics));
                match Header::from_bytes("Content-Type", TEXT) {
                    Ok(header) => response.with_header(header),
                    Err(()) => response,
                }
            }
            None => plain(503, "the card does not answer\n"),
        }
    };
    if let Err(error) = request.respond(response) {
        log::debug!("metrics: {error}");
    }
}

fn ask(waiting: &Waiting, waker: &Waker) -> Option<Metrics> {
    let (answer, question) = sync_channel(1);
    lock(waiting).push(answer);
    waker.wake().ok()?;
    question.recv_timeout(PATIENCE).ok()
}
