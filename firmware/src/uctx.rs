//! User contexts: whom a command is carried out for, when user space talks to the device through
//! the driver (DEVX). An object that was made for one is out of reach of the others.

use layouts::{CreateUctxIn, CreateUctxOut, DestroyUctxIn};

use crate::error::{self, CmdError};
use crate::{Cx, Firmware};

/// The driver marks completion event queues with this user id (core/eq.c, create_comp_eq):
/// any user context may use them.
pub const ANYONE: u16 = 0xffff;

/// One user context.
#[derive(Debug)]
pub struct Uctx {
    /// The privileges asked for, as the command gives them.
    pub cap: u32,
}

/// CREATE_UCTX.
pub fn create(
    fw: &mut Firmware,
    _cx: &Cx,
    input: CreateUctxIn<&[u8]>,
    mut out: CreateUctxOut<&mut [u8]>,
) -> Result<(), CmdError> {
    let cap = input.uctx().cap();
    // Privileges beyond a user's own objects are offered by the capability uctx_cap, which is 0.
    if cap != 0 {
        return Err(error::BAD_ATTRIBUTE.with(format!("user context privileges {cap:#x}")));
    }
    let uid = fw.uctxs.insert(Uctx { cap }).map_err(|e| error::TABLE_FULL.with(e.to_string()))?;
    out.set_uid(uid as u16);
    Ok(())
}

/// DESTROY_UCTX.
pub fn destroy(fw: &mut Firmware, _cx: &Cx, input: DestroyUctxIn<&[u8]>) -> Result<(), CmdError> {
    fw.uctxs.remove(input.uid().into()).map_err(|e| error::removal(e, &error::NO_SUCH_UCTX))?;
    Ok(())
}

/// Whether a command may carry this user id.
pub fn known(fw: &Firmware, uid: u16) -> bool {
    uid == 0 || uid == ANYONE || fw.uctxs.get(uid.into()).is_some()
}
