//! Objects that are little more than their number: XRC domains and transport domains. Counter sets
//! are in [`counters`](crate::counters).

use dma::Table;
use layouts::{AllocTransportDomainOut, AllocXrcdOut, DeallocTransportDomainIn, DeallocXrcdIn};

use crate::counters::CounterSet;
use crate::error::{self, Cause, CmdError};
use crate::{Cx, Firmware};

/// What is kept of such an object.
#[derive(Debug)]
pub struct Plain {
    /// User context that it belongs to.
    pub uid: u16,
}

/// The tables.
#[derive(Debug)]
pub struct Objects {
    /// XRC domains.
    pub xrcds: Table<Plain>,
    /// Transport domains.
    pub tds: Table<Plain>,
    /// Counter sets.
    pub counters: Table<CounterSet>,
}

impl Objects {
    /// Empty tables of at most `limit` objects each.
    pub fn new(limit: u32) -> Self {
        Self {
            xrcds: Table::new(1, limit),
            tds: Table::new(1, limit),
            // Counter set ids are 8 bits wide.
            counters: Table::new(1, limit.min(255)),
        }
    }

    /// Forgets everything.
    pub fn reset(&mut self) {
        let Self { xrcds, tds, counters } = self;
        xrcds.clear();
        tds.clear();
        counters.clear();
    }
}

fn alloc(table: &mut Table<Plain>, uid: u16) -> Result<u32, CmdError> {
    table.insert(Plain { uid }).map_err(|e| error::TABLE_FULL.with(e.to_string()))
}

fn dealloc(
    table: &mut Table<Plain>,
    id: u32,
    uid: u16,
    unknown: &'static Cause,
) -> Result<(), CmdError> {
    error::owned(table.get(id).map(|object| object.uid), uid, id, unknown)?;
    table.remove(id).map_err(|e| error::removal(e, unknown))?;
    Ok(())
}

/// ALLOC_XRCD.
pub fn alloc_xrcd(
    fw: &mut Firmware,
    cx: &Cx,
    mut out: AllocXrcdOut<&mut [u8]>,
) -> Result<(), CmdError> {
    out.set_xrcd(alloc(&mut fw.objects.xrcds, cx.uid)?);
    Ok(())
}

/// DEALLOC_XRCD.
pub fn dealloc_xrcd(
    fw: &mut Firmware,
    cx: &Cx,
    input: DeallocXrcdIn<&[u8]>,
) -> Result<(), CmdError> {
    dealloc(&mut fw.objects.xrcds, input.xrcd(), cx.uid, &error::NO_SUCH_XRCD)
}

/// ALLOC_TRANSPORT_DOMAIN.
pub fn alloc_td(
    fw: &mut Firmware,
    cx: &Cx,
    mut out: AllocTransportDomainOut<&mut [u8]>,
) -> Result<(), CmdError> {
    out.set_transport_domain(alloc(&mut fw.objects.tds, cx.uid)?);
    Ok(())
}

/// DEALLOC_TRANSPORT_DOMAIN.
pub fn dealloc_td(
    fw: &mut Firmware,
    cx: &Cx,
    input: DeallocTransportDomainIn<&[u8]>,
) -> Result<(), CmdError> {
    dealloc(&mut fw.objects.tds, input.transport_domain(), cx.uid, &error::NO_SUCH_TD)
}
