//! Whether KVM can be used: only where it has been seen to boot a guest.
//!
//! `/dev/kvm` alone says little: on some virtual machines it opens, and a stock kernel hangs under it.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;

use crate::cache::{About, Cache};
use crate::error::{Error, Result};
use crate::initramfs::Initramfs;
use crate::process::Process;
use crate::qemu::{Machine, Qemu, parameters};
use crate::stop::{Stop, poll};

/// How the guest's processors are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accelerator {
    /// By the machine's own, at full speed.
    Kvm,
    /// Translated by QEMU.
    Tcg,
}

/// Change it with how the trial is made.
const RECIPE: u32 = 1;
/// What init prints when it is told that it is a trial.
const ALIVE: &str = "mlx5emu-guest: alive";
/// A kernel that boots under KVM needs a second or two.
const LIMIT: Duration = Duration::from_secs(15);

/// What is tried.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Trial<'a> {
    pub(crate) qemu: &'a Qemu,
    pub(crate) kernel: &'a Path,
    pub(crate) init: &'a Path,
    pub(crate) smp: u32,
}

/// Chooses. The result is kept for this host kernel, processor and QEMU.
pub(crate) fn choose(cache: &Cache, trial: &Trial<'_>, stop: &Stop) -> Result<Accelerator> {
    if OpenOptions::new().read(true).write(true).open("/dev/kvm").is_err() {
        return Ok(Accelerator::Tcg);
    }
    let host = rustix::system::uname();
    let version = trial.qemu.version(stop)?;
    let recipe = format!(
        "{RECIPE} {:?} {:?} {} {version}",
        host.release(),
        host.version(),
        processor(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default())
    );
    let entry = cache.entry("kvm", &recipe, stop, |part| {
        let works = boots(trial, part, stop)?;
        let word = if works { "works" } else { "does not boot a guest" };
        log::info!("KVM {word} here{}", if works { "" } else { ": guests run under TCG" });
        let result = BTreeMap::from([("works".to_owned(), works.to_string())]);
        Ok(About::new(format!("trial of KVM: {word}"), result))
    })?;
    let works = entry.about.versions.get("works").is_some_and(|word| word == "true");
    Ok(if works { Accelerator::Kvm } else { Accelerator::Tcg })
}

fn processor(cpuinfo: &str) -> &str {
    cpuinfo.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default()
}

/// Boots the kernel as far as its first program.
fn boots(trial: &Trial<'_>, dir: &Path, stop: &Stop) -> Result<bool> {
    use std::os::fd::AsFd as _;

    let init = fs::read(trial.init).map_err(Error::path("read", trial.init))?;
    let mut initramfs = Initramfs::default();
    initramfs.program("init", &init);
    initramfs.directory("job");
    initramfs.file("job/settings", b"trial=1\n");
    let (image, console) = (dir.join("initramfs"), dir.join("console.log"));
    fs::write(&image, initramfs.finish()).map_err(Error::path("write", &image))?;
    let machine = Machine {
        accelerator: Accelerator::Kvm,
        smp: trial.smp,
        mebibytes: 512,
        kernel: trial.kernel,
        initramfs: &image,
        parameters: parameters(Accelerator::Kvm, false, false, &[]),
        disks: Vec::new(),
        shares: &[],
        card: None,
        job: None,
        console: &console,
        qmp: None,
        gdb: false,
        more: &[],
    };
    let mut command = trial.qemu.command();
    command.args(machine.arguments());
    command.stdin(std::process::Stdio::null());
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut qemu = Process::spawn(command, &[], Signal::KILL)?;
    let limit = u64::try_from(LIMIT.as_millis()).unwrap_or(u64::MAX);
    poll(&[qemu.as_fd(), stop.as_fd()], Some(limit))?;
    qemu.kill();
    stop.check()?;
    let said = fs::read(&console).unwrap_or_default();
    for file in [image, console] as [PathBuf; 2] {
        // QEMU may have failed before it made its console.
        let _ = fs::remove_file(file);
    }
    Ok(String::from_utf8_lossy(&said).contains(ALIVE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_is_named() {
        assert_eq!(processor("processor\t: 0\nmodel name\t: X 1\nmodel name\t: X 1\n"), "\t: X 1");
        assert_eq!(processor(""), "");
    }
}
