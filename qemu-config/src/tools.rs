//! The programs that make and run the guest: QEMU, gcc, mksquashfs, depmod and unpackers, from Debian 13
//! in a directory of their own.
//!
//! They run there through their own dynamic linker, so they need neither root nor anything of the
//! machine that they run on but its kernel. Packages are only unpacked, not configured: nothing in them
//! needs it.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cache::{About, Cache, Entry};
use crate::debian::{self, Debian};
use crate::error::{Error, Result};
use crate::process;
use crate::progress::Progress;
use crate::qemu::{self, Qemu};
use crate::scratch::Scratch;
use crate::stop::Stop;

/// Change it with what the unpacked tree looks like.
const RECIPE: u32 = 1;

const SUITE: &str = "trixie";
const BACKPORTS: &str = "trixie-backports";

/// QEMU with `vfio-user-pci` is only in the backports, as are the packages that must be of its version.
const FROM_BACKPORTS: &[&str] =
    &["qemu-system-x86", "qemu-system-common", "qemu-system-data", "seabios"];
const PACKAGES: &[&str] =
    &["gcc", "kmod", "libc6-dev", "libibverbs-dev", "squashfs-tools", "xz-utils", "zstd"];

const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";

/// The programs.
#[derive(Debug)]
pub(crate) struct Tools {
    entry: Entry,
    /// The machine's own QEMU, if it is new enough; else the tree has one.
    own_qemu: Option<Qemu>,
}

impl Tools {
    /// Finds them, or fetches them.
    pub(crate) fn get(
        cache: &Cache,
        progress: &Progress,
        stop: &Stop,
        debian: &dyn Fn() -> Result<Debian>,
    ) -> Result<Self> {
        let own_qemu = qemu::on_this_machine(stop);
        let backports = if own_qemu.is_some() { &[] } else { FROM_BACKPORTS };
        let recipe = format!("{RECIPE} {SUITE} {PACKAGES:?} {BACKPORTS} {backports:?}");
        let entry = cache.entry("tools", &recipe, stop, |part| {
            let what = if backports.is_empty() { "build tools" } else { "QEMU and build tools" };
            let step = progress.step(what);
            let mut packages: Vec<String> =
                backports.iter().map(|name| format!("{name}/{BACKPORTS}")).collect();
            packages.extend(PACKAGES.iter().map(|&name| name.to_owned()));
            let debian = debian()?;
            let temporary = Scratch::passable()?;
            let mut command = debian.mmdebstrap(&temporary, stop)?;
            let mode = if rustix::process::geteuid().is_root() { "root" } else { "chrootless" };
            command.arg("--variant=extract").arg(format!("--mode={mode}"));
            command.arg("--architectures=amd64").arg("--format=directory");
            command.arg(format!("--include={}", packages.join(","))).arg(SUITE);
            command.arg(part.join("tree")).arg(debian.source(SUITE));
            if !backports.is_empty() {
                command.arg(debian.source(BACKPORTS));
            }
            process::run("mmdebstrap", command, stop, |line| {
                if let Some(text) = debian::activity(line) {
                    step.say(text);
                }
            })?;
            // Linker scripts and programs name these; the package that has them is not part of the tree.
            for name in ["lib", "lib64"] {
                let link = part.join("tree").join(name);
                symlink(format!("usr/{name}"), &link).map_err(Error::path("make", &link))?;
            }
            let mut versions = BTreeMap::new();
            if !backports.is_empty() {
                let version = tree_qemu(&part.join("tree")).version(stop)?;
                versions.insert("qemu".to_owned(), version.to_string());
            }
            let said = process::run("gcc", in_tree(&part.join("tree"), GCC), stop, |_| {})?;
            versions.insert("gcc".to_owned(), said.trim().to_owned());
            step.done("ready");
            Ok(About::new(what, versions))
        })?;
        Ok(Self { entry, own_qemu })
    }

    /// Where the tree is.
    pub(crate) fn tree(&self) -> PathBuf {
        self.entry.path.join("tree")
    }

    /// One of the programs, by its path in the tree, with arguments.
    pub(crate) fn command(&self, program: &[&str]) -> Command {
        in_tree(&self.tree(), program)
    }

    /// Runs one of the programs.
    pub(crate) fn run(
        &self,
        program: &str,
        stop: &Stop,
        more: impl FnOnce(&mut Command),
    ) -> Result<String> {
        let mut command = self.command(&[program]);
        more(&mut command);
        let name = program.rsplit('/').next().unwrap_or(program);
        process::run(name, command, stop, |_| {})
    }

    /// QEMU: the machine's own or the tree's.
    pub(crate) fn qemu(&self) -> Qemu {
        self.own_qemu.clone().unwrap_or_else(|| tree_qemu(&self.tree()))
    }
}

const GCC: &[&str] = &["usr/bin/gcc-14", "-dumpfullversion"];

/// The dynamic linker of the tree and how to call it.
pub(crate) fn linker(tree: &Path) -> [PathBuf; 3] {
    [tree.join("usr/lib64/ld-linux-x86-64.so.2"), "--library-path".into(), tree.join(LIBRARIES)]
}

fn in_tree(tree: &Path, program: &[&str]) -> Command {
    let [linker, option, libraries] = linker(tree);
    let mut command = Command::new(linker);
    command.arg(option).arg(libraries);
    if let Some((program, arguments)) = program.split_first() {
        command.arg(tree.join(program)).args(arguments);
    }
    command
}

fn tree_qemu(tree: &Path) -> Qemu {
    let mut words: Vec<PathBuf> = linker(tree).into();
    words.push(tree.join("usr/bin/qemu-system-x86_64"));
    for data in ["usr/share/qemu", "usr/share/seabios"] {
        words.extend(["-L".into(), tree.join(data)]);
    }
    let modules = ("QEMU_MODULE_DIR".into(), tree.join(LIBRARIES).join("qemu"));
    Qemu { words, environment: vec![modules] }
}
