//! Memory keys and protection domains: the commands. What keys do is in `mtt`.

use layouts::{
    AllocPdOut, CreateMkeyIn, CreateMkeyOut, DeallocPdIn, DestroyMkeyIn, QueryMkeyIn, QueryMkeyOut,
};
use mtt::{CreateError, Mode};

use crate::error::{self, CmdError};
use crate::{Cx, Firmware};

/// ALLOC_PD.
pub fn alloc_pd(
    fw: &mut Firmware,
    cx: &Cx,
    mut out: AllocPdOut<&mut [u8]>,
) -> Result<(), CmdError> {
    out.set_pd(fw.mtt.alloc_pd(cx.uid).map_err(|e| error::TABLE_FULL.with(e.to_string()))?);
    Ok(())
}

/// DEALLOC_PD.
pub fn dealloc_pd(fw: &mut Firmware, cx: &Cx, input: DeallocPdIn<&[u8]>) -> Result<(), CmdError> {
    let pd = input.pd();
    error::owned(fw.mtt.pd_uid(pd), cx.uid, pd, &error::NO_SUCH_PD)?;
    fw.mtt.dealloc_pd(pd).map_err(|e| error::removal(e, &error::NO_SUCH_PD))
}

/// CREATE_MKEY.
pub fn create(
    fw: &mut Firmware,
    cx: &Cx,
    input: CreateMkeyIn<&[u8]>,
    mut out: CreateMkeyOut<&mut [u8]>,
) -> Result<(), CmdError> {
    let mkc = input.memory_key_mkey_entry();
    if input.mkey_umem_valid() {
        return Err(error::BAD_ATTRIBUTE.with("a key on user memory"));
    }
    let pd = mkc.pd();
    if cx.uid != 0 {
        // The driver has the pages of its users' memory listed in umems; what a user gives itself
        // can only name keys.
        if mkc.access_mode_4_2() == 0 && mkc.access_mode_1_0() < Mode::Klm as u8 {
            return Err(error::BAD_ATTRIBUTE.with("a user's key that names pages"));
        }
        error::owned(fw.mtt.pd_uid(pd), cx.uid, pd, &error::NO_SUCH_PD)?;
    }
    let list = mtt::List {
        segments: [crate::tail(input.0, CreateMkeyIn::SIZE)],
        octwords: input.translations_octword_actual_size(),
        pg_access: input.pg_access(),
    };
    let index = fw.mtt.create(&mkc, list, cx.uid).map_err(|e| {
        let cause = match &e {
            CreateError::BadContext(_) | CreateError::ListTooLong { .. } => &error::BAD_MKEY,
            CreateError::UnknownPd(_) => &error::NO_SUCH_PD,
            CreateError::ListTooShort { .. } => &error::INPUT_TOO_SHORT,
            CreateError::NoKeyLeft(_) => &error::TABLE_FULL,
            CreateError::NoEntryLeft { .. } => &error::NO_TRANSLATIONS,
        };
        cause.with(e.to_string())
    })?;
    out.set_mkey_index(index);
    Ok(())
}

/// QUERY_MKEY.
pub fn query(
    fw: &mut Firmware,
    cx: &Cx,
    input: QueryMkeyIn<&[u8]>,
    mut out: QueryMkeyOut<&mut [u8]>,
) -> Result<(), CmdError> {
    let index = input.mkey_index();
    owned(fw, cx, index)?;
    fw.mtt
        .query(index, &mut out.memory_key_mkey_entry_mut())
        .map_err(|e| error::NO_SUCH_MKEY.with(e.to_string()))
}

/// DESTROY_MKEY.
pub fn destroy(fw: &mut Firmware, cx: &Cx, input: DestroyMkeyIn<&[u8]>) -> Result<(), CmdError> {
    let index = input.mkey_index();
    owned(fw, cx, index)?;
    fw.mtt.destroy(index).map_err(|e| error::removal(e, &error::NO_SUCH_MKEY))
}

fn owned(fw: &Firmware, cx: &Cx, index: u32) -> Result<(), CmdError> {
    if cx.uid == 0 {
        return Ok(());
    }
    error::owned(fw.mtt.info(index).map(|key| key.uid), cx.uid, index, &error::NO_SUCH_MKEY)
}
