//! What the RDMA driver does on a function that runs, up to a device that programs can open; and
//! the registration of memory on it.

use layouts::{Opcode, QpType, QuerySpecialContextsIn, QuerySpecialContextsOut};

use crate::boot::Core;
use crate::cq::CompletionQueue;
use crate::driver::Driver;
use crate::eq::log_size;
use crate::mkey::Region;
use crate::port::{Port, Result};
use crate::qp::{Peer, QueuePair, Receive, Shape};
use crate::srq::SharedReceiveQueue;
use crate::umr::Umr;
use crate::vport::PortInfo;

/// User context of objects that all users share.
const SHARED_UID: u16 = 0xffff;
/// Q_Key of queue pair 1 (IBA 3.5.3); queue pair 0 has none.
const GSI_QKEY: u32 = 0x8001_0000;
/// Sizes of the queues of management datagrams, as powers of two.
const LOG_MAD_CQ: u8 = 10;
const LOG_MAD_SQ: u8 = 9;
const LOG_MAD_RQ: u8 = 9;
const LOG_MAD_RECEIVE: u8 = 6;
/// A completion queue that only has to exist.
const LOG_SMALL_CQ: u8 = 1;

/// A device that programs can open.
#[derive(Debug)]
pub struct RdmaDevice {
    /// The core driver's part.
    pub core: Core,
    /// What the port is known by.
    pub port: PortInfo,
    /// The event queue for completions.
    pub completion_eqn: u8,
    /// A doorbell page for queues.
    pub uar: u32,
    uid: Option<u16>,
    counter: Option<u8>,
    /// The objects that other objects name when they need none of their own.
    shared: Shared,
    mad: Mad,
    umr: Option<Umr>,
    /// Keys that are free, by the number of translations that they have room for.
    cached: Vec<(u64, u32)>,
}

#[derive(Debug)]
struct Shared {
    pd: u32,
    dma_key: u32,
    xrcds: [u32; 2],
    cq: CompletionQueue,
    xrc_srq: SharedReceiveQueue,
    rmp: SharedReceiveQueue,
}

/// Queue pairs 0 and 1.
#[derive(Debug)]
struct Mad {
    pd: u32,
    dma_key: u32,
    cq: CompletionQueue,
    qps: [QueuePair; 2],
}

/// How a region was registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registered {
    /// The key.
    pub key: u32,
    /// How many translations it has room for, if it can go back to the cache.
    capacity: Option<u64>,
}

impl RdmaDevice {
    /// A shared receive queue to name in queue pairs that do not use it.
    pub fn spare_srqn(&self) -> u32 {
        self.shared.rmp.srqn
    }

    fn uses_umr(&self) -> bool {
        !self.core.caps().umr_modify_entity_size_disabled()
    }
}

impl<P: Port> Driver<P> {
    /// From power-on to a device that programs can open.
    pub fn power_on(&mut self) -> Result<RdmaDevice> {
        let core = self.boot()?;
        self.bring_up(core)
    }

    /// What the RDMA driver does on top of the core driver.
    pub fn bring_up(&mut self, core: Core) -> Result<RdmaDevice> {
        let caps = core.caps();
        if caps.terminate_scatter_list_mkey() || caps.dump_fill_mkey() || caps.null_mkey() {
            let input = [0; QuerySpecialContextsIn::SIZE];
            let outlen = QuerySpecialContextsOut::SIZE;
            self.exec(Opcode::QUERY_SPECIAL_CONTEXTS, 0, input, outlen)?;
        }
        self.node_description()?;
        self.query_vport_context()?;
        let xrcds = [self.alloc_xrcd()?, self.alloc_xrcd()?];
        let uid = match caps.log_max_uctx() {
            0 => None,
            _ => Some(self.create_uctx()?),
        };
        let shared_uid = if uid.is_some() { SHARED_UID } else { 0 };
        let counter = match caps.max_qp_cnt() {
            0 => None,
            _ => Some(self.alloc_q_counter(shared_uid)?),
        };
        let uar = self.alloc_uar()?;
        let port = self.query_port()?;
        let completion_eqn =
            self.create_completion_eq(core.uar, 1, log_size::COMPLETION, shared_uid)?;
        let shared = self.create_shared(core.uar, completion_eqn, xrcds)?;
        let mad = self.create_mad(&core, completion_eqn, shared.rmp.srqn)?;
        Ok(RdmaDevice {
            core,
            port,
            completion_eqn,
            uar,
            uid,
            counter,
            shared,
            mad,
            umr: None,
            cached: Vec::new(),
        })
    }

    /// Everything that [`Self::power_on`] did, in reverse.
    pub fn power_off(&mut self, device: RdmaDevice) -> Result<()> {
        let core = self.bring_down(device)?;
        self.shut_down(core)
    }

    /// Everything that [`Self::bring_up`] did, in reverse.
    pub fn bring_down(&mut self, device: RdmaDevice) -> Result<Core> {
        let RdmaDevice {
            core,
            port: _,
            completion_eqn,
            uar,
            uid,
            counter,
            shared,
            mad,
            umr,
            cached,
        } = device;
        let Mad { pd, dma_key, cq, qps } = mad;
        for qp in qps {
            self.to_error(&qp)?;
            self.destroy_qp(qp)?;
        }
        self.destroy_cq(cq)?;
        self.destroy_mkey(dma_key)?;
        self.dealloc_pd(pd)?;
        if let Some(uid) = uid {
            self.destroy_uctx(uid)?;
        }
        for (_, key) in cached {
            self.destroy_mkey(key)?;
        }
        if let Some(umr) = umr {
            self.destroy_umr(umr)?;
        }
        self.dealloc_uar(uar)?;
        if let Some(counter) = counter {
            self.dealloc_q_counter(counter)?;
        }
        let Shared { pd, dma_key, xrcds, cq, xrc_srq, rmp } = shared;
        self.destroy_srq(rmp)?;
        self.destroy_srq(xrc_srq)?;
        for xrcd in xrcds {
            self.dealloc_xrcd(xrcd)?;
        }
        self.destroy_cq(cq)?;
        self.destroy_mkey(dma_key)?;
        self.dealloc_pd(pd)?;
        self.destroy_eq(completion_eqn)?;
        Ok(core)
    }

    fn create_shared(&mut self, uar: u32, eqn: u8, xrcds: [u32; 2]) -> Result<Shared> {
        let pd = self.alloc_pd()?;
        let dma_key = self.create_dma_key(pd)?;
        let cq = self.create_cq(uar, eqn, LOG_SMALL_CQ)?;
        let [xrcd, _] = xrcds;
        let xrc_srq = self.create_xrc_srq(pd, xrcd, cq.cqn)?;
        let rmp = self.create_rmp(pd)?;
        Ok(Shared { pd, dma_key, xrcds, cq, xrc_srq, rmp })
    }

    fn create_mad(&mut self, core: &Core, eqn: u8, spare_srqn: u32) -> Result<Mad> {
        let pd = self.alloc_pd()?;
        let dma_key = self.create_dma_key(pd)?;
        let cq = self.create_cq(core.uar, eqn, LOG_MAD_CQ)?;
        let mut shape = Shape {
            kind: QpType::QP0,
            pd,
            uar: core.uar,
            cqns: [cq.cqn; 2],
            log_sq_size: LOG_MAD_SQ,
            receive: Receive::Own { log_size: LOG_MAD_RQ, log_stride: LOG_MAD_RECEIVE },
            spare_srqn,
        };
        let smi = self.create_qp(shape)?;
        shape.kind = QpType::QP1;
        let gsi = self.create_qp(shape)?;
        for (qp, q_key) in [(&smi, 0), (&gsi, GSI_QKEY)] {
            self.rst2init(qp, pd, q_key)?;
            self.init2rtr(qp, Peer { qpn: 0, lid: 0, psn: 0 })?;
            self.rtr2rts(qp, 0)?;
        }
        Ok(Mad { pd, dma_key, cq, qps: [smi, gsi] })
    }

    /// Registers memory the way the card's capabilities ask for: by work request on a key from the
    /// cache, or by one command.
    pub fn register(&mut self, device: &mut RdmaDevice, region: &Region) -> Result<Registered> {
        if !device.uses_umr() {
            return Ok(Registered { key: self.create_mtt_key(region)?, capacity: None });
        }
        let wanted = (region.pages.len() as u64).next_power_of_two().max(4);
        let spare_srqn = device.spare_srqn();
        let umr = match &mut device.umr {
            Some(umr) => umr,
            none => none.insert(self.create_umr(device.uar, device.completion_eqn, spare_srqn)?),
        };
        let hit = device.cached.iter().position(|&(capacity, _)| capacity == wanted);
        let key = match hit {
            Some(at) => device.cached.swap_remove(at).1,
            None => self.create_free_key(umr.pd, wanted)?,
        };
        if let Err(error) = self.umr_enable(umr, key, region) {
            self.destroy_mkey(key)?;
            return Err(error);
        }
        Ok(Registered { key, capacity: Some(wanted) })
    }

    /// Ends a registration: the key goes back to the cache, or is destroyed.
    pub fn deregister(&mut self, device: &mut RdmaDevice, registered: Registered) -> Result<()> {
        match (registered.capacity, &mut device.umr) {
            (Some(capacity), Some(umr)) => {
                self.umr_revoke(umr, registered.key)?;
                device.cached.push((capacity, registered.key));
                Ok(())
            }
            _ => self.destroy_mkey(registered.key),
        }
    }
}
