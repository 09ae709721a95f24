//! Results on disk: a line of JSON each, so that a campaign that was stopped goes on.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::case::Choice;
use crate::result::CaseResult;
use crate::steps::Steps;
use crate::workload::Workload;

/// Version of the format.
const FORMAT: u32 = 1;
/// The file's name in a campaign's directory.
const FILE: &str = "results.jsonl";

/// First line: what the campaign is. Results belong together only if it is the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// Version of the format.
    pub format: u32,
    /// Version of the program.
    pub program: String,
    /// What the guest does.
    pub workload: Workload,
    /// As it is written after `--workload`.
    pub workload_argument: String,
    /// The kernel's release.
    pub kernel: String,
    /// As it is written after `--kernel`.
    pub kernel_argument: String,
    /// Which cases.
    pub choice: Choice,
    /// What a clean run does.
    pub steps: Vec<Steps>,
}

impl Header {
    pub(crate) fn new(
        workload: &Workload,
        release: &str,
        choice: Choice,
        steps: Vec<Steps>,
    ) -> Self {
        Self {
            format: FORMAT,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            workload: workload.clone(),
            workload_argument: workload.name.clone(),
            kernel: release.to_owned(),
            kernel_argument: release.to_owned(),
            choice,
            steps,
        }
    }

    /// Whether results of both can stand in one report; if not, what differs.
    pub(crate) fn difference(&self, other: &Self) -> Option<&'static str> {
        let checks = [
            (self.format == other.format, "format"),
            (self.workload == other.workload, "workload"),
            (self.kernel == other.kernel, "kernel"),
            (self.choice.full == other.choice.full, "--full"),
            (self.choice.seed == other.choice.seed, "--seed"),
        ];
        checks.into_iter().find(|(same, _)| !same).map(|(_, what)| what)
    }
}

/// A campaign's results.
#[derive(Debug, Clone, PartialEq)]
pub struct Results {
    /// What it is.
    pub header: Header,
    /// Each case that is done.
    pub cases: Vec<CaseResult>,
}

/// A campaign's directory, open for more results.
#[derive(Debug)]
pub(crate) struct Store {
    path: PathBuf,
    file: File,
}

impl Store {
    /// What the directory holds of an earlier run, if anything.
    pub(crate) fn read(dir: &Path) -> Result<Option<Results>, Error> {
        let path = dir.join(FILE);
        let failed = |source| Error::File { path: path.clone(), source };
        if !path.exists() {
            return Ok(None);
        }
        let mut lines = BufReader::new(File::open(&path).map_err(failed)?).lines();
        let first = lines.next().transpose().map_err(failed)?.unwrap_or_default();
        let bad = |number: usize, error: serde_json::Error| {
            Error::Results(format!("{}, line {number}: {error}", path.display()))
        };
        let header: Header = serde_json::from_str(&first).map_err(|error| bad(1, error))?;
        if header.format != FORMAT {
            let (its, ours) = (header.format, FORMAT);
            return Err(Error::Results(format!("{}: format {its}, not {ours}", path.display())));
        }
        let rest: Vec<String> = lines.collect::<Result<_, _>>().map_err(failed)?;
        let mut cases = Vec::new();
        for (at, line) in rest.iter().enumerate() {
            match serde_json::from_str(line) {
                Ok(case) => cases.push(case),
                // The last line may be half of one: the process was killed.
                Err(_) if at + 1 == rest.len() => {}
                Err(error) => return Err(bad(at + 2, error)),
            }
        }
        Ok(Some(Results { header, cases }))
    }

    /// Makes the directory this process's alone for as long as the file is open.
    pub(crate) fn lock(dir: &Path) -> Result<File, Error> {
        let failed = |source| Error::File { path: dir.to_owned(), source };
        fs::create_dir_all(dir).map_err(failed)?;
        let lock = File::open(dir).map_err(failed)?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(lock),
            Err(Errno::WOULDBLOCK) => {
                let why = "another campaign is writing its results there: name another --out";
                Err(Error::Results(format!("{}: {why}", dir.display())))
            }
            Err(error) => Err(failed(error.into())),
        }
    }

    /// Begins a directory, or goes on with what it holds.
    pub(crate) fn open(dir: &Path, results: &Results) -> Result<Self, Error> {
        let path = dir.join(FILE);
        let failed = |source| Error::File { path: path.clone(), source };
        // Written whole, so that half a line at the end is gone.
        let new = dir.join(format!("{FILE}.new"));
        let mut file = File::create(&new).map_err(failed)?;
        put(&mut file, &results.header).map_err(failed)?;
        for case in &results.cases {
            put(&mut file, case).map_err(failed)?;
        }
        fs::rename(&new, &path).map_err(failed)?;
        let file = OpenOptions::new().append(true).open(&path).map_err(failed)?;
        Ok(Self { path, file })
    }

    pub(crate) fn add(&mut self, case: &CaseResult) -> Result<(), Error> {
        put(&mut self.file, case).map_err(|source| Error::File { path: self.path.clone(), source })
    }
}

fn put(file: &mut File, value: &impl Serialize) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    file.write_all(&line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard::Shard;

    #[test]
    fn a_directory_has_one_writer() {
        let place = tempfile::tempdir().unwrap();
        let held = Store::lock(place.path()).unwrap();
        let refused = Store::lock(place.path()).unwrap_err().to_string();
        assert!(refused.contains("another campaign"), "{refused}");
        drop(held);
        Store::lock(place.path()).unwrap();
    }

    #[test]
    fn a_campaign_that_was_killed_goes_on() {
        let place = tempfile::tempdir().unwrap();
        assert_eq!(Store::read(place.path()).unwrap(), None);
        let choice = Choice { full: false, seed: 1, shard: Shard::WHOLE };
        let header = Header::new(&Workload::find("probe").unwrap(), "6.12", choice, Vec::new());
        let mut results = Results { header, cases: Vec::new() };
        let mut store = Store::open(place.path(), &results).unwrap();
        let case = CaseResult {
            case: "probe/command/INIT_HCA#1/never".into(),
            fired: 1,
            phases: [].into(),
            findings: Vec::new(),
            rebooted: false,
            disturbed: false,
            seconds: 1.0,
        };
        store.add(&case).unwrap();
        results.cases.push(case);
        // Killed within a line.
        store.file.write_all(b"{\"case\":\"pro").unwrap();
        assert_eq!(Store::read(place.path()).unwrap().as_ref(), Some(&results));
        // What is wrong elsewhere is no such line.
        let mut store = Store::open(place.path(), &results).unwrap();
        store.file.write_all(b"nonsense\n\n").unwrap();
        let error = Store::read(place.path()).unwrap_err().to_string();
        assert!(error.contains("line 3"), "{error}");
    }
}
