//! UMR: a work request that edits a memory key.
//!
//! Its translations are in the WQE, or in memory that its one data segment names; those are taken
//! over piece by piece. What the request asks for is judged by [`mtt`]; a key that does not permit
//! it fails the work request with MW_BIND_ERR.

use firmware::Firmware;
use firmware::qp::Service;
use layouts::{Mkc, WqeUmrCtrlSeg, umr_flags};
use mtt::{Access, UmrError, UmrRequest};
use probe::Counter;

use crate::Cx;
use crate::completion::{BAD_UMR, BAD_WQE, Failure};
use crate::memory::{Owner, Scratch, read_runs};
use crate::points;
use crate::wqe::{Data, Wqe};

/// Where the segments begin.
const UMR_CTRL: usize = 16;
const MKC: usize = 64;
const TRANSLATIONS: usize = 128;
/// Bytes of the unit that translations are counted in.
const OCTWORD: usize = 16;

/// The queue pair that asks.
pub struct Asker {
    pub service: Service,
    pub pd: Option<u32>,
    pub qpn: u32,
    /// It is a user's.
    pub user: bool,
}

/// Carries a UMR out. Returns how many bytes of translations it took over.
pub fn execute(
    scratch: &mut Scratch,
    fw: &mut Firmware,
    cx: Cx,
    asker: Asker,
    wqe: &Wqe,
) -> Result<usize, Failure> {
    let Asker { service, pd, qpn, user } = asker;
    let umr = WqeUmrCtrlSeg(wqe.part(UMR_CTRL, MKC - UMR_CTRL)?);
    let request = UmrRequest {
        key: wqe.ctrl().umr_mkey(),
        // The driver's own queue may change every key.
        pd: if service == Service::RegUmr { None } else { Some(pd.ok_or(BAD_WQE)?) },
        qpn,
        user,
        flags: umr.flags(),
        mask: umr.mkey_mask(),
        mkc: Mkc(wqe.part(MKC, TRANSLATIONS - MKC)?),
        octwords: umr.xlt_octowords().into(),
        offset: u64::from(umr.xlt_offset_47_16()) << 16 | u64::from(umr.xlt_offset()),
    };
    let bytes = usize::from(umr.xlt_octowords()) * OCTWORD;
    cx.1.count(Counter::Umr);
    let refused = |error: UmrError| {
        cx.1.mistake("UMR refused", || format!("QP {qpn:#x}, key {:#x}: {error}", request.key));
        BAD_UMR
    };
    if bytes == 0 || request.flags & umr_flags::INLINE != 0 {
        fw.mtt.umr(&request, wqe.part(TRANSLATIONS, bytes)?).map_err(refused)?;
        points::key_edited(fw, cx, qpn, request.key);
        return Ok(bytes);
    }
    let Some(Ok(Data::Memory(mut list))) = wqe.data(TRANSLATIONS).next() else {
        return Err(BAD_WQE);
    };
    if list.len < bytes as u64 {
        return Err(BAD_WQE);
    }
    list.len = bytes as u64;
    fw.mtt.umr_check(&request).map_err(refused)?;
    let owner = Owner { pd, qpn, probe: cx.1 };
    owner.translate(fw, list, Access::LocalRead, &mut scratch.source)?;
    let mut at = 0;
    let mut buffer = [0; 4096];
    let mtt = &mut fw.mtt;
    read_runs(cx.0, &scratch.source, &mut buffer, |run| {
        mtt.umr_write(&request, at, run).map_err(refused)?;
        at += (run.len() / OCTWORD) as u32;
        Ok(())
    })?;
    fw.mtt.umr_commit(&request).map_err(refused)?;
    points::key_edited(fw, cx, qpn, request.key);
    Ok(bytes)
}
