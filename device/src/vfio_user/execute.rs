//! Carries out one message: the checks, the call to the target, the body of the reply.

use rustix::io::Errno;
use zerocopy::FromBytes;

use super::Disconnect;
use super::inbox::{Descriptors, Message};
use super::outbox::Outbox;
use super::target::{DmaMap, IrqChange, Target};
use super::version;
use super::wire::{
    self, DeviceInfo, Header, IrqInfo, MAJOR, MAX_TRANSFER, MINOR, RegionAccess, RegionInfo,
    RegionIoFds, SetIrqs, Version, WriteMulti, WriteOne, command, device_flag, flag, irq_flag,
    map_flag, region_flag, set_irqs_flag, unmap_flag,
};
use crate::memory::Rights;

type Done = Result<(), Errno>;

/// Carries out `message` and writes its reply. The error ends the connection; its reply, if any,
/// is written all the same.
pub(super) fn execute(
    message: Message<'_>,
    negotiated: &mut bool,
    target: &mut dyn Target,
    out: &mut Outbox,
) -> Result<(), Disconnect> {
    let Message { header, body, descriptors } = message;
    let kind = header.flags & flag::TYPE;
    if kind == flag::REPLY {
        // We send no commands. Answering an answer would only make it worse.
        log::debug!("reply to nothing that was asked: {header:?}");
        return Ok(());
    }
    out.begin();
    let result = match body {
        None => Err(Errno::TOOBIG),
        Some(_) if kind != flag::COMMAND => Err(Errno::INVAL),
        Some(body) if header.command == command::VERSION => {
            let result = negotiate(*negotiated, body, out);
            *negotiated |= result.is_ok();
            result
        }
        Some(_) if !*negotiated => Err(Errno::PROTO),
        Some(body) => dispatch(&header, body, descriptors, target, out),
    };
    if let Err(error) = result {
        log::debug!("refused: {header:?}: {error}");
    }
    out.finish(&header, result);
    match result {
        Err(Errno::PROTONOSUPPORT) if !*negotiated => Err(Disconnect::Version),
        _ => Ok(()),
    }
}

fn dispatch(
    header: &Header,
    body: &[u8],
    descriptors: Descriptors,
    target: &mut dyn Target,
    out: &mut Outbox,
) -> Done {
    match header.command {
        command::DMA_MAP => dma_map(body, descriptors, target),
        command::DMA_UNMAP => dma_unmap(body, target, out),
        command::DEVICE_GET_INFO => device_info(body, target, out),
        command::DEVICE_GET_REGION_INFO => region_info(body, target, out),
        command::DEVICE_GET_REGION_IO_FDS => region_io_fds(body, target),
        command::DEVICE_GET_IRQ_INFO => irq_info(body, target, out),
        command::DEVICE_SET_IRQS => set_irqs(body, descriptors, target),
        command::REGION_READ => region_read(body, target, out),
        command::REGION_WRITE => region_write(body, target, out),
        command::REGION_WRITE_MULTI => write_multi(body, target, out),
        command::DEVICE_RESET if body.is_empty() => target.reset(),
        command::DEVICE_RESET => Err(Errno::INVAL),
        _ => Err(Errno::OPNOTSUPP),
    }
}

/// The structure at the beginning of `body`, and what follows it.
fn prefix<T: FromBytes>(body: &[u8]) -> Result<(T, &[u8]), Errno> {
    T::read_from_prefix(body).map_err(|_| Errno::INVAL)
}

/// The structure that is the whole of `body`.
fn exactly<T: FromBytes>(body: &[u8]) -> Result<T, Errno> {
    T::read_from_bytes(body).map_err(|_| Errno::INVAL)
}

/// A structure that begins with its size as the client knows it; a client may know a longer one.
fn sized<T: FromBytes>(body: &[u8]) -> Result<T, Errno> {
    let (argsz, _) = prefix::<u32>(body)?;
    if (argsz as usize) < size_of::<T>() {
        return Err(Errno::INVAL);
    }
    prefix(body).map(|(value, _)| value)
}

fn negotiate(again: bool, body: &[u8], out: &mut Outbox) -> Done {
    let (theirs, text) = prefix::<Version>(body)?;
    if again {
        return Err(Errno::INVAL);
    }
    if theirs.major != MAJOR {
        log::warn!(
            "the client speaks vfio-user {}.{}, we {MAJOR}.{MINOR}",
            theirs.major,
            theirs.minor
        );
        return Err(Errno::PROTONOSUPPORT);
    }
    let answer = version::answer(text)?;
    out.push(&Version { major: MAJOR, minor: MINOR });
    out.push(answer.as_slice());
    Ok(())
}

fn dma_map(body: &[u8], descriptors: Descriptors, target: &mut dyn Target) -> Done {
    let map = sized::<wire::DmaMap>(body)?;
    if map.flags & !(map_flag::READ | map_flag::WRITE) != 0 {
        return Err(Errno::INVAL);
    }
    let mut files = descriptors.whole()?;
    if files.len() > 1 {
        return Err(Errno::INVAL);
    }
    target.dma_map(DmaMap {
        address: map.address,
        size: map.size,
        rights: Rights {
            read: map.flags & map_flag::READ != 0,
            write: map.flags & map_flag::WRITE != 0,
        },
        memory: files.pop().map(|file| (file, map.offset)),
    })
}

fn dma_unmap(body: &[u8], target: &mut dyn Target, out: &mut Outbox) -> Done {
    let unmap = sized::<wire::DmaUnmap>(body)?;
    match unmap.flags {
        0 => target.dma_unmap(unmap.address, unmap.size)?,
        unmap_flag::ALL if unmap.address == 0 && unmap.size == 0 => target.dma_unmap_all()?,
        _ => return Err(Errno::INVAL),
    }
    out.push(&unmap);
    Ok(())
}

fn device_info(body: &[u8], target: &mut dyn Target, out: &mut Outbox) -> Done {
    sized::<DeviceInfo>(body)?;
    out.push(&DeviceInfo {
        argsz: size_of::<DeviceInfo>() as u32,
        flags: device_flag::RESET | device_flag::PCI,
        num_regions: target.regions().len() as u32,
        num_irqs: target.irqs().len() as u32,
    });
    Ok(())
}

fn region_info(body: &[u8], target: &mut dyn Target, out: &mut Outbox) -> Done {
    let asked = sized::<RegionInfo>(body)?;
    let region = target.regions().get(asked.index as usize).ok_or(Errno::INVAL)?;
    let flag = |given: bool, flag: u32| if given { flag } else { 0 };
    out.push(&RegionInfo {
        argsz: size_of::<RegionInfo>() as u32,
        flags: flag(region.rights.read, region_flag::READ)
            | flag(region.rights.write, region_flag::WRITE),
        index: asked.index,
        cap_offset: 0,
        size: region.size,
        offset: 0,
    });
    Ok(())
}

fn region_io_fds(body: &[u8], target: &mut dyn Target) -> Done {
    let asked = sized::<RegionIoFds>(body)?;
    target.regions().get(asked.index as usize).ok_or(Errno::INVAL)?;
    Err(Errno::OPNOTSUPP)
}

fn irq_info(body: &[u8], target: &mut dyn Target, out: &mut Outbox) -> Done {
    let asked = sized::<IrqInfo>(body)?;
    let irq = target.irqs().get(asked.index as usize).ok_or(Errno::INVAL)?;
    let flag = |given: bool, flag: u32| if given { flag } else { 0 };
    out.push(&IrqInfo {
        argsz: size_of::<IrqInfo>() as u32,
        flags: flag(irq.count > 0, irq_flag::EVENTFD) | flag(irq.maskable, irq_flag::MASKABLE),
        index: asked.index,
        count: irq.count,
    });
    Ok(())
}

fn set_irqs(body: &[u8], descriptors: Descriptors, target: &mut dyn Target) -> Done {
    use set_irqs_flag::*;
    let set = sized::<SetIrqs>(body)?;
    let irq = *target.irqs().get(set.index as usize).ok_or(Errno::INVAL)?;
    let end = set.start.checked_add(set.count).filter(|end| *end <= irq.count);
    let end = end.ok_or(Errno::INVAL)?;
    let (data, action) = (set.flags & DATA, set.flags & !DATA);
    let change = match (data, action) {
        (DATA_NONE, ACTION_TRIGGER) if set.count == 0 && set.start == 0 => IrqChange::Disable,
        _ if set.count == 0 => return Err(Errno::INVAL),
        (DATA_EVENTFD, ACTION_TRIGGER) => {
            let descriptors = descriptors.whole()?;
            if descriptors.is_empty() {
                IrqChange::Remove { first: set.start, count: set.count }
            } else if descriptors.len() == set.count as usize {
                IrqChange::Assign { first: set.start, descriptors }
            } else {
                return Err(Errno::INVAL);
            }
        }
        // To be told when the guest masks: there is nobody in the device who would tell.
        (DATA_EVENTFD, ACTION_MASK | ACTION_UNMASK) => return Err(Errno::OPNOTSUPP),
        (DATA_NONE | DATA_BOOL, _) => {
            let (make, allowed): (fn(Vec<u32>) -> IrqChange, bool) = match action {
                ACTION_TRIGGER => (IrqChange::Trigger, true),
                ACTION_MASK => (IrqChange::Mask, irq.maskable),
                ACTION_UNMASK => (IrqChange::Unmask, irq.maskable),
                _ => return Err(Errno::INVAL),
            };
            if !allowed {
                return Err(Errno::INVAL);
            }
            make(if data == DATA_BOOL { chosen(&set, body)? } else { (set.start..end).collect() })
        }
        _ => return Err(Errno::INVAL),
    };
    target.set_irqs(set.index, change)
}

/// The interrupts whose byte is not zero.
fn chosen(set: &SetIrqs, body: &[u8]) -> Result<Vec<u32>, Errno> {
    let (_, bytes) = prefix::<SetIrqs>(body)?;
    let bytes = bytes.get(..set.count as usize).ok_or(Errno::INVAL)?;
    if (set.argsz as usize) < size_of::<SetIrqs>() + bytes.len() {
        return Err(Errno::INVAL);
    }
    Ok((set.start..).zip(bytes).filter(|(_, byte)| **byte != 0).map(|(irq, _)| irq).collect())
}

/// Refuses what no region can answer.
fn check(target: &dyn Target, access: &RegionAccess, needed: Rights) -> Done {
    if access.count > MAX_TRANSFER {
        return Err(Errno::TOOBIG);
    }
    let region = target.regions().get(access.region as usize).ok_or(Errno::INVAL)?;
    let end = access.offset.checked_add(access.count.into());
    if access.count == 0 || end.is_none_or(|end| end > region.size) {
        return Err(Errno::INVAL);
    }
    if region.rights.cover(needed) { Ok(()) } else { Err(Errno::ACCESS) }
}

fn region_read(body: &[u8], target: &mut dyn Target, out: &mut Outbox) -> Done {
    let access = exactly::<RegionAccess>(body)?;
    check(target, &access, Rights::READ)?;
    out.push(&access);
    target.region_read(access.region, access.offset, out.extend(access.count as usize))
}

fn region_write(body: &[u8], target: &mut dyn Target, out: &mut Outbox) -> Done {
    let (access, data) = prefix::<RegionAccess>(body)?;
    check(target, &access, Rights::WRITE)?;
    if data.len() != access.count as usize {
        return Err(Errno::INVAL);
    }
    target.region_write(access.region, access.offset, data)?;
    out.push(&access);
    Ok(())
}

/// Each write is made even if one before it fails, as if they had come one by one; the reply tells
/// of the first failure.
fn write_multi(body: &[u8], target: &mut dyn Target, out: &mut Outbox) -> Done {
    let (WriteMulti { count }, rest) = prefix::<WriteMulti>(body)?;
    let size =
        usize::try_from(count).ok().and_then(|count| count.checked_mul(size_of::<WriteOne>()));
    if size != Some(rest.len()) {
        return Err(Errno::INVAL);
    }
    let mut result = Ok(());
    for one in rest.chunks_exact(size_of::<WriteOne>()) {
        result = result.and(write_one(one, target));
    }
    out.push(&WriteMulti { count });
    result
}

fn write_one(one: &[u8], target: &mut dyn Target) -> Done {
    let WriteOne { offset, region, count, data } = exactly(one)?;
    let data = data.get(..count as usize).ok_or(Errno::INVAL)?;
    check(target, &RegionAccess { offset, region, count }, Rights::WRITE)?;
    target.region_write(region, offset, data)
}
