//! What client and server tell each other first.

use std::ffi::CStr;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::wire::{MAX_DESCRIPTORS, MAX_DMA_MAPS, MAX_TRANSFER, PAGE_SIZES};

/// The text of a VERSION message.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Data {
    #[serde(default)]
    capabilities: Capabilities,
}

/// Those that we know; others are ignored and not offered.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Capabilities {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_msg_fds: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_data_xfer_size: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_dma_maps: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pgsizes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    write_multiple: Option<bool>,
}

/// The text to answer a client's text with, its terminating zero included.
///
/// The answer names only what the client named, as the protocol wants; a value of ours that is the
/// protocol's default holds without being named. (For QEMU it must also not be longer than the
/// request.)
pub(super) fn answer(text: &[u8]) -> Result<Vec<u8>, Errno> {
    let theirs = if text.is_empty() {
        Capabilities::default()
    } else {
        let text = CStr::from_bytes_with_nul(text).map_err(|_| Errno::INVAL)?;
        let data: Data = serde_json::from_slice(text.to_bytes()).map_err(|error| {
            log::debug!("capabilities that can't be read: {error}");
            Errno::INVAL
        })?;
        data.capabilities
    };
    let capabilities = Capabilities {
        max_msg_fds: theirs.max_msg_fds.map(|_| MAX_DESCRIPTORS as u64),
        max_data_xfer_size: theirs.max_data_xfer_size.map(|_| MAX_TRANSFER.into()),
        max_dma_maps: theirs.max_dma_maps.map(|_| MAX_DMA_MAPS),
        pgsizes: theirs.pgsizes.map(|_| PAGE_SIZES),
        write_multiple: theirs.write_multiple.filter(|supported| *supported),
    };
    let mut text = serde_json::to_vec(&Data { capabilities }).map_err(|_| Errno::NOMEM)?;
    text.push(0);
    Ok(text)
}
