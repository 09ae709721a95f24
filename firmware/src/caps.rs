//! Capabilities: what the device can do at most, and what the driver has set it to.

use layouts::{
    AtomicCaps, CapType, CmdHcaCap, CmdHcaCap2, LayoutInfo, QueryHcaCapIn, QueryHcaCapOut,
    SetHcaCapIn, get_bits, set_bits,
};

use crate::error::{self, CmdError};
use crate::lifecycle::State;
use crate::profile::{Profile, Value};
use crate::{Cx, Firmware};

/// Bytes of one capability structure (union hca_cap_union).
const SIZE: usize = 0x1000;
/// Where it begins in QUERY_HCA_CAP's output and SET_HCA_CAP's input.
pub const AT: usize = 0x10;

/// What SET_HCA_CAP may change of a type.
#[derive(Clone, Copy)]
enum Settable {
    /// Everything, from zero to its maximum. It stands at the maximum until then.
    All,
    /// These fields, which stand at zero until then. The rest stays as it is, whatever comes: the
    /// driver sends zeros for it.
    Only(&'static [&'static str]),
}

impl Settable {
    fn has(self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.contains(&name),
        }
    }
}

/// One type's capabilities.
struct Set {
    /// Type code: op_mod bits 15:1.
    code: u16,
    layout: &'static LayoutInfo,
    settable: Settable,
    max: Box<[u8]>,
    current: Box<[u8]>,
}

/// All types that the device has.
pub struct Caps {
    sets: [Set; 3],
}

/// Fields whose values are codes, not amounts: an order means nothing. Only the code that the
/// device stands at, which is 0 for each of them, is legal; everything else may be set from zero to
/// its maximum.
const CODES: &[&str] = &[
    // n for 128 << n P_Keys and 8 << n GIDs: the port's tables have one size.
    "pkey_table_size",
    "gid_table_size",
    "port_type",
    "umr_fence",
    "cmdif_checksum",
    "log_uar_page_sz",
];

/// Of the atomic capabilities, the driver chooses how a requester gets its answer.
const ATOMIC_SETTABLE: Settable = Settable::Only(&["atomic_req_8B_endianness_mode"]);

impl Set {
    fn new(code: u16, layout: &'static LayoutInfo, settable: Settable, values: &[Value]) -> Self {
        let mut max = vec![0; SIZE].into_boxed_slice();
        for (name, value) in values {
            // A name that the layout does not have is caught by this module's test.
            if let Some(field) = layout.fields.iter().find(|f| f.name == *name) {
                set_bits(&mut max, field.bit, field.width, *value);
            }
        }
        let mut set = Self { code, layout, settable, current: max.clone(), max };
        set.reset();
        set
    }

    /// As after power-on.
    fn reset(&mut self) {
        let Self { code: _, layout, settable, max, current } = self;
        current.copy_from_slice(max);
        if let Settable::Only(names) = settable {
            for field in layout.fields.iter().filter(|field| names.contains(&field.name)) {
                set_bits(current, field.bit, field.width, 0);
            }
        }
    }

    /// The values in `wanted` if the device can be set to them.
    fn check(&self, wanted: &[u8]) -> Result<Box<[u8]>, CmdError> {
        // Bits without a name here can't exceed their maximum, zero: they are left out, because
        // newer drivers set switches that this device has not heard of.
        let mut next: Box<[u8]> = match self.settable {
            Settable::All => wanted.iter().zip(&self.max).map(|(w, m)| w & m).collect(),
            Settable::Only(_) => self.current.clone(),
        };
        for field in self.layout.fields.iter().filter(|field| self.settable.has(field.name)) {
            let value = get_bits(wanted, field.bit, field.width);
            let max = get_bits(&self.max, field.bit, field.width);
            let legal = if CODES.contains(&field.name) { 0 } else { max };
            if value > legal {
                return Err(error::CAP_TOO_LARGE.with(format!(
                    "{}.{} = {value}, at most {max}",
                    self.layout.name, field.name
                )));
            }
            set_bits(&mut next, field.bit, field.width, value);
        }
        Ok(next)
    }
}

impl Caps {
    /// The capabilities of a profile, all at their maximum.
    pub fn new(profile: &Profile) -> Self {
        Self {
            sets: [
                Set::new(0x00, &CmdHcaCap::INFO, Settable::All, &profile.general),
                Set::new(0x03, &AtomicCaps::INFO, ATOMIC_SETTABLE, &profile.atomic),
                Set::new(0x20, &CmdHcaCap2::INFO, Settable::All, &profile.general2),
            ],
        }
    }

    /// The general capabilities as they are set.
    pub fn general(&self) -> CmdHcaCap<&[u8]> {
        CmdHcaCap(&self.sets[0].current)
    }

    /// Whether the value that an atomic operation found is written to the requester's memory in
    /// the byte order of the host, or of the packet (atomic_req_8B_endianness_mode).
    pub fn atomics_in_host_order(&self) -> bool {
        AtomicCaps(&self.sets[1].current).atomic_req_8B_endianness_mode() == 1
    }

    fn set(&mut self, code: u16) -> Result<&mut Set, CmdError> {
        self.sets
            .iter_mut()
            .find(|set| set.code == code)
            .ok_or_else(|| error::CAP_TYPE.with(format!("type {code:#x}")))
    }

    /// Everything at its maximum again.
    pub fn reset(&mut self) {
        let Self { sets } = self;
        sets.iter_mut().for_each(Set::reset);
    }
}

/// QUERY_HCA_CAP. Operation modifier: type << 1, and 1 for the current values, 0 for the maxima. A
/// type that cards of this kind have, but of which nothing is offered here, is all zeros.
pub fn query(
    fw: &mut Firmware,
    cx: &Cx,
    _input: QueryHcaCapIn<&[u8]>,
    out: QueryHcaCapOut<&mut [u8]>,
) -> Result<(), CmdError> {
    let code = cx.op_mod >> 1;
    if fw.caps.set(code).is_err() && CapType(code).name().is_some() {
        cx.probe.missing("capability type", code, CapType(code));
        return Ok(());
    }
    let set = fw.caps.set(code)?;
    let image = if cx.op_mod & 1 == 1 { &set.current } else { &set.max };
    for (to, from) in out.0.iter_mut().skip(AT).zip(image) {
        *to = *from;
    }
    Ok(())
}

/// SET_HCA_CAP.
pub fn set(fw: &mut Firmware, cx: &Cx, input: SetHcaCapIn<&[u8]>) -> Result<(), CmdError> {
    if fw.life.state != State::Enabled {
        return Err(error::CAP_TOO_LATE.with(fw.life.state.name()));
    }
    if cx.op_mod & 1 == 1 {
        return Err(error::BAD_OP_MOD.with(format!("op_mod {:#x}", cx.op_mod)));
    }
    let mut wanted = [0; SIZE];
    for (to, from) in wanted.iter_mut().zip(input.0.iter().skip(AT)) {
        *to = *from;
    }
    let set = fw.caps.set(cx.op_mod >> 1)?;
    set.current = set.check(&wanted)?;
    Ok(())
}
