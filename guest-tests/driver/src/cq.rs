//! Completion queues, from the driver's side.

use layouts::{
    CqDoorbell, Cqe64, CqeOpcode, CreateCqIn, CreateCqOut, DestroyCqIn, DestroyCqOut, Opcode,
    QueryCqIn, QueryCqOut, UAR_CQ_ARM,
};

use crate::driver::Driver;
use crate::memory::PAGE;
use crate::port::{Port, Result, broken};
use crate::uar;

const ENTRY: u64 = Cqe64::SIZE as u64;
const OP_OWN_AT: u64 = ENTRY - 1;
/// What an entry ends with that was never written: opcode INVALID, owned by the card.
const NEVER_WRITTEN: u8 = 0xf1;

/// One completion queue.
#[derive(Debug)]
pub struct CompletionQueue {
    /// Its number.
    pub cqn: u32,
    uar: u32,
    log_size: u8,
    at: u64,
    doorbell_record: u64,
    consumer: u32,
    arm_sn: u8,
}

/// Whether to be told of every completion or only of solicited ones and errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arm {
    /// The next one.
    Next,
    /// The next solicited one or error.
    Solicited,
}

impl<P: Port> Driver<P> {
    /// CREATE_CQ: 64-byte entries that are reported to event queue `eqn`.
    pub fn create_cq(&mut self, uar: u32, eqn: u8, log_size: u8) -> Result<CompletionQueue> {
        let bytes = ENTRY << log_size;
        let at = self.memory.alloc(bytes)?;
        let doorbell_record = self.memory.alloc(PAGE)?;
        for entry in 0..1u64 << log_size {
            self.port.memory().write(at + entry * ENTRY + OP_OWN_AT, &[NEVER_WRITTEN])?;
        }
        self.port.memory().write(doorbell_record, &[0; 8])?;
        let pages = bytes.div_ceil(PAGE);
        let mut input = vec![0; CreateCqIn::SIZE + 8 * pages as usize];
        let mut view = CreateCqIn(&mut input[..]);
        for page in 0..pages {
            view.set_pas(page as usize, at + page * PAGE);
        }
        let mut cqc = view.cq_context_mut();
        cqc.set_log_cq_size(log_size);
        cqc.set_uar_page(uar);
        cqc.set_c_eqn_or_apu_element(eqn.into());
        cqc.set_dbr_addr(doorbell_record);
        let reply = self.exec(Opcode::CREATE_CQ, 0, input, CreateCqOut::SIZE)?;
        let cqn = CreateCqOut(&reply[..]).cqn();
        Ok(CompletionQueue { cqn, uar, log_size, at, doorbell_record, consumer: 0, arm_sn: 0 })
    }

    /// The next completion, if the card has written one.
    pub fn poll_cq(&mut self, cq: &mut CompletionQueue) -> Result<Option<[u8; Cqe64::SIZE]>> {
        let slot = u64::from(cq.consumer) & ((1 << cq.log_size) - 1);
        let at = cq.at + slot * ENTRY;
        let mut last = [0; Cqe64::SIZE];
        let memory = self.port.memory();
        memory.read(at + OP_OWN_AT, &mut last[OP_OWN_AT as usize..])?;
        let pass = cq.consumer >> cq.log_size & 1 == 1;
        let view = Cqe64(&last[..]);
        if CqeOpcode(view.opcode()) == CqeOpcode::INVALID || view.owner() != pass {
            return Ok(None);
        }
        // Only now: the last byte is written last.
        let mut entry = [0; Cqe64::SIZE];
        memory.read(at, &mut entry)?;
        cq.consumer = (cq.consumer + 1) & uar::INDEX_MASK;
        memory.write(cq.doorbell_record, &cq.consumer.to_be_bytes())?;
        Ok(Some(entry))
    }

    /// Asks for an event when there is a completion.
    pub fn arm_cq(&mut self, cq: &mut CompletionQueue, what: Arm) -> Result<()> {
        let mut words = [0; CqDoorbell::SIZE];
        let mut doorbell = CqDoorbell(&mut words[..]);
        doorbell.set_sn(cq.arm_sn & 3);
        doorbell.set_solicited(what == Arm::Solicited);
        doorbell.set_ci(cq.consumer);
        doorbell.set_cqn(cq.cqn);
        // The record first, the same word as the doorbell's upper half: the card reads it when the
        // doorbell rings.
        self.port.memory().write(cq.doorbell_record + 4, &words[..4])?;
        self.port.write64(uar::register(cq.uar, UAR_CQ_ARM), u64::from_be_bytes(words))
    }

    /// Waits for the event of a queue that was armed.
    pub fn wait_cq_event(&mut self, cq: &mut CompletionQueue) -> Result<()> {
        let cqn = cq.cqn;
        self.wait(&format!("an event of completion queue {cqn}"), |driver| {
            driver.service()?;
            let at = driver.completions.iter().position(|&done| done == cqn);
            Ok(at.map(|at| driver.completions.remove(at)))
        })?;
        cq.arm_sn = cq.arm_sn.wrapping_add(1);
        Ok(())
    }

    /// QUERY_CQ; the reply.
    pub fn query_cq(&mut self, cqn: u32) -> Result<Vec<u8>> {
        let mut input = [0; QueryCqIn::SIZE];
        QueryCqIn(&mut input[..]).set_cqn(cqn);
        self.exec(Opcode::QUERY_CQ, 0, input, QueryCqOut::SIZE)
    }

    /// DESTROY_CQ.
    pub fn destroy_cq(&mut self, cq: CompletionQueue) -> Result<()> {
        let mut input = [0; DestroyCqIn::SIZE];
        DestroyCqIn(&mut input[..]).set_cqn(cq.cqn);
        self.exec(Opcode::DESTROY_CQ, 0, input, DestroyCqOut::SIZE)?;
        self.service()?;
        self.completions.retain(|&done| done != cq.cqn);
        self.memory.free(cq.at, ENTRY << cq.log_size);
        self.memory.free(cq.doorbell_record, PAGE);
        Ok(())
    }
}

/// The completion's error, if it is one.
pub fn check(entry: &[u8]) -> Result<()> {
    let view = Cqe64(entry);
    match CqeOpcode(view.opcode()) {
        CqeOpcode::REQ_ERR | CqeOpcode::RESP_ERR => Err(crate::Error::Completion {
            syndrome: layouts::ErrCqe(entry).syndrome(),
            vendor: layouts::ErrCqe(entry).vendor_err_synd(),
        }),
        CqeOpcode::REQ => Ok(()),
        other => broken(format!("a completion with opcode {other}")),
    }
}
