//! The job's standard streams on the launcher's side, and the threads that carry them.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{Error, Result};
use crate::frame::{FromGuest, LARGEST, ToGuest};
use crate::stop::Stop;
use crate::terminal::ESCAPE;

/// Where one of the job's streams leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stream {
    /// Our own stream of that name.
    #[default]
    Inherit,
    /// A pipe whose other end the session hands out.
    Piped,
    /// Nowhere.
    Null,
}

/// Where the job's three streams lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Streams {
    /// Standard input.
    pub stdin: Stream,
    /// Standard output.
    pub stdout: Stream,
    /// Standard error.
    pub stderr: Stream,
}

/// The ends that a session hands out.
#[derive(Debug, Default)]
pub(crate) struct Handed {
    pub(crate) stdin: Option<PipeWriter>,
    pub(crate) stdout: Option<PipeReader>,
    pub(crate) stderr: Option<PipeReader>,
}

/// The ends that the threads use; `None` leads nowhere.
#[derive(Debug, Default)]
pub(crate) struct Carried {
    stdin: Option<File>,
    stdout: Option<File>,
    stderr: Option<File>,
}

fn own(fd: BorrowedFd<'_>) -> Result<Option<File>> {
    let fd = fd.try_clone_to_owned().map_err(Error::io("duplicate a standard stream"))?;
    Ok(Some(File::from(fd)))
}

impl Streams {
    pub(crate) fn open(self) -> Result<(Handed, Carried)> {
        let (mut handed, mut carried) = (Handed::default(), Carried::default());
        let pipe = || std::io::pipe().map_err(Error::io("make a pipe"));
        match self.stdin {
            Stream::Inherit => carried.stdin = own(io::stdin().as_fd())?,
            Stream::Null => {}
            Stream::Piped => {
                let (read, write) = pipe()?;
                carried.stdin = Some(File::from(OwnedFd::from(read)));
                handed.stdin = Some(write);
            }
        }
        match self.stdout {
            Stream::Inherit => carried.stdout = own(io::stdout().as_fd())?,
            Stream::Null => {}
            Stream::Piped => {
                let (read, write) = pipe()?;
                carried.stdout = Some(File::from(OwnedFd::from(write)));
                handed.stdout = Some(read);
            }
        }
        match self.stderr {
            Stream::Inherit => carried.stderr = own(io::stderr().as_fd())?,
            Stream::Null => {}
            Stream::Piped => {
                let (read, write) = pipe()?;
                carried.stderr = Some(File::from(OwnedFd::from(write)));
                handed.stderr = Some(read);
            }
        }
        Ok((handed, carried))
    }
}

/// What the supervisor is told about the job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Notice {
    Hello(String),
    Ready,
    Exited(u8),
    Killed(u8),
    Failed(String),
    /// Nothing more will come: QEMU has closed the port, or the guest broke the rules.
    Closed(Option<String>),
}

/// Notices, and a descriptor that can be read when there are some.
#[derive(Debug)]
pub(crate) struct Notices {
    pub(crate) list: Receiver<Notice>,
    bell: UnixStream,
}

impl Notices {
    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Those that have come.
    pub(crate) fn take(&mut self) -> Vec<Notice> {
        let mut rings = [0; 64];
        // Each notice rings after it has been sent: none is forgotten.
        let _ = self.bell.read(&mut rings);
        self.list.try_iter().collect()
    }
}

/// The launcher's end of the port, for writing: frames of several threads must not mix.
#[derive(Debug, Clone)]
pub(crate) struct Port(Arc<Mutex<UnixStream>>);

impl Port {
    /// Waits until the guest takes it. Errors mean that the guest is gone, which others see as well.
    pub(crate) fn send(&self, frame: ToGuest<'_>) -> io::Result<()> {
        frame.write(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The same from a thread that must not wait: the guest may be busy for long.
    fn send_later(&self, frame: ToGuest<'static>) {
        let port = self.clone();
        std::thread::spawn(move || port.send(frame));
    }

    /// Tells the guest how large the terminal is.
    pub(crate) fn resize(&self, (rows, columns): (u16, u16)) {
        self.send_later(ToGuest::Size(rows, columns));
    }
}

/// Starts carrying. `stop` is requested when the escape key is typed in a terminal.
pub(crate) fn carry(
    socket: UnixStream,
    carried: Carried,
    terminal: Option<Stop>,
) -> Result<(Notices, Port)> {
    let failed = || Error::io("set up the job's streams");
    let writer = socket.try_clone().map_err(failed())?;
    let port = Port(Arc::new(Mutex::new(writer)));
    let (bell, ring) = UnixStream::pair().map_err(failed())?;
    bell.set_nonblocking(true).map_err(failed())?;
    let (notices, list) = channel();
    let Carried { stdin, stdout, stderr } = carried;
    let (for_input, for_output) = (port.clone(), port.clone());
    std::thread::spawn(move || carry_input(stdin, &for_input, terminal.as_ref()));
    std::thread::spawn(move || {
        let outputs = [Output::new(1, stdout), Output::new(2, stderr)];
        carry_output(socket, outputs, &for_output, &Told { notices, ring });
    });
    Ok((Notices { list, bell }, port))
}

/// Until the end of the input, or of the guest.
fn carry_input(input: Option<File>, port: &Port, terminal: Option<&Stop>) {
    let mut bytes = vec![0; LARGEST];
    if let Some(mut input) = input {
        loop {
            let piece = match input.read(&mut bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) | Ok(0) => break,
                Ok(n) => bytes.get(..n).unwrap_or_default(),
            };
            if let Some(stop) = terminal
                && piece.contains(&ESCAPE)
            {
                stop.request();
                return;
            }
            if port.send(ToGuest::Input(piece)).is_err() {
                return;
            }
        }
    }
    let _ = port.send(ToGuest::Input(&[]));
}

struct Told {
    notices: Sender<Notice>,
    ring: UnixStream,
}

impl Told {
    fn tell(&self, notice: Notice) {
        // The supervisor may have gone already.
        let _ = self.notices.send(notice);
        let _ = (&self.ring).write(&[1]);
    }
}

struct Output {
    number: u8,
    file: Option<File>,
}

impl Output {
    fn new(number: u8, file: Option<File>) -> Self {
        Self { number, file }
    }

    /// When nobody reads it any more the job is told in the usual way: its own write fails.
    fn write(&mut self, bytes: &[u8], port: &Port) {
        let Some(file) = &mut self.file else { return };
        if file.write_all(bytes).is_err() {
            self.file = None;
            port.send_later(ToGuest::Close(self.number));
        }
    }
}

fn carry_output(mut socket: UnixStream, outputs: [Output; 2], port: &Port, told: &Told) {
    let [mut stdout, mut stderr] = outputs;
    loop {
        let frame = match FromGuest::read(&mut socket) {
            Ok(Some(frame)) => frame,
            Ok(None) => return told.tell(Notice::Closed(None)),
            // QEMU ended with something unread.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                return told.tell(Notice::Closed(None));
            }
            Err(error) => return told.tell(Notice::Closed(Some(error.to_string()))),
        };
        // Who reads from a pipe sees its end with the job, not with the machine.
        let mut ended = || {
            (stdout.file, stderr.file) = (None, None);
            port.send_later(ToGuest::Done);
        };
        match frame {
            FromGuest::Hello(release) => told.tell(Notice::Hello(release)),
            FromGuest::Ready => told.tell(Notice::Ready),
            FromGuest::Output(bytes) => stdout.write(&bytes, port),
            FromGuest::Errors(bytes) => stderr.write(&bytes, port),
            FromGuest::Failed(why) => told.tell(Notice::Failed(why)),
            FromGuest::Exited(status) => {
                ended();
                told.tell(Notice::Exited(status));
            }
            FromGuest::Killed(signal) => {
                ended();
                told.tell(Notice::Killed(signal));
            }
        }
    }
}
