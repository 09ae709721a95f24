//! A trace of the running card: what the probe tells is noted here, and a thread of its own writes
//! it to the file.
//!
//! The event loop never waits for the disk. What it notes goes into a buffer that the writer takes
//! away now and then; while the buffer is full, events are counted instead.

mod shared;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use control::{Refusal, RefusalKind, TraceStatus};
use probe::{Hook, Probe, Site};
use rustix::time::{ClockId, clock_gettime};
use thiserror::Error;
use trace::{BadFilter, Clocks, Filter, Level, Settings, TraceHeader, Writer};

use shared::Shared;

/// What to trace, and where to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceOptions {
    /// The file, which must not exist.
    pub file: PathBuf,
    /// What is traced in the beginning.
    pub settings: Settings,
}

/// Why there is no trace.
#[derive(Debug, Error)]
pub enum StartTraceError {
    /// The file, or the thread.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The filter is none.
    #[error(transparent)]
    Filter(#[from] BadFilter),
}

/// A trace that is being written. When it is dropped, everything is in the file.
#[derive(Debug)]
pub struct Tracer {
    shared: Arc<Shared>,
    writer: Option<JoinHandle<()>>,
    file: PathBuf,
    settings: Settings,
    clock: Instant,
}

/// Hands to the tracer what the probe tells.
#[derive(Debug)]
struct Ear {
    shared: Arc<Shared>,
    clock: Instant,
}

impl Hook for Ear {
    fn at(&self, now: u64, site: &Site<'_>) {
        self.shared.note(now, || nanoseconds(self.clock), site);
    }
}

impl Tracer {
    /// Begins a trace of the function called `name`, whose times count from `clock` on, and has the
    /// probe tell it what happens.
    pub fn start(
        options: TraceOptions,
        name: &str,
        clock: Instant,
        probe: &Probe,
    ) -> Result<Self, StartTraceError> {
        let TraceOptions { file: path, settings } = options;
        let filter = parse(settings.filter.as_deref())?;
        let out = create(&path)?;
        let header = TraceHeader {
            program: crate::record::PROGRAM.into(),
            clocks: clocks(clock),
            functions: vec![name.into()],
            settings: settings.clone(),
        };
        let writer = Writer::new(out)?;
        let shared = Arc::new(Shared::new(&header, filter));
        let thread = {
            let (shared, path) = (Arc::clone(&shared), path.clone());
            let work = move || shared.write(writer, &path);
            std::thread::Builder::new().name("trace".into()).spawn(work)?
        };
        probe.install(Box::new(Ear { shared: Arc::clone(&shared), clock }));
        probe.arm(settings.level.points());
        Ok(Self { shared, writer: Some(thread), file: path, settings, clock })
    }

    /// Traces something else from now on. What is not given stays; an empty filter is none.
    pub fn change(
        &mut self,
        level: Option<&str>,
        filter: Option<&str>,
        probe: &Probe,
    ) -> Result<(), Refusal> {
        let mut settings = self.settings.clone();
        if let Some(level) = level {
            settings.level = level.parse::<Level>().map_err(refusal)?;
        }
        if let Some(filter) = filter {
            settings.filter = Some(filter).filter(|text| !text.is_empty()).map(Into::into);
        }
        let parsed = parse(settings.filter.as_deref()).map_err(refusal)?;
        if settings != self.settings {
            self.shared.change(nanoseconds(self.clock), &settings, parsed);
            probe.arm(settings.level.points());
            self.settings = settings;
        }
        Ok(())
    }

    /// What is traced, and how much so far.
    pub fn status(&self) -> TraceStatus {
        let (events, dropped) = self.shared.counts();
        TraceStatus {
            file: self.file.display().to_string(),
            level: self.settings.level.name().into(),
            filter: self.settings.filter.clone(),
            events,
            dropped,
        }
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        self.shared.stop();
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            log::error!("the thread that writes the trace has panicked");
        }
    }
}

fn refusal(error: impl ToString) -> Refusal {
    Refusal { kind: RefusalKind::BadRequest, message: error.to_string() }
}

fn parse(filter: Option<&str>) -> Result<Option<Filter>, BadFilter> {
    filter.map(str::parse).transpose()
}

/// Creates a file for its owner alone. It must not exist.
fn create(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;

    File::options().write(true).create_new(true).mode(0o600).open(path)
}

/// Since a clock's time 0.
fn nanoseconds(clock: Instant) -> u64 {
    // 584 years.
    clock.elapsed().as_nanos() as u64
}

/// What the machine's clocks showed at a clock's time 0.
fn clocks(clock: Instant) -> Clocks {
    let at_zero = |id| {
        let now = clock_gettime(id);
        let now = (now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64);
        now.saturating_sub(nanoseconds(clock))
    };
    Clocks { monotonic: at_zero(ClockId::Monotonic), realtime: at_zero(ClockId::Realtime) }
}
