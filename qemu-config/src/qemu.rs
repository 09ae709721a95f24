//! QEMU: which one, and how it is called.

use std::ffi::OsString;
use std::fmt;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::debian;
use crate::error::{Error, Result};
use crate::kvm::Accelerator;
use crate::process;
use crate::stop::Stop;

/// The first QEMU that can attach the card.
pub const OLDEST: Version = Version(10, 1, 0);

/// A QEMU version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32, pub u32);

impl Version {
    /// Reads what `--version` prints.
    pub fn parse(text: &str) -> Option<Self> {
        let words = text.lines().next()?.strip_prefix("QEMU emulator version ")?;
        let number = words.split([' ', '(', '-', '+']).next()?;
        let mut parts = number.split('.').map(str::parse);
        let mut next = || parts.next()?.ok();
        Some(Self(next()?, next()?, next().unwrap_or(0)))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

/// A QEMU: the words that begin its command line, and what its environment needs.
#[derive(Debug, Clone)]
pub(crate) struct Qemu {
    pub(crate) words: Vec<PathBuf>,
    pub(crate) environment: Vec<(OsString, PathBuf)>,
}

impl Qemu {
    pub(crate) fn command(&self) -> Command {
        let mut words = self.words.iter();
        let mut command = Command::new(words.next().map_or(Path::new(""), PathBuf::as_path));
        command.args(words).envs(self.environment.iter().cloned());
        command
    }

    fn ask(&self, arguments: &[&str], stop: &Stop) -> Result<String> {
        let mut command = self.command();
        command.args(arguments);
        process::run("qemu-system-x86_64", command, stop, |_| {})
    }

    pub(crate) fn version(&self, stop: &Stop) -> Result<Version> {
        let said = self.ask(&["--version"], stop)?;
        Version::parse(&said).ok_or_else(|| Error::Failed {
            program: "qemu-system-x86_64 --version".to_owned(),
            status: "no version".to_owned(),
            said: process::last_words(&said),
        })
    }
}

/// The machine's own QEMU, if it can attach the card.
pub(crate) fn on_this_machine(stop: &Stop) -> Option<Qemu> {
    let path = debian::find_on_path("qemu-system-x86_64")?;
    let qemu = Qemu { words: vec![path], environment: Vec::new() };
    let version = qemu.version(stop).ok()?;
    if version < OLDEST {
        log::debug!("QEMU {version} is older than {OLDEST}: a private one is used");
        return None;
    }
    let devices = qemu.ask(&["-device", "help"], stop).ok()?;
    if !devices.contains("\"vfio-user-pci\"") {
        log::debug!("QEMU {version} was built without vfio-user-pci: a private one is used");
        return None;
    }
    Some(qemu)
}

/// A disk image that the guest finds by its serial number.
#[derive(Debug, Clone)]
pub(crate) struct Disk {
    pub(crate) serial: &'static str,
    pub(crate) image: PathBuf,
}

/// The machine that the guest sees.
#[derive(Debug, Clone)]
pub(crate) struct Machine<'a> {
    pub(crate) accelerator: Accelerator,
    pub(crate) smp: u32,
    pub(crate) mebibytes: u32,
    pub(crate) kernel: &'a Path,
    pub(crate) initramfs: &'a Path,
    pub(crate) parameters: String,
    pub(crate) disks: Vec<Disk>,
    pub(crate) shares: &'a [PathBuf],
    /// The card's vfio-user socket.
    pub(crate) card: Option<&'a Path>,
    /// Our end's peer for the job's streams.
    pub(crate) job: Option<RawFd>,
    pub(crate) console: &'a Path,
    pub(crate) qmp: Option<&'a Path>,
    pub(crate) gdb: bool,
    pub(crate) more: &'a [String],
}

/// The name that devices and QMP know the card by.
pub const CARD_ID: &str = "card0";

impl Machine<'_> {
    /// QEMU's arguments for it.
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        let mut list = Arguments(Vec::new());
        for flag in ["-nodefaults", "-no-user-config", "-no-reboot"] {
            list.word(flag);
        }
        list.pair("-display", "none");
        let kvm = self.accelerator == Accelerator::Kvm;
        // A virtual IOMMU needs the split chip, and what can't do without KVM must not ask for it.
        let chip = if kvm { ",kernel-irqchip=split" } else { "" };
        list.pair("-machine", format!("q35,memory-backend=memory{chip}"));
        let size = self.mebibytes;
        list.pair("-object", format!("memory-backend-memfd,id=memory,size={size}M,share=on"));
        list.pair("-m", format!("{size}M"));
        list.pair("-smp", self.smp.to_string());
        list.pair("-accel", if kvm { "kvm" } else { "tcg,thread=multi,tb-size=512" });
        list.pair("-cpu", if kvm { "host" } else { "max" });
        list.pair("-kernel", self.kernel);
        list.pair("-initrd", self.initramfs);
        list.pair("-append", &self.parameters);
        list.pair("-chardev", with_path("file,id=console,path=", self.console));
        list.pair("-serial", "chardev:console");
        for Disk { serial, image } in &self.disks {
            let drive = format!("if=none,id={serial},format=raw,readonly=on,file=");
            list.pair("-drive", with_path(&drive, image));
            list.pair("-device", format!("virtio-blk-pci,drive={serial},serial={serial}"));
        }
        for (number, share) in (1..).zip(self.shares) {
            let fsdev = format!("local,id=share{number},security_model=none,multidevs=remap,path=");
            list.pair("-fsdev", with_path(&fsdev, share));
            let tag = format!("virtio-9p-pci,fsdev=share{number},mount_tag=share{number}");
            list.pair("-device", tag);
        }
        if let Some(fd) = self.job {
            list.pair("-device", "virtio-serial-pci");
            list.pair("-chardev", format!("socket,id=job,fd={fd}"));
            list.pair("-device", "virtserialport,chardev=job,name=mlx5emu.job,nr=1");
        }
        if let Some(socket) = self.card {
            // Behind a root port, where it has a link and can be unplugged.
            // Its slot is PCI Express's own: QEMU's ACPI slots do not say that the link is up, and
            // a kernel that resets the bus waits for that.
            list.pair("-global", "ICH9-LPC.acpi-pci-hotplug-with-bridge-support=off");
            let port = "pcie-root-port,id=port0,chassis=1,slot=1,x-speed=16,x-width=16";
            list.pair("-device", port);
            let device = serde_json::json!({
                "driver": "vfio-user-pci",
                "id": CARD_ID,
                "bus": "port0",
                "socket": { "type": "unix", "path": socket.to_string_lossy() },
            });
            list.pair("-device", device.to_string());
        }
        if let Some(socket) = self.qmp {
            list.pair("-chardev", with_path("socket,id=qmp,server=on,wait=off,path=", socket));
            list.pair("-mon", "chardev=qmp,mode=control");
        }
        if self.gdb {
            list.word("-S");
            list.pair("-gdb", "tcp:127.0.0.1:1234");
        }
        for argument in self.more {
            list.word(argument);
        }
        list.0
    }
}

struct Arguments(Vec<OsString>);

impl Arguments {
    fn word(&mut self, word: impl Into<OsString>) {
        self.0.push(word.into());
    }

    fn pair(&mut self, option: &str, value: impl Into<OsString>) {
        self.word(option);
        self.word(value);
    }
}

/// QEMU's option lists end a value at a comma, unless it is doubled.
fn with_path(before: &str, path: &Path) -> OsString {
    use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

    let mut bytes = before.as_bytes().to_vec();
    for byte in path.as_os_str().as_bytes() {
        bytes.push(*byte);
        if *byte == b',' {
            bytes.push(b',');
        }
    }
    OsString::from_vec(bytes)
}

/// The kernel's command line.
pub(crate) fn parameters(
    accelerator: Accelerator,
    gdb: bool,
    panic_on_warn: bool,
    more: &[String],
) -> String {
    let mut words = vec!["console=ttyS0", "panic=-1", "mitigations=off"];
    if accelerator == Accelerator::Tcg {
        // A guest without hardware behind it may stand still for seconds on a busy machine. That is no
        // fault of the guest: clocks and watchdogs must not take it for one.
        words.extend([
            "tsc=reliable",
            "no_timer_check",
            "watchdog_thresh=60",
            "rcupdate.rcu_cpu_stall_timeout=300",
        ]);
    }
    if gdb {
        words.push("nokaslr");
    }
    if panic_on_warn {
        words.push("panic_on_warn=1");
    }
    words.extend(more.iter().map(String::as_str));
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        let cases = [
            ("QEMU emulator version 11.1.3 (Debian 1:11.1.3+ds-1~bpo13+1)\nCopyright", (11, 1, 3)),
            ("QEMU emulator version 10.1.0", (10, 1, 0)),
            ("QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2)", (10, 0, 2)),
            ("QEMU emulator version 9.2.50 (v9.2.0-1-gabc)", (9, 2, 50)),
            ("QEMU emulator version 10.1-rc2", (10, 1, 0)),
        ];
        for (text, (a, b, c)) in cases {
            assert_eq!(Version::parse(text), Some(Version(a, b, c)), "{text}");
        }
        for text in ["", "qemu 1.2", "QEMU emulator version x.y"] {
            assert_eq!(Version::parse(text), None, "{text}");
        }
        assert!(Version(10, 0, 9) < OLDEST && OLDEST <= Version(11, 0, 0));
    }

    fn machine() -> Machine<'static> {
        Machine {
            accelerator: Accelerator::Tcg,
            smp: 2,
            mebibytes: 512,
            kernel: Path::new("/k/vmlinux"),
            initramfs: Path::new("/k/initramfs"),
            parameters: "console=ttyS0".to_owned(),
            disks: vec![Disk { serial: "root", image: "/a,b/root.squashfs".into() }],
            shares: &[],
            card: None,
            job: Some(7),
            console: Path::new("/run/console.log"),
            qmp: None,
            gdb: false,
            more: &[],
        }
    }

    fn text(machine: &Machine<'_>) -> String {
        let words = machine.arguments();
        let words: Vec<String> =
            words.into_iter().map(|word| word.into_string().unwrap()).collect();
        words.join(" ")
    }

    #[test]
    fn a_machine_without_a_card() {
        assert_eq!(
            text(&machine()),
            "-nodefaults -no-user-config -no-reboot -display none \
             -machine q35,memory-backend=memory \
             -object memory-backend-memfd,id=memory,size=512M,share=on -m 512M -smp 2 \
             -accel tcg,thread=multi,tb-size=512 -cpu max \
             -kernel /k/vmlinux -initrd /k/initramfs -append console=ttyS0 \
             -chardev file,id=console,path=/run/console.log -serial chardev:console \
             -drive if=none,id=root,format=raw,readonly=on,file=/a,,b/root.squashfs \
             -device virtio-blk-pci,drive=root,serial=root \
             -device virtio-serial-pci -chardev socket,id=job,fd=7 \
             -device virtserialport,chardev=job,name=mlx5emu.job,nr=1"
        );
    }

    #[test]
    fn what_is_asked_for_is_added() {
        let shares = ["/one".into(), "/t,wo".into()];
        let more = ["-device".to_owned(), "intel-iommu".to_owned()];
        let full = Machine {
            accelerator: Accelerator::Kvm,
            shares: &shares,
            card: Some(Path::new("/run/card \"x\".sock")),
            qmp: Some(Path::new("/run/qmp")),
            gdb: true,
            more: &more,
            ..machine()
        };
        let text = text(&full);
        for part in [
            "-machine q35,memory-backend=memory,kernel-irqchip=split ",
            "-accel kvm -cpu host ",
            "-fsdev local,id=share2,security_model=none,multidevs=remap,path=/t,,wo \
             -device virtio-9p-pci,fsdev=share2,mount_tag=share2 ",
            "-global ICH9-LPC.acpi-pci-hotplug-with-bridge-support=off ",
            "-device pcie-root-port,id=port0,chassis=1,slot=1,x-speed=16,x-width=16 ",
            r#"-device {"bus":"port0","driver":"vfio-user-pci","id":"card0","socket":{"path":"/run/card \"x\".sock","type":"unix"}} "#,
            "-chardev socket,id=qmp,server=on,wait=off,path=/run/qmp -mon chardev=qmp,mode=control ",
            "-S -gdb tcp:127.0.0.1:1234 ",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        assert!(text.ends_with("-device intel-iommu"));
    }

    #[test]
    fn kernel_parameters() {
        let more = ["mlx5_core.debug_mask=1".to_owned()];
        let text = parameters(Accelerator::Kvm, true, true, &more);
        assert_eq!(
            text,
            "console=ttyS0 panic=-1 mitigations=off nokaslr panic_on_warn=1 mlx5_core.debug_mask=1"
        );
        assert!(parameters(Accelerator::Tcg, false, false, &[]).contains("watchdog_thresh=60"));
    }
}
