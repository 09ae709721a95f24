//! UAR pages: which register of which page a write is for.

use dma::Bus;
use engine::Engine;
use firmware::Firmware;
use layouts::{CqDoorbell, EqDoorbell, WqeCtrlSeg};
use probe::{Action, Held, Probe, Until, ask};

/// Size of a UAR page as a power of two.
const LOG_PAGE: u32 = 12;
/// Completion queue arm: 8 bytes.
const CQ_ARM: u64 = 0x20;
/// Event queue consumer index, and arm.
const EQ_ARM: u64 = 0x40;
/// Event queue consumer index.
const EQ_UPDATE: u64 = 0x48;
/// Send queue doorbells (and BlueFlame buffers): from here to the end of the page.
const SQ_FIRST: u64 = 0x800;
/// A BlueFlame register's two halves; a doorbell is written to the start of one. The rest of a
/// work request that is copied there is of no interest: it is read from memory.
const SQ_HALF: u64 = 0x100;

/// What is kept between writes: the first half of an 8-byte doorbell that comes in two writes
/// (a driver without 64-bit stores writes the high word first).
#[derive(Debug)]
pub struct Doorbells {
    first_half: Option<(u64, [u8; 4])>,
    /// Doorbells that faults keep back, with their pages.
    late: Held<(u32, Doorbell)>,
}

/// Most doorbells that faults keep back; what comes on top is lost.
const MOST_LATE: usize = 4096;

/// A whole doorbell.
#[derive(Debug, Clone, Copy)]
enum Doorbell {
    Eq { word: u32, arm: bool },
    Cq([u8; 8]),
    Sq([u8; 8]),
}

impl Default for Doorbells {
    fn default() -> Self {
        Self { first_half: None, late: Held::new(MOST_LATE) }
    }
}

impl Doorbells {
    /// One write to the pages above the initialization segment.
    pub fn write(
        &mut self,
        firmware: &mut Firmware,
        engine: &mut Engine,
        cx: (&dyn Bus, &Probe),
        offset: u64,
        data: &[u8],
    ) {
        let uar = (offset >> LOG_PAGE) as u32;
        let register = offset & ((1 << LOG_PAGE) - 1);
        if firmware.uars.get(uar).is_none() {
            cx.1.mistake("doorbell page", || format!("write to UAR {uar}, which is not allocated"));
            return;
        }
        let probe = cx.1;
        let (doorbell, fault) = match register {
            EQ_ARM | EQ_UPDATE => {
                let Some(bytes) = data.first_chunk::<4>() else { return };
                let arm = register == EQ_ARM;
                let word = u32::from_be_bytes(*bytes);
                let info = &EqDoorbell::INFO;
                let fault =
                    ask!(probe, Doorbell, (info, bytes), uar = uar, eqn = word >> 24, arm = arm);
                (Doorbell::Eq { word, arm }, fault)
            }
            CQ_ARM..EQ_ARM => {
                let Some(words) = self.whole(offset, CQ_ARM, data) else { return };
                let cqn = CqDoorbell(&words[..]).cqn();
                let fault =
                    ask!(probe, Doorbell, (&CqDoorbell::INFO, &words), uar = uar, cqn = cqn);
                (Doorbell::Cq(words), fault)
            }
            SQ_FIRST.. => {
                let start = register & !(SQ_HALF - 1);
                let Some(words) = self.whole(offset, start, data) else { return };
                let qpn = WqeCtrlSeg(&words[..]).qpn();
                let fault =
                    ask!(probe, Doorbell, (&WqeCtrlSeg::INFO, &words), uar = uar, qpn = qpn);
                (Doorbell::Sq(words), fault)
            }
            _ => return probe.missing("UAR register", register, "written"),
        };
        match fault {
            Some(Action::Lose) => {}
            Some(action) if let Some(until) = Until::asked(&action, probe.now()) => {
                let _ = self.late.push(until, (uar, doorbell));
            }
            _ => doorbell.ring(firmware, engine, cx, uar),
        }
    }

    /// Rings doorbells that faults have kept back and whose time has come.
    pub fn go_on(&mut self, firmware: &mut Firmware, engine: &mut Engine, cx: (&dyn Bus, &Probe)) {
        while let Some((uar, doorbell)) = self.late.due(cx.1.now()) {
            doorbell.ring(firmware, engine, cx, uar);
        }
    }

    /// When the next of them rings, in ns of the probe's clock.
    pub fn deadline(&self) -> Option<u64> {
        self.late.next()
    }

    /// What a fault rule keeps back goes on. Returns how many doorbells that are.
    pub fn release(&mut self, rule: u32, now: u64) -> u64 {
        self.late.release(rule, now)
    }

    /// The 8 bytes of the doorbell at `start` of a page when this write completes it.
    fn whole(&mut self, offset: u64, start: u64, data: &[u8]) -> Option<[u8; 8]> {
        let within = (offset & ((1 << LOG_PAGE) - 1)).checked_sub(start)?;
        let first_half = self.first_half.take();
        match (within, data.len()) {
            (0, 8..) => data.first_chunk().copied(),
            (0, 4) => {
                self.first_half = Some((offset, *data.first_chunk()?));
                None
            }
            (4, 4) => {
                let (at, high) = first_half?;
                let low = data.first_chunk::<4>()?;
                (at + 4 == offset).then(|| {
                    let [a, b, c, d] = high;
                    let [e, f, g, h] = *low;
                    [a, b, c, d, e, f, g, h]
                })
            }
            _ => None,
        }
    }

    /// Nothing is kept.
    pub fn reset(&mut self) {
        let Self { first_half, late } = self;
        *first_half = None;
        late.clear();
    }
}

impl Doorbell {
    fn ring(self, firmware: &mut Firmware, engine: &mut Engine, cx: (&dyn Bus, &Probe), uar: u32) {
        match self {
            Self::Eq { word, arm } => {
                firmware.eqs.doorbell(cx, uar, word >> 24, word & 0xff_ffff, arm);
            }
            Self::Cq(words) => engine.cq_doorbell(firmware, cx, uar, words),
            Self::Sq(words) => engine.sq_doorbell(firmware, cx, uar, words),
        }
    }
}
