//! Memory registration by work request: the driver's own UMR queue pair.

use layouts::{
    Cqe64, CqeSyndrome, Mkc, MttEntry, QpType, WqeCtrlSeg, WqeOpcode, WqeUmrCtrlSeg, mkey_mask,
    umr_flags,
};

use crate::cq::{self, Arm, CompletionQueue};
use crate::driver::Driver;
use crate::mkey::Region;
use crate::port::{Error, Port, Result, broken};
use crate::qp::{Peer, QueuePair, Receive, Shape, data_segment};

/// Completions that fit the queue, and basic blocks that do, as powers of two.
const LOG_CQ_SIZE: u8 = 7;
const LOG_SQ_SIZE: u8 = 9;
/// Most translations in one work request: a MiB of them, less one group.
const CHUNK: usize = ((1 << 20) - GROUP) / MttEntry::SIZE;
/// Translations come in groups of 64 bytes.
const GROUP: usize = 64;
const OCTWORD: usize = 16;
/// fence INITIATOR_SMALL.
const SMALL_FENCE: u8 = 1;

const ACCESS: u64 = mkey_mask::LR | mkey_mask::LW | mkey_mask::RR | mkey_mask::RW;

/// The UMR queue pair and what belongs to it.
#[derive(Debug)]
pub struct Umr {
    /// Its domain, which free keys are in.
    pub pd: u32,
    dma_key: u32,
    cq: CompletionQueue,
    qp: QueuePair,
}

/// One work request.
struct Request<'a> {
    key: u32,
    flags: u8,
    mask: u64,
    /// Translations to be written, 16 bytes each, from this one on.
    offset: u64,
    mkc: [u8; Mkc::SIZE],
    translations: &'a [u8],
}

impl<P: Port> Driver<P> {
    /// Makes the UMR queue pair and moves it to RTS.
    pub fn create_umr(&mut self, uar: u32, eqn: u8, spare_srqn: u32) -> Result<Umr> {
        let pd = self.alloc_pd()?;
        let dma_key = self.create_dma_key(pd)?;
        let cq = self.create_cq(uar, eqn, LOG_CQ_SIZE)?;
        let shape = Shape {
            kind: QpType::REG_UMR,
            pd: 0,
            uar,
            cqns: [cq.cqn; 2],
            log_sq_size: LOG_SQ_SIZE,
            receive: Receive::None,
            spare_srqn,
        };
        let qp = self.create_qp(shape)?;
        self.start_umr(&qp, pd)?;
        Ok(Umr { pd, dma_key, cq, qp })
    }

    fn start_umr(&mut self, qp: &QueuePair, pd: u32) -> Result<()> {
        self.rst2init(qp, pd, 0)?;
        self.init2rtr(qp, Peer { qpn: 0, lid: 0, psn: 0 })?;
        self.rtr2rts(qp, 0)
    }

    /// After a work request that failed: what is posted now is flushed, and from RESET on the queue
    /// pair is as good as new.
    fn recover_umr(&mut self, umr: &mut Umr, wqe: &[u8]) -> Result<()> {
        let entry = self.post_umr(umr, wqe)?;
        match cq::check(&entry) {
            Err(Error::Completion { syndrome, .. })
                if CqeSyndrome(syndrome) == CqeSyndrome::WR_FLUSH_ERR => {}
            other => return broken(format!("in the error state a UMR ends with {other:?}")),
        }
        self.to_reset(&mut umr.qp)?;
        self.start_umr(&umr.qp, umr.pd)
    }

    /// The reverse of [`Self::create_umr`].
    pub fn destroy_umr(&mut self, umr: Umr) -> Result<()> {
        let Umr { pd, dma_key, cq, qp } = umr;
        self.destroy_qp(qp)?;
        self.destroy_cq(cq)?;
        self.destroy_mkey(dma_key)?;
        self.dealloc_pd(pd)
    }

    /// Writes a region's translations into a free key, and makes it usable.
    pub fn umr_enable(&mut self, umr: &mut Umr, key: u32, region: &Region) -> Result<()> {
        // An empty region takes one request too.
        let count = region.pages.len().div_ceil(CHUNK).max(1);
        let mut list = Vec::new();
        for n in 0..count {
            let pages = region.pages.chunks(CHUNK).nth(n).unwrap_or_default();
            list.clear();
            // Present, readable and writable.
            list.extend(pages.iter().flat_map(|page| (page | 3).to_be_bytes()));
            list.resize(list.len().next_multiple_of(GROUP), 0);
            let mut request = Request {
                key,
                flags: umr_flags::CHECK_NOT_FREE,
                mask: 0,
                offset: (n * CHUNK * MttEntry::SIZE / OCTWORD) as u64,
                mkc: [0; Mkc::SIZE],
                translations: &list,
            };
            if n > 0 {
                request.flags |= umr_flags::TRANSLATION_OFFSET_EN;
            }
            // The last one also says what the translations are for.
            if n + 1 == count {
                let geometry = mkey_mask::LEN | mkey_mask::PAGE_SIZE | mkey_mask::START_ADDR;
                let identity = mkey_mask::FREE | mkey_mask::KEY | mkey_mask::PD;
                request.mask = geometry | identity | ACCESS;
                let mut mkc = Mkc(&mut request.mkc[..]);
                region.access.fill(&mut mkc);
                mkc.set_qpn(0xff_ffff);
                mkc.set_mkey_7_0(key as u8);
                mkc.set_pd(region.pd);
                mkc.set_start_addr(region.start);
                mkc.set_len(region.len);
                mkc.set_length64(region.len == 0);
                mkc.set_log_page_size(region.log_page_size);
            }
            self.umr(umr, &request)?;
        }
        Ok(())
    }

    /// Makes a key free again.
    pub fn umr_revoke(&mut self, umr: &mut Umr, key: u32) -> Result<()> {
        let mut request = Request {
            key,
            flags: umr_flags::INLINE,
            mask: mkey_mask::PD | mkey_mask::FREE,
            offset: 0,
            mkc: [0; Mkc::SIZE],
            translations: &[],
        };
        let mut mkc = Mkc(&mut request.mkc[..]);
        mkc.set_free(true);
        mkc.set_pd(umr.pd);
        mkc.set_qpn(0xff_ffff);
        mkc.set_mkey_7_0(key as u8);
        self.umr(umr, &request)
    }

    /// Posts one work request and waits for its completion.
    fn umr(&mut self, umr: &mut Umr, request: &Request) -> Result<()> {
        let buffer = match request.translations.len() as u64 {
            0 => None,
            len => Some((self.memory.alloc(len)?, len)),
        };
        if let Some((at, _)) = buffer {
            self.port.memory().write(at, request.translations)?;
        }
        let wqe = wqe(request, umr.dma_key, buffer);
        let entry = self.post_umr(umr, &wqe)?;
        let result = cq::check(&entry);
        if result.is_err() {
            self.recover_umr(umr, &wqe)?;
        }
        if let Some((at, len)) = buffer {
            self.memory.free(at, len);
        }
        result
    }

    /// Posts a WQE and waits for its completion, which it judges but for success or failure.
    fn post_umr(&mut self, umr: &mut Umr, wqe: &[u8]) -> Result<[u8; Cqe64::SIZE]> {
        self.arm_cq(&mut umr.cq, Arm::Next)?;
        let index = self.post_send(&mut umr.qp, WqeOpcode::UMR, wqe)?;
        self.wait_cq_event(&mut umr.cq)?;
        let Some(entry) = self.poll_cq(&mut umr.cq)? else {
            return broken("an event of a completion queue that has no completion");
        };
        let cqe = Cqe64(&entry);
        let (sop, qpn, counter) = (cqe.sop(), cqe.qpn(), cqe.wqe_counter());
        if (WqeOpcode(sop), qpn, counter) != (WqeOpcode::UMR, umr.qp.qpn, index) {
            return broken(format!(
                "a completion of opcode {sop:#x}, queue pair {qpn:#x}, WQE {counter} for a UMR on \
                 queue pair {:#x}, WQE {index}",
                umr.qp.qpn
            ));
        }
        Ok(entry)
    }
}

fn wqe(request: &Request, dma_key: u32, buffer: Option<(u64, u64)>) -> Vec<u8> {
    let mut wqe = vec![0; WqeCtrlSeg::SIZE];
    let mut ctrl = WqeCtrlSeg(&mut wqe[..]);
    ctrl.set_fence(SMALL_FENCE);
    ctrl.set_umr_mkey(request.key);
    let mut bytes = [0; WqeUmrCtrlSeg::SIZE];
    let mut umr = WqeUmrCtrlSeg(&mut bytes[..]);
    umr.set_flags(request.flags);
    umr.set_xlt_octowords((request.translations.len() / OCTWORD) as u16);
    umr.set_xlt_offset(request.offset as u16);
    umr.set_xlt_offset_47_16((request.offset >> 16) as u32);
    umr.set_mkey_mask(request.mask);
    wqe.extend_from_slice(&bytes);
    wqe.extend_from_slice(&request.mkc);
    if let Some((at, len)) = buffer {
        wqe.extend_from_slice(&data_segment(dma_key, at, len as u32));
    }
    wqe
}
