//! The event loop: one thread that owns a function and everything that reaches it.
//!
//! It waits for the vfio-user socket, the control socket, the card's next timer and the order to stop, and does a
//! bounded piece of work for each before it looks at all of them again, so that none waits long for another.

use std::error::Error as _;
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use control::{Refusal, Request, SlotChange};
use function::{Config, Wake};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Registry, Token, Waker};
use serde_json::Value;
use thiserror::Error;
use trace::WriteError;

use crate::control_server::ControlServer;
use crate::endpoint::Endpoint;
use crate::metrics::MetricsServer;
use crate::record::Recorder;
use crate::slot::Slot;
use crate::tracer::{StartTraceError, TraceOptions};
use crate::vfio_user::{BindError, Connection, Disconnect, Listener, Progress};

/// What to serve and where.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where the vfio-user socket is to be.
    pub socket: PathBuf,
    /// Where the control socket is to be; without, there is none.
    pub control: Option<PathBuf>,
    /// Where to record to; the file must not exist. Without, nothing is recorded.
    pub record: Option<PathBuf>,
    /// Where Prometheus may ask; without, nowhere.
    pub metrics: Option<SocketAddr>,
    /// What to trace; without, nothing is.
    pub trace: Option<TraceOptions>,
    /// What the card is like.
    pub config: Config,
}

/// Why a server did not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// One of the sockets.
    #[error("cannot listen on {path}: {source}")]
    Socket {
        /// Which.
        path: PathBuf,
        /// Why.
        source: BindError,
    },
    /// The recording.
    #[error("cannot record to {path}: {source}")]
    Recording {
        /// Its file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The HTTP server.
    #[error("cannot listen on {address}: {source}")]
    Metrics {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The trace.
    #[error("cannot trace to {path}: {source}")]
    Trace {
        /// Its file.
        path: PathBuf,
        /// Why.
        source: StartTraceError,
    },
    /// The operating system refused something else.
    #[error("cannot start the event loop: {0}")]
    Loop(#[from] io::Error),
}

/// Why a server had to stop.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The recording can't be written: without it going on would be worth nothing.
    #[error("the recording cannot be written: {0}")]
    Recording(#[from] WriteError),
    /// Waiting failed.
    #[error("the event loop failed: {0}")]
    Loop(#[from] io::Error),
}

/// How a server ended that was asked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// A fault rule that must fire never did.
    pub fault_missed: bool,
}

const LISTENER: Token = Token(0);
const CLIENT: Token = Token(1);
const WAKER: Token = Token(2);
/// This one and all behind it belong to the control socket.
const CONTROL: Token = Token(3);

/// Stops a server, from any thread.
#[derive(Debug, Clone)]
pub struct Stopper {
    asked: Arc<AtomicBool>,
    waker: Arc<Waker>,
}

impl Stopper {
    /// The server ends as soon as it has finished its piece of work.
    pub fn stop(&self) {
        self.asked.store(true, Ordering::Release);
        if let Err(error) = self.waker.wake() {
            log::warn!("the event loop can't be woken: {error}");
        }
    }
}

/// A function that listens for its client.
pub struct Server {
    poll: Poll,
    stopper: Stopper,
    listener: Listener,
    control: Option<ControlServer>,
    client: Option<Connection>,
    /// The loop is woken when the client has read something.
    wants_room: bool,
    /// How many have connected so far.
    connections: u64,
    endpoint: Endpoint,
    metrics: Option<MetricsServer>,
    slot: Slot,
}

/// What there is to do.
#[derive(Debug, Default)]
struct Ready {
    listener: bool,
    client: bool,
    /// The client's socket will bring no more than it has.
    hung_up: bool,
    control: bool,
}

impl Server {
    /// Makes the sockets. From here on clients can connect; they are served by [`Server::run`].
    pub fn bind(options: Options) -> Result<Self, StartError> {
        let Options { socket, control, record, metrics, trace, config } = options;
        let name = socket.display().to_string();
        let poll = Poll::new()?;
        let listener = listen(socket)?;
        register(poll.registry(), &listener, LISTENER, Interest::READABLE)?;
        let control = match control {
            Some(path) => Some(ControlServer::new(listen(path)?, poll.registry(), CONTROL)?),
            None => None,
        };
        let recorder = record.map(|path| {
            Recorder::create(&path, &config)
                .map_err(|source| StartError::Recording { path, source })
        });
        let mut endpoint = Endpoint::new(&config, recorder.transpose()?);
        if let Some(trace) = trace {
            let path = trace.file.clone();
            endpoint.trace(trace, &name).map_err(|source| StartError::Trace { path, source })?;
        }
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        let metrics = metrics.map(|address| {
            MetricsServer::start(address, Arc::clone(&waker))
                .map_err(|source| StartError::Metrics { address, source })
        });
        let stopper = Stopper { asked: Arc::default(), waker };
        Ok(Self {
            poll,
            stopper,
            listener,
            control,
            client: None,
            wants_room: false,
            connections: 0,
            endpoint,
            metrics: metrics.transpose()?,
            slot: Slot::default(),
        })
    }

    /// Whoever reads `to` takes the card out of its slot and puts it in again, a line for each change.
    pub fn set_slot(&mut self, to: File) {
        self.slot = Slot::new(to);
    }

    /// What stops it.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Serves one client after another until it is stopped.
    pub fn run(mut self) -> Result<Ended, ServeError> {
        let mut events = Events::with_capacity(64);
        let mut ready = Ready::default();
        let mut wake = Wake::Now;
        while !self.stopper.asked.load(Ordering::Acquire) {
            let timeout = self.timeout(&ready, wake);
            if timeout != Some(Duration::ZERO) {
                self.endpoint.flush()?;
            }
            match self.poll.poll(&mut events, timeout) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                    return Err(error.into());
                }
                _ => {}
            }
            self.look(&events, &mut ready);
            wake = self.work(&mut ready);
        }
        Ok(self.finish()?)
    }

    /// How long there is nothing to do.
    fn timeout(&self, ready: &Ready, wake: Wake) -> Option<Duration> {
        let Ready { listener, client, hung_up: _, control } = *ready;
        match wake {
            _ if listener || client || control => Some(Duration::ZERO),
            Wake::Now => Some(Duration::ZERO),
            Wake::At(at) => Some(Duration::from_nanos(at.saturating_sub(self.endpoint.now()))),
            Wake::Idle => None,
        }
    }

    /// Notes what has happened.
    fn look(&mut self, events: &Events, ready: &mut Ready) {
        for event in events {
            match event.token() {
                LISTENER => ready.listener = true,
                CLIENT => {
                    ready.client = true;
                    ready.hung_up |= event.is_read_closed() || event.is_error();
                }
                WAKER => {}
                token => {
                    ready.control = true;
                    if let Some(control) = &mut self.control {
                        control.event(self.poll.registry(), token);
                    }
                }
            }
        }
    }

    /// Does a piece of everything that there is to do, and leaves in `ready` what can go on without waiting.
    fn work(&mut self, ready: &mut Ready) -> Wake {
        if std::mem::take(&mut ready.client) {
            ready.client = self.serve(ready.hung_up);
        }
        if self.client.is_none() {
            ready.hung_up = false;
        }
        // A new client that came when the old one had hung up is not a second one.
        if !ready.hung_up
            && std::mem::take(&mut ready.listener)
            && let Some(client) = self.accept()
        {
            ready.client = true;
            self.client = Some(client);
        }
        let wake = self.endpoint.poll();
        while let Some(change) = self.endpoint.slot_change() {
            if let Err(refusal) = change_slot(&mut self.endpoint, &mut self.slot, change) {
                log::warn!("a fault rule wants to {} the card: {refusal}", change.name());
            }
        }
        if self.endpoint.memory.gone() {
            log::warn!("guest memory was made shorter: the client is disconnected");
            self.disconnect();
            ready.client = false;
        }
        if std::mem::take(&mut ready.control) {
            ready.control = self.control();
        }
        self.tell_metrics();
        wake
    }

    /// Serves the client. Returns whether there is more.
    fn serve(&mut self, hung_up: bool) -> bool {
        let Some(client) = &mut self.client else {
            return false;
        };
        let before = client.negotiated();
        let result = client.serve(&mut self.endpoint, hung_up);
        // Whoever only looks whether the socket is in use says nothing.
        if !before && client.negotiated() {
            self.connections += 1;
            self.endpoint.connected();
            log::info!("client {} has connected", self.connections);
        }
        match result {
            Ok(Progress::More) => return true,
            // It will ask nothing more and does not read what it is told.
            Ok(Progress::Blocked) if hung_up => {}
            Ok(progress) => match self.wait_for(progress == Progress::Blocked) {
                Ok(()) => return false,
                Err(error) => log::warn!("client {}: {error}", self.connections),
            },
            Err(Disconnect::Closed) => {}
            Err(error) => match error.source() {
                Some(source) => log::warn!("client {}: {error}: {source}", self.connections),
                None => log::warn!("client {}: {error}", self.connections),
            },
        }
        self.disconnect();
        false
    }

    /// Has the loop woken when the client has sent something and, with `room`, when it has read
    /// something: only then, because it reads every reply.
    fn wait_for(&mut self, room: bool) -> io::Result<()> {
        let Some(client) = self.client.as_ref().filter(|_| self.wants_room != room) else {
            return Ok(());
        };
        let interest =
            if room { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
        self.poll.registry().reregister(&mut SourceFd(&client.as_raw_fd()), CLIENT, interest)?;
        self.wants_room = room;
        Ok(())
    }

    /// The client, if there is one, is gone.
    fn disconnect(&mut self) {
        if self.client.take().is_some_and(|client| client.negotiated()) {
            log::debug!("client {} is gone", self.connections);
        }
        self.endpoint.disconnect();
    }

    fn accept(&mut self) -> Option<Connection> {
        let client = self.listener.accept(self.client.is_some()).and_then(|client| {
            if let Some(client) = &client {
                register(self.poll.registry(), client, CLIENT, Interest::READABLE)?;
                self.wants_room = false;
            }
            Ok(client)
        });
        client.unwrap_or_else(|error| {
            log::warn!("a client could not be accepted: {error}");
            None
        })
    }

    /// Serves the control socket. Returns whether there is more.
    fn control(&mut self) -> bool {
        let Self { poll, control, client, connections, endpoint, slot, .. } = self;
        let (connected, connections) = (client.is_some(), *connections);
        control.as_mut().is_some_and(|control| {
            control.turn(poll.registry(), &mut |request| match *request {
                Request::Slot { change } => change_slot(endpoint, slot, change),
                _ => answer(endpoint, request, connected, connections),
            })
        })
    }

    /// Answers Prometheus.
    fn tell_metrics(&mut self) {
        let Self { client, connections, endpoint, metrics, .. } = self;
        let Some(metrics) = metrics else { return };
        metrics.answer(|| {
            let reply = answer(endpoint, &Request::Metrics {}, client.is_some(), *connections);
            serde_json::from_value(reply.ok()?).ok()
        });
    }

    /// Where Prometheus may ask.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().and_then(MetricsServer::address)
    }

    /// Leaves everything in order.
    fn finish(mut self) -> Result<Ended, WriteError> {
        if log::log_enabled!(log::Level::Debug)
            && let Ok(missing) = self.endpoint.control(&Request::Missing {})
            && let Ok(control::Missing { touched }) = serde_json::from_value(missing)
        {
            for (what, times) in touched {
                log::debug!("not modelled: {what} ({times} times)");
            }
        }
        self.disconnect();
        let unfired = self.endpoint.unfired();
        for (name, rule) in &unfired {
            let must = if rule.must_fire { "must fire and never did" } else { "never fired" };
            log::warn!("fault rule \"{name}\" {must}; it matched {} times", rule.matched);
        }
        self.endpoint.flush()?;
        Ok(Ended { fault_missed: unfired.values().any(|rule| rule.must_fire) })
    }
}

/// Whoever has started us finds a new card in the slot.
fn change_slot(
    endpoint: &mut Endpoint,
    slot: &mut Slot,
    change: SlotChange,
) -> Result<Value, Refusal> {
    if change == SlotChange::Replug {
        endpoint.replug();
    }
    slot.ask(change)
}

/// The card does not know of connections.
fn answer(
    endpoint: &mut Endpoint,
    request: &Request,
    connected: bool,
    connections: u64,
) -> Result<Value, Refusal> {
    let mut reply = endpoint.control(request)?;
    let status = match request {
        Request::Status {} => Some(&mut reply),
        Request::Metrics {} => reply.get_mut("status"),
        _ => None,
    };
    if let Some(status) = status.and_then(Value::as_object_mut) {
        status.insert("connected".into(), connected.into());
        status.insert("connections".into(), connections.into());
    }
    Ok(reply)
}

fn listen(path: PathBuf) -> Result<Listener, StartError> {
    Listener::bind(&path).map_err(|source| StartError::Socket { path, source })
}

fn register(
    registry: &Registry,
    source: &impl AsRawFd,
    token: Token,
    interest: Interest,
) -> io::Result<()> {
    registry.register(&mut SourceFd(&source.as_raw_fd()), token, interest)
}
