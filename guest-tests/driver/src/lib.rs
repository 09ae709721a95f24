//! A client that drives a card from power-on to a registered key, as the stock driver does, over
//! anything that has registers, memory and interrupts ([`Port`]).
//!
//! [`Driver::boot`] does what the core driver does when it probes a card, [`Driver::bring_up`] what
//! the RDMA driver does on top of it; every step is a method of its own too. The driver checks what
//! a careful one checks: owner bits and tokens, that events name what they may, that nothing comes
//! back that was not given. It trusts the card with nothing else.
#![forbid(unsafe_code)]

pub mod boot;
mod command;
pub mod cq;
mod driver;
pub mod eq;
mod ib;
mod in_process;
pub mod memory;
pub mod mkey;
mod objects;
pub mod pages;
mod port;
pub mod qp;
pub mod srq;
mod uar;
pub mod umr;
#[cfg(feature = "vfio-user")]
pub mod vfio_user;
pub mod vport;

pub use command::PAGES_SLOT;
pub use driver::{Driver, Event};
pub use ib::RdmaDevice;
pub use in_process::{Card, InProcess};
pub use port::{Error, Memory, Port, Result};
