//! Builds the guest and starts QEMU.
//!
//! [`Session::start`] makes ready whatever is missing (QEMU, an image of Debian, a kernel: fetched once,
//! see [`Cache`]), starts the card and QEMU, and runs one command in the guest with its streams
//! connected as asked. [`Session::wait`] says how it went, [`Outcome::status`] as an exit status.
//!
//! What lives where: `prepare` makes things ready (`tools`, `image`, `kernel`, `programs`, `kvm`, each
//! an entry of `cache`; packages come through `debian`); `session` supervises one run (`qemu` builds the
//! command line, `streams` and `frame` carry the job's streams, `damage` judges the console, `status`
//! decides); `../guest` is the guest's first program.
//!
//! This crate knows nothing of the card but that it is a program that serves a vfio-user socket.

mod cache;
mod damage;
mod debian;
mod error;
mod frame;
mod image;
mod initramfs;
mod kernel;
mod kvm;
mod options;
mod prepare;
mod process;
mod programs;
mod progress;
mod qemu;
mod scratch;
mod session;
mod slot;
mod status;
mod stop;
mod streams;
mod supervise;
mod terminal;
mod tools;

pub use cache::{About, Cache, Listed};
pub use damage::{Damage, Severity, judge, message};
pub use error::{Error, Result};
pub use kvm::Accelerator;
pub use options::{Card, GuestProgram, Job, Kernel, Mebibytes, Options};
pub use qemu::{CARD_ID, OLDEST, Version};
pub use session::{Outcome, Session, Times};
pub use status::{
    CANNOT_START, CARD_LOST, DAMAGED, Ending, FAULT_MISSED, FAULT_MISSED_BY_CARD, Facts,
    HIGH_STATUS, SIGNALLED, TIMED_OUT,
};
pub use stop::Stop;
pub use streams::{Stream, Streams};
