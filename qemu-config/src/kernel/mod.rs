//! The guest's kernel: one of Debian's, fetched and kept, or a person's own.

mod boot_image;
pub(crate) mod modules;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::cache::{self, About, Cache, Entry};
use crate::debian::{Apt, Debian};
use crate::error::{Error, Result};
use crate::options::Kernel;
use crate::process;
use crate::progress::{Progress, Step};
use crate::stop::Stop;
use crate::tools::Tools;
use boot_image::Packing;
use modules::{Gathered, Tree};

/// Change it with what an entry holds.
const RECIPE: u32 = 2;

/// A kernel ready to boot.
#[derive(Debug)]
pub(crate) struct GuestKernel {
    /// As `uname -r` prints it.
    pub(crate) release: String,
    /// What tells it from others of the same release.
    pub(crate) identity: String,
    /// What QEMU boots.
    pub(crate) image: PathBuf,
    /// Its modules, unless everything is built in.
    pub(crate) modules: Option<Gathered>,
    /// Keeps the files there.
    _entry: Option<Entry>,
}

/// Where Debian has it, and what it is called in the cache.
fn suite(kernel: &Kernel) -> Option<(&'static str, &'static str)> {
    match kernel {
        Kernel::V6_1 => Some(("bookworm", "kernel-6.1")),
        Kernel::V6_12 => Some(("trixie", "kernel-6.12")),
        Kernel::Latest => Some(("trixie-backports", "kernel-latest")),
        Kernel::File(_) => None,
    }
}

/// What a kernel and its modules are made ready with.
pub(crate) struct Workshop<'a> {
    pub(crate) cache: &'a Cache,
    pub(crate) progress: &'a Progress,
    pub(crate) stop: &'a Stop,
    pub(crate) tools: &'a Tools,
    pub(crate) debian: &'a dyn Fn() -> Result<Debian>,
}

impl Workshop<'_> {
    /// Makes the kernel ready. What is made of `modules` goes into `scratch`; `needed` are modules that
    /// it must have beside those for booting.
    pub(crate) fn kernel(
        &self,
        kernel: &Kernel,
        modules: Option<&Path>,
        needed: &[&str],
        scratch: &Path,
    ) -> Result<GuestKernel> {
        let mut ready = match kernel {
            Kernel::File(path) => own(path)?,
            _ => self.debians(kernel)?,
        };
        if let Some(dir) = modules {
            let tree = Tree::find(dir, &ready.release)?;
            tree.check(needed)?;
            let target = scratch.join("modules");
            fs::create_dir(&target).map_err(Error::path("make", &target))?;
            ready.modules = Some(modules::gather(&tree, self.tools, &target, self.stop)?);
        }
        Ok(ready)
    }

    fn debians(&self, kernel: &Kernel) -> Result<GuestKernel> {
        let Some((suite, kind)) = suite(kernel) else {
            return Err(Error::Option("not one of Debian's kernels".to_owned()));
        };
        let recipe = format!("{RECIPE} {suite}");
        let entry = self.cache.entry(kind, &recipe, self.stop, |part| {
            let step = self.progress.step(&format!("kernel ({suite})"));
            let about = self.fetch(suite, part, &step)?;
            step.done(&about.what);
            Ok(about)
        })?;
        let version = |name: &str| entry.about.versions.get(name).cloned().unwrap_or_default();
        let image = ["vmlinux", "vmlinuz"].map(|name| entry.path.join(name));
        let image = image.into_iter().find(|path| path.exists()).unwrap_or_default();
        Ok(GuestKernel {
            release: version("release"),
            identity: format!("{} sha256:{}", version("package"), version("sha256")),
            modules: Some(Gathered::open(&entry.path)?),
            image,
            _entry: Some(entry),
        })
    }

    fn fetch(&self, suite: &str, part: &Path, step: &Step) -> Result<About> {
        let debian = (self.debian)()?;
        let (packages, tree) = (part.join("packages"), part.join("tree"));
        for dir in [&packages, &tree] {
            fs::create_dir(dir).map_err(Error::path("make", dir))?;
        }
        step.say("reading the package list");
        let apt = Apt::new(&part.join("apt"), &debian, suite, self.stop)?;
        let (names, version) = kernel_packages(|package| apt.show(package))?;
        step.say("downloading");
        apt.download(&names, &packages)?;
        step.say("unpacking");
        for file in fs::read_dir(&packages).map_err(Error::path("read", &packages))?.flatten() {
            let mut unpack = Command::new("dpkg-deb");
            unpack.arg("-x").arg(file.path()).arg(&tree);
            process::run("dpkg-deb", unpack, self.stop, |_| {})?;
        }
        let packed = find_vmlinuz(&tree).ok_or_else(|| Error::Failed {
            program: names.join(", "),
            status: "unpacked".to_owned(),
            said: "no vmlinuz in it".to_owned(),
        })?;
        let bytes = fs::read(&packed).map_err(Error::path("read", &packed))?;
        let release = release_of(&packed, &bytes)?;
        step.say(&format!("preparing {release}"));
        self.unpack_image(&bytes, part)?;
        let own_modules = Tree::find(&tree, &release)?;
        let needed = [modules::FOR_SHARES, modules::FOR_CARD].concat();
        own_modules.check(&needed)?;
        modules::gather(&own_modules, self.tools, part, self.stop)?;
        for dir in [packages, tree, part.join("apt")] {
            cache::remove_all(&dir)?;
        }
        let package = format!("{} {version}", names.first().map_or("", String::as_str));
        let versions =
            [("package", package), ("sha256", cache::hash(&bytes)), ("release", release)];
        let versions: BTreeMap<String, String> =
            versions.map(|(name, value)| (name.to_owned(), value)).into();
        let what = format!("kernel {}", versions.get("release").map_or("", String::as_str));
        Ok(About::new(what, versions))
    }

    /// Puts what QEMU boots fastest into `part`: the unpacked kernel, if it can be started directly.
    fn unpack_image(&self, bzimage: &[u8], part: &Path) -> Result<()> {
        if let Some((packing, payload)) = boot_image::payload(bzimage) {
            let (packed, plain) = (part.join("payload"), part.join("vmlinux"));
            fs::write(&packed, payload).map_err(Error::path("write", &packed))?;
            let program = match packing {
                Packing::Xz => "usr/bin/xz",
                Packing::Zstd => "usr/bin/zstd",
            };
            let input = File::open(&packed).map_err(Error::path("open", &packed))?;
            let output = File::create(&plain).map_err(Error::path("make", &plain))?;
            let mut unpack = self.tools.command(&[program, "-dc"]);
            let status = unpack
                .stdin(input)
                .stdout(output)
                .stderr(Stdio::null())
                .status()
                .map_err(Error::io("unpack the kernel"))?;
            fs::remove_file(&packed).map_err(Error::path("remove", &packed))?;
            let unpacked = fs::read(&plain).map_err(Error::path("read", &plain))?;
            if status.success() && boot_image::starts_by_itself(&unpacked) {
                return Ok(());
            }
            fs::remove_file(&plain).map_err(Error::path("remove", &plain))?;
        }
        let image = part.join("vmlinuz");
        fs::write(&image, bzimage).map_err(Error::path("write", &image))
    }
}

/// Finds mistakes in what a person named, before anything is fetched.
pub(crate) fn check(kernel: &Kernel, modules: Option<&Path>, needed: &[&str]) -> Result<()> {
    match (kernel, modules) {
        (Kernel::File(path), Some(dir)) => Tree::find(dir, &own(path)?.release)?.check(needed),
        (Kernel::File(path), None) => own(path).map(drop),
        (_, Some(dir)) if !dir.is_dir() => {
            Err(Error::Option(format!("modules {}: not a directory", dir.display())))
        }
        _ => Ok(()),
    }
}

/// A kernel file of one's own.
fn own(path: &Path) -> Result<GuestKernel> {
    let bytes = fs::read(path)
        .map_err(|source| Error::Kernel { path: path.to_owned(), problem: source.to_string() })?;
    let release = release_of(path, &bytes)?;
    let elf = bytes.starts_with(b"\x7fELF");
    if elf && !boot_image::starts_by_itself(&bytes) {
        return Err(Error::Kernel {
            path: path.to_owned(),
            problem: "this vmlinux was built without CONFIG_PVH: give its bzImage".to_owned(),
        });
    }
    Ok(GuestKernel {
        release,
        identity: format!("{} sha256:{}", path.display(), cache::hash(&bytes)),
        image: path.to_owned(),
        modules: None,
        _entry: None,
    })
}

fn release_of(path: &Path, bytes: &[u8]) -> Result<String> {
    boot_image::release(bytes).ok_or_else(|| Error::Kernel {
        path: path.to_owned(),
        problem: "not a kernel for x86-64 (neither bzImage nor vmlinux)".to_owned(),
    })
}

fn find_vmlinuz(tree: &Path) -> Option<PathBuf> {
    let boot = fs::read_dir(tree.join("boot")).into_iter().flatten().flatten();
    let modules = fs::read_dir(tree.join("usr/lib/modules")).into_iter().flatten().flatten();
    boot.map(|entry| entry.path())
        .filter(|path| path.to_string_lossy().contains("/vmlinuz-"))
        .chain(modules.map(|entry| entry.path().join("vmlinuz")))
        .find(|path| path.is_file())
}

/// Follows the meta package to those that hold kernel and modules: one up to 6.12, several from 7.x.
/// Returns them, the kernel's own first, and its version.
fn kernel_packages(
    show: impl Fn(&str) -> Result<(String, Vec<String>)>,
) -> Result<(Vec<String>, String)> {
    let (version, mut todo) = show("linux-image-amd64")?;
    let mut names: Vec<String> = Vec::new();
    let part_of_it = |name: &str| {
        ["linux-image-", "linux-binary-", "linux-modules-", "linux-base-"]
            .iter()
            .any(|kind| name.strip_prefix(kind).is_some_and(|r| r.starts_with(char::is_numeric)))
    };
    while let Some(name) = todo.pop() {
        if part_of_it(&name) && !names.contains(&name) {
            todo.extend(show(&name)?.1);
            names.push(name);
        }
    }
    names.sort_by_key(|name| !name.starts_with("linux-image-"));
    Ok((names, version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_of_old_and_new_kernels() {
        let show = |newer: bool| {
            move |name: &str| {
                let depends: &[&str] = match (name, newer) {
                    ("linux-image-amd64", false) => &["linux-image-6.1.0-50-amd64"],
                    ("linux-image-amd64", true) => {
                        &["linux-base-amd64", "linux-image-7.3.4-amd64", "linux-modules-amd64"]
                    }
                    ("linux-image-7.3.4-amd64", _) => {
                        &["dracut", "linux-binary-7.3.4-amd64", "linux-modules-7.3.4-amd64"]
                    }
                    (_, true) => &["kmod", "linux-base-7.3.4-amd64"],
                    _ => &["kmod", "linux-base"],
                };
                Ok(("1.0".to_owned(), depends.iter().map(|&d| d.to_owned()).collect()))
            }
        };
        let (old, version) = kernel_packages(show(false)).unwrap();
        assert_eq!((old, version.as_str()), (vec!["linux-image-6.1.0-50-amd64".to_owned()], "1.0"));
        let (mut new, _) = kernel_packages(show(true)).unwrap();
        assert_eq!(new[0], "linux-image-7.3.4-amd64");
        new.sort();
        assert_eq!(
            new,
            [
                "linux-base-7.3.4-amd64",
                "linux-binary-7.3.4-amd64",
                "linux-image-7.3.4-amd64",
                "linux-modules-7.3.4-amd64"
            ]
        );
    }

    #[test]
    fn a_wrong_path_is_one_clear_line() {
        let error = own(Path::new("/no/such/bzImage")).unwrap_err();
        assert_eq!(error.to_string(), "/no/such/bzImage: No such file or directory (os error 2)");
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = own(file.path()).unwrap_err().to_string();
        assert!(
            error.ends_with("not a kernel for x86-64 (neither bzImage nor vmlinux)"),
            "{error}"
        );
    }
}
