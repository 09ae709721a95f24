//! What the program in the guest wrote: sections, each a line with name and length and its bytes.

use std::collections::BTreeMap;

use crate::Error;
use crate::format::Format;

/// The sections, taken apart as far as can be done without looking into the records.
#[derive(Debug, Default)]
pub(crate) struct Capture {
    /// The command's process.
    pub(crate) pid: i32,
    /// The command and its arguments.
    pub(crate) command: String,
    /// How it ended, as `waitpid` says.
    pub(crate) status: i32,
    /// The kernel's release.
    pub(crate) kernel: String,
    /// Pairs of the guest's and the card's time.
    pub(crate) exchanges: Vec<Exchange>,
    /// Functions by address: name and module.
    pub(crate) symbols: BTreeMap<u64, Symbol>,
    /// How records are laid out, by their number.
    pub(crate) formats: BTreeMap<u16, Format>,
    /// The ring buffer's pages, a row for each processor.
    pub(crate) records: Vec<Vec<u8>>,
    /// Records that the ring buffer had no room for.
    pub(crate) lost: u64,
}

/// A function of the guest's kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Symbol {
    pub(crate) name: String,
    pub(crate) module: String,
}

/// The card's clock was read between two readings of the guest's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exchange {
    /// The guest's time before, in ns.
    pub(crate) before: i64,
    /// The guest's time after, in ns.
    pub(crate) after: i64,
    /// The card's time, in ns.
    pub(crate) card: i64,
}

/// A guest can't make us hold more.
const MOST: usize = 1 << 30;

impl Capture {
    pub(crate) fn parse(mut bytes: &[u8]) -> Result<Self, Error> {
        if bytes.len() > MOST {
            return Err(Error::Capture("it is too large".into()));
        }
        let mut capture = Self::default();
        while !bytes.is_empty() {
            let (name, body, rest) =
                section(bytes).ok_or_else(|| Error::Capture("it ends within a section".into()))?;
            capture.take(name, body);
            bytes = rest;
        }
        if capture.pid == 0 {
            return Err(Error::Capture("it does not say what was run".into()));
        }
        Ok(capture)
    }

    fn take(&mut self, name: &str, body: &[u8]) {
        let text = || String::from_utf8_lossy(body);
        match name {
            "run" => self.run(&text()),
            "clock" => self.exchanges = text().lines().filter_map(exchange).collect(),
            "symbols" => self.symbols = text().lines().filter_map(symbol).collect(),
            "format" => self.formats.extend(Format::parse(&text())),
            "stats" => {
                let overrun = text().lines().filter_map(overrun).sum::<u64>();
                self.lost = self.lost.saturating_add(overrun);
            }
            "records" => self.records.push(body.to_vec()),
            // Of a newer program in the guest.
            _ => {}
        }
    }

    fn run(&mut self, text: &str) {
        for (name, value) in text.lines().filter_map(|line| line.split_once(' ')) {
            match name {
                "pid" => self.pid = value.parse().unwrap_or_default(),
                "status" => self.status = value.parse().unwrap_or_default(),
                "kernel" => self.kernel = value.to_owned(),
                "command" => self.command = value.to_owned(),
                _ => {}
            }
        }
    }
}

fn section(bytes: &[u8]) -> Option<(&str, &[u8], &[u8])> {
    let end = bytes.iter().position(|&byte| byte == b'\n')?;
    let (head, rest) = bytes.split_at(end);
    let mut words = std::str::from_utf8(head).ok()?.split(' ');
    let ("section", name, length) = (words.next()?, words.next()?, words.next()?) else {
        return None;
    };
    let (body, rest) = rest.get(1..)?.split_at_checked(length.parse().ok()?)?;
    Some((name, body, rest))
}

fn exchange(line: &str) -> Option<Exchange> {
    let mut numbers = line.split(' ').map(str::parse::<i64>);
    let mut next = || numbers.next()?.ok();
    let (before, after, ticks, khz) = (next()?, next()?, next()?, next()?);
    let card = i128::from(ticks).checked_mul(1_000_000)?.checked_div(khz.into())?;
    (before <= after).then_some(Exchange { before, after, card: card.try_into().ok()? })
}

fn symbol(line: &str) -> Option<(u64, Symbol)> {
    let mut words = line.split(' ');
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    let (name, module) = (words.next()?.to_owned(), words.next().unwrap_or_default().to_owned());
    Some((address, Symbol { name, module }))
}

/// Both kinds of loss: of a full buffer, and of one that was full while it was read.
fn overrun(line: &str) -> Option<u64> {
    let (name, number) = line.split_once(": ")?;
    ["overrun", "dropped events"].contains(&name).then(|| number.trim().parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_taken_apart() {
        let text = "section run 41\npid 7\nstatus 256\nkernel 6.12\ncommand a b\n\
                    section clock 12\n10 20 156 1\nsection new 1\nx\
                    section stats 11\noverrun: 3\n";
        let capture = Capture::parse(text.as_bytes()).unwrap();
        assert_eq!((capture.pid, capture.status, capture.lost), (7, 256, 3));
        assert_eq!(capture.command, "a b");
        let exchange = Exchange { before: 10, after: 20, card: 156_000_000 };
        assert_eq!(capture.exchanges, [exchange]);
    }

    #[test]
    fn what_a_guest_damaged_is_refused() {
        for text in
            ["section run 40\npid 7\n", "section run x\n", "x", "section run 99999999999999\n"]
        {
            assert!(Capture::parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
