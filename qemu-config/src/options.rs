//! What a run is asked to be.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::error::Error;

/// Which kernel the guest runs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// Debian 12's.
    V6_1,
    /// Debian 13's.
    V6_12,
    /// The newest that Debian 13's backports have.
    Latest,
    /// A bzImage or a vmlinux of one's own.
    File(PathBuf),
}

impl fmt::Display for Kernel {
    /// As it is written on a command line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::V6_1 => f.write_str("6.1"),
            Self::V6_12 => f.write_str("6.12"),
            Self::Latest => f.write_str("latest"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

impl FromStr for Kernel {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "6.1" => Ok(Self::V6_1),
            "6.12" => Ok(Self::V6_12),
            "latest" => Ok(Self::Latest),
            path if path.contains('/') => Ok(Self::File(path.into())),
            path if std::path::Path::new(path).is_file() => Ok(Self::File(path.into())),
            other => {
                Err(Error::Option(format!("kernel {other}: neither 6.1, 6.12, latest nor a file")))
            }
        }
    }
}

/// A size of memory, in MiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mebibytes(pub u32);

impl FromStr for Mebibytes {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = || Error::Option(format!("{text} is no size: write 2G or 512M"));
        let (digits, factor) = match text.strip_suffix(['G', 'g']) {
            Some(digits) => (digits, 1024),
            None => (text.strip_suffix(['M', 'm']).ok_or_else(bad)?, 1),
        };
        let number: u32 = digits.parse().map_err(|_| bad())?;
        match number.checked_mul(factor) {
            Some(size) if size >= 256 => Ok(Self(size)),
            Some(_) => Err(Error::Option(format!("{text}: a guest needs at least 256M"))),
            None => Err(bad()),
        }
    }
}

/// The process that is the card.
#[derive(Debug, Clone)]
pub struct Card {
    /// The program.
    pub program: PathBuf,
    /// Its arguments; `--socket`, `--control`, `--ready-fd` and `--slot-fd` are added.
    pub arguments: Vec<OsString>,
    /// Where its control socket shall be; otherwise where `mlx5emu ctl` looks.
    pub control: Option<PathBuf>,
    /// Whether its messages go to our standard error; otherwise they are shown when something fails.
    pub talks: bool,
}

/// A C program for the guest, compiled against libibverbs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuestProgram {
    /// Its name under `/usr/lib/mlx5emu/`.
    pub name: &'static str,
    /// Its files, headers too: name and text.
    pub files: &'static [(&'static str, &'static str)],
}

/// What runs in the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Job {
    /// A program and its arguments.
    Command(Vec<OsString>),
    /// An interactive root shell on our terminal.
    Shell,
}

/// Everything that a run can be told.
#[derive(Debug, Clone)]
pub struct Options {
    /// The kernel.
    pub kernel: Kernel,
    /// Its modules, if not Debian's: a `lib/modules/VERSION` tree or an `INSTALL_MOD_PATH`.
    pub modules: Option<PathBuf>,
    /// The card; a guest without one tests the launcher.
    pub card: Option<Card>,
    /// Number of virtual processors.
    pub smp: u32,
    /// Memory.
    pub memory: Mebibytes,
    /// Debian packages to install beside the usual ones: names or `.deb` files.
    pub packages: Vec<String>,
    /// Host directories for `/mnt/share`, `/mnt/share2`, …
    pub shares: Vec<PathBuf>,
    /// How long the guest may run.
    pub timeout: Option<Duration>,
    /// Further kernel parameters.
    pub append: Vec<String>,
    /// Further arguments of QEMU.
    pub qemu_arguments: Vec<String>,
    /// Wait for a debugger.
    pub gdb: bool,
    /// Panic at the first WARN.
    pub panic_on_warn: bool,
    /// A guest with damage that may hang it runs on: the caller judges that, not the time limit for it.
    pub goes_on_damaged: bool,
    /// Programs for the guest.
    pub programs: Vec<GuestProgram>,
    /// What runs in it.
    pub job: Job,
}

impl Options {
    /// The usual guest for this job, without a card.
    pub fn new(job: Job) -> Self {
        Self {
            kernel: Kernel::V6_12,
            modules: None,
            card: None,
            smp: 2,
            memory: Mebibytes(2048),
            packages: Vec::new(),
            shares: Vec::new(),
            timeout: None,
            append: Vec::new(),
            qemu_arguments: Vec::new(),
            gdb: false,
            panic_on_warn: false,
            goes_on_damaged: false,
            programs: Vec::new(),
            job,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, size) in
            [("2G", Some(2048)), ("512M", Some(512)), ("1g", Some(1024)), ("256m", Some(256))]
                .into_iter()
                .chain(["", "G", "2", "-1G", "255M", "99999999G", "1.5G"].map(|text| (text, None)))
        {
            assert_eq!(text.parse().ok(), size.map(Mebibytes), "{text}");
        }
    }

    #[test]
    fn kernels() {
        assert_eq!("6.1".parse::<Kernel>().unwrap(), Kernel::V6_1);
        assert_eq!("latest".parse::<Kernel>().unwrap(), Kernel::Latest);
        let file = Kernel::File("./arch/x86/boot/bzImage".into());
        assert_eq!("./arch/x86/boot/bzImage".parse::<Kernel>().unwrap(), file);
        let error = "6.2".parse::<Kernel>().unwrap_err();
        assert_eq!(error.to_string(), "kernel 6.2: neither 6.1, 6.12, latest nor a file");
    }
}
