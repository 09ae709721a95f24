//! Guest pages that the device is given to keep its contexts in.
//!
//! A card has no memory of its own for queue and key contexts: it asks the driver for pages, a
//! number at boot, a number before INIT_HCA, and more by event as objects are made; all go back
//! at teardown. Our contexts live in the process, so the pages' contents are never touched, but
//! they are asked for, counted and given back as a card does, because driver bugs live there.

use std::collections::BTreeSet;

use layouts::{EventType, ManagePagesIn, ManagePagesOut, QueryPagesIn, QueryPagesOut, be64_at};
use probe::at;

use crate::error::{self, CmdError};
use crate::lifecycle::{State, own_function};
use crate::{Cx, Firmware};

/// Pages asked for before capabilities are exchanged.
const BOOT_PAGES: u32 = 64;
/// Pages asked for before INIT_HCA: room for the contexts of an idle driver and its key cache.
const INIT_PAGES: u32 = 512;
/// How many pages one request event asks for.
const REQUEST_PAGES: u32 = 256;
/// Most pages the device keeps count of (4 GiB of guest memory).
const MAX_PAGES: usize = 1 << 20;
/// Size of a page given, in bytes.
const PAGE: u64 = 4096;

/// The guest's pages.
#[derive(Debug, Default)]
pub struct Pages {
    given: BTreeSet<u64>,
    /// A request event that has not been answered.
    asked: bool,
    /// The guest said that it has none to give; not asked again until it gives some.
    refused: bool,
}

impl Pages {
    /// How many pages the device holds.
    pub fn held(&self) -> u64 {
        self.given.len() as u64
    }

    /// Forgets all.
    pub fn reset(&mut self) {
        let Self { given, asked, refused } = self;
        given.clear();
        *asked = false;
        *refused = false;
    }
}

/// Bytes of context that each kind of object takes on a card, and the table behind it.
fn context_bytes(fw: &Firmware) -> u64 {
    let mkeys = fw.mtt.len() as u64 * 64;
    let queues = fw.qps.len() as u64 * 512 + fw.cqs.len() as u64 * 128 + fw.srqs.len() as u64 * 128;
    mkeys + queues + fw.mtt.filled() * 8
}

/// Asks the guest for more pages when the objects' contexts have outgrown those it gave. Called
/// after each command that can make an object.
pub fn replenish(fw: &mut Firmware, cx: &Cx) {
    if fw.life.state != State::Ready || fw.pages.asked || fw.pages.refused {
        return;
    }
    let reserve = u64::from(REQUEST_PAGES / 2);
    if context_bytes(fw) / PAGE + reserve <= fw.pages.held() || fw.pages.given.len() >= MAX_PAGES {
        return;
    }
    // Asking for as many as there are doubles the supply: a driver that makes a million keys is
    // asked a dozen times.
    let count = REQUEST_PAGES.max(fw.pages.held().min(1 << 15) as u32);
    at!(cx.probe, Pages, asked = count, held = fw.pages.held());
    fw.pages.asked = fw.eqs.post_async((cx.bus, cx.probe), EventType::PAGE_REQUEST, 0, |eqe| {
        let mut data = eqe.req_pages_mut();
        data.set_func_id(0);
        data.set_num_pages(count);
    });
}

/// QUERY_PAGES.
pub fn query(
    fw: &mut Firmware,
    cx: &Cx,
    input: QueryPagesIn<&[u8]>,
    mut out: QueryPagesOut<&mut [u8]>,
) -> Result<(), CmdError> {
    own_function(input.function_id())?;
    let wanted = match cx.op_mod {
        1 => BOOT_PAGES,
        2 => BOOT_PAGES + INIT_PAGES,
        // Pages wanted at run time are asked for by event.
        3 => 0,
        other => return Err(error::BAD_OP_MOD.with(format!("op_mod {other}"))),
    };
    out.set_num_pages(wanted.saturating_sub(fw.pages.held() as u32));
    Ok(())
}

/// MANAGE_PAGES.
pub fn manage(
    fw: &mut Firmware,
    cx: &Cx,
    input: ManagePagesIn<&[u8]>,
    out: ManagePagesOut<&mut [u8]>,
) -> Result<(), CmdError> {
    own_function(input.function_id())?;
    match cx.op_mod {
        0 => {
            fw.pages.asked = false;
            fw.pages.refused = true;
            cx.probe.mistake("no pages", || "the driver can't give pages".into());
            Ok(())
        }
        1 => {
            give(fw, input)?;
            let given = input.input_num_entries();
            at!(cx.probe, Pages, given = given, held = fw.pages.held());
            Ok(())
        }
        2 => {
            let returned = take(fw, input.input_num_entries(), out);
            at!(cx.probe, Pages, returned = returned, held = fw.pages.held());
            Ok(())
        }
        other => Err(error::BAD_OP_MOD.with(format!("op_mod {other}"))),
    }
}

fn give(fw: &mut Firmware, input: ManagePagesIn<&[u8]>) -> Result<(), CmdError> {
    let count = input.input_num_entries() as usize;
    let list = crate::tail(input.0, ManagePagesIn::SIZE);
    if list.len() / 8 < count {
        return Err(error::INPUT_TOO_SHORT
            .with(format!("{count} pages named, {} in the list", list.len() / 8)));
    }
    if fw.pages.given.len() + count > MAX_PAGES {
        return Err(error::PAGES_TOO_MANY
            .with(format!("{count} more than the {} it holds", fw.pages.given.len())));
    }
    // All or none: a driver frees every page of a list that was refused.
    let mut taken = Vec::with_capacity(count);
    for page in (0..count).map(|i| be64_at(list, i * 8)) {
        if page % PAGE != 0 || !fw.pages.given.insert(page) {
            taken.iter().for_each(|page| {
                fw.pages.given.remove(page);
            });
            return Err(error::PAGE_NOT_GIVEN.with(format!(
                "page {page:#x} is {}",
                if page % PAGE != 0 { "not aligned" } else { "given already" }
            )));
        }
        taken.push(page);
    }
    fw.pages.asked = false;
    fw.pages.refused = false;
    Ok(())
}

/// Gives back at most `wanted` pages, and no more than the reply has room for. Returns how many.
fn take(fw: &mut Firmware, wanted: u32, mut out: ManagePagesOut<&mut [u8]>) -> u32 {
    // While the device runs, its contexts need the pages that they fill.
    let needed = if fw.life.state == State::Ready { context_bytes(fw) / PAGE } else { 0 };
    let spare = fw.pages.held().saturating_sub(needed);
    let room = out.0.len().saturating_sub(ManagePagesOut::SIZE) / 8;
    let count = u64::from(wanted).min(spare).min(room as u64) as usize;
    for i in 0..count {
        if let Some(page) = fw.pages.given.pop_last()
            && let Some(entry) =
                out.0.get_mut(ManagePagesOut::SIZE + i * 8..).and_then(|b| b.first_chunk_mut())
        {
            *entry = page.to_be_bytes();
        }
    }
    out.set_output_num_entries(count as u32);
    count as u32
}
