//! PCI configuration space: bytes, and for each bit what a write does to it.
//!
//! What it does not have: vital product data, a vendor-specific capability, SR-IOV, an expansion ROM, INTx,
//! error reporting beyond the registers (vfio-user can't carry it to the guest).

mod registers;
#[cfg(test)]
mod tests;

use registers::{Register, TABLE, serial_number};

/// Size of configuration space in bytes.
pub const CONFIG_SIZE: usize = 4096;

/// Vectors in the MSI-X table.
pub const MSIX_VECTORS: u16 = 64;

/// Which BAR holds the MSI-X table and the pending bits.
pub const MSIX_BAR: u32 = 2;

/// Size of that BAR in bytes.
pub const MSIX_BAR_SIZE: u64 = 2 * PAGE;

/// Where in that BAR the pending bits are; the table is at 0. They have a page of their own, so that a client
/// can take over the table's page as a whole.
pub const MSIX_PENDING_AT: u64 = PAGE;

const PAGE: u64 = 4096;

/// Bytes that the MSI-X table takes.
const MSIX_TABLE_SIZE: u64 = MSIX_VECTORS as u64 * 16;

const _: () = assert!(MSIX_TABLE_SIZE <= MSIX_PENDING_AT && MSIX_BAR_SIZE.is_power_of_two());

/// The access does not lie within configuration space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("configuration space has no {len} bytes at {offset:#x}")]
pub struct OutOfRange {
    /// First byte of the access.
    pub offset: u64,
    /// Its length.
    pub len: usize,
}

/// What a write asked for beyond changing bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Effect {
    /// Nothing.
    None,
    /// Function-level reset.
    Reset,
}

/// Configuration space of one function.
#[derive(Debug)]
pub struct ConfigSpace {
    serial: u64,
    value: Box<[u8; CONFIG_SIZE]>,
    /// Bits that take the written value.
    writable: Box<[u8; CONFIG_SIZE]>,
    /// Bits that a written one clears.
    clearing: Box<[u8; CONFIG_SIZE]>,
}

impl ConfigSpace {
    /// As after power-on, with a PCI device serial number.
    pub fn new(serial: u64) -> Self {
        let mut space = Self {
            serial,
            value: Box::new([0; CONFIG_SIZE]),
            writable: Box::new([0; CONFIG_SIZE]),
            clearing: Box::new([0; CONFIG_SIZE]),
        };
        for register in TABLE {
            fill(&mut space.writable, register, register.writable);
            fill(&mut space.clearing, register, register.clearing);
        }
        space.reset();
        space
    }

    /// Every register gets its value after power-on.
    pub fn reset(&mut self) {
        let Self { serial, value, writable: _, clearing: _ } = self;
        value.fill(0);
        for register in TABLE {
            fill(value, register, register.reset);
        }
        for register in &serial_number(*serial) {
            fill(value, register, register.reset);
        }
    }

    /// Reads any part.
    pub fn read(&self, offset: u64, data: &mut [u8]) -> Result<(), OutOfRange> {
        let range = range(offset, data.len())?;
        data.copy_from_slice(&self.value[range]);
        Ok(())
    }

    /// Writes any part; bits that can't be written keep their value.
    pub fn write(&mut self, offset: u64, data: &[u8]) -> Result<Effect, OutOfRange> {
        let range = range(offset, data.len())?;
        let power = self.power_state();
        let mut effect = Effect::None;
        for (at, &new) in range.zip(data) {
            let (writable, clearing) = (self.writable[at], self.clearing[at]);
            let kept = self.value[at] & !writable & !(new & clearing);
            self.value[at] = kept | (new & writable);
            if at == registers::DEVICE_CONTROL_HIGH && new & registers::INITIATE_RESET != 0 {
                effect = Effect::Reset;
            }
        }
        // States that do not exist are not entered, says the power management specification.
        if !matches!(self.power_state(), registers::D0 | registers::D3_HOT) {
            self.value[registers::POWER_CONTROL] &= !registers::POWER_STATE;
            self.value[registers::POWER_CONTROL] |= power;
        }
        Ok(effect)
    }

    /// The function answers accesses to its BARs.
    pub fn memory_enabled(&self) -> bool {
        self.value[registers::COMMAND] & registers::MEMORY_ENABLE != 0 && self.awake()
    }

    /// The function may reach memory and send interrupts.
    pub fn bus_master(&self) -> bool {
        self.value[registers::COMMAND] & registers::BUS_MASTER != 0 && self.awake()
    }

    /// MSI-X is switched on.
    pub fn msix_enabled(&self) -> bool {
        self.value[registers::MSIX_CONTROL_HIGH] & registers::MSIX_ENABLE != 0
    }

    fn awake(&self) -> bool {
        self.power_state() == registers::D0
    }

    fn power_state(&self) -> u8 {
        self.value[registers::POWER_CONTROL] & registers::POWER_STATE
    }
}

/// Checks that an access lies within configuration space.
fn range(offset: u64, len: usize) -> Result<std::ops::Range<usize>, OutOfRange> {
    usize::try_from(offset)
        .ok()
        .and_then(|start| Some(start..start.checked_add(len)?))
        .filter(|range| range.end <= CONFIG_SIZE)
        .ok_or(OutOfRange { offset, len })
}

/// Puts a register's worth of bits where the register is.
fn fill(bytes: &mut [u8; CONFIG_SIZE], register: &Register, bits: u32) {
    let size = usize::from(register.size);
    bytes[register.at..register.at + size].copy_from_slice(&bits.to_le_bytes()[..size]);
}
