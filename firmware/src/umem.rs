//! User memory: ranges that users have registered for queues and doorbell records that they make
//! themselves (DEVX). A queue that lies in one refers to it: the driver keeps its pages until
//! DESTROY_UMEM has succeeded.

use layouts::{CreateUmemIn, CreateUmemOut, DestroyUmemIn, MttEntry};

use crate::error::{self, CmdError};
use crate::ring::{self, LOG_ADAPTER_PAGE, PageList};
use crate::{Cx, Firmware, tail};

/// One range.
#[derive(Debug)]
pub struct Umem {
    pages: PageList,
    /// The device may write all of it.
    writable: bool,
    /// User context that it belongs to.
    pub uid: u16,
}

/// A place in user memory that a command names.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// Which.
    pub umem: u32,
    /// Byte from its beginning.
    pub at: u64,
}

/// CREATE_UMEM.
pub fn create(
    fw: &mut Firmware,
    cx: &Cx,
    input: CreateUmemIn<&[u8]>,
    mut out: CreateUmemOut<&mut [u8]>,
) -> Result<(), CmdError> {
    let (umem, list) = (input.umem(), tail(input.0, CreateUmemIn::SIZE));
    if umem.ats() {
        return Err(error::BAD_ATTRIBUTE.with("address translation services"));
    }
    let (count, log_page_size) = (umem.num_of_mtt(), umem.log_page_size());
    let log_page = LOG_ADAPTER_PAGE + u32::from(log_page_size);
    let offset = umem.page_offset();
    // Larger pages are refused by the page list.
    let page = 1u64 << log_page.min(31);
    let size = u32::try_from(count).ok();
    let size = size.and_then(|count| (u64::from(count) * page).checked_sub(offset.into()));
    let Some(size) = size.filter(|&size| size > 0) else {
        return Err(error::BAD_PAGE_LIST.with(format!("{count} pages, from byte {offset} on")));
    };
    let pages = PageList::new(&fw.page_budget, list, log_page_size, offset, size)?;
    let entries = list.chunks_exact(MttEntry::SIZE).take(count as usize).map(MttEntry);
    let (mut readable, mut writable) = (true, true);
    for entry in entries {
        readable &= entry.rd_en();
        writable &= entry.wr_en();
    }
    if !readable {
        return Err(error::BAD_ATTRIBUTE.with("pages that can't be read"));
    }
    let umem = Umem { pages, writable, uid: cx.uid };
    let id = fw.umems.insert(umem).map_err(|e| error::TABLE_FULL.with(e.to_string()))?;
    out.set_umem_id(id);
    Ok(())
}

/// DESTROY_UMEM.
pub fn destroy(fw: &mut Firmware, cx: &Cx, input: DestroyUmemIn<&[u8]>) -> Result<(), CmdError> {
    find(fw, cx.uid, input.umem_id())?;
    fw.umems.remove(input.umem_id()).map_err(|e| error::removal(e, &error::NO_SUCH_UMEM))?;
    Ok(())
}

/// The range with this id, if user context `uid` may reach it.
fn find(fw: &Firmware, uid: u16, id: u32) -> Result<&Umem, CmdError> {
    let umem = fw.umems.get(id);
    error::owned(umem.map(|umem| umem.uid), uid, id, &error::NO_SUCH_UMEM)?;
    umem.ok_or_else(|| error::NO_SUCH_UMEM.with(format!("umem {id:#x}")))
}

/// A queue's buffer of `size` bytes. `written`: the device writes to it.
pub fn buffer(
    fw: &Firmware,
    uid: u16,
    place: Place,
    size: u64,
    written: bool,
) -> Result<PageList, CmdError> {
    let Place { umem: id, at } = place;
    let umem = find(fw, uid, id)?;
    if written && !umem.writable {
        return Err(error::BAD_ATTRIBUTE.with(format!("umem {id:#x} can't be written")));
    }
    umem.pages.part(id, at, size)
}

/// The DMA address of a doorbell record.
pub fn doorbell_record(fw: &Firmware, uid: u16, place: Place) -> Result<u64, CmdError> {
    let Place { umem: id, at } = place;
    let located = find(fw, uid, id)?.pages.locate(at).filter(|(_, left)| *left >= 8);
    let (addr, _) = located.ok_or_else(|| {
        error::BAD_VALUE.with(format!("doorbell record at {at:#x} of umem {id:#x}"))
    })?;
    ring::doorbell_record(addr)
}
