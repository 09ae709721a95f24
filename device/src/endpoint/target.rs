//! What a client's messages do to the function.

use super::{Endpoint, Space};
use crate::pci::{MSIX_BAR, MSIX_VECTORS, OutOfRange};
use crate::vfio_user::{DmaMap, Errno, Irq, IrqChange, Region, Target};

/// Index of configuration space among a PCI function's regions; those before it are BARs and the ROM.
const CONFIG_REGION: u32 = 7;

const fn region(space: Space) -> Region {
    Region::new(space.size())
}

/// By index: six BARs, ROM, configuration space, VGA.
const REGIONS: [Region; 9] = [
    region(Space::Bar0),
    Region::NONE,
    region(Space::Msix),
    Region::NONE,
    Region::NONE,
    Region::NONE,
    Region::NONE,
    region(Space::Config),
    Region::NONE,
];

/// Index of MSI-X among the kinds of interrupt.
const MSIX_IRQ: u32 = 2;
/// Index of the one that would tell of errors.
const ERROR_IRQ: u32 = 3;

/// By index: INTx, MSI, MSI-X, error, request to unplug. Errors are never reported, but QEMU warns of a function
/// that could not.
const IRQS: [Irq; 5] = [
    Irq { count: 0, maskable: false },
    Irq { count: 0, maskable: false },
    Irq { count: MSIX_VECTORS as u32, maskable: false },
    Irq { count: 1, maskable: false },
    Irq { count: 0, maskable: false },
];

fn space(region: u32) -> Result<Space, Errno> {
    match region {
        0 => Ok(Space::Bar0),
        MSIX_BAR => Ok(Space::Msix),
        CONFIG_REGION => Ok(Space::Config),
        _ => Err(Errno::INVAL),
    }
}

impl From<OutOfRange> for Errno {
    fn from(_: OutOfRange) -> Self {
        Self::INVAL
    }
}

/// Numbers of vectors fit: they were checked against [`IRQS`].
fn vector(number: u32) -> Result<u16, Errno> {
    u16::try_from(number).map_err(|_| Errno::INVAL)
}

impl Target for Endpoint {
    fn regions(&self) -> &[Region] {
        &REGIONS
    }

    fn irqs(&self) -> &[Irq] {
        &IRQS
    }

    fn region_read(&mut self, region: u32, offset: u64, data: &mut [u8]) -> Result<(), Errno> {
        Ok(self.read(space(region)?, offset, data)?)
    }

    fn region_write(&mut self, region: u32, offset: u64, data: &[u8]) -> Result<(), Errno> {
        Ok(self.write(space(region)?, offset, data)?)
    }

    fn dma_map(&mut self, map: DmaMap) -> Result<(), Errno> {
        let DmaMap { address, size, rights, memory } = map;
        log::trace!("map {address:#x}, {size:#x} bytes");
        self.memory.map(address, size, rights, memory).map_err(|error| {
            log::warn!("mapping {size:#x} bytes at {address:#x} is refused: {error}");
            error.errno()
        })
    }

    fn dma_unmap(&mut self, address: u64, size: u64) -> Result<(), Errno> {
        log::trace!("unmap {address:#x}, {size:#x} bytes");
        self.memory.unmap(address, size).map(drop).map_err(|error| error.errno())
    }

    fn dma_unmap_all(&mut self) -> Result<(), Errno> {
        self.memory.unmap_all();
        Ok(())
    }

    fn set_irqs(&mut self, index: u32, change: IrqChange) -> Result<(), Errno> {
        match (index, change) {
            (MSIX_IRQ, IrqChange::Disable) => self.vectors.release(),
            (MSIX_IRQ, IrqChange::Assign { first, descriptors }) => {
                for (number, descriptor) in (first..).zip(descriptors) {
                    self.assign_vector(vector(number)?, Some(descriptor));
                }
            }
            (MSIX_IRQ, IrqChange::Remove { first, count }) => {
                for number in first..first.saturating_add(count) {
                    self.assign_vector(vector(number)?, None);
                }
            }
            (MSIX_IRQ, IrqChange::Trigger(numbers)) => {
                for number in numbers {
                    self.vectors.send(vector(number)?, false);
                }
            }
            (ERROR_IRQ, _) => {}
            _ => return Err(Errno::INVAL),
        }
        Ok(())
    }

    fn reset(&mut self) -> Result<(), Errno> {
        log::debug!("reset by the client");
        self.reset();
        Ok(())
    }
}
