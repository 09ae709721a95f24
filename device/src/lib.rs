//! The process side of a card: PCI configuration, vfio-user server, guest memory, event loop, control socket.

mod control_server;
mod endpoint;
mod irq;
mod latency;
pub mod memory;
pub mod metrics;
pub mod pci;
pub mod record;
pub mod server;
mod slot;
pub mod tracer;
pub mod vfio_user;
