//! What is being fetched or built, on standard error: a moving line on a terminal, plain lines elsewhere.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

/// Where steps are shown.
#[derive(Debug)]
pub(crate) struct Progress {
    bars: Option<MultiProgress>,
}

impl Progress {
    pub(crate) fn new() -> Self {
        let moving = std::io::stderr().is_terminal() && log::log_enabled!(log::Level::Info);
        Self { bars: moving.then(MultiProgress::new) }
    }

    /// A step that takes long enough to be shown.
    pub(crate) fn step(&self, what: &str) -> Step {
        let bar = self.bars.as_ref().map(|bars| {
            let bar = bars.add(ProgressBar::new_spinner());
            if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix}: {msg} ({elapsed})")
            {
                bar.set_style(style);
            }
            bar.set_prefix(what.to_owned());
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        if bar.is_none() {
            log::info!("{what}: begins (needed once)");
        }
        Step { what: what.to_owned(), bar, began: Instant::now() }
    }
}

/// One step.
#[derive(Debug)]
pub(crate) struct Step {
    what: String,
    bar: Option<ProgressBar>,
    began: Instant,
}

impl Step {
    /// What it is doing now.
    pub(crate) fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(text.to_owned()),
            None => log::debug!("{}: {text}", self.what),
        }
    }

    /// It is done.
    pub(crate) fn done(&self, result: &str) {
        let seconds = self.began.elapsed().as_secs_f32();
        let line = format!("{}: {result} ({seconds:.0} s)", self.what);
        match &self.bar {
            Some(bar) => {
                bar.suspend(|| log::info!("{line}"));
                bar.finish_and_clear();
            }
            None => log::info!("{line}"),
        }
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
