//! What is kept between runs.
//!
//! An entry is a directory `KIND-HASH`, where the hash is of the recipe: another recipe is another
//! entry. It is built as `KIND-HASH.part` under an exclusive lock and then renamed, so an entry that
//! has its name is whole; what a killed build left is removed by the next one. Who uses an entry holds
//! its lock shared, so that it can't be removed meanwhile.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::FlockOperation;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result};
use crate::stop::{Stop, poll};

/// Name of the file in each entry that says what it is; its presence means nothing by itself.
const ABOUT: &str = "about.json";
const LOCKS: &str = "locks";
const PART: &str = ".part";

/// What an entry is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct About {
    /// For people.
    pub what: String,
    /// Exact versions of what is in it, and hashes where a version may not tell enough.
    pub versions: BTreeMap<String, String>,
    /// When it was made, in seconds since 1970.
    pub made: u64,
}

impl About {
    pub(crate) fn new(what: impl Into<String>, versions: BTreeMap<String, String>) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        Self { what: what.into(), versions, made: now }
    }
}

/// The directory of all entries.
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
}

/// An entry in use: it stays until this is dropped.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) path: PathBuf,
    pub(crate) about: About,
    _lock: File,
}

/// An entry as [`Cache::list`] shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its directory's name.
    pub name: String,
    /// What it is.
    pub about: About,
    /// Bytes on disk.
    pub bytes: u64,
}

impl Cache {
    /// `$XDG_CACHE_HOME/mlx5emu`, or `~/.cache/mlx5emu`.
    pub fn open() -> Result<Self> {
        let set =
            |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
        let base = base.ok_or_else(|| Error::Missing {
            what: "neither XDG_CACHE_HOME nor HOME names a directory".to_owned(),
            remedy: "set one of them".to_owned(),
        })?;
        Ok(Self::at(base.join("mlx5emu")))
    }

    /// One in another place.
    pub fn at(root: PathBuf) -> Self {
        Self { root }
    }

    /// Where it is.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The entry made by this recipe; `build` makes it in the directory that it is given, if it is not
    /// there yet. Only one process builds an entry, the others wait for it.
    pub(crate) fn entry(
        &self,
        kind: &str,
        recipe: &str,
        stop: &Stop,
        build: impl FnOnce(&Path) -> Result<About>,
    ) -> Result<Entry> {
        let name = format!("{kind}-{}", short_hash(recipe.as_bytes()));
        let path = self.root.join(&name);
        if let Some(entry) = self.existing(&name, &path)? {
            return Ok(entry);
        }
        let lock = self.lock_file(&name)?;
        wait_for_lock(&lock, FlockOperation::NonBlockingLockExclusive, &name, stop)?;
        if let Ok(about) = read_about(&path) {
            wait_for_lock(&lock, FlockOperation::NonBlockingLockShared, &name, stop)?;
            return Ok(Entry { path, about, _lock: lock });
        }
        let part = self.root.join(format!("{name}{PART}"));
        remove_all(&part)?;
        remove_all(&path)?;
        fs::create_dir(&part).map_err(Error::path("make", &part))?;
        let about = match build(&part) {
            Ok(about) => about,
            Err(error) => {
                // The reason is more useful than that cleaning up failed as well.
                let _ = remove_all(&part);
                return Err(error);
            }
        };
        let text = serde_json::to_vec_pretty(&about).unwrap_or_default();
        let file = part.join(ABOUT);
        fs::write(&file, text).map_err(Error::path("write", &file))?;
        fs::rename(&part, &path).map_err(Error::path("rename", &part))?;
        wait_for_lock(&lock, FlockOperation::NonBlockingLockShared, &name, stop)?;
        Ok(Entry { path, about, _lock: lock })
    }

    fn existing(&self, name: &str, path: &Path) -> Result<Option<Entry>> {
        if read_about(path).is_err() {
            return Ok(None);
        }
        let lock = self.lock_file(name)?;
        if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared).is_err() {
            return Ok(None);
        }
        // It may have been removed before we had the lock.
        Ok(read_about(path).ok().map(|about| Entry { path: path.to_owned(), about, _lock: lock }))
    }

    /// Opens an entry's lock; in a cache that another user made, only for reading.
    fn lock_file(&self, name: &str) -> Result<File> {
        let locks = self.root.join(LOCKS);
        let path = locks.join(name);
        if let Ok(file) = File::open(&path) {
            return Ok(file);
        }
        fs::create_dir_all(&locks).map_err(Error::path("make", &locks))?;
        OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(Error::path("make", &path))
    }

    /// All entries that are whole, by name.
    pub fn list(&self) -> Result<Vec<Listed>> {
        let mut list = Vec::new();
        for name in self.names()? {
            let path = self.root.join(&name);
            if let Ok(about) = read_about(&path) {
                list.push(Listed { name, about, bytes: disk_use(&path) });
            }
        }
        Ok(list)
    }

    /// Removes every entry, and what killed builds left. Returns the names of those in use, which stay.
    pub fn clear(&self) -> Result<Vec<String>> {
        let mut busy = Vec::new();
        for name in self.names()? {
            let lock = self.lock_file(name.trim_end_matches(PART))?;
            match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => remove_all(&self.root.join(&name))?,
                Err(Errno::WOULDBLOCK) => busy.push(name),
                Err(error) => return Err(Error::io(format!("lock {name}"))(error.into())),
            }
        }
        Ok(busy)
    }

    fn names(&self) -> Result<Vec<String>> {
        let entries = match fs::read_dir(&self.root) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(Error::path("read", &self.root)(error)),
        };
        let mut names: Vec<String> = entries
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| is_entry(name))
            .collect();
        names.sort();
        Ok(names)
    }
}

/// Others may keep things beside ours: they are not touched.
fn is_entry(name: &str) -> bool {
    let hash = name.trim_end_matches(PART).rsplit_once('-').map_or("", |(_, hash)| hash);
    hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Takes the lock, waiting in a way that a request to stop ends.
fn wait_for_lock(lock: &File, how: FlockOperation, name: &str, stop: &Stop) -> Result<()> {
    use std::os::fd::AsFd as _;

    let mut said = false;
    loop {
        match rustix::fs::flock(lock, how) {
            Ok(()) => return Ok(()),
            Err(Errno::WOULDBLOCK | Errno::INTR) => {}
            Err(error) => return Err(Error::io(format!("lock {name}"))(error.into())),
        }
        if !said {
            log::info!("waiting for another mlx5emu that makes {name}");
            said = true;
        }
        poll(&[stop.as_fd()], Some(200))?;
        stop.check()?;
    }
}

fn read_about(path: &Path) -> Result<About> {
    let file = path.join(ABOUT);
    let text = fs::read(&file).map_err(Error::path("read", &file))?;
    serde_json::from_slice(&text)
        .map_err(|error| Error::Option(format!("{}: {error}", file.display())))
}

/// Removes a directory if it is there.
pub(crate) fn remove_all(path: &Path) -> Result<()> {
    // What a killed build had started may still be writing for a moment.
    for _ in 0..100 {
        match fs::remove_dir_all(path) {
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {
                std::thread::sleep(Duration::from_millis(100));
            }
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(Error::path("remove", path)(error));
            }
            _ => return Ok(()),
        }
    }
    fs::remove_dir_all(path).map_err(Error::path("remove", path))
}

/// The first 16 hexadecimal digits of a hash.
pub(crate) fn short_hash(bytes: &[u8]) -> String {
    hash(bytes).chars().take(16).collect()
}

/// SHA-256 in hexadecimal.
pub(crate) fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn disk_use(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;

    let Ok(meta) = fs::symlink_metadata(path) else { return 0 };
    let own = meta.blocks().saturating_mul(512);
    if !meta.is_dir() {
        return own;
    }
    let inside = fs::read_dir(path).into_iter().flatten().flatten();
    inside.fold(own, |sum, entry| sum.saturating_add(disk_use(&entry.path())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache() -> (tempfile::TempDir, Cache, Stop) {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path().join("cache"));
        (dir, cache, Stop::new().unwrap())
    }

    fn about(what: &str) -> About {
        About::new(what, BTreeMap::from([("x".to_owned(), "1.0".to_owned())]))
    }

    #[test]
    fn an_entry_is_built_once_and_kept_while_in_use() {
        let (_dir, cache, stop) = cache();
        let make = |part: &Path| {
            fs::write(part.join("file"), b"x").unwrap();
            Ok(about("thing"))
        };
        let entry = cache.entry("thing", "recipe 1", &stop, make).unwrap();
        let again = cache.entry("thing", "recipe 1", &stop, |_| panic!("built twice")).unwrap();
        assert_eq!(entry.path, again.path);
        assert!(again.path.join("file").exists());
        let other = cache.entry("thing", "recipe 2", &stop, |_| Ok(about("other"))).unwrap();
        assert_ne!(entry.path, other.path);
        drop(other);
        assert_eq!(cache.list().unwrap().len(), 2);

        let busy = cache.clear().unwrap();
        assert_eq!(busy.len(), 1, "the one in use stays: {busy:?}");
        drop((entry, again));
        fs::create_dir(cache.root().join("others-things")).unwrap();
        assert!(cache.clear().unwrap().is_empty());
        assert!(cache.list().unwrap().is_empty());
        assert!(cache.root().join("others-things").exists());
    }

    #[test]
    fn a_failed_or_killed_build_leaves_nothing_valid() {
        let (_dir, cache, stop) = cache();
        let failed = cache.entry("thing", "r", &stop, |part| {
            fs::write(part.join("half"), b"x").unwrap();
            Err(Error::Interrupted)
        });
        assert!(matches!(failed, Err(Error::Interrupted)));
        assert_eq!(cache.names().unwrap(), [""; 0]);

        // What a killed build leaves: a part without anyone who holds the lock.
        let name = format!("thing-{}", short_hash(b"r"));
        fs::create_dir_all(cache.root().join(format!("{name}.part/deep"))).unwrap();
        // And an entry whose description is torn.
        fs::create_dir_all(cache.root().join(&name)).unwrap();
        fs::write(cache.root().join(&name).join(ABOUT), b"{").unwrap();
        assert!(cache.list().unwrap().is_empty());
        let entry = cache.entry("thing", "r", &stop, |part| {
            assert!(!part.join("deep").exists());
            Ok(about("thing"))
        });
        assert_eq!(entry.unwrap().about.what, "thing");
    }

    #[test]
    fn two_builders_of_one_entry_build_it_once() {
        let (_dir, cache, stop) = cache();
        let builds = std::sync::atomic::AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    cache
                        .entry("thing", "r", &stop, |_| {
                            builds.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                            Ok(about("thing"))
                        })
                        .unwrap();
                });
            }
        });
        assert_eq!(builds.into_inner(), 1);
    }
}
