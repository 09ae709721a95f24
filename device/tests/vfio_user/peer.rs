//! A raw client, a connection to serve it, and a target that notes what it was asked. Client and
//! server are in one thread, so that nothing depends on time.

use std::io::{ErrorKind, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use device::memory::Rights;
use device::vfio_user::{
    Connection, Disconnect, DmaMap, Errno, Irq, IrqChange, Progress, Region, Target,
};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

pub const VERSION: u16 = 1;
pub const DMA_MAP: u16 = 2;
pub const DMA_UNMAP: u16 = 3;
pub const DEVICE_GET_INFO: u16 = 4;
pub const DEVICE_GET_REGION_INFO: u16 = 5;
pub const DEVICE_GET_REGION_IO_FDS: u16 = 6;
pub const DEVICE_GET_IRQ_INFO: u16 = 7;
pub const DEVICE_SET_IRQS: u16 = 8;
pub const REGION_READ: u16 = 9;
pub const REGION_WRITE: u16 = 10;
pub const DEVICE_RESET: u16 = 13;
pub const REGION_WRITE_MULTI: u16 = 15;

pub const REPLY: u32 = 1;
pub const NO_REPLY: u32 = 0x10;
pub const ERROR: u32 = 0x20;

/// Bytes of integers, one after the other.
#[macro_export]
macro_rules! bytes {
    ($($value:expr),* $(,)?) => {{
        let mut bytes: Vec<u8> = Vec::new();
        $(bytes.extend_from_slice(&$value.to_ne_bytes());)*
        bytes
    }};
}

/// A whole message.
pub fn message(id: u16, command: u16, flags: u32, body: &[u8]) -> Vec<u8> {
    let size = 16 + body.len() as u32;
    let mut message = bytes![id, command, size, flags, 0_u32];
    message.extend_from_slice(body);
    message
}

/// What the target was asked.
#[derive(Debug, PartialEq, Eq)]
pub enum Call {
    Read { region: u32, offset: u64, len: usize },
    Write { region: u32, offset: u64, data: Vec<u8> },
    Map { address: u64, size: u64, rights: Rights, offset: Option<u64> },
    Unmap { address: u64, size: u64 },
    UnmapAll,
    Disable { index: u32 },
    Assign { index: u32, first: u32, count: usize },
    Remove { index: u32, first: u32, count: u32 },
    Trigger { index: u32, irqs: Vec<u32> },
    Mask { index: u32, irqs: Vec<u32> },
    Unmask { index: u32, irqs: Vec<u32> },
    Reset,
}

/// Sizes of the regions and counts of the interrupts that the target has.
pub const BAR: u64 = 32 << 20;
pub const READ_ONLY: u32 = 2;
pub const WRITE_ONLY: u32 = 3;
pub const MSIX: u32 = 2;

pub struct Recorder {
    regions: [Region; 9],
    irqs: [Irq; 5],
    pub calls: Vec<Call>,
    /// Descriptors that were given and are kept.
    pub kept: Vec<OwnedFd>,
    /// The answer to every call.
    pub refuse: Option<Errno>,
}

impl Default for Recorder {
    fn default() -> Self {
        let mut regions = [Region::NONE; 9];
        regions[0] = Region::new(BAR);
        regions[READ_ONLY as usize] = Region { size: 0x1000, rights: Rights::READ };
        regions[WRITE_ONLY as usize] = Region { size: 0x1000, rights: Rights::WRITE };
        regions[7] = Region::new(0x1000);
        let irq = |count, maskable| Irq { count, maskable };
        Self {
            regions,
            irqs: [irq(1, true), irq(0, false), irq(64, false), irq(1, false), irq(0, false)],
            calls: Vec::new(),
            kept: Vec::new(),
            refuse: None,
        }
    }
}

impl Recorder {
    fn note(&mut self, call: Call) -> Result<(), Errno> {
        self.calls.push(call);
        self.refuse.map_or(Ok(()), Err)
    }
}

impl Target for Recorder {
    fn regions(&self) -> &[Region] {
        &self.regions
    }

    fn irqs(&self) -> &[Irq] {
        &self.irqs
    }

    /// Each byte is the lower part of its offset.
    fn region_read(&mut self, region: u32, offset: u64, data: &mut [u8]) -> Result<(), Errno> {
        assert!(data.iter().all(|byte| *byte == 0));
        let len = data.len();
        data.iter_mut().zip(offset..).for_each(|(byte, offset)| *byte = offset as u8);
        self.note(Call::Read { region, offset, len })
    }

    fn region_write(&mut self, region: u32, offset: u64, data: &[u8]) -> Result<(), Errno> {
        self.note(Call::Write { region, offset, data: data.to_vec() })
    }

    fn dma_map(&mut self, map: DmaMap) -> Result<(), Errno> {
        let DmaMap { address, size, rights, memory } = map;
        let offset = memory.as_ref().map(|(_, offset)| *offset);
        self.note(Call::Map { address, size, rights, offset })?;
        self.kept.extend(memory.map(|(file, _)| file));
        Ok(())
    }

    fn dma_unmap(&mut self, address: u64, size: u64) -> Result<(), Errno> {
        self.note(Call::Unmap { address, size })
    }

    fn dma_unmap_all(&mut self) -> Result<(), Errno> {
        self.note(Call::UnmapAll)
    }

    fn set_irqs(&mut self, index: u32, change: IrqChange) -> Result<(), Errno> {
        let call = match change {
            IrqChange::Disable => Call::Disable { index },
            IrqChange::Assign { first, descriptors } => {
                let count = descriptors.len();
                self.kept.extend(descriptors);
                Call::Assign { index, first, count }
            }
            IrqChange::Remove { first, count } => Call::Remove { index, first, count },
            IrqChange::Trigger(irqs) => Call::Trigger { index, irqs },
            IrqChange::Mask(irqs) => Call::Mask { index, irqs },
            IrqChange::Unmask(irqs) => Call::Unmask { index, irqs },
        };
        self.note(call)
    }

    fn reset(&mut self) -> Result<(), Errno> {
        self.note(Call::Reset)
    }
}

/// A reply as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    pub id: u16,
    pub command: u16,
    pub flags: u32,
    pub error: u32,
    pub body: Vec<u8>,
}

pub struct Peer {
    pub client: UnixStream,
    pub server: Connection,
    pub target: Recorder,
    next_id: u16,
    unread: Vec<u8>,
}

impl Peer {
    /// Connected, and nothing said.
    pub fn connected() -> Self {
        let (client, server) = UnixStream::pair().unwrap();
        client.set_nonblocking(true).unwrap();
        let server = Connection::new(server).unwrap();
        let target = Recorder::default();
        Self { client, server, target, next_id: 0x1000, unread: Vec::new() }
    }

    /// After an exchange of versions.
    pub fn new() -> Self {
        let mut peer = Self::connected();
        peer.ask(VERSION, &bytes![0_u16, 0_u16]).unwrap();
        peer
    }

    /// Sends; should the socket be full, both sides work until it isn't.
    pub fn send(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            match self.client.write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.settle(),
                Err(error) => panic!("{error}"),
            }
        }
    }

    pub fn send_with(&mut self, bytes: &[u8], files: &[BorrowedFd<'_>]) {
        loop {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            assert!(control.push(SendAncillaryMessage::ScmRights(files)));
            let part = IoSlice::new(bytes);
            match sendmsg(&self.client, &[part], &mut control, SendFlags::empty()) {
                Err(Errno::AGAIN) => self.settle(),
                sent => break assert_eq!(sent, Ok(bytes.len())),
            }
        }
    }

    /// Lets the server work until it waits.
    pub fn serve(&mut self) -> Result<Progress, Disconnect> {
        for _ in 0..100_000 {
            match self.server.serve(&mut self.target, false)? {
                Progress::More => {}
                progress => return Ok(progress),
            }
        }
        panic!("the server has always more to do");
    }

    /// Lets both sides work until the server waits for a message.
    pub fn settle(&mut self) {
        while self.serve().unwrap() == Progress::Blocked {
            self.receive();
        }
    }

    fn receive(&mut self) {
        let mut part = vec![0; 1 << 16];
        loop {
            match self.client.read(&mut part) {
                Ok(0) => break,
                Ok(count) => self.unread.extend_from_slice(&part[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// What the server has sent so far.
    pub fn replies(&mut self) -> Vec<Reply> {
        self.receive();
        let mut replies = Vec::new();
        while let Some((header, _)) = self.unread.split_first_chunk::<16>() {
            let word = |at: usize| u32::from_ne_bytes(header[at..at + 4].try_into().unwrap());
            let half = |at: usize| u16::from_ne_bytes(header[at..at + 2].try_into().unwrap());
            let size = word(4) as usize;
            assert!(size >= 16, "a reply's size");
            if self.unread.len() < size {
                break;
            }
            replies.push(Reply {
                id: half(0),
                command: half(2),
                flags: word(8),
                error: word(12),
                body: self.unread[16..size].to_vec(),
            });
            self.unread.drain(..size);
        }
        replies
    }

    pub fn id(&mut self) -> u16 {
        self.next_id = self.next_id.wrapping_add(1);
        self.next_id
    }

    /// Asks and takes the one reply; the error is the reply's error number.
    pub fn ask(&mut self, command: u16, body: &[u8]) -> Result<Vec<u8>, u32> {
        self.ask_with(command, body, &[])
    }

    pub fn ask_with(
        &mut self,
        command: u16,
        body: &[u8],
        files: &[BorrowedFd<'_>],
    ) -> Result<Vec<u8>, u32> {
        let id = self.id();
        let message = message(id, command, 0, body);
        if files.is_empty() {
            self.send(&message)
        } else {
            self.send_with(&message, files)
        }
        self.settle();
        self.only_reply(id, command)
    }

    /// The one reply that must have come.
    pub fn only_reply(&mut self, id: u16, command: u16) -> Result<Vec<u8>, u32> {
        let replies = self.replies();
        let [reply] = &replies[..] else { panic!("one reply to {command}: {replies:x?}") };
        assert_eq!((reply.id, reply.command), (id, command));
        if reply.flags == REPLY {
            assert_eq!(reply.error, 0);
            Ok(reply.body.clone())
        } else {
            assert_eq!(reply.flags, REPLY | ERROR);
            assert_ne!(reply.error, 0, "QEMU takes 0 for success");
            assert!(reply.body.is_empty(), "an error is a header alone");
            Err(reply.error)
        }
    }

    /// The stream is in step if an ordinary message is answered.
    pub fn in_step(&mut self) {
        let info = self.ask(DEVICE_GET_INFO, &bytes![16_u32, 0_u32, 0_u32, 0_u32]);
        assert_eq!(info, Ok(bytes![16_u32, 3_u32, 9_u32, 5_u32]));
    }

    /// A message that is refused with `error`, without a call to the target; whole, in single bytes, and
    /// without a reply.
    pub fn refused(&mut self, what: &str, command: u16, body: &[u8], error: Errno) {
        self.target.calls.clear();
        let error = error.raw_os_error() as u32;
        assert_eq!(self.ask(command, body), Err(error), "{what}");
        self.in_step();
        let id = self.id();
        for byte in message(id, command, 0, body) {
            assert_eq!(self.replies(), []);
            self.send(&[byte]);
            self.serve().unwrap();
        }
        assert_eq!(self.only_reply(id, command), Err(error), "{what}, in single bytes");
        let id = self.id();
        self.send(&message(id, command, NO_REPLY, body));
        self.serve().unwrap();
        self.in_step();
        assert_eq!(self.target.calls, [], "{what}");
    }
}

/// A pipe whose write end can be given away: the read end tells when nobody has it any more.
pub struct Watched {
    read: std::io::PipeReader,
    write: Option<std::io::PipeWriter>,
}

impl Watched {
    pub fn new() -> Self {
        let (read, write) = std::io::pipe().unwrap();
        rustix::io::ioctl_fionbio(&read, true).unwrap();
        Self { read, write: Some(write) }
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.write.as_ref().unwrap().as_fd()
    }

    /// Closes our copy; whether the server has none either.
    pub fn is_closed(&mut self) -> bool {
        self.write = None;
        match self.read.read(&mut [0]) {
            Ok(0) => true,
            Ok(_) => panic!("nobody writes"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                false
            }
        }
    }
}
