//! What the event loop and the writer share: a buffer.

use std::fs::File;
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use probe::{Point, Site};
use trace::{Encoder, Filter, Settings, TraceHeader, Writer};

/// Most bytes that wait for the writer. Twice as much is in use at most.
pub(super) const ROOM: usize = 16 << 20;
/// The writer comes at once when so much waits: the buffer stays in the processor's cache.
const HASTE: usize = 256 << 10;
/// Otherwise it waits so long for more: that much is lost when the process is killed.
const GATHER: Duration = Duration::from_millis(20);

/// See the module.
#[derive(Debug)]
pub struct Shared {
    inner: Mutex<Inner>,
    /// Rung when something waits, when much does, and at the end.
    bell: Condvar,
}

#[derive(Debug)]
struct Inner {
    encoder: Encoder,
    filter: Option<Filter>,
    /// The operating system's number of the event loop's thread, once something was noted.
    thread: Option<u32>,
    /// The card's clock and the time at the last event for which the clock was read.
    last: (u64, u64),
    events: u64,
    dropped: u64,
    /// Those of `dropped` that the file does not tell of yet, and when the last of them was.
    untold: u64,
    untold_at: u64,
    /// The file takes nothing more.
    failed: bool,
    stop: bool,
}

impl Inner {
    /// Whether there is room; what is missing is told first.
    fn has_room(&mut self, time: u64) -> bool {
        if self.failed || self.encoder.len() >= ROOM {
            self.dropped += 1;
            self.untold += 1;
            self.untold_at = time;
            return false;
        }
        self.tell_dropped();
        true
    }

    fn tell_dropped(&mut self) {
        if self.untold > 0 {
            self.encoder.dropped(self.untold_at, std::mem::take(&mut self.untold));
        }
    }
}

impl Shared {
    pub fn new(header: &TraceHeader, filter: Option<Filter>) -> Self {
        let mut encoder = Encoder::new();
        encoder.header(header);
        let inner = Inner {
            encoder,
            filter,
            thread: None,
            last: (u64::MAX, 0),
            events: 0,
            dropped: 0,
            untold: 0,
            untold_at: 0,
            failed: false,
            stop: false,
        };
        Self { inner: Mutex::new(inner), bell: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic elsewhere leaves at worst half a record at the end.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes one event; `now` is the card's clock, which stands still during one piece of its work.
    pub fn note(&self, now: u64, read_clock: impl FnOnce() -> u64, site: &Site<'_>) {
        let mut inner = self.lock();
        if inner.filter.as_ref().is_some_and(|filter| !filter.matches(site)) {
            return;
        }
        // Reading a clock takes longer than noting an event: what belongs to the one before it, in
        // the same piece of work, has its time.
        let time = match site.point {
            Point::Translation | Point::PacketSent | Point::PacketReceived
                if inner.last.0 == now =>
            {
                inner.last.1
            }
            _ => {
                inner.last = (now, read_clock());
                inner.last.1
            }
        };
        if !inner.has_room(time) {
            return;
        }
        let thread = *inner
            .thread
            .get_or_insert_with(|| rustix::thread::gettid().as_raw_nonzero().get() as u32);
        let before = inner.encoder.len();
        inner.encoder.event(time, 0, thread, site);
        inner.events += 1;
        let after = inner.encoder.len();
        drop(inner);
        if before == 0 || (before < HASTE && after >= HASTE) {
            self.bell.notify_one();
        }
    }

    /// Something else is traced from here on.
    pub fn change(&self, time: u64, settings: &Settings, filter: Option<Filter>) {
        let mut inner = self.lock();
        inner.filter = filter;
        if !inner.failed {
            inner.encoder.settings(time, settings);
        }
        drop(inner);
        self.bell.notify_one();
    }

    /// How many events were noted, and how many dropped.
    pub fn counts(&self) -> (u64, u64) {
        let inner = self.lock();
        (inner.events, inner.dropped)
    }

    /// Nothing more comes.
    pub fn stop(&self) {
        self.lock().stop = true;
        self.bell.notify_one();
    }

    /// The writer's work, until [`Self::stop`].
    pub fn write(&self, mut writer: Writer<File>, path: &Path) {
        let mut block = Vec::new();
        loop {
            let (taken, stop) = self.take(block);
            block = taken;
            if !block.is_empty()
                && let Err(error) = writer.records(&block)
            {
                log::error!("{}: the trace ends here: {error}", path.display());
                self.lock().failed = true;
                return;
            }
            if stop {
                return;
            }
        }
    }

    /// Waits for records and takes them; whether they are the last.
    fn take(&self, empty: Vec<u8>) -> (Vec<u8>, bool) {
        let mut inner = self
            .bell
            .wait_while(self.lock(), |inner| inner.encoder.is_empty() && !inner.stop)
            .unwrap_or_else(PoisonError::into_inner);
        let gathering = |inner: &mut Inner| inner.encoder.len() < HASTE && !inner.stop;
        let gathered = self.bell.wait_timeout_while(inner, GATHER, gathering);
        inner = gathered.unwrap_or_else(PoisonError::into_inner).0;
        if inner.stop {
            inner.tell_dropped();
        }
        (inner.encoder.take(empty), inner.stop)
    }
}
