//! Frames between the launcher and the guest's first program; `guest/job.c` is the other end.
//!
//! A frame is a type (1 byte), a length (4 bytes, little endian) and that many bytes.

use std::io::{self, Read, Write};

/// Longest payload.
pub(crate) const LARGEST: usize = 32768;

/// What comes from the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FromGuest {
    /// The kernel's release.
    Hello(String),
    /// The job starts.
    Ready,
    /// The job wrote to its standard output, or to its terminal.
    Output(Vec<u8>),
    /// The job wrote to its standard error.
    Errors(Vec<u8>),
    /// The job exited with this status.
    Exited(u8),
    /// A signal ended the job.
    Killed(u8),
    /// Why there is no job.
    Failed(String),
}

/// What goes to the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToGuest<'a> {
    /// For the job's standard input; empty ends it.
    Input(&'a [u8]),
    /// Rows and columns of the terminal.
    Size(u16, u16),
    /// Everything has arrived.
    Done,
    /// Nobody reads what the job writes: to its standard output (1) or error (2).
    Close(u8),
    /// The kernel lets go of the card.
    Unplug,
    /// The kernel looks for the card.
    Replug,
}

impl FromGuest {
    /// Reads the next; `None` at the end of the stream.
    pub(crate) fn read(stream: &mut impl Read) -> io::Result<Option<Self>> {
        let mut header = [0; 5];
        match stream.read_exact(&mut header) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            other => other?,
        }
        let [kind, length @ ..] = header;
        let length = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
        if length > LARGEST {
            return Err(bad(&format!("a frame of {length} bytes")));
        }
        let mut payload = vec![0; length];
        stream.read_exact(&mut payload)?;
        let byte = || payload.first().copied().ok_or_else(|| bad("an empty status"));
        let text = |payload: &[u8]| String::from_utf8_lossy(payload).into_owned();
        Ok(Some(match kind {
            1 => Self::Hello(text(&payload)),
            2 => Self::Ready,
            3 => Self::Output(payload),
            4 => Self::Errors(payload),
            5 => Self::Exited(byte()?),
            6 => Self::Killed(byte()?),
            7 => Self::Failed(text(&payload)),
            other => return Err(bad(&format!("a frame of type {other}"))),
        }))
    }
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the guest sent {what}"))
}

impl ToGuest<'_> {
    /// Writes it in one piece.
    pub(crate) fn write(self, stream: &mut impl Write) -> io::Result<()> {
        let (kind, payload) = match self {
            Self::Input(bytes) => (16, bytes.to_vec()),
            Self::Size(rows, columns) => (17, [rows.to_le_bytes(), columns.to_le_bytes()].concat()),
            Self::Done => (18, Vec::new()),
            Self::Close(stream) => (19, vec![stream]),
            Self::Unplug => (20, Vec::new()),
            Self::Replug => (21, Vec::new()),
        };
        let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        let mut frame = vec![kind];
        frame.extend_from_slice(&length.to_le_bytes());
        frame.extend_from_slice(&payload);
        stream.write_all(&frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> io::Result<Option<FromGuest>> {
        FromGuest::read(&mut &*bytes)
    }

    #[test]
    fn frames_from_the_guest() {
        assert_eq!(read(b"\x01\x03\0\0\x006.1").unwrap(), Some(FromGuest::Hello("6.1".to_owned())));
        assert_eq!(read(b"\x02\0\0\0\0").unwrap(), Some(FromGuest::Ready));
        assert_eq!(read(b"\x03\x01\0\0\0x").unwrap(), Some(FromGuest::Output(b"x".to_vec())));
        assert_eq!(read(b"\x05\x01\0\0\0\x2a").unwrap(), Some(FromGuest::Exited(42)));
        assert_eq!(read(b"\x06\x01\0\0\0\x09").unwrap(), Some(FromGuest::Killed(9)));
        assert_eq!(read(b"").unwrap(), None);
        assert_eq!(read(b"\x03\0").unwrap(), None, "a guest that died in the middle");
    }

    #[test]
    fn a_guest_can_send_anything() {
        for bytes in
            [&b"\x63\0\0\0\0"[..], b"\x05\0\0\0\0", b"\x03\xff\xff\xff\xff", b"\x03\x02\0\0\0x"]
        {
            assert!(read(bytes).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn frames_to_the_guest() {
        let written = |frame: ToGuest<'_>| {
            let mut bytes = Vec::new();
            frame.write(&mut bytes).unwrap();
            bytes
        };
        assert_eq!(written(ToGuest::Input(b"ab")), b"\x10\x02\0\0\0ab");
        assert_eq!(written(ToGuest::Size(24, 80)), b"\x11\x04\0\0\0\x18\0\x50\0");
        assert_eq!(written(ToGuest::Done), b"\x12\0\0\0\0");
        assert_eq!(written(ToGuest::Close(2)), b"\x13\x01\0\0\0\x02");
        assert_eq!(written(ToGuest::Unplug), b"\x14\0\0\0\0");
        assert_eq!(written(ToGuest::Replug), b"\x15\0\0\0\0");
    }
}
