//! The initialization segment: the registers at the start of BAR0.

use layouts::{HealthBuffer, InitialSegment, LayoutInfo};
use probe::Probe;

use crate::entry::{LOG_SLOTS, LOG_STRIDE};

/// Size in bytes.
pub const SEGMENT_SIZE: usize = InitialSegment::SIZE;

/// Version of the command interface; drivers refuse another.
const CMDIF_REV: u16 = 5;
/// The health counter's period. Drivers look at it every two seconds and expect it to have moved.
const HEALTH_PERIOD_NS: u64 = 10_000_000;
/// The registers that a driver writes: address of the command queue and doorbell.
const WRITABLE: std::ops::Range<usize> = 0x10..0x1c;

/// Of `nic_interface` (`MLX5_INITIAL_SEG_NIC_INTERFACE_…`): no driver runs the card.
const DISABLED: u8 = 1;
/// A driver asks for a reset.
const SOFTWARE_RESET: u8 = 7;

/// Where the health buffer is.
const HEALTH_AT: usize = 0x200;

/// What a card says of itself before the first command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Firmware version: major, minor, sub-minor.
    pub fw_version: (u16, u16, u16),
    /// Frequency of the internal timer.
    pub timer_khz: u32,
    /// How long drivers are to wait; without, they know themselves.
    pub timeouts: Option<Timeouts>,
}

/// How long drivers are to wait, in ms (at most 20 bits of them).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// For the firmware to start.
    pub initializing_ms: u32,
    /// For a command.
    pub command_ms: u32,
}

/// The registers.
pub struct InitSegment {
    identity: Identity,
    /// All registers as they read, but for those that run with time.
    image: Box<[u8; SEGMENT_SIZE]>,
    /// A fault: when the health counter has stopped, in ns.
    stopped: Option<u64>,
}

impl InitSegment {
    /// As after power-on.
    pub fn new(identity: Identity) -> Self {
        let mut segment = Self { identity, image: Box::new([0; SEGMENT_SIZE]), stopped: None };
        segment.reset();
        segment
    }

    fn view(&mut self) -> InitialSegment<&mut [u8]> {
        InitialSegment(&mut self.image[..])
    }

    /// As after power-on.
    pub fn reset(&mut self) {
        let Self { identity, image, stopped } = self;
        *stopped = None;
        let (major, minor, subminor) = identity.fw_version;
        image.fill(0);
        let mut view = InitialSegment(&mut image[..]);
        view.set_fw_rev_major(major);
        view.set_fw_rev_minor(minor);
        view.set_fw_rev_subminor(subminor);
        view.set_cmd_interface_rev(CMDIF_REV);
        view.set_log_cmdq_size(LOG_SLOTS);
        view.set_log_cmdq_stride(LOG_STRIDE);
        // Without the first of them drivers look at neither, and at no other timeout of the device
        // (tout.c, tout_is_supported). The multiplier, 0, stands for ms.
        if let Some(Timeouts { initializing_ms, command_ms }) = identity.timeouts {
            view.set_cmd_q_init_to(initializing_ms & 0xf_ffff);
            view.set_cmd_exec_to(command_ms & 0xf_ffff);
        }
        // A driver that recovers from a fatal error resets the card itself, see reset_is_wanted.
        view.set_fw_reset_supported(true);
        // All ones would mean that the card is off the bus.
        view.health_buffer_mut().set_fw_version(u32::from(major) << 16 | u32::from(minor));
    }

    /// The health buffer, to be written when the device reports that it is not well.
    pub fn health(&mut self) -> HealthBuffer<&mut [u8]> {
        HealthBuffer(self.image.get_mut(HEALTH_AT..).unwrap_or_default())
    }

    /// From now on the health counter stands still.
    pub fn stop_health(&mut self, now: u64) {
        self.stopped.get_or_insert(now);
    }

    /// Whether the driver has asked for a reset.
    pub fn reset_is_wanted(&self) -> bool {
        InitialSegment(&self.image[..]).nic_interface() == SOFTWARE_RESET
    }

    /// The reset that the driver has asked for is over; the card waits for a driver, who sees that.
    pub fn wait_for_driver(&mut self) {
        self.view().set_nic_interface(DISABLED);
    }

    /// Says that the firmware is (or is no longer) starting; drivers wait.
    pub fn set_initializing(&mut self, busy: bool) {
        self.view().set_initializing(busy);
    }

    /// DMA address of the command queue, once the driver has written it.
    pub fn queue_address(&self) -> Option<u64> {
        let view = InitialSegment(&self.image[..]);
        let page = u64::from(view.cmdq_phy_addr_31_12());
        Some(u64::from(view.cmdq_phy_addr_63_32()) << 32 | page << 12).filter(|&at| at != 0)
    }

    /// Reads any number of bytes at any offset; `now` is in ns. What is not a register reads 0.
    pub fn read(&mut self, now: u64, probe: &Probe, offset: u64, data: &mut [u8]) {
        data.fill(0);
        let Some(range) = self.inside(offset, data.len()) else {
            note_missing(probe, "register read", offset);
            return;
        };
        self.run_clocks(now);
        for at in words(&range).filter(|&at| register(at).is_none()) {
            note_missing(probe, "register read", at as u64);
        }
        let bytes = self.image.get(range).unwrap_or_default();
        for (to, from) in data.iter_mut().zip(bytes) {
            *to = *from;
        }
    }

    /// The registers that run with time, as they are `now`.
    fn run_clocks(&mut self, now: u64) {
        let ticks = u128::from(now) * u128::from(self.identity.timer_khz) / 1_000_000;
        let beats = self.stopped.unwrap_or(now) / HEALTH_PERIOD_NS;
        let mut view = self.view();
        view.set_internal_timer_h((ticks >> 32) as u32);
        view.set_internal_timer_l(ticks as u32);
        // From 1 on: a driver that waits for a reset to end takes 0 for "not there yet".
        view.set_health_counter((beats % 0xff_ffff + 1) as u32);
    }

    /// Writes any number of bytes at any offset and returns the slots that the doorbell named. What
    /// can't be written stays as it is.
    pub fn write(&mut self, probe: &Probe, offset: u64, data: &[u8]) -> u32 {
        let Some(range) = self.inside(offset, data.len()) else {
            note_missing(probe, "register write", offset);
            return 0;
        };
        // The registers as a write of these bytes would leave them; the doorbell keeps nothing.
        let mut image = [0; WRITABLE.end];
        image.copy_from_slice(&self.image[..WRITABLE.end]);
        InitialSegment(&mut image[..]).set_command_doorbell_vector(0);
        for (at, &byte) in range.clone().zip(data) {
            if let Some(to) = image.get_mut(at) {
                *to = byte;
            }
        }
        words(&range).filter(|at| !WRITABLE.contains(at)).for_each(|at| note_refused(probe, at));
        let written = InitialSegment(&image[..]);
        let mut view = self.view();
        view.set_cmdq_phy_addr_63_32(written.cmdq_phy_addr_63_32());
        view.set_cmdq_phy_addr_31_12(written.cmdq_phy_addr_31_12());
        view.set_nic_interface(written.nic_interface());
        written.command_doorbell_vector()
    }

    /// The part of an access that is in the segment.
    fn inside(&self, offset: u64, len: usize) -> Option<std::ops::Range<usize>> {
        let start = usize::try_from(offset).ok().filter(|&start| start < SEGMENT_SIZE)?;
        Some(start..start.saturating_add(len).min(SEGMENT_SIZE))
    }
}

/// The offsets of the registers, 4 bytes each, that an access touches.
fn words(range: &std::ops::Range<usize>) -> impl Iterator<Item = usize> + use<> {
    (range.start & !3..range.end).step_by(4)
}

/// The name of what is in the register at an offset.
fn register(at: usize) -> Option<&'static str> {
    let LayoutInfo { fields, parts, .. } = InitialSegment::INFO;
    let field = fields.iter().find(|f| f.bit < at * 8 + 32 && f.bit + f.width > at * 8);
    let part = || parts.iter().find(|p| (p.byte..p.byte + p.layout.size).contains(&at));
    field.map(|field| field.name).or_else(|| part().map(|part| part.name))
}

fn note_missing(probe: &Probe, kind: &'static str, offset: u64) {
    probe.missing(kind, offset & !3, "of the initialization segment");
}

fn note_refused(probe: &Probe, at: usize) {
    match register(at) {
        Some(name) => probe.mistake("write to a read-only register", || {
            format!("{name} ({at:#x}) of the initialization segment")
        }),
        None => note_missing(probe, "register write", at as u64),
    }
}
