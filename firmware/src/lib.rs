//! What commands mean: the life cycle of the function, its capabilities, the pages it is given,
//! its object tables, events, and the registers of its port. One handler a command
//! ([`dispatch`] has the table), a file a family.
//!
//! Nothing here knows how a command travelled or how a work request is executed. What a command
//! sets going (a queue pair that must flush, a completion queue that is armed) is left in
//! [`Firmware::work`] for the engine.
#![forbid(unsafe_code)]

pub mod caps;
pub mod counters;
pub mod cq;
pub mod dispatch;
pub mod eq;
pub mod error;
pub mod lifecycle;
mod lives;
pub mod mad;
pub mod mkey;
pub mod multicast;
pub mod objects;
pub mod pages;
pub mod pma;
pub mod port;
pub mod profile;
pub mod qp;
mod references;
pub mod registers;
pub mod remembered;
pub mod ring;
pub mod special;
pub mod srq;
pub mod uar;
pub mod uctx;
pub mod umem;

use std::collections::VecDeque;

use dma::{Bus, Table};
use probe::Probe;

pub use error::CmdError;

/// What surrounds one command.
pub struct Cx<'a> {
    /// Guest memory and interrupts.
    pub bus: &'a dyn Bus,
    /// What is noted about the guest.
    pub probe: &'a Probe,
    /// User context that the command is carried out for; 0 is the driver itself.
    pub uid: u16,
    /// Operation modifier.
    pub op_mod: u16,
}

/// What follows the fixed part of a command: its list of pages or entries.
pub(crate) fn tail(input: &[u8], fixed: usize) -> &[u8] {
    input.get(fixed..).unwrap_or_default()
}

/// Work that a command left for the engine, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// A queue pair changed its state: what it holds may be executed now, or is to be flushed.
    QueuePair(u32),
}

/// What a device has room for; above these it answers as a card out of resources does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Interrupt vectors.
    pub vectors: u8,
    /// Event queues.
    pub eqs: u32,
    /// Largest event queue, as a power of two of entries.
    pub log_max_eq_size: u8,
    /// UAR pages.
    pub uars: u32,
    /// Protection domains.
    pub pds: u32,
    /// Memory keys.
    pub mkeys: u32,
    /// Filled translation entries of all keys together.
    pub translations: u64,
    /// Completion queues.
    pub cqs: u32,
    /// Queue pairs.
    pub qps: u32,
    /// Shared receive queues of all kinds.
    pub srqs: u32,
    /// Entries of all queues' page lists together.
    pub queue_pages: u64,
    /// XRC domains, transport domains, counter sets and user contexts, each.
    pub domains: u32,
    /// Ranges of memory that users have registered for queues.
    pub umems: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            vectors: 64,
            eqs: 64,
            log_max_eq_size: 22,
            uars: 8192 - uar::FIRST,
            pds: 1 << 16,
            mkeys: 1 << 20,
            translations: 70 << 20,
            cqs: 1 << 17,
            qps: 1 << 17,
            srqs: 1 << 17,
            queue_pages: 16 << 20,
            domains: 1 << 12,
            umems: 1 << 16,
        }
    }
}

/// The state of one function's firmware: its life cycle and every object.
pub struct Firmware {
    /// The configured bounds.
    pub limits: Limits,
    /// What this card is.
    pub profile: profile::Profile,
    /// Life cycle, ISSI.
    pub life: lifecycle::Life,
    /// Capabilities, maximal and current.
    pub caps: caps::Caps,
    /// Pages given by the guest.
    pub pages: pages::Pages,
    /// Keys and protection domains.
    pub mtt: mtt::Mtt,
    /// Translations as they were: what stale ones are.
    pub remembered: remembered::Remembered,
    /// UAR pages.
    pub uars: Table<uar::Uar>,
    /// Event queues.
    pub eqs: eq::Eqs,
    /// Completion queues.
    pub cqs: Table<cq::Cq>,
    /// What faults keep back of them.
    pub late_completions: cq::Late,
    /// Queue pairs.
    pub qps: Table<qp::Qp>,
    /// Shared receive queues: SRQ, XRC SRQ and RMP share one space of numbers.
    pub srqs: Table<srq::Srq>,
    /// XRC domains, transport domains, counter sets.
    pub objects: objects::Objects,
    /// User contexts.
    pub uctxs: Table<uctx::Uctx>,
    /// Memory that users have registered for queues.
    pub umems: Table<umem::Umem>,
    /// The port.
    pub port: port::Port,
    /// What queue buffers' page lists may still take.
    pub page_budget: ring::PageBudget,
    /// Left for the engine.
    pub work: VecDeque<Work>,
    /// The time of the register access or poll that is being served, in ns.
    pub now: u64,
}

impl Firmware {
    /// A function as after power-on.
    pub fn new(profile: profile::Profile, limits: Limits, identity: port::Identity) -> Self {
        Self {
            caps: caps::Caps::new(&profile),
            profile,
            life: lifecycle::Life::default(),
            pages: pages::Pages::default(),
            mtt: mtt::Mtt::new(mtt::Limits {
                keys: limits.mkeys,
                entries: limits.translations,
                pds: limits.pds,
            }),
            remembered: remembered::Remembered::default(),
            uars: Table::new(uar::FIRST, limits.uars),
            eqs: eq::Eqs::new(limits.eqs),
            cqs: Table::new(1, limits.cqs),
            late_completions: cq::Late::default(),
            // QPN 0 and 1 are the special queue pairs' names on the wire (IBA 3.9.4).
            qps: Table::new(2, limits.qps),
            srqs: Table::new(1, limits.srqs),
            objects: objects::Objects::new(limits.domains),
            uctxs: Table::new(1, limits.domains),
            umems: Table::new(1, limits.umems),
            port: port::Port::new(identity),
            page_budget: ring::PageBudget::new(limits.queue_pages),
            work: VecDeque::new(),
            now: 0,
            limits,
        }
    }

    /// Everything as after power-on.
    pub fn power_on(&mut self) {
        self.forget_objects();
        let Self {
            limits: _,
            profile: _,
            life,
            caps,
            pages,
            port,
            now: _,
            // What forget_objects covers.
            mtt: _,
            remembered: _,
            uars: _,
            eqs: _,
            cqs: _,
            late_completions: _,
            qps: _,
            srqs: _,
            objects: _,
            uctxs: _,
            umems: _,
            page_budget: _,
            work: _,
        } = self;
        *life = lifecycle::Life::default();
        caps.reset();
        pages.reset();
        port.reset();
    }

    /// Every object is gone, and with it all that refers to guest memory.
    pub fn forget_objects(&mut self) {
        let Self {
            limits: _,
            profile: _,
            life: _,
            caps: _,
            pages: _,
            now: _,
            // Given back by the queues when they are dropped.
            page_budget: _,
            mtt,
            remembered,
            uars,
            eqs,
            cqs,
            late_completions,
            qps,
            srqs,
            objects,
            uctxs,
            umems,
            port,
            work,
        } = self;
        port.multicast.clear();
        qps.clear();
        srqs.clear();
        cqs.clear();
        remembered.reset();
        late_completions.reset();
        eqs.reset();
        uars.clear();
        objects.reset();
        uctxs.clear();
        umems.clear();
        mtt.reset();
        *work = VecDeque::new();
    }

    /// How many objects of each kind exist.
    pub fn object_counts(&self) -> Vec<(&'static str, u64)> {
        let objects::Objects { xrcds, tds, counters } = &self.objects;
        let counts = [
            ("mkey", self.mtt.len()),
            ("pd", self.mtt.pds()),
            ("uar", self.uars.len()),
            ("eq", self.eqs.len()),
            ("cq", self.cqs.len()),
            ("qp", self.qps.len()),
            ("srq", self.srqs.len()),
            ("xrcd", xrcds.len()),
            ("td", tds.len()),
            ("counter", counters.len()),
            ("uctx", self.uctxs.len()),
            ("umem", self.umems.len()),
        ];
        counts.into_iter().map(|(kind, n)| (kind, n as u64)).collect()
    }
}
