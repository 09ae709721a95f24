//! Makes everything ready that a guest is booted from: side by side, as two processors and a network
//! allow.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::cache::Cache;
use crate::debian::Debian;
use crate::error::{Error, Result};
use crate::image::{self, Image};
use crate::initramfs::Initramfs;
use crate::kernel::modules::{FOR_CARD, FOR_SHARES};
use crate::kernel::{self, GuestKernel, Workshop};
use crate::kvm::{self, Accelerator, Trial};
use crate::options::{Job, Options};
use crate::programs::Programs;
use crate::progress::Progress;
use crate::scratch::Scratch;
use crate::stop::Stop;
use crate::terminal;
use crate::tools::Tools;

/// Seconds that the RDMA device may take to appear once its driver is loaded.
const CARD_WAIT: u32 = 120;

/// What a guest is booted from.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) tools: Arc<Tools>,
    pub(crate) image: Image,
    pub(crate) kernel: GuestKernel,
    pub(crate) programs: Programs,
    pub(crate) accelerator: Accelerator,
}

/// Checks what can be checked at once: before minutes are spent on fetching.
pub(crate) fn check(options: &Options) -> Result<Vec<PathBuf>> {
    if options.smp == 0 || options.smp > 255 {
        return Err(Error::Option(format!("{} processors: between 1 and 255", options.smp)));
    }
    match &options.job {
        Job::Command(words) if words.is_empty() => {
            return Err(Error::Option("the command is empty".to_owned()));
        }
        Job::Shell if !terminal::both_ways() => {
            return Err(Error::Option(
                "a shell needs a terminal: run a command instead".to_owned(),
            ));
        }
        _ => {}
    }
    kernel::check(&options.kernel, options.modules.as_deref(), &needed(options))?;
    image::check(&options.packages)?;
    options
        .shares
        .iter()
        .map(|dir| {
            let path = dir.canonicalize().map_err(Error::path("share", dir))?;
            if path.is_dir() {
                Ok(path)
            } else {
                Err(Error::Option(format!("cannot share {}: not a directory", dir.display())))
            }
        })
        .collect()
}

/// Modules that this guest needs beside those for booting.
fn needed(options: &Options) -> Vec<&'static str> {
    let card = if options.card.is_some() { FOR_CARD } else { &[] };
    let shares = if options.shares.is_empty() { &[] } else { FOR_SHARES };
    [card, shares].concat()
}

/// Finds or makes all of it.
pub(crate) fn prepare(options: &Options, scratch: &Scratch, stop: &Stop) -> Result<Ready> {
    let cache = Cache::open()?;
    let progress = Progress::new();
    // apt is asked once, and only when something has to be fetched.
    let known: Mutex<Option<Debian>> = Mutex::default();
    let debian = || {
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        match &*known {
            Some(debian) => Ok(debian.clone()),
            None => Ok(known.insert(Debian::find(stop)?).clone()),
        }
    };
    let (give, take) = std::sync::mpsc::sync_channel::<Arc<Tools>>(1);
    thread::scope(|scope| {
        let (cache, progress, debian) = (&cache, &progress, &debian);
        let image = scope.spawn(move || {
            let tools = || take.recv().map_err(|_| Error::Interrupted);
            image::get(cache, progress, stop, debian, &options.packages, tools)
        });
        let rest = (|| {
            let tools = Arc::new(Tools::get(cache, progress, stop, debian)?);
            // Nobody takes them when the image is there already.
            let _ = give.send(tools.clone());
            let workshop = Workshop { cache, progress, stop, tools: &tools, debian };
            let modules = options.modules.as_deref();
            let kernel =
                workshop.kernel(&options.kernel, modules, &needed(options), scratch.path())?;
            let programs = Programs::get(cache, &tools, &options.programs, stop)?;
            let qemu = tools.qemu();
            let (image, init) = (kernel.image.clone(), programs.init());
            let trial = Trial { qemu: &qemu, kernel: &image, init: &init, smp: options.smp };
            let accelerator = kvm::choose(cache, &trial, stop)?;
            Ok((tools, kernel, programs, accelerator))
        })();
        // If the tools failed the image must not wait for them.
        drop(give);
        let image = image.join().map_err(|_| Error::Option("a thread panicked".to_owned()))?;
        // Without tools the image gives up too: the tools are the reason.
        let (tools, kernel, programs, accelerator) = rest?;
        Ok(Ready { tools, image: image?, kernel, programs, accelerator })
    })
}

/// The initramfs of one run.
pub(crate) fn initramfs(options: &Options, ready: &Ready) -> Result<Vec<u8>> {
    let read = |path: &std::path::Path| fs::read(path).map_err(Error::path("read", path));
    let mut archive = Initramfs::default();
    for directory in ["job", "modules", "programs"] {
        archive.directory(directory);
    }
    archive.program("init", &read(&ready.programs.init())?);
    for program in &options.programs {
        let bytes = read(&ready.programs.program(program.name))?;
        archive.program(&format!("programs/{}", program.name), &bytes);
    }
    let mut load = Vec::new();
    for module in ready.kernel.modules.iter().flat_map(|modules| &modules.boot) {
        let name = module.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let inside = format!("modules/{name}");
        archive.file(&inside, &read(module)?);
        load.push(format!("/{inside}"));
    }
    archive.file("job/insmod", &zero_ended(&load)?);
    archive.file("job/argv", &arguments(&options.job)?);
    archive.file("job/env", &zero_ended(environment(options))?);
    archive.file("job/settings", settings(options, ready).as_bytes());
    Ok(archive.finish())
}

fn arguments(job: &Job) -> Result<Vec<u8>> {
    use std::os::unix::ffi::OsStrExt as _;

    match job {
        Job::Command(words) => zero_ended(words.iter().map(|word| word.as_bytes())),
        Job::Shell => zero_ended(["/bin/bash", "-l"]),
    }
}

fn environment(options: &Options) -> Vec<String> {
    let mut list: Vec<String> = [
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/lib/mlx5emu",
        "HOME=/root",
        "USER=root",
        "LANG=C.UTF-8",
    ]
    .map(str::to_owned)
    .into();
    if options.job == Job::Shell {
        let terminal = std::env::var("TERM").unwrap_or_else(|_| "vt220".to_owned());
        list.push(format!("TERM={terminal}"));
    }
    list
}

fn settings(options: &Options, ready: &Ready) -> String {
    let (rows, columns) = terminal::size();
    let flag = |set: bool| u32::from(set);
    let lines = [
        ("card", flag(options.card.is_some())),
        ("tty", flag(options.job == Job::Shell)),
        ("modules", flag(ready.kernel.modules.is_some())),
        ("shares", u32::try_from(options.shares.len()).unwrap_or(u32::MAX)),
        ("wait", CARD_WAIT),
        ("rows", rows.into()),
        ("columns", columns.into()),
    ];
    lines.map(|(name, value)| format!("{name}={value}\n")).concat()
}

/// Words that end in zero bytes.
fn zero_ended(words: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for word in words {
        if word.as_ref().contains(&0) {
            return Err(Error::Option("an argument contains a zero byte".to_owned()));
        }
        bytes.extend_from_slice(word.as_ref());
        bytes.push(0);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Kernel;

    fn refusal(change: impl FnOnce(&mut Options)) -> String {
        let mut options = Options::new(Job::Command(vec!["true".into()]));
        change(&mut options);
        check(&options).unwrap_err().to_string()
    }

    #[test]
    fn bad_options_are_refused_before_anything_is_fetched() {
        assert_eq!(refusal(|o| o.smp = 0), "0 processors: between 1 and 255");
        assert_eq!(refusal(|o| o.job = Job::Command(vec![])), "the command is empty");
        assert_eq!(
            refusal(|o| o.shares = vec!["/no/such/dir".into()]),
            "cannot share /no/such/dir: No such file or directory (os error 2)"
        );
        assert_eq!(
            refusal(|o| o.kernel = Kernel::File("/no/such/bzImage".into())),
            "/no/such/bzImage: No such file or directory (os error 2)"
        );
        assert_eq!(
            refusal(|o| o.modules = Some("/no/such/dir".into())),
            "modules /no/such/dir: not a directory"
        );
        assert_eq!(
            refusal(|o| o.packages = vec!["Strange Name".to_owned()]),
            "package Strange Name: neither a Debian package name nor a .deb file"
        );
        assert_eq!(
            refusal(|o| o.packages = vec!["./no-such.deb".to_owned()]),
            "cannot read ./no-such.deb: No such file or directory (os error 2)"
        );
        assert_eq!(
            refusal(|o| o.shares = vec!["/dev/null".into()]),
            "cannot share /dev/null: not a directory"
        );
    }

    #[test]
    fn an_argument_vector_survives() {
        let words = ["sh", "-c", "echo 'a b'", ""].map(Into::into).to_vec();
        assert_eq!(arguments(&Job::Command(words)).unwrap(), b"sh\0-c\0echo 'a b'\0\0");
        assert!(arguments(&Job::Command(vec!["a\0b".into()])).is_err());
    }
}
