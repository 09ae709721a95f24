//! Commands that only tell something: QUERY_ADAPTER, QUERY_SPECIAL_CONTEXTS, NOP.

use layouts::{QueryAdapterOut, QuerySpecialContextsOut};

use crate::profile::VENDOR_OUI;
use crate::{CmdError, Cx, Firmware};

/// NOP.
pub fn nop(_fw: &mut Firmware, _cx: &Cx) -> Result<(), CmdError> {
    Ok(())
}

/// QUERY_ADAPTER: the vendor and the board id, 16 characters at 0x100.
pub fn query_adapter(
    fw: &mut Firmware,
    _cx: &Cx,
    mut out: QueryAdapterOut<&mut [u8]>,
) -> Result<(), CmdError> {
    let mut adapter = out.query_adapter_struct_mut();
    adapter.set_ieee_vendor_id(VENDOR_OUI);
    let mut psid = [0; 16];
    psid.iter_mut().zip(fw.profile.psid.bytes()).for_each(|(to, from)| *to = from);
    adapter.set_vsd_contd_psid(&psid);
    Ok(())
}

/// QUERY_SPECIAL_CONTEXTS: keys that mean something by themselves.
pub fn query_special_contexts(
    _fw: &mut Firmware,
    _cx: &Cx,
    mut out: QuerySpecialContextsOut<&mut [u8]>,
) -> Result<(), CmdError> {
    // One key is both: what is written is dropped, what is read is zero.
    out.set_null_mkey(mtt::NULL_KEY);
    out.set_dump_fill_mkey(mtt::NULL_KEY);
    Ok(())
}
