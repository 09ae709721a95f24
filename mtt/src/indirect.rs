//! Keys that lead to other keys: lists of runs (KLM), strided blocks within them, and tables of
//! equal pages (KSM).
//!
//! Each entry names a key, an address in that key's own address space and a length. That key must
//! belong to the same protection domain and is reached with local rights. A guest can make keys
//! lead to one another without end, or to nothing for a long time, so depth and work are bounded.

use std::ops::ControlFlow;

use layouts::{KlmEntry, STRIDE_BLOCK_OP, StrideBlock, StrideEntry};

use crate::keys::Key;
use crate::translate::{Outcome, Step, Walk};
use crate::{Cause, Mode, Mtt, Piece, Refusal};

/// How many indirect keys may lead to one another.
pub const MAX_DEPTH: u32 = 4;

/// How many entries of indirect keys one access may look at; capabilities must not promise lists
/// (`log_max_klm_list_size`) that are longer than a fraction of it. It bounds an access to about a
/// millisecond.
pub const MAX_ENTRIES: u32 = 1 << 18;

/// A run of another key's bytes.
struct Run {
    key: u32,
    va: u64,
    /// Where in the run the access begins.
    skip: u64,
    len: u64,
}

/// What is still to be reached of a list: it goes on after `skip` bytes, for `left` bytes.
struct Rest {
    skip: u64,
    left: u64,
}

impl Rest {
    /// The part of a run of `len` bytes that is wanted.
    fn take(&mut self, len: u64) -> Option<(u64, u64)> {
        if self.skip >= len {
            self.skip -= len;
            return None;
        }
        let skip = std::mem::take(&mut self.skip);
        let len = self.left.min(len - skip);
        self.left -= len;
        Some((skip, len))
    }
}

impl Mtt {
    /// Reaches what lies behind an indirect key.
    #[inline(never)]
    pub(crate) fn reach_behind<F>(&self, key: &Key, step: &Step, walk: &mut Walk<F>) -> Outcome
    where
        F: FnMut(Piece) -> ControlFlow<()>,
    {
        if step.depth >= MAX_DEPTH {
            return Err(step.refuse(walk.access, Cause::TooDeep));
        }
        match key.context.mode {
            Mode::Ksm => self.reach_table(key, step, walk),
            _ => self.reach_list(key, step, walk),
        }
    }

    fn reach_table<F>(&self, key: &Key, step: &Step, walk: &mut Walk<F>) -> Outcome
    where
        F: FnMut(Piece) -> ControlFlow<()>,
    {
        // As in a table of pages.
        let log_page_size = key.context.log_page_size & 63;
        let page_mask = (1u64 << log_page_size) - 1;
        let from_first_page = step.addr - (key.context.start & !page_mask);
        let mut index = from_first_page >> log_page_size;
        let mut skip = from_first_page & page_mask;
        let mut left = step.len;
        while left > 0 {
            spend(step, walk)?;
            let entry = KlmEntry(key.store.octword(index));
            if entry.key() == 0 {
                return Err(step.refuse(walk.access, Cause::EntryNotPresent { index }));
            }
            let len = left.min(page_mask - skip + 1);
            let run = Run { key: entry.key(), va: entry.va(), skip, len };
            if self.reach_run(key, step, &run, walk)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            left -= len;
            index += 1;
            skip = 0;
        }
        Ok(ControlFlow::Continue(()))
    }

    fn reach_list<F>(&self, key: &Key, step: &Step, walk: &mut Walk<F>) -> Outcome
    where
        F: FnMut(Piece) -> ControlFlow<()>,
    {
        let mut rest = Rest { skip: step.addr - key.context.start, left: step.len };
        let mut index = 0;
        while rest.left > 0 {
            spend(step, walk)?;
            if index >= key.store.end() {
                return Err(step.refuse(walk.access, Cause::EntryNotPresent { index }));
            }
            let entry = KlmEntry(key.store.octword(index));
            if entry.key() == STRIDE_BLOCK_OP {
                let block = StrideBlock(entry.0);
                if self.reach_block(key, step, index, &block, &mut rest, walk)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                index += 1 + u64::from(block.num_entries());
                continue;
            }
            if let Some((skip, len)) = rest.take(entry.bcount().into()) {
                let run = Run { key: entry.key(), va: entry.va(), skip, len };
                if self.reach_run(key, step, &run, walk)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            index += 1;
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Reaches what is wanted of a strided block: in each cycle some bytes of every entry.
    fn reach_block<F>(
        &self,
        key: &Key,
        step: &Step,
        index: u64,
        block: &StrideBlock<[u8; 16]>,
        rest: &mut Rest,
        walk: &mut Walk<F>,
    ) -> Outcome
    where
        F: FnMut(Piece) -> ControlFlow<()>,
    {
        let (per_cycle, cycles) =
            (u64::from(block.bcount_per_cycle()), u64::from(block.repeat_count()));
        if rest.skip >= per_cycle * cycles {
            rest.skip -= per_cycle * cycles;
            return Ok(ControlFlow::Continue(()));
        }
        let bad_block = step.refuse(walk.access, Cause::BadStrideBlock { index });
        let first = rest.skip / per_cycle;
        rest.skip %= per_cycle;
        for cycle in first..cycles {
            let mut in_cycle = 0;
            for index in (index + 1..).take(block.num_entries().into()) {
                if rest.left == 0 {
                    return Ok(ControlFlow::Continue(()));
                }
                spend(step, walk)?;
                let entry = StrideEntry(key.store.octword(index));
                in_cycle += u64::from(entry.bcount());
                if in_cycle > per_cycle {
                    return Err(bad_block);
                }
                if let Some((skip, len)) = rest.take(entry.bcount().into()) {
                    let skip = skip + cycle * u64::from(entry.stride());
                    let run = Run { key: entry.key(), va: entry.va(), skip, len };
                    if self.reach_run(key, step, &run, walk)?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
            }
            if in_cycle != per_cycle {
                return Err(bad_block);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn reach_run<F>(&self, key: &Key, step: &Step, run: &Run, walk: &mut Walk<F>) -> Outcome
    where
        F: FnMut(Piece) -> ControlFlow<()>,
    {
        let next = Step {
            key: run.key,
            addr: run.va,
            len: run.len,
            flags: walk.access.flags_behind(),
            pd: Some(key.context.pd),
            depth: step.depth + 1,
        };
        match run.va.checked_add(run.skip) {
            Some(addr) => self.reach(&Step { addr, ..next }, walk),
            // The run goes on past the last address.
            None => Err(next.refuse(walk.access, Cause::OutOfBounds { start: 0, len: None })),
        }
    }
}

/// Counts one entry of work.
fn spend<F>(step: &Step, walk: &mut Walk<F>) -> Result<(), Refusal> {
    match walk.entries_left.checked_sub(1) {
        Some(left) => {
            walk.entries_left = left;
            Ok(())
        }
        None => Err(step.refuse(walk.access, Cause::TooMuchWork)),
    }
}
