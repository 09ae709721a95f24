//! From power-on to a function that objects can be made on, and back: what the core driver does.

use layouts::{
    AccessRegisterIn, CapType, CmdHcaCap, DisableHcaIn, DisableHcaOut, EnableHcaIn, EnableHcaOut,
    EventType, InitHcaIn, InitHcaOut, Opcode, QueryAdapterIn, QueryAdapterOut, QueryHcaCapIn,
    QueryIssiIn, QueryIssiOut, RegisterId, SetDriverVersionIn, SetDriverVersionOut, SetHcaCapIn,
    SetHcaCapOut, SetIssiIn, SetIssiOut, TeardownHcaIn, TeardownHcaOut,
};

use crate::command::Commands;
use crate::driver::Driver;
use crate::eq::{self, log_size};
use crate::memory::PAGE;
use crate::pages::Stage;
use crate::port::{Port, Result, broken};

/// Registers of the initialization segment.
mod register {
    pub const CMDIF_REV: u64 = 0x004;
    pub const CMDQ_ADDR_H: u64 = 0x010;
    pub const CMDQ_ADDR_L: u64 = 0x014;
    pub const DOORBELL: u64 = 0x018;
    pub const INITIALIZING: u64 = 0x1fc;
    pub const HEALTH_FW_VERSION: u64 = 0x230;
    pub const HEALTH_SYNDROME: u64 = 0x23c;
    pub const TIMER_H: u64 = 0x1000;
    pub const TIMER_L: u64 = 0x1004;
    pub const HEALTH_COUNTER: u64 = 0x1010;
}

/// Version of the command interface that this driver speaks.
const CMDIF_REV: u16 = 5;
/// Bytes of one capability type in a reply.
const CAP_SIZE: usize = 0x1000;
/// Where data begins in commands that carry a block of it.
const DATA_AT: usize = 0x10;
/// The most queue pairs that a driver asks for, as a power of two.
const LOG_MAX_QP: u8 = 18;
const MAXIMUM: u16 = 0;
const CURRENT: u16 = 1;
/// ACCESS_REG's operation modifiers.
const WRITE: u16 = 0;
const READ: u16 = 1;

/// What a function that runs is known by.
#[derive(Debug, Clone)]
pub struct Core {
    /// The core driver's doorbell page.
    pub uar: u32,
    /// Event queues: of commands, asynchronous events, page requests.
    pub eqs: [u8; 3],
    /// General capabilities as they are set.
    pub caps: Vec<u8>,
}

impl Core {
    /// The general capabilities' fields.
    pub fn caps(&self) -> CmdHcaCap<&[u8]> {
        CmdHcaCap(&self.caps)
    }
}

impl<P: Port> Driver<P> {
    /// Everything up to and including the event queues.
    pub fn boot(&mut self) -> Result<Core> {
        self.wait_fw_init()?;
        self.set_up_queue()?;
        self.enable_hca()?;
        self.negotiate_issi()?;
        self.satisfy(Stage::Boot)?;
        self.set_host_endianness()?;
        self.set_capabilities()?;
        self.satisfy(Stage::Init)?;
        self.exec(Opcode::INIT_HCA, 0, [0; InitHcaIn::SIZE], InitHcaOut::SIZE)?;
        let caps = self.query_caps(CapType::GENERAL, CURRENT)?;
        if CmdHcaCap(&caps).driver_version() {
            self.set_driver_version("Linux,mlx5_core,6.12.0")?;
        }
        if CmdHcaCap(&caps).hca_cap_2() {
            self.query_caps(CapType::GENERAL_2, CURRENT)?;
        }
        self.exec(Opcode::QUERY_ADAPTER, 0, [0; QueryAdapterIn::SIZE], QueryAdapterOut::SIZE)?;
        let uar = self.alloc_uar()?;
        let command = self.create_eq(uar, 0, log_size::COMMAND, &[EventType::CMD])?;
        self.by_event = true;
        let asynchronous = self.create_eq(uar, 0, log_size::ASYNC, eq::ASYNC_EVENTS)?;
        let pages = self.create_eq(uar, 0, log_size::PAGES, &[EventType::PAGE_REQUEST])?;
        Ok(Core { uar, eqs: [command, asynchronous, pages], caps })
    }

    /// Everything that [`Self::boot`] did, in reverse. The card is as after power-on.
    pub fn shut_down(&mut self, core: Core) -> Result<()> {
        let [command, asynchronous, pages] = core.eqs;
        self.destroy_eq(pages)?;
        self.destroy_eq(asynchronous)?;
        // The queue can't report its own end.
        self.use_polling();
        self.destroy_eq(command)?;
        self.dealloc_uar(core.uar)?;
        self.exec(Opcode::TEARDOWN_HCA, 0, [0; TeardownHcaIn::SIZE], TeardownHcaOut::SIZE)?;
        self.reclaim_pages()?;
        self.exec(Opcode::DISABLE_HCA, 0, [0; DisableHcaIn::SIZE], DisableHcaOut::SIZE)?;
        if let Some(commands) = self.commands.take() {
            commands.release(&mut self.memory);
        }
        Ok(())
    }

    fn read(&mut self, register: u64) -> Result<u32> {
        self.port.read32(register)
    }

    /// Waits until the firmware has started.
    pub fn wait_fw_init(&mut self) -> Result<()> {
        self.wait("the firmware to start", |driver| {
            let word = driver.read(register::INITIALIZING)?;
            Ok((word >> 31 == 0).then_some(()))
        })?;
        if self.read(register::HEALTH_FW_VERSION)? == u32::MAX {
            return broken("the firmware version reads all ones: the card is off the bus");
        }
        Ok(())
    }

    /// Gives the card a command queue.
    pub fn set_up_queue(&mut self) -> Result<()> {
        let rev = (self.read(register::CMDIF_REV)? >> 16) as u16;
        if rev != CMDIF_REV {
            return broken(format!("command interface revision {rev}"));
        }
        let shape = self.read(register::CMDQ_ADDR_L)? & 0xff;
        if shape != 0x56 {
            return broken(format!(
                "command queue of shape {shape:#x} instead of 32 entries of 64"
            ));
        }
        let queue = self.memory.alloc(PAGE)?;
        self.port.memory().write(queue, &[0; PAGE as usize])?;
        self.port.write32(register::CMDQ_ADDR_H, (queue >> 32) as u32)?;
        self.port.write32(register::CMDQ_ADDR_L, queue as u32)?;
        self.commands = Some(Commands::new(queue));
        self.wait_fw_init()
    }

    pub(crate) fn ring_command_doorbell(&mut self, slots: u32) -> Result<()> {
        self.port.write32(register::DOORBELL, slots)
    }

    /// Whether the card says that it is well, and its health counter.
    pub fn health(&mut self) -> Result<(bool, u32)> {
        let syndrome = self.read(register::HEALTH_SYNDROME)? >> 16 & 0xff;
        Ok((syndrome == 0, self.read(register::HEALTH_COUNTER)?))
    }

    /// The internal timer, as a driver reads it.
    pub fn timer(&mut self) -> Result<u64> {
        self.wait("the upper half of the timer to stand still", |driver| {
            let high = driver.read(register::TIMER_H)?;
            let low = driver.read(register::TIMER_L)?;
            let again = driver.read(register::TIMER_H)?;
            Ok((high == again).then_some(u64::from(high) << 32 | u64::from(low)))
        })
    }

    /// ENABLE_HCA.
    pub fn enable_hca(&mut self) -> Result<()> {
        self.exec(Opcode::ENABLE_HCA, 0, [0; EnableHcaIn::SIZE], EnableHcaOut::SIZE)?;
        Ok(())
    }

    /// QUERY_ISSI, and SET_ISSI if the card knows step 1.
    pub fn negotiate_issi(&mut self) -> Result<()> {
        let reply = self.exec(Opcode::QUERY_ISSI, 0, [0; QueryIssiIn::SIZE], QueryIssiOut::SIZE)?;
        if QueryIssiOut(&reply[..]).supported_issi_dw0() & 1 << 1 == 0 {
            return broken("interface step sequence 1 is not supported");
        }
        let mut input = [0; SetIssiIn::SIZE];
        SetIssiIn(&mut input[..]).set_current_issi(1);
        self.exec(Opcode::SET_ISSI, 0, input, SetIssiOut::SIZE)?;
        Ok(())
    }

    fn set_host_endianness(&mut self) -> Result<()> {
        self.access_register(RegisterId::HOST_ENDIANNESS, WRITE, &[0; 16])?;
        Ok(())
    }

    fn access_register(&mut self, id: RegisterId, op_mod: u16, data: &[u8]) -> Result<Vec<u8>> {
        let mut input = vec![0; DATA_AT];
        AccessRegisterIn(&mut input[..]).set_register_id(id.0);
        input.extend_from_slice(data);
        let outlen = input.len();
        let mut reply = self.exec(Opcode::ACCESS_REG, op_mod, input, outlen)?;
        Ok(reply.split_off(DATA_AT))
    }

    /// Reads a register of `data`'s size; `data` says what of it.
    pub fn read_register(&mut self, id: RegisterId, data: &[u8]) -> Result<Vec<u8>> {
        self.access_register(id, READ, data)
    }

    /// QUERY_HCA_CAP: one type, its maximum (0) or current (1) values.
    pub fn query_caps(&mut self, kind: CapType, which: u16) -> Result<Vec<u8>> {
        let outlen = DATA_AT + CAP_SIZE;
        let op_mod = kind.0 << 1 | which;
        let mut reply =
            self.exec(Opcode::QUERY_HCA_CAP, op_mod, [0; QueryHcaCapIn::SIZE], outlen)?;
        Ok(reply.split_off(DATA_AT))
    }

    /// SET_HCA_CAP.
    pub fn set_caps(&mut self, kind: CapType, caps: &[u8]) -> Result<()> {
        let mut input = vec![0; DATA_AT];
        SetHcaCapIn(&mut input[..]).set_op_mod(kind.0 << 1);
        input.extend_from_slice(caps);
        self.exec(Opcode::SET_HCA_CAP, kind.0 << 1, input, SetHcaCapOut::SIZE)?;
        Ok(())
    }

    /// What the stock driver changes in the general capabilities; and the second set, which it
    /// only reads.
    fn set_capabilities(&mut self) -> Result<()> {
        let mut caps = self.query_caps(CapType::GENERAL, CURRENT)?;
        let max = self.query_caps(CapType::GENERAL, MAXIMUM)?;
        let max = CmdHcaCap(&max[..]);
        let mut view = CmdHcaCap(&mut caps[..]);
        view.set_pkey_table_size(0);
        view.set_log_max_qp(max.log_max_qp().min(LOG_MAX_QP));
        view.set_cmdif_checksum(0);
        view.set_log_uar_page_sz(0);
        self.set_caps(CapType::GENERAL, &caps)?;
        if max.hca_cap_2() {
            self.query_caps(CapType::GENERAL_2, CURRENT)?;
            self.query_caps(CapType::GENERAL_2, MAXIMUM)?;
        }
        Ok(())
    }

    fn set_driver_version(&mut self, version: &str) -> Result<()> {
        let mut input = [0; SetDriverVersionIn::SIZE];
        input[DATA_AT..DATA_AT + version.len()].copy_from_slice(version.as_bytes());
        self.exec(Opcode::SET_DRIVER_VERSION, 0, input, SetDriverVersionOut::SIZE)?;
        Ok(())
    }
}
