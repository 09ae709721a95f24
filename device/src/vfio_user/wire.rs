//! The messages' structures and numbers, as `docs/interop/vfio-user.rst` of QEMU and
//! `<linux/vfio.h>` define them. All values are in the byte order of the host.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::memory;

/// The version that we speak.
pub(super) const MAJOR: u16 = 0;
/// Its minor number.
pub(super) const MINOR: u16 = 0;

/// Descriptors that we take with one message.
pub(super) const MAX_DESCRIPTORS: usize = 16;
/// Bytes that one message may read or write.
pub(super) const MAX_TRANSFER: u32 = 1 << 20;
/// Ranges that may be mapped.
pub(super) const MAX_DMA_MAPS: u64 = memory::MAX_MAPS as u64;
/// Page sizes of ranges, or'ed together.
pub(super) const PAGE_SIZES: u64 = memory::PAGE_SIZE;
/// Longest message: a write of [`MAX_TRANSFER`] bytes.
pub(super) const MAX_MESSAGE: usize =
    size_of::<Header>() + size_of::<RegionAccess>() + MAX_TRANSFER as usize;

/// What a message asks for.
pub(super) mod command {
    pub const VERSION: u16 = 1;
    pub const DMA_MAP: u16 = 2;
    pub const DMA_UNMAP: u16 = 3;
    pub const DEVICE_GET_INFO: u16 = 4;
    pub const DEVICE_GET_REGION_INFO: u16 = 5;
    pub const DEVICE_GET_REGION_IO_FDS: u16 = 6;
    pub const DEVICE_GET_IRQ_INFO: u16 = 7;
    pub const DEVICE_SET_IRQS: u16 = 8;
    pub const REGION_READ: u16 = 9;
    pub const REGION_WRITE: u16 = 10;
    pub const DEVICE_RESET: u16 = 13;
    pub const REGION_WRITE_MULTI: u16 = 15;
}

/// Bits of [`Header::flags`].
pub(super) mod flag {
    /// The bits that hold the type.
    pub const TYPE: u32 = 0xf;
    /// Type of a command.
    pub const COMMAND: u32 = 0;
    /// Type of a reply.
    pub const REPLY: u32 = 1;
    /// The sender wants no reply.
    pub const NO_REPLY: u32 = 1 << 4;
    /// The reply tells of an error.
    pub const ERROR: u32 = 1 << 5;
}

/// Bits of [`DeviceInfo::flags`].
pub(super) mod device_flag {
    pub const RESET: u32 = 1 << 0;
    pub const PCI: u32 = 1 << 1;
}

/// Bits of [`RegionInfo::flags`].
pub(super) mod region_flag {
    pub const READ: u32 = 1 << 0;
    pub const WRITE: u32 = 1 << 1;
}

/// Bits of [`IrqInfo::flags`].
pub(super) mod irq_flag {
    pub const EVENTFD: u32 = 1 << 0;
    pub const MASKABLE: u32 = 1 << 1;
}

/// Bits of [`SetIrqs::flags`].
pub(super) mod set_irqs_flag {
    pub const DATA_NONE: u32 = 1 << 0;
    pub const DATA_BOOL: u32 = 1 << 1;
    pub const DATA_EVENTFD: u32 = 1 << 2;
    pub const ACTION_MASK: u32 = 1 << 3;
    pub const ACTION_UNMASK: u32 = 1 << 4;
    pub const ACTION_TRIGGER: u32 = 1 << 5;
    /// The bits that say what the data is.
    pub const DATA: u32 = DATA_NONE | DATA_BOOL | DATA_EVENTFD;
}

/// Bits of [`DmaMap::flags`].
pub(super) mod map_flag {
    pub const READ: u32 = 1 << 0;
    pub const WRITE: u32 = 1 << 1;
}

/// Bits of [`DmaUnmap::flags`].
pub(super) mod unmap_flag {
    /// Withdraw everything.
    pub const ALL: u32 = 1 << 1;
}

/// Defines structures whose fields follow each other without padding, which `IntoBytes` checks.
macro_rules! structures {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
        #[repr(C)]
        pub(super) struct $name { $(pub $field: $type),* }
    )*};
}

structures! {
    /// What each message begins with.
    Header { id: u16, command: u16, size: u32, flags: u32, error: u32 }
    /// VERSION, before the JSON text.
    Version { major: u16, minor: u16 }
    /// DMA_MAP.
    DmaMap { argsz: u32, flags: u32, offset: u64, address: u64, size: u64 }
    /// DMA_UNMAP.
    DmaUnmap { argsz: u32, flags: u32, address: u64, size: u64 }
    /// DEVICE_GET_INFO.
    DeviceInfo { argsz: u32, flags: u32, num_regions: u32, num_irqs: u32 }
    /// DEVICE_GET_REGION_INFO.
    RegionInfo { argsz: u32, flags: u32, index: u32, cap_offset: u32, size: u64, offset: u64 }
    /// DEVICE_GET_REGION_IO_FDS.
    RegionIoFds { argsz: u32, flags: u32, index: u32, count: u32 }
    /// DEVICE_GET_IRQ_INFO.
    IrqInfo { argsz: u32, flags: u32, index: u32, count: u32 }
    /// DEVICE_SET_IRQS, before its data.
    SetIrqs { argsz: u32, flags: u32, index: u32, start: u32, count: u32 }
    /// REGION_READ and REGION_WRITE, before the data.
    RegionAccess { offset: u64, region: u32, count: u32 }
    /// REGION_WRITE_MULTI, before the writes.
    WriteMulti { count: u64 }
    /// One write of REGION_WRITE_MULTI.
    WriteOne { offset: u64, region: u32, count: u32, data: [u8; 8] }
}

impl Header {
    pub(super) fn no_reply(&self) -> bool {
        self.flags & flag::NO_REPLY != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;
    use vfio_bindings::bindings::vfio as linux;

    #[test]
    fn structures_taken_from_linux_are_laid_out_as_there() {
        macro_rules! same {
            ($($ours:ident = $theirs:ident { $($field:ident = $their_field:ident),* })*) => {$(
                let theirs = size_of::<linux::$theirs>();
                assert_eq!(size_of::<$ours>(), theirs, "size of {}", stringify!($ours));
                $(assert_eq!(
                    offset_of!($ours, $field),
                    offset_of!(linux::$theirs, $their_field),
                    "{}.{}", stringify!($ours), stringify!($field)
                );)*
            )*};
        }
        same! {
            RegionInfo = vfio_region_info {
                argsz = argsz, flags = flags, index = index, cap_offset = cap_offset, size = size,
                offset = offset
            }
            IrqInfo = vfio_irq_info { argsz = argsz, flags = flags, index = index, count = count }
            SetIrqs = vfio_irq_set {
                argsz = argsz, flags = flags, index = index, start = start, count = count
            }
            DmaUnmap = vfio_iommu_type1_dma_unmap {
                argsz = argsz, flags = flags, address = iova, size = size
            }
        }
    }

    #[test]
    fn the_protocol_s_own_structures_have_their_sizes() {
        // The offsets of the last field and the sizes in the protocol's tables.
        assert_eq!((offset_of!(Header, error), size_of::<Header>()), (12, 16));
        assert_eq!((offset_of!(Version, minor), size_of::<Version>()), (2, 4));
        assert_eq!((offset_of!(DmaMap, size), size_of::<DmaMap>()), (24, 32));
        assert_eq!((offset_of!(DeviceInfo, num_irqs), size_of::<DeviceInfo>()), (12, 16));
        assert_eq!((offset_of!(RegionIoFds, count), size_of::<RegionIoFds>()), (12, 16));
        assert_eq!((offset_of!(RegionAccess, count), size_of::<RegionAccess>()), (12, 16));
        assert_eq!(size_of::<WriteMulti>(), 8);
        assert_eq!((offset_of!(WriteOne, data), size_of::<WriteOne>()), (16, 24));
    }

    #[test]
    fn flags_taken_from_linux_have_its_values() {
        for (ours, theirs) in [
            (device_flag::RESET, linux::VFIO_DEVICE_FLAGS_RESET),
            (device_flag::PCI, linux::VFIO_DEVICE_FLAGS_PCI),
            (region_flag::READ, linux::VFIO_REGION_INFO_FLAG_READ),
            (region_flag::WRITE, linux::VFIO_REGION_INFO_FLAG_WRITE),
            (irq_flag::EVENTFD, linux::VFIO_IRQ_INFO_EVENTFD),
            (irq_flag::MASKABLE, linux::VFIO_IRQ_INFO_MASKABLE),
            (set_irqs_flag::DATA_NONE, linux::VFIO_IRQ_SET_DATA_NONE),
            (set_irqs_flag::DATA_BOOL, linux::VFIO_IRQ_SET_DATA_BOOL),
            (set_irqs_flag::DATA_EVENTFD, linux::VFIO_IRQ_SET_DATA_EVENTFD),
            (set_irqs_flag::ACTION_MASK, linux::VFIO_IRQ_SET_ACTION_MASK),
            (set_irqs_flag::ACTION_UNMASK, linux::VFIO_IRQ_SET_ACTION_UNMASK),
            (set_irqs_flag::ACTION_TRIGGER, linux::VFIO_IRQ_SET_ACTION_TRIGGER),
            (map_flag::READ, linux::VFIO_DMA_MAP_FLAG_READ),
            (map_flag::WRITE, linux::VFIO_DMA_MAP_FLAG_WRITE),
            (unmap_flag::ALL, linux::VFIO_DMA_UNMAP_FLAG_ALL),
        ] {
            assert_eq!(ours, theirs);
        }
    }
}
