//! Pages that the card is given to keep its contexts in, and takes back from it.

use std::collections::{BTreeSet, VecDeque};

use layouts::{ManagePagesIn, ManagePagesOut, Opcode, QueryPagesIn, QueryPagesOut};

use crate::driver::Driver;
use crate::memory::PAGE;
use crate::port::{Port, Result, broken};

/// MANAGE_PAGES: the driver gives pages.
const GIVE: u16 = 1;
/// MANAGE_PAGES: the driver takes pages back.
const TAKE: u16 = 2;
/// How many pages a driver asks back in one command.
const RECLAIM: usize = 768;

/// For which stage QUERY_PAGES asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Before capabilities are exchanged.
    Boot = 1,
    /// Before INIT_HCA.
    Init = 2,
}

/// The card's pages.
#[derive(Debug, Default)]
pub struct Pages {
    /// Their addresses.
    pub given: BTreeSet<u64>,
    /// Requests that came by event: pages wanted, or (negative) offered back.
    pub(crate) requests: VecDeque<i32>,
}

impl<P: Port> Driver<P> {
    /// Asks how many pages the card needs for a stage, and gives them. Returns how many.
    pub fn satisfy(&mut self, stage: Stage) -> Result<usize> {
        let reply = self.exec(
            Opcode::QUERY_PAGES,
            stage as u16,
            [0; QueryPagesIn::SIZE],
            QueryPagesOut::SIZE,
        )?;
        let wanted = QueryPagesOut(&reply).num_pages() as i32;
        let wanted = usize::try_from(wanted).unwrap_or(0);
        if wanted > 0 {
            self.give_pages(wanted)?;
        }
        Ok(wanted)
    }

    /// Gives the card `count` pages.
    pub fn give_pages(&mut self, count: usize) -> Result<()> {
        let mut input = vec![0; ManagePagesIn::SIZE + 8 * count];
        let mut view = ManagePagesIn(&mut input[..]);
        view.set_input_num_entries(count as u32);
        let mut pages = Vec::with_capacity(count);
        for n in 0..count {
            let page = self.memory.alloc(PAGE)?;
            view.set_pas(n, page);
            pages.push(page);
        }
        self.exec(Opcode::MANAGE_PAGES, GIVE, input, ManagePagesOut::SIZE)?;
        self.pages.given.extend(pages);
        Ok(())
    }

    /// Asks for at most `wanted` pages back; returns how many came.
    pub fn take_pages(&mut self, wanted: usize) -> Result<usize> {
        let mut input = [0; ManagePagesIn::SIZE];
        ManagePagesIn(&mut input[..]).set_input_num_entries(wanted as u32);
        let outlen = ManagePagesOut::SIZE + 8 * wanted;
        let reply = self.exec(Opcode::MANAGE_PAGES, TAKE, input, outlen)?;
        let view = ManagePagesOut(&reply[..]);
        let count = view.output_num_entries() as usize;
        if count > wanted {
            return broken(format!("{count} pages came back where {wanted} were asked for"));
        }
        for page in view.pas().take(count) {
            if !self.pages.given.remove(&page) {
                return broken(format!("page {page:#x} came back, which the card does not have"));
            }
            self.memory.free(page, PAGE);
        }
        Ok(count)
    }

    /// Takes all pages back.
    pub fn reclaim_pages(&mut self) -> Result<()> {
        while !self.pages.given.is_empty() {
            let left = self.pages.given.len();
            if self.take_pages(RECLAIM.min(left))? == 0 {
                return broken(format!("{left} pages do not come back"));
            }
        }
        Ok(())
    }

    /// Does what the card asked for by event.
    pub fn serve_page_requests(&mut self) -> Result<()> {
        while let Some(wanted) = self.pages.requests.pop_front() {
            match usize::try_from(wanted) {
                Ok(count) => self.give_pages(count)?,
                Err(_) => drop(self.take_pages(wanted.unsigned_abs() as usize)?),
            }
        }
        Ok(())
    }
}
