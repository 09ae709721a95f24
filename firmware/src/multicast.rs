//! Multicast groups: which queue pairs get the datagrams that are sent to one.

use std::collections::{BTreeMap, BTreeSet};

use layouts::{AttachToMcgIn, DetachFromMcgIn};

use crate::error::{self, CmdError};
use crate::qp::Service;
use crate::{Cx, Firmware, qp};

/// Groups that have members, as a power of two (log_max_mcg).
pub const LOG_MAX_GROUPS: u8 = 12;
/// Members of one group (max_qp_mcg).
pub const MAX_MEMBERS: usize = 240;
/// A multicast GID's first byte (IBA 4.1.1).
const MULTICAST: u8 = 0xff;

/// The groups of a port.
#[derive(Debug, Default)]
pub struct Groups(BTreeMap<[u8; 16], BTreeSet<u32>>);

impl Groups {
    /// The queue pairs that are attached to a group, by rising number.
    pub fn members(&self, gid: &[u8; 16]) -> impl Iterator<Item = u32> {
        self.0.get(gid).into_iter().flatten().copied()
    }

    /// How many groups have members.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no group has members.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

/// ATTACH_TO_MCG. A queue pair that is attached can't be destroyed.
pub fn attach(fw: &mut Firmware, cx: &Cx, input: AttachToMcgIn<&[u8]>) -> Result<(), CmdError> {
    let (qpn, gid) = (input.qpn(), input.multicast_gid());
    let service = qp::find(fw, cx, qpn)?.service;
    if service != Service::Ud {
        return Err(error::BAD_ATTRIBUTE.with(format!("{} in a group", service.name())));
    }
    if gid[0] != MULTICAST {
        return Err(error::BAD_VALUE.with(format!("{gid:02x?} is no group")));
    }
    let groups = &mut fw.port.multicast.0;
    let full = match groups.get(&gid) {
        Some(members) if members.contains(&qpn) => return Ok(()),
        Some(members) => members.len() >= MAX_MEMBERS,
        None => groups.len() >> LOG_MAX_GROUPS != 0,
    };
    if full {
        return Err(error::TABLE_FULL.with("groups, or members of one"));
    }
    if !fw.qps.hold(qpn) {
        return Err(error::NO_SUCH_QP.with(format!("QP {qpn:#x}")));
    }
    groups.entry(gid).or_default().insert(qpn);
    Ok(())
}

/// DETACH_FROM_MCG.
pub fn detach(fw: &mut Firmware, cx: &Cx, input: DetachFromMcgIn<&[u8]>) -> Result<(), CmdError> {
    let (qpn, gid) = (input.qpn(), input.multicast_gid());
    qp::find(fw, cx, qpn)?;
    let groups = &mut fw.port.multicast.0;
    let members = groups.get_mut(&gid);
    let Some(members) = members.filter(|members| members.contains(&qpn)) else {
        return Err(error::NOT_A_MEMBER.with(format!("QP {qpn:#x}")));
    };
    members.remove(&qpn);
    if members.is_empty() {
        groups.remove(&gid);
    }
    fw.qps.release(qpn);
    Ok(())
}
