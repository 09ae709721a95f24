//! Small objects, from the driver's side.

use layouts::{
    AllocQCounterIn, AllocQCounterOut, AllocXrcdIn, AllocXrcdOut, CreateUctxIn, CreateUctxOut,
    DeallocQCounterIn, DeallocQCounterOut, DeallocXrcdIn, DeallocXrcdOut, DestroyUctxIn,
    DestroyUctxOut, Opcode,
};

use crate::driver::Driver;
use crate::port::{Port, Result};

impl<P: Port> Driver<P> {
    /// ALLOC_XRCD.
    pub fn alloc_xrcd(&mut self) -> Result<u32> {
        let reply = self.exec(Opcode::ALLOC_XRCD, 0, [0; AllocXrcdIn::SIZE], AllocXrcdOut::SIZE)?;
        Ok(AllocXrcdOut(&reply[..]).xrcd())
    }

    /// DEALLOC_XRCD.
    pub fn dealloc_xrcd(&mut self, xrcd: u32) -> Result<()> {
        let mut input = [0; DeallocXrcdIn::SIZE];
        DeallocXrcdIn(&mut input[..]).set_xrcd(xrcd);
        self.exec(Opcode::DEALLOC_XRCD, 0, input, DeallocXrcdOut::SIZE)?;
        Ok(())
    }

    /// ALLOC_Q_COUNTER for user context `uid`.
    pub fn alloc_q_counter(&mut self, uid: u16) -> Result<u8> {
        let mut input = [0; AllocQCounterIn::SIZE];
        AllocQCounterIn(&mut input[..]).set_uid(uid);
        let reply = self.exec(Opcode::ALLOC_Q_COUNTER, 0, input, AllocQCounterOut::SIZE)?;
        Ok(AllocQCounterOut(&reply[..]).counter_set_id())
    }

    /// DEALLOC_Q_COUNTER.
    pub fn dealloc_q_counter(&mut self, counter: u8) -> Result<()> {
        let mut input = [0; DeallocQCounterIn::SIZE];
        DeallocQCounterIn(&mut input[..]).set_counter_set_id(counter);
        self.exec(Opcode::DEALLOC_Q_COUNTER, 0, input, DeallocQCounterOut::SIZE)?;
        Ok(())
    }

    /// CREATE_UCTX.
    pub fn create_uctx(&mut self) -> Result<u16> {
        let reply =
            self.exec(Opcode::CREATE_UCTX, 0, [0; CreateUctxIn::SIZE], CreateUctxOut::SIZE)?;
        Ok(CreateUctxOut(&reply[..]).uid())
    }

    /// DESTROY_UCTX.
    pub fn destroy_uctx(&mut self, uid: u16) -> Result<()> {
        let mut input = [0; DestroyUctxIn::SIZE];
        DestroyUctxIn(&mut input[..]).set_uid(uid);
        self.exec(Opcode::DESTROY_UCTX, 0, input, DestroyUctxOut::SIZE)?;
        Ok(())
    }
}
