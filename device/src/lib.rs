//! The process side of a card: PCI configuration, vfio-user server, guest memory, event loop, control socket.

pub mod memory;
pub mod vfio_user;
