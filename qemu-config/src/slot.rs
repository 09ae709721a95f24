//! The card's slot: the guest lets go of the card and looks for it again when the card's process asks
//! for it.
//!
//! The guest's first program does it, through sysfs: the kernel calls the driver as it does for a slot
//! that can be unplugged. QEMU is not asked, because 11.1.3 aborts when a vfio-user device leaves the
//! machine (`memory_region_del_subregion: Assertion subregion->container == mr failed`).

use std::io::{BufRead as _, BufReader, PipeReader};
use std::thread;

use crate::error::{Error, Result};
use crate::frame::ToGuest;
use crate::streams::Port;

/// Passes on what the card asks for, a line each: `unplug`, `replug`. Ends when the card's process or the
/// guest does.
pub(crate) fn watch(asked: PipeReader, port: Port) -> Result<()> {
    let serve = move || {
        for line in BufReader::new(asked).lines().map_while(std::result::Result::ok) {
            log::info!("{line} of the card");
            let frame = match line.as_str() {
                "unplug" => ToGuest::Unplug,
                "replug" => ToGuest::Replug,
                _ => continue,
            };
            if port.send(frame).is_err() {
                break;
            }
        }
    };
    let thread = thread::Builder::new().name("slot".to_owned()).spawn(serve);
    thread.map(drop).map_err(Error::io("start a thread"))
}
