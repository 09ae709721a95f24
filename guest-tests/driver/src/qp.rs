//! Queue pairs, from the driver's side.

use layouts::{
    CreateQpIn, CreateQpOut, DestroyQpIn, DestroyQpOut, Init2rtrQpIn, Init2rtrQpOut, Opcode,
    Qp2errIn, Qp2errOut, Qp2rstIn, Qp2rstOut, QpDoorbellRecord, QpState, QpType, Qpc, QueryQpIn,
    QueryQpOut, Rst2initQpIn, Rst2initQpOut, Rtr2rtsQpIn, Rtr2rtsQpOut, UAR_BF, WqeCtrlSeg,
    WqeDataSeg, WqeOpcode,
};

use crate::driver::Driver;
use crate::memory::PAGE;
use crate::port::{Error, Port, Result, broken};
use crate::uar;

/// Bytes of a send WQE basic block, as a power of two.
const LOG_WQEBB: u32 = 6;
const WQEBB: usize = 1 << LOG_WQEBB;
/// Units in which a WQE gives its size.
const DS: usize = 16;
/// log_rq_stride counts from 16 bytes on.
const LOG_STRIDE_UNIT: u8 = 4;
/// The two halves of a doorbell register are used in turn.
const DOORBELL_HALF: u16 = 0x100;
/// Kernel queue pairs: completions are told apart by queue pair number.
const NO_USER_INDEX: u32 = 0xff_ffff;
/// A completion with every work request.
const CE_ALWAYS: u8 = 2;
/// Values of rq_type.
const RQ_OWN: u8 = 0;
const RQ_SHARED: u8 = 1;
const RQ_NONE: u8 = 3;
/// pm_state MIGRATED: there is no alternate path.
const MIGRATED: u8 = 3;

/// What a queue pair receives with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Receive {
    /// Nothing.
    None,
    /// A queue of its own: sizes as powers of two, of WQEs and of bytes of one.
    Own {
        /// WQEs.
        log_size: u8,
        /// Bytes of a WQE.
        log_stride: u8,
    },
    /// A shared receive queue.
    Shared(u32),
}

/// What to make.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Kind of service.
    pub kind: QpType,
    /// Protection domain; the UMR queue pair gets it with RST2INIT.
    pub pd: u32,
    /// Doorbell page.
    pub uar: u32,
    /// Completion queues of sends and of receives.
    pub cqns: [u32; 2],
    /// Send queue's size in basic blocks, as a power of two.
    pub log_sq_size: u8,
    /// Receives.
    pub receive: Receive,
    /// A shared receive queue to name although it is not used, as the stock driver does.
    pub spare_srqn: u32,
}

/// One queue pair.
#[derive(Debug)]
pub struct QueuePair {
    /// Its number.
    pub qpn: u32,
    /// What it was made as.
    pub shape: Shape,
    at: u64,
    bytes: u64,
    doorbell_record: u64,
    /// Basic blocks that were posted.
    sq_producer: u16,
    /// Receives that were posted.
    rq_producer: u16,
    half: u16,
}

/// The other end of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Peer {
    /// Its queue pair.
    pub qpn: u32,
    /// Its port.
    pub lid: u16,
    /// The first packet sequence number that it sends with.
    pub psn: u32,
}

impl Shape {
    fn receive_bytes(&self) -> u64 {
        match self.receive {
            Receive::Own { log_size, log_stride } => 1 << (log_size + log_stride),
            _ => 0,
        }
    }

    fn fill(&self, qpc: &mut Qpc<&mut [u8]>) {
        qpc.set_st(self.kind.0);
        qpc.set_pm_state(MIGRATED);
        qpc.set_pd(self.pd);
        qpc.set_uar_page(self.uar);
        qpc.set_user_index(NO_USER_INDEX);
        qpc.set_log_sq_size(self.log_sq_size);
        let [send, receive] = self.cqns;
        qpc.set_cqn_snd(send);
        qpc.set_cqn_rcv(receive);
        qpc.set_srqn_rmpn_xrqn(self.spare_srqn);
        match self.receive {
            Receive::None => qpc.set_rq_type(RQ_NONE),
            Receive::Own { log_size, log_stride } => {
                qpc.set_rq_type(RQ_OWN);
                qpc.set_log_rq_size(log_size);
                qpc.set_log_rq_stride(log_stride - LOG_STRIDE_UNIT);
            }
            Receive::Shared(srqn) => {
                qpc.set_rq_type(RQ_SHARED);
                qpc.set_srqn_rmpn_xrqn(srqn);
            }
        }
    }
}

impl QueuePair {
    fn sq_at(&self) -> u64 {
        self.at + self.shape.receive_bytes()
    }

    /// Index that the next send WQE gets.
    pub fn next_send(&self) -> u16 {
        self.sq_producer
    }
}

impl<P: Port> Driver<P> {
    /// CREATE_QP.
    pub fn create_qp(&mut self, shape: Shape) -> Result<QueuePair> {
        let bytes = shape.receive_bytes() + (1u64 << (u32::from(shape.log_sq_size) + LOG_WQEBB));
        let at = self.memory.alloc(bytes)?;
        let doorbell_record = self.memory.alloc(PAGE)?;
        self.port.memory().write(doorbell_record, &[0; 8])?;
        let pages = bytes.div_ceil(PAGE);
        let mut input = vec![0; CreateQpIn::SIZE + 8 * pages as usize];
        let mut view = CreateQpIn(&mut input[..]);
        for page in 0..pages {
            view.set_pas(page as usize, at + page * PAGE);
        }
        let mut qpc = view.qpc_mut();
        shape.fill(&mut qpc);
        qpc.set_dbr_addr(doorbell_record);
        let reply = self.exec(Opcode::CREATE_QP, 0, input, CreateQpOut::SIZE)?;
        let qpn = CreateQpOut(&reply[..]).qpn();
        let (sq_producer, rq_producer) = (0, 0);
        Ok(QueuePair { qpn, shape, at, bytes, doorbell_record, sq_producer, rq_producer, half: 0 })
    }

    /// RST2INIT_QP.
    pub fn rst2init(&mut self, qp: &QueuePair, pd: u32, q_key: u32) -> Result<()> {
        let mut input = [0; Rst2initQpIn::SIZE];
        let mut view = Rst2initQpIn(&mut input[..]);
        view.set_qpn(qp.qpn);
        let mut qpc = view.qpc_mut();
        qpc.set_st(qp.shape.kind.0);
        qpc.set_pm_state(MIGRATED);
        qpc.set_pd(pd);
        qpc.set_q_key(q_key);
        qpc.set_rre(true);
        qpc.set_rwe(true);
        qpc.primary_address_path_mut().set_vhca_port_num(1);
        self.exec(Opcode::RST2INIT_QP, 0, input, Rst2initQpOut::SIZE)?;
        Ok(())
    }

    /// INIT2RTR_QP.
    pub fn init2rtr(&mut self, qp: &QueuePair, peer: Peer) -> Result<()> {
        let mut input = [0; Init2rtrQpIn::SIZE];
        let mut view = Init2rtrQpIn(&mut input[..]);
        view.set_qpn(qp.qpn);
        let mut qpc = view.qpc_mut();
        qpc.set_st(qp.shape.kind.0);
        qpc.set_pm_state(MIGRATED);
        // 4096 bytes, 1 GiB.
        qpc.set_mtu(5);
        qpc.set_log_msg_max(30);
        qpc.set_remote_qpn(peer.qpn);
        qpc.set_next_rcv_psn(peer.psn);
        qpc.set_log_rra_max(4);
        qpc.set_min_rnr_nak(12);
        qpc.set_rre(true);
        qpc.set_rwe(true);
        let mut path = qpc.primary_address_path_mut();
        path.set_rlid(peer.lid);
        path.set_vhca_port_num(1);
        self.exec(Opcode::INIT2RTR_QP, 0, input, Init2rtrQpOut::SIZE)?;
        Ok(())
    }

    /// RTR2RTS_QP, to send from `psn` on.
    pub fn rtr2rts(&mut self, qp: &QueuePair, psn: u32) -> Result<()> {
        let mut input = [0; Rtr2rtsQpIn::SIZE];
        let mut view = Rtr2rtsQpIn(&mut input[..]);
        view.set_qpn(qp.qpn);
        let mut qpc = view.qpc_mut();
        qpc.set_st(qp.shape.kind.0);
        qpc.set_pm_state(MIGRATED);
        qpc.set_next_send_psn(psn);
        qpc.set_log_sra_max(4);
        qpc.set_log_ack_req_freq(8);
        qpc.set_retry_count(7);
        qpc.set_rnr_retry(7);
        qpc.primary_address_path_mut().set_ack_timeout(14);
        self.exec(Opcode::RTR2RTS_QP, 0, input, Rtr2rtsQpOut::SIZE)?;
        Ok(())
    }

    /// 2ERR_QP: everything that was posted is flushed.
    pub fn to_error(&mut self, qp: &QueuePair) -> Result<()> {
        let mut input = [0; Qp2errIn::SIZE];
        Qp2errIn(&mut input[..]).set_qpn(qp.qpn);
        self.exec(Opcode::TOERR_QP, 0, input, Qp2errOut::SIZE)?;
        Ok(())
    }

    /// 2RST_QP: as it was made.
    pub fn to_reset(&mut self, qp: &mut QueuePair) -> Result<()> {
        let mut input = [0; Qp2rstIn::SIZE];
        Qp2rstIn(&mut input[..]).set_qpn(qp.qpn);
        self.exec(Opcode::TORST_QP, 0, input, Qp2rstOut::SIZE)?;
        qp.sq_producer = 0;
        qp.rq_producer = 0;
        self.port.memory().write(qp.doorbell_record, &[0; 8])?;
        Ok(())
    }

    /// State of a queue pair, as QUERY_QP says.
    pub fn qp_state(&mut self, qpn: u32) -> Result<QpState> {
        let mut input = [0; QueryQpIn::SIZE];
        QueryQpIn(&mut input[..]).set_qpn(qpn);
        let reply = self.exec(Opcode::QUERY_QP, 0, input, QueryQpOut::SIZE)?;
        Ok(QpState(QueryQpOut(&reply[..]).qpc().state()))
    }

    /// DESTROY_QP.
    pub fn destroy_qp(&mut self, qp: QueuePair) -> Result<()> {
        let mut input = [0; DestroyQpIn::SIZE];
        DestroyQpIn(&mut input[..]).set_qpn(qp.qpn);
        self.exec(Opcode::DESTROY_QP, 0, input, DestroyQpOut::SIZE)?;
        self.memory.free(qp.at, qp.bytes);
        self.memory.free(qp.doorbell_record, PAGE);
        Ok(())
    }

    /// Posts a send WQE, whose control segment is filled in except for what is particular to
    /// `opcode`, and rings. Returns the index that its completion will have.
    pub fn post_send(&mut self, qp: &mut QueuePair, opcode: WqeOpcode, wqe: &[u8]) -> Result<u16> {
        let index = qp.sq_producer;
        let size = wqe.len().div_ceil(DS);
        let mut wqe = wqe.to_vec();
        wqe.resize(wqe.len().next_multiple_of(WQEBB), 0);
        let mut ctrl = WqeCtrlSeg(&mut wqe[..]);
        ctrl.set_opcode(opcode.0);
        ctrl.set_wqe_index(index);
        ctrl.set_qpn(qp.qpn);
        ctrl.set_ds(size as u8);
        ctrl.set_ce(CE_ALWAYS);
        let slots = 1u32 << qp.shape.log_sq_size;
        for (n, block) in wqe.chunks(WQEBB).enumerate() {
            let slot = (u32::from(index) + n as u32) & (slots - 1);
            self.port.memory().write(qp.sq_at() + u64::from(slot) * WQEBB as u64, block)?;
        }
        let blocks = (wqe.len() / WQEBB) as u16;
        qp.sq_producer = index.wrapping_add(blocks);
        // The record first: it says how far the queue may be read when the doorbell rings.
        let mut record = [0; QpDoorbellRecord::SIZE];
        QpDoorbellRecord(&mut record[..]).set_snd(qp.sq_producer);
        self.port.memory().write(qp.doorbell_record + 4, &record[4..])?;
        let Some(doorbell) = wqe.first_chunk() else { return broken("an empty WQE") };
        let at = uar::register(qp.shape.uar, UAR_BF + usize::from(qp.half));
        qp.half ^= DOORBELL_HALF;
        self.port.write64(at, u64::from_be_bytes(*doorbell))?;
        Ok(index)
    }

    /// Posts a receive of `len` bytes at `addr` to the queue pair's own queue.
    pub fn post_receive(
        &mut self,
        qp: &mut QueuePair,
        lkey: u32,
        addr: u64,
        len: u32,
    ) -> Result<()> {
        let Receive::Own { log_size, log_stride } = qp.shape.receive else {
            return Err(Error::Transport("the queue pair has no receive queue".into()));
        };
        let slot = u64::from(qp.rq_producer) & ((1 << log_size) - 1);
        let segment = data_segment(lkey, addr, len);
        self.port.memory().write(qp.at + (slot << log_stride), &segment)?;
        if 1usize << log_stride > segment.len() {
            // A list that is shorter than the WQE ends with the key that is none.
            let end = data_segment(NO_KEY, 0, 0);
            self.port.memory().write(qp.at + (slot << log_stride) + segment.len() as u64, &end)?;
        }
        qp.rq_producer = qp.rq_producer.wrapping_add(1);
        let mut record = [0; QpDoorbellRecord::SIZE];
        QpDoorbellRecord(&mut record[..]).set_rcv(qp.rq_producer);
        self.port.memory().write(qp.doorbell_record, &record[..4])?;
        Ok(())
    }
}

/// Ends a list of data segments (MLX5_INVALID_LKEY).
const NO_KEY: u32 = 0x100;

/// A segment that names data.
pub fn data_segment(lkey: u32, addr: u64, len: u32) -> [u8; WqeDataSeg::SIZE] {
    let mut bytes = [0; WqeDataSeg::SIZE];
    let mut segment = WqeDataSeg(&mut bytes[..]);
    segment.set_byte_count(len);
    segment.set_lkey(lkey);
    segment.set_addr(addr);
    bytes
}
