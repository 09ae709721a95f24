//! What `serve` and `run` can be told about tracing.

use std::ffi::OsString;
use std::path::PathBuf;

use device::tracer::TraceOptions;
use trace::{Filter, Level, Settings};

use crate::config::TraceTable;

/// Options of `serve` and `run` about tracing.
#[derive(Debug, Clone, clap::Args)]
pub struct TraceArguments {
    /// Write what happens in the card to a new file, for `mlx5emu trace`
    #[arg(long = "trace", value_name = "FILE")]
    file: Option<PathBuf>,
    /// How much: off, commands, work (the default), dma or all
    #[arg(long = "trace-level", value_name = "LEVEL")]
    level: Option<Level>,
    /// Only events that match, as point=command or qpn=0x45
    #[arg(long = "trace-filter", value_name = "EXPR")]
    filter: Option<Filter>,
}

impl TraceArguments {
    /// Whether anything is to be traced, as far as the command line says.
    pub fn is_given(&self) -> bool {
        self.file.is_some()
    }

    /// For a server in this process; `table` is what the configuration file says.
    pub fn options(&self, table: TraceTable) -> Result<Option<TraceOptions>, String> {
        let filter = self.filter.clone().or(table.filter).map(|filter| filter.to_string());
        let level = self.level.or(table.level).unwrap_or_default();
        match self.file.clone().or(table.file) {
            Some(file) => Ok(Some(TraceOptions { file, settings: Settings { level, filter } })),
            None if self.level.is_some() || self.filter.is_some() => {
                Err("--trace-level and --trace-filter need --trace".into())
            }
            None => Ok(None),
        }
    }

    /// For another process.
    pub fn arguments(&self) -> Vec<OsString> {
        let given: [(&str, Option<OsString>); 3] = [
            ("--trace", self.file.as_ref().map(Into::into)),
            ("--trace-level", self.level.map(|level| level.name().into())),
            ("--trace-filter", self.filter.as_ref().map(|filter| filter.to_string().into())),
        ];
        let given = given.into_iter().filter_map(|(name, value)| Some([name.into(), value?]));
        given.flatten().collect()
    }
}
