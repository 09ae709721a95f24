//! The reports that there are: a directory each, with `about.toml`, `plan.toml` and `guest.py`.

use std::fs;
use std::path::{Path, PathBuf};

use faults::Rule;
use serde::Deserialize;

/// Where the reports of this repository are, and the reactions.
pub const HERE: [&str; 2] =
    [env!("CARGO_MANIFEST_DIR"), concat!(env!("CARGO_MANIFEST_DIR"), "/../reactions")];

/// Promises that every report makes without saying so.
pub const ENDS: &str = "ends";
/// The other one.
pub const QUIET: &str = "quiet";

/// A report.
#[derive(Debug, Clone)]
pub struct Report {
    /// `A1`.
    pub id: String,
    /// `A1-create-mkey-fails`.
    pub name: String,
    /// Its directory.
    pub dir: PathBuf,
    /// What `about.toml` says.
    pub about: About,
    /// The fault rules of `plan.toml`.
    pub plan: Vec<Rule>,
}

/// `about.toml`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct About {
    /// What was reported, in a line.
    pub title: String,
    /// Where; nowhere for what nobody reported.
    #[serde(default)]
    pub links: Vec<String>,
    /// What is shown here, and how.
    pub shows: String,
    /// Part of the subset that takes little time.
    #[serde(default)]
    pub quick: bool,
    /// Seconds that the script may take.
    #[serde(default = "limit")]
    pub limit: u64,
    /// The guest and the card that it needs.
    #[serde(default)]
    pub machine: Machine,
    /// What must be so.
    pub promise: Vec<Promise>,
    /// What some kernels do instead.
    #[serde(default)]
    pub finding: Vec<Finding>,
}

fn limit() -> u64 {
    180
}

/// A guest and a card. Reports with equal ones share a boot.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Memory, as for `mlx5emu run --mem`.
    pub memory: Option<String>,
    /// Kernel parameters.
    #[serde(default)]
    pub append: Vec<String>,
    /// The card's configuration, as for `mlx5emu run --config`.
    #[serde(default)]
    pub card: toml::Table,
    /// Nothing else runs in this boot.
    #[serde(default)]
    pub alone: bool,
}

/// Something that must be so.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Promise {
    /// What the script calls it.
    pub name: String,
    /// What it is.
    pub says: String,
    /// Where the driver's source says so: `cmd.c: mlx5_cmd_comp_handler`.
    #[serde(default)]
    pub source: String,
}

/// What a kernel does instead of what is promised.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// Which promise is not kept.
    pub promise: String,
    /// By which kernels: beginnings of their releases.
    pub kernels: Vec<String>,
    /// What they do.
    pub instead: String,
    /// A line of the kernel's log, or of what the script saw, that shows it.
    pub log: String,
    /// Only now and then, because it is a race.
    #[serde(default)]
    pub sometimes: bool,
}

impl Finding {
    /// Whether it is about a kernel of this release.
    pub fn is_about(&self, release: &str) -> bool {
        self.kernels.iter().any(|kernel| {
            release.strip_prefix(kernel.as_str()).is_some_and(|rest| rest.starts_with(['.', '-']))
        })
    }
}

/// Reads all reports below directories, or those of these names.
pub fn read(dirs: &[PathBuf], wanted: &[String]) -> Result<Vec<Report>, String> {
    let mut reports = Vec::new();
    for dir in dirs {
        let mut found = all(dir)?;
        found.sort_by(|one, other| order(&one.id).cmp(&order(&other.id)));
        reports.append(&mut found);
    }
    if let Some(unknown) = wanted.iter().find(|name| !reports.iter().any(|one| one.is(name))) {
        let ids: Vec<&str> = reports.iter().map(|report| report.id.as_str()).collect();
        return Err(format!("there is no report {unknown}; there are {}", ids.join(", ")));
    }
    reports.retain(|report| wanted.is_empty() || wanted.iter().any(|name| report.is(name)));
    Ok(reports)
}

fn all(dir: &Path) -> Result<Vec<Report>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", dir.display());
    let mut reports = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.join("about.toml").is_file() {
            reports.push(one(&path)?);
        }
    }
    Ok(reports)
}

/// By letter, then by number; what has no number by name.
fn order(id: &str) -> (&str, u32) {
    match number(id) {
        Some(number) => (&id[..1], number),
        None => (id, 0),
    }
}

/// The number of an id such as `A10`.
fn number(id: &str) -> Option<u32> {
    let mut letters = id.chars();
    letters.next().filter(char::is_ascii_uppercase)?;
    letters.as_str().parse().ok()
}

impl Report {
    /// What shows damage that a kernel of this release is known to report with it.
    pub(crate) fn excuses(&self, release: &str) -> impl Iterator<Item = &str> {
        let about = self.about.finding.iter();
        about
            .filter(move |finding| finding.promise == QUIET && finding.is_about(release))
            .map(|finding| finding.log.as_str())
    }

    fn is(&self, name: &str) -> bool {
        self.id == name || self.name == name
    }
}

fn one(dir: &Path) -> Result<Report, String> {
    let text = |file: &str| {
        let path = dir.join(file);
        fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let at = |file: &str, why: String| format!("{}: {}", dir.join(file).display(), why.trim_end());
    let about: About = toml::from_str(&text("about.toml")?)
        .map_err(|error| at("about.toml", error.to_string()))?;
    let plan = if dir.join("plan.toml").is_file() {
        faults::parse(&text("plan.toml")?)
            .map_err(|(line, why)| at("plan.toml", format!("line {line}: {why}")))?
    } else {
        Vec::new()
    };
    let name = dir.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
    // A report is known by a letter and a number, a reaction by its name.
    let first = name.split('-').next().unwrap_or_default();
    let id = if number(first).is_some() { first.to_owned() } else { name.clone() };
    let report = Report { id, name, dir: dir.to_owned(), about, plan };
    report.check().map_err(|why| at("about.toml", why))?;
    Ok(report)
}

impl Report {
    fn check(&self) -> Result<(), String> {
        let mut known: Vec<&str> = vec![ENDS, QUIET];
        for promise in &self.about.promise {
            if known.contains(&promise.name.as_str()) {
                return Err(format!("promise {} is there twice", promise.name));
            }
            known.push(&promise.name);
        }
        for finding in &self.about.finding {
            if !known.contains(&finding.promise.as_str()) {
                return Err(format!("a finding is about {}, which is no promise", finding.promise));
            }
        }
        if !self.dir.join("guest.py").is_file() {
            return Err("there is no guest.py beside it".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_reports_of_the_repository_can_be_read() {
        let here = HERE.map(PathBuf::from);
        let reports = read(&here, &[]).unwrap();
        assert!(here.iter().all(|dir| reports.iter().any(|one| one.dir.starts_with(dir))));
        for report in &reports {
            assert!(report.about.links.iter().all(|link| link.starts_with("https://")));
        }
        assert!(read(&here, &["Z9".to_owned()]).unwrap_err().contains("no report Z9"));
    }

    #[test]
    fn order_is_by_letter_and_number() {
        let mut ids = ["B1", "port", "A10", "A2", "bus", "A1"];
        ids.sort_by_key(|id| order(id));
        assert_eq!(ids, ["A1", "A2", "A10", "B1", "bus", "port"]);
    }

    #[test]
    fn findings_are_about_kernels() {
        let finding = Finding {
            promise: "x".to_owned(),
            kernels: vec!["6.1".to_owned()],
            instead: String::new(),
            log: String::new(),
            sometimes: false,
        };
        assert!(finding.is_about("6.1.0-50-amd64"));
        assert!(!finding.is_about("6.12.117+deb13-amd64"));
    }
}
