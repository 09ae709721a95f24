//! User access region pages: the doorbell pages of BAR0.

use layouts::{AllocUarOut, DeallocUarIn};

use crate::error::{self, CmdError};
use crate::{Cx, Firmware};

/// The first page that is given out. Pages below it hold the initialization segment (three pages)
/// and are kept free up to a round number, so that an index of zero is never a doorbell page.
pub const FIRST: u32 = 16;

/// One doorbell page.
#[derive(Debug, Default)]
pub struct Uar {
    /// User context it belongs to.
    pub uid: u16,
}

/// ALLOC_UAR.
pub fn alloc(fw: &mut Firmware, cx: &Cx, mut out: AllocUarOut<&mut [u8]>) -> Result<(), CmdError> {
    let uar =
        fw.uars.insert(Uar { uid: cx.uid }).map_err(|e| error::TABLE_FULL.with(e.to_string()))?;
    out.set_uar(uar);
    Ok(())
}

/// DEALLOC_UAR.
pub fn dealloc(fw: &mut Firmware, cx: &Cx, input: DeallocUarIn<&[u8]>) -> Result<(), CmdError> {
    let id = input.uar();
    error::owned(fw.uars.get(id).map(|uar| uar.uid), cx.uid, id, &error::NO_SUCH_UAR)?;
    fw.uars.remove(input.uar()).map_err(|e| error::removal(e, &error::NO_SUCH_UAR))?;
    Ok(())
}
