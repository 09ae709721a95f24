//! A run's own directory: sockets, logs, the initramfs. It is removed with the run, and what a run that
//! was killed left is removed by the next one.

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::FlockOperation;

use crate::error::{Error, Result};

const PREFIX: &str = "mlx5emu-run-";
const LOCK: &str = "lock";
/// What `sun_path` holds, without the zero byte.
const LONGEST_SOCKET: usize = 107;

/// The directory.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
    _lock: File,
}

impl Scratch {
    /// For a run: nobody else may look into it.
    pub(crate) fn new() -> Result<Self> {
        Self::with_mode(0o700)
    }

    /// For mmdebstrap, which passes through it under other user numbers.
    pub(crate) fn passable() -> Result<Self> {
        Self::with_mode(0o711)
    }

    fn with_mode(mode: u32) -> Result<Self> {
        let base = std::env::temp_dir();
        remove_stale(&base);
        for number in 0_u32.. {
            let path = base.join(format!("{PREFIX}{}-{number}", std::process::id()));
            match DirBuilder::new().mode(mode).create(&path) {
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::path("make", &path)(error)),
                Ok(()) => return Self::lock(path),
            }
        }
        Err(Error::Option(format!("no free name for a directory under {}", base.display())))
    }

    fn lock(path: PathBuf) -> Result<Self> {
        let file = path.join(LOCK);
        let lock = File::create_new(&file).map_err(Error::path("make", &file))?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|error| Error::path("lock", &file)(error.into()))?;
        if path.join("control.sock").as_os_str().len() > LONGEST_SOCKET {
            let _ = fs::remove_dir_all(&path);
            return Err(Error::Option(format!(
                "sockets in {} would have names over {LONGEST_SOCKET} bytes: set TMPDIR to a shorter path",
                path.display()
            )));
        }
        Ok(Self { path, _lock: lock })
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// Removes a directory, files of an ordinary user's subordinate users among it if need be.
fn remove(path: &Path) {
    if fs::remove_dir_all(path).is_ok() {
        return;
    }
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--map-auto", "--", "rm", "-rf", "--"]).arg(path);
    let status = command.stdin(Stdio::null()).stderr(Stdio::null()).status();
    if path.exists() {
        log::warn!("cannot remove {} ({status:?})", path.display());
    }
}

/// Removes our own user's directories whose lock nobody holds.
fn remove_stale(base: &Path) {
    let me = rustix::process::geteuid().as_raw();
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let ours = name.to_string_lossy().starts_with(PREFIX)
            && entry.metadata().is_ok_and(|meta| meta.uid() == me && meta.is_dir());
        // Without a lock file its run is just beginning.
        if ours
            && let Ok(lock) = File::open(entry.path().join(LOCK))
            && rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok()
        {
            remove(&entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_dead_runs_go() {
        let base = tempfile::tempdir().unwrap();
        let dir = |name: &str| {
            let path = base.path().join(name);
            fs::create_dir(&path).unwrap();
            path
        };
        let live = Scratch::lock(dir("mlx5emu-run-1-0")).unwrap();
        let dead = dir("mlx5emu-run-2-0");
        fs::write(dead.join(LOCK), b"").unwrap();
        let (beginning, other) = (dir("mlx5emu-run-3-0"), dir("other"));
        remove_stale(base.path());
        assert!(live.path().exists() && beginning.exists() && other.exists() && !dead.exists());
        let path = live.path().to_owned();
        drop(live);
        assert!(!path.exists());
    }
}
