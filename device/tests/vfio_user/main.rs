//! The vfio-user server, spoken to through a raw socket. One file a message.

mod concurrency;
mod descriptors;
mod device_info;
mod dma_map;
mod dma_unmap;
mod foreign_client;
mod framing;
mod irq_info;
mod listener;
mod peer;
mod random;
mod region_access;
mod region_info;
mod reset;
mod set_irqs;
mod unsupported;
mod version;
mod write_multi;
