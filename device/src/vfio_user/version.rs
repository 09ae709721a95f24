//! What client and server tell each other first.

use std::ffi::CStr;

use rustix::io::Errno;
use serde_json::{Map, Value};

use super::wire::{MAX_DESCRIPTORS, MAX_DMA_MAPS, MAX_TRANSFER, PAGE_SIZES};

/// Longest text that is looked at, in bytes. QEMU's has about 250.
const MAX_TEXT: usize = 16 << 10;

/// The text to answer a client's text with, its terminating zero included.
///
/// The answer names only what the client named, as the protocol wants; whatever else there is
/// holds without being named, or isn't supported. (For QEMU it must also not be longer than the
/// request.)
pub(super) fn answer(text: &[u8]) -> Result<Vec<u8>, Errno> {
    let theirs = capabilities(text)?;
    let ours = [
        ("max_msg_fds", Value::from(MAX_DESCRIPTORS)),
        ("max_data_xfer_size", Value::from(MAX_TRANSFER)),
        ("max_dma_maps", Value::from(MAX_DMA_MAPS)),
        ("pgsizes", Value::from(PAGE_SIZES)),
        ("write_multiple", Value::from(true)),
    ];
    let mut both = Map::new();
    for (name, value) in ours {
        let Some(known) = theirs.get(name) else { continue };
        match (known, &value) {
            (Value::Bool(false), Value::Bool(_)) => {}
            (Value::Bool(true), Value::Bool(_)) => drop(both.insert(name.into(), value)),
            (Value::Number(number), Value::Number(_)) if number.is_u64() => {
                both.insert(name.into(), value);
            }
            _ => {
                log::debug!("capability {name} can't be {known}");
                return Err(Errno::INVAL);
            }
        }
    }
    let mut text = serde_json::json!({ "capabilities": both }).to_string().into_bytes();
    text.push(0);
    Ok(text)
}

/// The capabilities in a client's text, which may be missing.
fn capabilities(text: &[u8]) -> Result<Map<String, Value>, Errno> {
    if text.is_empty() {
        return Ok(Map::new());
    }
    if text.len() > MAX_TEXT {
        return Err(Errno::TOOBIG);
    }
    let text = CStr::from_bytes_with_nul(text).map_err(|_| Errno::INVAL)?;
    match serde_json::from_slice(text.to_bytes()) {
        Ok(Value::Object(mut data)) => match data.remove("capabilities") {
            None => Ok(Map::new()),
            Some(Value::Object(capabilities)) => Ok(capabilities),
            Some(_) => Err(Errno::INVAL),
        },
        _ => Err(Errno::INVAL),
    }
}
