//! What queues refer to. An object that something refers to can't be destroyed, and a user context
//! refers to its own objects only.

use crate::error::CmdError;
use crate::{Firmware, error, srq};

/// An object that a queue refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reference {
    Pd(u32),
    Uar(u32),
    Cq(u32),
    /// A shared receive queue that a queue pair takes its receives from.
    Srq(u32),
    Xrcd(u32),
    Umem(u32),
}

impl Reference {
    /// The user context that it belongs to.
    fn owner(self, fw: &Firmware) -> Option<u16> {
        match self {
            Self::Pd(pd) => fw.mtt.pd_uid(pd),
            Self::Uar(uar) => fw.uars.get(uar).map(|uar| uar.uid),
            Self::Cq(cqn) => fw.cqs.get(cqn).map(|cq| cq.uid),
            Self::Srq(srqn) => fw.srqs.get(srqn).map(|srq| srq.uid),
            Self::Xrcd(xrcd) => fw.objects.xrcds.get(xrcd).map(|xrcd| xrcd.uid),
            Self::Umem(umem) => fw.umems.get(umem).map(|umem| umem.uid),
        }
    }

    fn hold(self, fw: &mut Firmware, uid: u16) -> Result<(), CmdError> {
        let own = uid == 0 || self.owner(fw) == Some(uid);
        let (held, cause, what) = match self {
            Self::Pd(pd) => (own && fw.mtt.hold_pd(pd), &error::NO_SUCH_PD, pd),
            Self::Uar(uar) => (own && fw.uars.hold(uar), &error::NO_SUCH_UAR, uar),
            Self::Cq(cqn) => (own && fw.cqs.hold(cqn), &error::NO_SUCH_CQ, cqn),
            Self::Srq(srqn) => (own && hold_srq(fw, srqn), &error::NO_SUCH_SRQ, srqn),
            Self::Xrcd(xrcd) => (own && fw.objects.xrcds.hold(xrcd), &error::NO_SUCH_XRCD, xrcd),
            Self::Umem(umem) => (own && fw.umems.hold(umem), &error::NO_SUCH_UMEM, umem),
        };
        if held { Ok(()) } else { Err(cause.with(format!("{what:#x}"))) }
    }

    fn release(self, fw: &mut Firmware) {
        match self {
            Self::Pd(pd) => fw.mtt.release_pd(pd),
            Self::Uar(uar) => fw.uars.release(uar),
            Self::Cq(cqn) => fw.cqs.release(cqn),
            Self::Srq(srqn) => fw.srqs.release(srqn),
            Self::Xrcd(xrcd) => fw.objects.xrcds.release(xrcd),
            Self::Umem(umem) => fw.umems.release(umem),
        }
    }
}

/// An XRC SRQ serves the packets that name it, not a queue pair.
fn hold_srq(fw: &mut Firmware, srqn: u32) -> bool {
    fw.srqs.get(srqn).is_some_and(|srq| srq.kind != srq::Kind::Xrc) && fw.srqs.hold(srqn)
}

/// Refers to everything that a queue of user context `uid` needs, or to nothing.
pub(crate) fn hold(
    fw: &mut Firmware,
    uid: u16,
    needs: &[Option<Reference>],
) -> Result<(), CmdError> {
    for (n, reference) in needs.iter().enumerate() {
        if let Some(reference) = reference
            && let Err(refused) = reference.hold(fw, uid)
        {
            release(fw, needs.get(..n).unwrap_or_default());
            return Err(refused);
        }
    }
    Ok(())
}

/// Takes references back.
pub(crate) fn release(fw: &mut Firmware, held: &[Option<Reference>]) {
    held.iter().flatten().for_each(|reference| reference.release(fw));
}
