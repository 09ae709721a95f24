//! Why the launcher could not start: one clear line each.

use std::io;
use std::path::{Path, PathBuf};

/// Why the launcher could not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused something.
    #[error("cannot {doing}: {source}")]
    Io {
        /// What was being done.
        doing: String,
        /// Why it failed.
        source: io::Error,
    },
    /// Something has to be installed first.
    #[error("{what}; {remedy}")]
    Missing {
        /// What is not there.
        what: String,
        /// What the person can do.
        remedy: String,
    },
    /// A program that was needed failed.
    #[error("{program} failed ({status}): {said}")]
    Failed {
        /// Its name.
        program: String,
        /// How it ended.
        status: String,
        /// Its last words.
        said: String,
    },
    /// The kernel file can't be used.
    #[error("{}: {problem}", path.display())]
    Kernel {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The kernel can't run the guest or the card's driver.
    #[error("kernel {release} lacks {} (built in, or as a module)", names.join(", "))]
    KernelLacks {
        /// Which kernel.
        release: String,
        /// What it lacks.
        names: Vec<String>,
    },
    /// An option makes no sense.
    #[error("{0}")]
    Option(String),
    /// The person asked to stop.
    #[error("interrupted")]
    Interrupted,
}

/// Result of most things here.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An operating system error met while `doing` something.
    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Io { doing, source }
    }

    /// The same for something done to a file.
    pub(crate) fn path(verb: &str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        Self::io(format!("{verb} {}", path.display()))
    }
}
