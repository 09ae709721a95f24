//! The registers that configuration space has. What is in no row reads as zero and can't be written.
//!
//! Where the capabilities lie follows what public listings of ConnectX-6 cards show; their details do not come from a
//! real card's dump but are a choice: what this function does, and nothing that it does not.

use super::{MSIX_BAR, MSIX_BAR_SIZE, MSIX_PENDING_AT, MSIX_VECTORS};

/// One register.
pub struct Register {
    /// Its first byte.
    pub at: usize,
    /// Its size in bytes, 1, 2 or 4.
    pub size: u8,
    /// Its value after reset.
    pub reset: u32,
    /// Bits that take the written value.
    pub writable: u32,
    /// Bits that a written one clears.
    pub clearing: u32,
}

const fn fixed(at: usize, size: u8, reset: u32) -> Register {
    Register { at, size, reset, writable: 0, clearing: 0 }
}

const fn plain(at: usize, size: u8, reset: u32, writable: u32) -> Register {
    Register { at, size, reset, writable, clearing: 0 }
}

const fn status(at: usize, size: u8, reset: u32, clearing: u32) -> Register {
    Register { at, size, reset, writable: 0, clearing }
}

/// Byte and bits of the command register.
pub const COMMAND: usize = 0x04;
pub const MEMORY_ENABLE: u8 = 1 << 1;
pub const BUS_MASTER: u8 = 1 << 2;

/// Byte and bits of the power management control register.
pub const POWER_CONTROL: usize = POWER + 4;
pub const POWER_STATE: u8 = 0b11;
pub const D0: u8 = 0;
pub const D3_HOT: u8 = 3;

/// Upper byte of device control and the bit that starts a function-level reset (it reads as 0).
pub const DEVICE_CONTROL_HIGH: usize = EXPRESS + 0x09;
pub const INITIATE_RESET: u8 = 1 << 7;

/// Upper byte of MSI-X message control and its enable bit.
pub const MSIX_CONTROL_HIGH: usize = MSIX + 3;
pub const MSIX_ENABLE: u8 = 1 << 7;

// Capabilities, in the order in which they are linked.
const EXPRESS: usize = 0x60;
const MSIX: usize = 0x9c;
const POWER: usize = 0x40;
const SERIAL: usize = 0x100;
const ERRORS: usize = 0x110;

const fn capability(at: usize, id: u32, next: usize) -> Register {
    fixed(at, 2, id | (next as u32) << 8)
}

const fn extended(at: usize, id: u32, version: u32, next: usize) -> Register {
    fixed(at, 4, id | version << 16 | (next as u32) << 20)
}

/// Lower half of a 64-bit prefetchable BAR.
const fn bar(number: usize, size: u64) -> Register {
    plain(0x10 + 4 * number, 4, 0b1100, !(size as u32 - 1))
}

/// Upper half of it.
const fn bar_high(number: usize) -> Register {
    plain(0x10 + 4 * number + 4, 4, 0, u32::MAX)
}

/// Uncorrectable errors that are named in the error registers.
const UNCORRECTABLE: u32 = 0x0017_f010;
/// Those of them that are fatal unless software says otherwise.
const FATAL: u32 = 0x0006_2010;
/// Correctable errors that are named there.
const CORRECTABLE: u32 = 0x31c1;

pub const TABLE: &[Register] = &[
    // Header.
    fixed(0x00, 2, 0x15b3),
    fixed(0x02, 2, 0x101b),
    // I/O does not exist and INTx neither: memory, bus master, parity response, SERR.
    plain(COMMAND, 2, 0, 0x0146),
    // There is a capability list; the error bits can be cleared.
    status(0x06, 2, 0x0010, 0xf900),
    // Revision.
    fixed(0x08, 1, 0),
    // Class: network controller, InfiniBand.
    fixed(0x09, 1, 0x00),
    fixed(0x0a, 1, 0x07),
    fixed(0x0b, 1, 0x02),
    // Cache line size means nothing on PCI Express but is writable.
    plain(0x0c, 1, 0, 0xff),
    bar(0, function::BAR0_SIZE),
    bar_high(0),
    bar(MSIX_BAR as usize, MSIX_BAR_SIZE),
    bar_high(MSIX_BAR as usize),
    // Subsystem: ours to choose; drivers do not look at it.
    fixed(0x2c, 2, 0x15b3),
    fixed(0x2e, 2, 0x0006),
    fixed(0x34, 1, EXPRESS as u32),
    // Interrupt line; the pin register says that there is none.
    plain(0x3c, 1, 0xff, 0xff),
    //
    // PCI Express capability, version 2, endpoint.
    capability(EXPRESS, 0x10, MSIX),
    fixed(EXPRESS + 0x02, 2, 0x0002),
    // Device capabilities: payload up to 512, extended tags, role-based errors, function-level reset.
    fixed(EXPRESS + 0x04, 4, 0x1000_8022),
    // Device control: relaxed ordering, no snoop, read requests of 512 bytes.
    plain(EXPRESS + 0x08, 2, 0x2810, 0x79ff),
    // Device status: the four kinds of error.
    status(EXPRESS + 0x0a, 2, 0, 0x000f),
    // Link capabilities: 16 GT/s, 16 lanes, no ASPM.
    fixed(EXPRESS + 0x0c, 4, 0x0040_0104),
    // Link control: read completion boundary, common clock, extended synch.
    plain(EXPRESS + 0x10, 2, 0, 0x00c8),
    // Link status: 16 GT/s, 16 lanes, slot clock.
    fixed(EXPRESS + 0x12, 2, 0x1104),
    // Device capabilities 2: completion timeout ranges A to D, can be disabled.
    fixed(EXPRESS + 0x24, 4, 0x0000_001f),
    // Device control 2: completion timeout, atomic requests.
    plain(EXPRESS + 0x28, 2, 0, 0x005f),
    // Link capabilities 2: 2.5, 5, 8 and 16 GT/s.
    fixed(EXPRESS + 0x2c, 4, 0x0000_001e),
    // Link control 2: target speed 16 GT/s.
    plain(EXPRESS + 0x30, 2, 0x0004, 0x000f),
    // Link status 2: equalization has succeeded.
    fixed(EXPRESS + 0x32, 2, 0x001e),
    //
    // MSI-X capability: enable and function mask are writable.
    capability(MSIX, 0x11, POWER),
    plain(MSIX + 2, 2, MSIX_VECTORS as u32 - 1, 0xc000),
    fixed(MSIX + 4, 4, MSIX_BAR),
    fixed(MSIX + 8, 4, MSIX_PENDING_AT as u32 | MSIX_BAR),
    //
    // Power management, version 3: D0 and D3hot, no PME; going back to D0 loses nothing.
    capability(POWER, 0x01, 0),
    fixed(POWER + 2, 2, 0x0003),
    plain(POWER_CONTROL, 2, 0x0008, 0x0003),
    //
    // Extended: device serial number (its value is below).
    extended(SERIAL, 0x0003, 1, ERRORS),
    //
    // Advanced error reporting, version 2: status, mask, severity; correctable status and mask.
    extended(ERRORS, 0x0001, 2, 0),
    status(ERRORS + 0x04, 4, 0, UNCORRECTABLE),
    plain(ERRORS + 0x08, 4, 0, UNCORRECTABLE),
    plain(ERRORS + 0x0c, 4, FATAL, UNCORRECTABLE),
    status(ERRORS + 0x10, 4, 0, CORRECTABLE),
    plain(ERRORS + 0x14, 4, 0x2000, CORRECTABLE),
];

/// The registers that differ from function to function.
pub fn serial_number(serial: u64) -> [Register; 2] {
    [fixed(SERIAL + 4, 4, serial as u32), fixed(SERIAL + 8, 4, (serial >> 32) as u32)]
}
