//! Debian's package registry, reached the way this machine's apt reaches it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{Error, Result};
use crate::process;
use crate::scratch::Scratch;
use crate::stop::Stop;

const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
const USUAL_MIRROR: &str = "http://deb.debian.org/debian";

/// Settings of apt that say how to reach a mirror, and nothing else.
const NETWORK_SETTINGS: &[&str] = &[
    "Acquire::http",
    "Acquire::https",
    "Acquire::Retries",
    "Acquire::Check-Valid-Until",
    "Acquire::Check-Date",
    "Acquire::ForceIPv4",
    "Acquire::ForceIPv6",
];

/// How to reach the registry.
#[derive(Debug, Clone)]
pub(crate) struct Debian {
    mirror: String,
    settings: Vec<String>,
    /// Only one thread at a time installs something on this machine.
    installing: Arc<Mutex<()>>,
}

impl Debian {
    /// Asks this machine's apt.
    pub(crate) fn find(stop: &Stop) -> Result<Self> {
        let mut targets = Command::new("apt-get");
        targets.args(["indextargets", "--format", "$(LABEL) $(REPO_URI)"]);
        targets.arg("Created-By: Packages");
        let targets = match process::run("apt-get", targets, stop, |_| {}) {
            Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                return Err(Error::Missing {
                    what: "there is no apt-get here, and the guest is made of Debian's packages"
                        .to_owned(),
                    remedy: "use a Debian or Ubuntu machine or container".to_owned(),
                });
            }
            other => other?,
        };
        if !Path::new(KEYRING).exists() {
            install("debian-archive-keyring", "Debian's keys are not here", stop)?;
        }
        let mut dump = Command::new("apt-config");
        dump.arg("dump");
        let dump = process::run("apt-config", dump, stop, |_| {})?;
        Ok(Self {
            mirror: mirror_of(&targets),
            settings: network_settings(&dump),
            installing: Arc::default(),
        })
    }

    /// A line of sources.list.
    pub(crate) fn source(&self, suite: &str) -> String {
        format!("deb [signed-by={KEYRING}] {} {suite} main", self.mirror)
    }

    /// mmdebstrap with what both uses of it share: no recommended packages, nothing for people to read.
    pub(crate) fn mmdebstrap(&self, temporary: &Scratch, stop: &Stop) -> Result<Command> {
        let turn = self.installing.lock().unwrap_or_else(PoisonError::into_inner);
        if !on_path("mmdebstrap") {
            install("mmdebstrap", "mmdebstrap is needed to fetch the guest", stop)?;
        }
        drop(turn);
        let mut command = Command::new("mmdebstrap");
        if rustix::process::geteuid().is_root() && on_path("unshare") {
            // In namespaces of its own whatever it starts and mounts ends with it, however it ends.
            let apart = ["--pid", "--fork", "--kill-child", "--mount", "--mount-proc", "--"];
            let mut probe = Command::new("unshare");
            probe.args(apart).arg("true");
            if process::run("unshare", probe, stop, |_| {}).is_ok() {
                command = Command::new("unshare");
                command.args(apart).arg("mmdebstrap");
            }
        }
        // What it leaves when it is killed is removed with this.
        command.env("TMPDIR", temporary.path());
        let without = ["doc", "man", "locale", "info", "lintian", "bug"];
        command.env("LC_ALL", "C").arg("--aptopt=APT::Install-Recommends \"false\"");
        command.args(self.settings.iter().map(|setting| format!("--aptopt={setting}")));
        command
            .args(without.iter().map(|what| format!("--dpkgopt=path-exclude=/usr/share/{what}/*")));
        Ok(command)
    }
}

/// Shows what mmdebstrap is doing.
pub(crate) fn activity(line: &str) -> Option<&str> {
    line.strip_prefix("I: ").map(|text| text.trim_end_matches('.'))
}

/// The mirror of the first Debian source: lines are of label and address.
fn mirror_of(targets: &str) -> String {
    let parts = || targets.lines().filter_map(|line| line.rsplit_once(' '));
    // Before the first `apt-get update` there are no labels.
    let by_label = parts().find(|(label, _)| *label == "Debian");
    let by_name = || parts().find(|(_, uri)| uri.trim_end_matches('/').ends_with("/debian"));
    by_label.or_else(by_name).map_or(USUAL_MIRROR, |(_, uri)| uri.trim_end_matches('/')).to_owned()
}

fn network_settings(dump: &str) -> Vec<String> {
    let ours = |line: &&str| {
        NETWORK_SETTINGS.iter().any(|name| {
            line.strip_prefix(name)
                .is_some_and(|rest| rest.starts_with("::") || rest.starts_with(' '))
        })
    };
    dump.lines()
        .filter(ours)
        .filter(|line| !line.ends_with("\"\";"))
        .map(|line| line.trim_end_matches(';').to_owned())
        .collect()
}

/// Whether a program is there.
pub(crate) fn on_path(program: &str) -> bool {
    find_on_path(program).is_some()
}

/// Where a program is.
pub(crate) fn find_on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|file| file.is_file())
}

/// Installs a package on this machine if we may, and says so.
pub(crate) fn install(package: &str, why: &str, stop: &Stop) -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Err(Error::Missing {
            what: why.to_owned(),
            remedy: format!("install it (apt-get install {package}) or run this once as root"),
        });
    }
    log::info!("{why}: installing the package {package} on this machine");
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        // Another apt may be at work on this machine.
        command.args(["-o", "DPkg::Lock::Timeout=300"]);
        command.env("DEBIAN_FRONTEND", "noninteractive").args(arguments);
        process::run_gently("apt-get", command, stop)
    };
    let wanted = ["install", "--yes", "--no-install-recommends", package];
    if apt(&wanted).is_err() {
        apt(&["update"])?;
        apt(&wanted)?;
    }
    Ok(())
}

/// An apt of our own for one suite, in a directory that is thrown away: it fetches packages and needs no
/// root.
#[derive(Debug)]
pub(crate) struct Apt<'a> {
    options: Vec<String>,
    stop: &'a Stop,
}

impl<'a> Apt<'a> {
    pub(crate) fn new(dir: &Path, debian: &Debian, suite: &str, stop: &'a Stop) -> Result<Self> {
        for sub in ["state/lists/partial", "cache/archives/partial", "etc"] {
            let path = dir.join(sub);
            fs::create_dir_all(&path).map_err(Error::path("make", &path))?;
        }
        let list = dir.join("etc/sources.list");
        fs::write(&list, debian.source(suite)).map_err(Error::path("write", &list))?;
        let status = dir.join("state/status");
        fs::write(&status, "").map_err(Error::path("write", &status))?;
        let at = |name: &str, path: &str| format!("Dir::{name}={}", dir.join(path).display());
        let mut options = vec![
            at("State", "state"),
            at("State::status", "state/status"),
            at("Cache", "cache"),
            at("Etc", "etc"),
            at("Etc::sourcelist", "etc/sources.list"),
            "Dir::Etc::sourceparts=/dev/null".to_owned(),
            "APT::Architecture=amd64".to_owned(),
            "APT::Architectures=amd64".to_owned(),
            "APT::Sandbox::User=".to_owned(),
            "Acquire::Languages=none".to_owned(),
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false".to_owned(),
            "Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false".to_owned(),
        ];
        options.extend(debian.settings.iter().map(|setting| {
            let (name, value) = setting.split_once(' ').unwrap_or((setting, ""));
            format!("{name}={}", value.trim_matches('"'))
        }));
        let apt = Self { options, stop };
        apt.run("apt-get", &["update"], None)?;
        Ok(apt)
    }

    fn run(&self, program: &str, arguments: &[&str], at: Option<&Path>) -> Result<String> {
        let mut command = Command::new(program);
        command.env("LC_ALL", "C");
        for option in &self.options {
            command.arg("-o").arg(option);
        }
        command.args(arguments);
        if let Some(dir) = at {
            command.current_dir(dir);
        }
        process::run(program, command, self.stop, |_| {})
    }

    /// A package's version and what it depends on, alternatives left out.
    pub(crate) fn show(&self, package: &str) -> Result<(String, Vec<String>)> {
        let text = self.run("apt-cache", &["show", "--no-all-versions", package], None)?;
        let field = |name: &str| {
            text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).unwrap_or("")
        };
        Ok((field("Version").to_owned(), first_alternatives(field("Depends"))))
    }

    /// Fetches packages into a directory.
    pub(crate) fn download(&self, packages: &[String], dir: &Path) -> Result<()> {
        let mut arguments = vec!["download"];
        arguments.extend(packages.iter().map(String::as_str));
        self.run("apt-get", &arguments, Some(dir)).map(drop)
    }
}

/// Names in a `Depends` field.
fn first_alternatives(depends: &str) -> Vec<String> {
    depends.split(',').filter_map(|one| one.split_whitespace().next()).map(str::to_owned).collect()
}

/// Versions of some packages, from a dpkg status file.
pub(crate) fn versions_in_status<'a>(
    status: &str,
    wanted: impl IntoIterator<Item = &'a str>,
) -> Vec<(String, String)> {
    let mut versions = Vec::new();
    let wanted: Vec<&str> = wanted.into_iter().collect();
    for paragraph in status.split("\n\n") {
        let field = |name: &str| {
            paragraph.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
        };
        if let (Some(package), Some(version)) = (field("Package"), field("Version"))
            && wanted.contains(&package)
        {
            versions.push((package.to_owned(), version.to_owned()));
        }
    }
    versions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mirror_is_apts_own() {
        let labelled = "Other http://x.example/other/\nDebian http://near.example/debian/\n\
                        Debian-Security http://near.example/debian-security/\n";
        assert_eq!(mirror_of(labelled), "http://near.example/debian");
        // before the first update the field is not filled in
        let bare =
            "$(LABEL) http://sec.example/debian-security/\n$(LABEL) http://m.example/debian\n";
        assert_eq!(mirror_of(bare), "http://m.example/debian");
        assert_eq!(mirror_of("Ubuntu http://archive.example/ubuntu/\n"), USUAL_MIRROR);
        assert_eq!(mirror_of(""), USUAL_MIRROR);
    }

    #[test]
    fn only_network_settings_are_taken_over() {
        let dump = "APT::Install-Suggests \"1\";\nAcquire::http \"\";\n\
                    Acquire::http::Proxy \"http://proxy.example:3142\";\nAcquire::httpsomething \"1\";\n\
                    Acquire::Check-Valid-Until \"false\";\nAcquire::GzipIndexes \"true\";\n";
        assert_eq!(
            network_settings(dump),
            [
                "Acquire::http::Proxy \"http://proxy.example:3142\"",
                "Acquire::Check-Valid-Until \"false\""
            ]
        );
    }

    #[test]
    fn dependencies_and_versions() {
        assert_eq!(
            first_alternatives("kmod, linux-image-7 (= 7.3), dracut | initramfs-tools (>= 0.1)"),
            ["kmod", "linux-image-7", "dracut"]
        );
        assert_eq!(first_alternatives(""), [""; 0]);
        let status =
            "Package: a\nStatus: install ok installed\nVersion: 1:2\n\nPackage: b\nVersion: 3\n";
        assert_eq!(versions_in_status(status, ["b", "c"]), [("b".to_owned(), "3".to_owned())]);
    }
}
