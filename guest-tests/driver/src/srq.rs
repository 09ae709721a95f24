//! Shared receive queues, from the driver's side: those that every driver makes once and names in
//! its other queue pairs.

use layouts::{
    CreateRmpIn, CreateRmpOut, CreateXrcSrqIn, CreateXrcSrqOut, DestroyRmpIn, DestroyRmpOut,
    DestroyXrcSrqIn, DestroyXrcSrqOut, Opcode,
};

use crate::driver::Driver;
use crate::memory::PAGE;
use crate::port::{Port, Result};

/// WQEs in a queue, as a power of two, and bytes of one.
const LOG_SIZE: u8 = 2;
const LOG_STRIDE: u8 = 5;
/// log_rq_stride counts from 16 bytes on.
const LOG_STRIDE_UNIT: u8 = 4;
/// wq_type of a list that software links.
const LINKED_LIST: u8 = 0;
/// State of a pool that is to be ready.
const READY: u8 = 1;
const NO_USER_INDEX: u32 = 0xff_ffff;

/// Which command made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    XrcSrq,
    Rmp,
}

/// One shared receive queue.
#[derive(Debug)]
pub struct SharedReceiveQueue {
    /// Its number.
    pub srqn: u32,
    kind: Kind,
    at: u64,
    doorbell_record: u64,
}

impl<P: Port> Driver<P> {
    fn srq_memory(&mut self) -> Result<(u64, u64)> {
        let at = self.memory.alloc(PAGE)?;
        let doorbell_record = self.memory.alloc(PAGE)?;
        // Each WQE names the one behind it.
        for index in 0..1u16 << LOG_SIZE {
            let next = (index + 1) & ((1 << LOG_SIZE) - 1);
            let mut wqe = [0; 1 << LOG_STRIDE];
            layouts::WqeSrqNextSeg(&mut wqe[..]).set_next_wqe_index(next);
            self.port.memory().write(at + (u64::from(index) << LOG_STRIDE), &wqe)?;
        }
        self.port.memory().write(doorbell_record, &[0; 8])?;
        Ok((at, doorbell_record))
    }

    /// CREATE_XRC_SRQ.
    pub fn create_xrc_srq(&mut self, pd: u32, xrcd: u32, cqn: u32) -> Result<SharedReceiveQueue> {
        let (at, doorbell_record) = self.srq_memory()?;
        let mut input = vec![0; CreateXrcSrqIn::SIZE + 8];
        let mut view = CreateXrcSrqIn(&mut input[..]);
        view.set_pas(0, at);
        let mut srqc = view.xrc_srq_context_entry_mut();
        srqc.set_log_xrc_srq_size(LOG_SIZE);
        srqc.set_log_rq_stride(LOG_STRIDE - LOG_STRIDE_UNIT);
        srqc.set_xrcd(xrcd);
        srqc.set_cqn(cqn);
        srqc.set_pd(pd);
        srqc.set_user_index(NO_USER_INDEX);
        srqc.set_db_record_addr_h((doorbell_record >> 32) as u32);
        srqc.set_db_record_addr_l(doorbell_record as u32 >> 2);
        let reply = self.exec(Opcode::CREATE_XRC_SRQ, 0, input, CreateXrcSrqOut::SIZE)?;
        let srqn = CreateXrcSrqOut(&reply[..]).xrc_srqn();
        Ok(SharedReceiveQueue { srqn, kind: Kind::XrcSrq, at, doorbell_record })
    }

    /// CREATE_RMP.
    pub fn create_rmp(&mut self, pd: u32) -> Result<SharedReceiveQueue> {
        let (at, doorbell_record) = self.srq_memory()?;
        let mut input = vec![0; CreateRmpIn::SIZE + 8];
        let mut view = CreateRmpIn(&mut input[..]);
        let mut rmpc = view.ctx_mut();
        rmpc.set_state(READY);
        let mut wq = rmpc.wq_mut();
        wq.set_wq_type(LINKED_LIST);
        wq.set_pd(pd);
        wq.set_dbr_addr(doorbell_record);
        wq.set_log_wq_stride(LOG_STRIDE);
        wq.set_log_wq_sz(LOG_SIZE);
        wq.set_pas(0, at);
        let reply = self.exec(Opcode::CREATE_RMP, 0, input, CreateRmpOut::SIZE)?;
        let srqn = CreateRmpOut(&reply[..]).rmpn();
        Ok(SharedReceiveQueue { srqn, kind: Kind::Rmp, at, doorbell_record })
    }

    /// DESTROY_XRC_SRQ or DESTROY_RMP.
    pub fn destroy_srq(&mut self, srq: SharedReceiveQueue) -> Result<()> {
        match srq.kind {
            Kind::XrcSrq => {
                let mut input = [0; DestroyXrcSrqIn::SIZE];
                DestroyXrcSrqIn(&mut input[..]).set_xrc_srqn(srq.srqn);
                self.exec(Opcode::DESTROY_XRC_SRQ, 0, input, DestroyXrcSrqOut::SIZE)?;
            }
            Kind::Rmp => {
                let mut input = [0; DestroyRmpIn::SIZE];
                DestroyRmpIn(&mut input[..]).set_rmpn(srq.srqn);
                self.exec(Opcode::DESTROY_RMP, 0, input, DestroyRmpOut::SIZE)?;
            }
        }
        self.memory.free(srq.at, PAGE);
        self.memory.free(srq.doorbell_record, PAGE);
        Ok(())
    }
}
