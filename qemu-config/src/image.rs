//! The guest's root file system: Debian 13 with what RDMA people use, as one compressed image.
//!
//! It holds nothing of a kernel and nothing of ours, so that all kernels and all versions of this
//! program share it. mmdebstrap's archive goes into a file first: it can be made while the tools that
//! turn it into an image are still on their way.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::cache::{self, About, Cache, Entry};
use crate::debian::{self, Debian};
use crate::error::{Error, Result};
use crate::process;
use crate::progress::Progress;
use crate::scratch::Scratch;
use crate::stop::Stop;
use crate::tools::Tools;

/// Change it with what the image holds beside the packages.
const RECIPE: u32 = 1;
const SUITE: &str = "trixie";

/// What every guest has.
const PACKAGES: &[&str] = &[
    "ethtool",
    "ibverbs-utils",
    "infiniband-diags",
    "iproute2",
    "kmod",
    "opensm",
    "perftest",
    "python3",
    "python3-pyverbs",
    "python3-scapy",
    "rdmacm-utils",
];

/// Documentation that is kept: rdma-core's own tests are in it. (A path below it alone would not do: dpkg
/// would not make the directory above.)
const KEPT: &str = "/usr/share/doc/rdma-core/*";

/// Run in the finished tree: the tests become usable (the larger files are packed), and names that
/// need no network resolve.
const FINISH: &str = "gunzip --recursive --force /usr/share/doc/rdma-core/tests && \
    python3 -m compileall -q /usr/share/doc/rdma-core/tests && \
    printf '127.0.0.1 localhost guest\\n::1 localhost guest\\n' > /etc/hosts && \
    : > /etc/resolv.conf";

/// The image in the cache.
#[derive(Debug)]
pub(crate) struct Image {
    pub(crate) file: PathBuf,
    _entry: Entry,
}

const FILE: &str = "root.squashfs";

/// Finds mistakes in the names of further packages, before anything is fetched.
pub(crate) fn check(more: &[String]) -> Result<()> {
    Further::sort(more).map(drop)
}

/// Finds the image or makes it. `tools` is asked for when the archive is there.
pub(crate) fn get(
    cache: &Cache,
    progress: &Progress,
    stop: &Stop,
    debian: &dyn Fn() -> Result<Debian>,
    more: &[String],
    tools: impl FnOnce() -> Result<std::sync::Arc<Tools>>,
) -> Result<Image> {
    let more = Further::sort(more)?;
    let recipe = format!("{RECIPE} {SUITE} {PACKAGES:?} {FINISH} {}", more.recipe()?);
    let entry = cache.entry("image", &recipe, stop, |part| {
        let step = progress.step("guest image");
        let debian = debian()?;
        let temporary = Scratch::passable()?;
        let mut command = debian.mmdebstrap(&temporary, stop)?;
        let root = rustix::process::geteuid().is_root();
        if !root {
            can_unshare()?;
        }
        let (archive, status) = (part.join("root.tar"), part.join("status"));
        command.arg(format!("--mode={}", if root { "root" } else { "unshare" }));
        command.args(["--variant=minbase", "--architectures=amd64", "--format=tar"]);
        command.arg(format!("--dpkgopt=path-include={KEPT}"));
        let names = PACKAGES.iter().copied().chain(more.names.iter().map(String::as_str));
        command.arg(format!("--include={}", names.collect::<Vec<_>>().join(",")));
        for deb in &more.files {
            command.arg(format!("--customize-hook=copy-in {} /tmp", quoted(deb)?));
        }
        if !more.files.is_empty() {
            let install =
                "apt-get install --yes --no-install-recommends /tmp/*.deb && rm /tmp/*.deb";
            command.arg(format!("--customize-hook=chroot \"$1\" sh -c '{install}'"));
        }
        command.arg(format!("--customize-hook=chroot \"$1\" sh -c \"{FINISH}\""));
        command.arg(format!("--customize-hook=download /var/lib/dpkg/status {}", quoted(&status)?));
        command.arg(SUITE).arg(&archive).arg(debian.source(SUITE));
        process::run("mmdebstrap", command, stop, |line| {
            if let Some(text) = debian::activity(line) {
                step.say(text);
            }
        })?;
        step.say("waiting for the build tools");
        let tools = tools()?;
        step.say("compressing");
        let input = File::open(&archive).map_err(Error::path("open", &archive))?;
        let image = part.join(FILE);
        let mut squash = tools.command(&["usr/bin/mksquashfs", "-"]);
        squash.arg(&image).args(["-tar", "-comp", "lz4", "-noappend", "-quiet", "-no-progress"]);
        process::run_from("mksquashfs", squash, input.into(), stop)?;
        let text = fs::read_to_string(&status).map_err(Error::path("read", &status))?;
        let wanted = PACKAGES.iter().copied().chain(["base-files"]);
        let wanted = wanted.chain(more.names.iter().map(String::as_str));
        let versions: BTreeMap<String, String> =
            debian::versions_in_status(&text, wanted).into_iter().chain(more.hashes()?).collect();
        for file in [archive, status] {
            fs::remove_file(&file).map_err(Error::path("remove", &file))?;
        }
        step.done("ready");
        Ok(About::new(format!("guest image, Debian {SUITE}{}", more.describe()), versions))
    })?;
    Ok(Image { file: entry.path.join(FILE), _entry: entry })
}

/// What a person wants beside the usual packages.
#[derive(Debug, Default)]
struct Further {
    names: Vec<String>,
    files: Vec<PathBuf>,
}

impl Further {
    fn sort(more: &[String]) -> Result<Self> {
        let mut further = Self::default();
        for one in more {
            if Path::new(one).extension().is_some_and(|extension| extension == "deb") {
                let file =
                    Path::new(one).canonicalize().map_err(Error::path("read", one.as_ref()))?;
                further.files.push(file);
            } else if one.is_empty() || !one.bytes().all(is_package_letter) {
                return Err(Error::Option(format!(
                    "package {one}: neither a Debian package name nor a .deb file"
                )));
            } else {
                further.names.push(one.clone());
            }
        }
        further.names.sort();
        Ok(further)
    }

    /// Files count by what is in them.
    fn hashes(&self) -> Result<Vec<(String, String)>> {
        let hash = |file: &PathBuf| {
            let bytes = fs::read(file).map_err(Error::path("read", file))?;
            let name = file.file_name().map_or(String::new(), |n| n.to_string_lossy().into_owned());
            Ok((name, format!("sha256:{}", cache::hash(&bytes))))
        };
        self.files.iter().map(hash).collect()
    }

    fn recipe(&self) -> Result<String> {
        Ok(format!("{:?} {:?}", self.names, self.hashes()?))
    }

    fn describe(&self) -> String {
        let files = self.files.iter().filter_map(|file| file.file_name()?.to_str());
        let all: Vec<&str> = self.names.iter().map(String::as_str).chain(files).collect();
        if all.is_empty() { String::new() } else { format!(" with {}", all.join(", ")) }
    }
}

fn is_package_letter(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"+-.".contains(&byte)
}

/// A path as a word of the shell language that mmdebstrap's hooks are written in.
fn quoted(path: &Path) -> Result<String> {
    match path.to_str() {
        Some(text) if !text.contains('\'') => Ok(format!("'{text}'")),
        _ => Err(Error::Option(format!("{}: this path can't be given to a hook", path.display()))),
    }
}

/// Whether an ordinary user may have a root file system made: it needs a range of user ids.
fn can_unshare() -> Result<()> {
    if debian::on_path("newuidmap") {
        return Ok(());
    }
    Err(Error::Missing {
        what: "an ordinary user needs newuidmap to make the guest image".to_owned(),
        remedy: "install it (apt-get install uidmap) or run this once as root with the same \
                 XDG_CACHE_HOME"
            .to_owned(),
    })
}
