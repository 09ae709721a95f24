//! What `serve` and `run` can be told about tracing.

use std::ffi::OsString;
use std::path::PathBuf;

use device::tracer::TraceOptions;
use trace::{Filter, Level, Settings};

/// Options of `serve` and `run` about tracing.
#[derive(Debug, Clone, clap::Args)]
pub struct TraceArguments {
    /// Write what happens in the card to a new file, for `mlx5emu trace`
    #[arg(long = "trace", value_name = "FILE")]
    file: Option<PathBuf>,
    /// How much: off, commands, work, dma or all
    #[arg(long = "trace-level", value_name = "LEVEL", default_value = "work", requires = "file")]
    level: Level,
    /// Only events that match, as point=command or qpn=0x45
    #[arg(long = "trace-filter", value_name = "EXPR", requires = "file")]
    filter: Option<Filter>,
}

impl TraceArguments {
    /// For a server in this process.
    pub fn options(&self) -> Option<TraceOptions> {
        let filter = self.filter.as_ref().map(Filter::to_string);
        let settings = Settings { level: self.level, filter };
        self.file.clone().map(|file| TraceOptions { file, settings })
    }

    /// For another process.
    pub fn arguments(&self) -> Vec<OsString> {
        let Some(file) = &self.file else { return Vec::new() };
        let mut all: Vec<OsString> =
            vec!["--trace".into(), file.into(), "--trace-level".into(), self.level.name().into()];
        if let Some(filter) = &self.filter {
            all.extend(["--trace-filter".into(), filter.to_string().into()]);
        }
        all
    }
}
