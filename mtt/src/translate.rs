//! Keys that lead straight to memory. This is on the path of every byte that the device moves: one
//! look at the key, one at the entry, and no allocation for a piece.

use std::ops::ControlFlow;

use crate::context::flag;
use crate::keys::{Key, page_rights};
use crate::{
    Access, Cause, MAX_ENTRIES, Mode, Mtt, NULL_KEY, Piece, Pieces, Place, Question, Refusal,
    index_of, variant_of,
};

/// One key on the way to memory, and what is wanted of it.
#[derive(Clone, Copy)]
pub(crate) struct Step {
    pub key: u32,
    pub addr: u64,
    pub len: u64,
    /// The flags that the key must have.
    pub flags: u16,
    pub pd: Option<u32>,
    /// How many indirect keys led here.
    pub depth: u32,
}

/// What is the same for all steps of one question.
pub(crate) struct Walk<F> {
    pub access: Access,
    pub qpn: Option<u32>,
    /// The rights that pages must have.
    rights: u64,
    /// How many more entries of indirect keys may be looked at.
    pub entries_left: u32,
    take: F,
}

/// What a step came to; `Break` when the asker wants no more pieces.
pub(crate) type Outcome = Result<ControlFlow<()>, Refusal>;

impl Step {
    /// The access that is asked of this key, refused.
    #[cold]
    pub fn refuse(&self, access: Access, cause: Cause) -> Refusal {
        Refusal { key: self.key, addr: self.addr, len: self.len, access, cause }
    }
}

impl Mtt {
    /// Answers the question wholly: all pieces, those of memory that follow one another joined, or
    /// a refusal and no piece.
    #[inline]
    pub fn translate(&self, question: &Question, pieces: &mut Pieces) -> Result<(), Refusal> {
        pieces.clear();
        // Where a piece would have to begin to be joined to the last.
        let mut end = None;
        let result = self.visit(question, |piece| {
            let joins = match piece.place {
                Place::Memory(addr) => end == Some(addr),
                Place::Null => false,
            };
            match pieces.last_mut() {
                Some(last) if joins => last.len += piece.len,
                _ => pieces.push(piece),
            }
            end = match piece.place {
                Place::Memory(addr) => addr.checked_add(piece.len),
                Place::Null => None,
            };
            ControlFlow::Continue(())
        });
        if result.is_err() {
            pieces.clear();
        }
        result
    }

    /// Answers the question piece by piece, a page at a time, for those who don't need all of it at
    /// once. What comes after a `Break` is not judged; a refusal may come after some pieces.
    #[inline]
    pub fn visit(
        &self,
        question: &Question,
        take: impl FnMut(Piece) -> ControlFlow<()>,
    ) -> Result<(), Refusal> {
        let &Question { key, addr, len, access, pd, qpn } = question;
        let mut walk = Walk {
            access,
            qpn,
            rights: page_rights(access.reads(), access.writes()),
            entries_left: MAX_ENTRIES,
            take,
        };
        let step = Step { key, addr, len, flags: access.flags(), pd, depth: 0 };
        self.reach(&step, &mut walk).map(drop)
    }

    #[inline]
    pub(crate) fn reach<F>(&self, step: &Step, walk: &mut Walk<F>) -> Outcome
    where
        F: FnMut(Piece) -> ControlFlow<()>,
    {
        let key = match self.judge(step, walk.qpn) {
            Ok(key) => key,
            Err(Cause::NoSuchKey) if step.key == NULL_KEY => return reach_null(step, walk),
            Err(cause) => return Err(step.refuse(walk.access, cause)),
        };
        match key.context.mode {
            _ if step.len == 0 => Ok(ControlFlow::Continue(())),
            Mode::Mtt => reach_pages(key, step, walk),
            Mode::Pa => Ok((walk.take)(Piece { place: Place::Memory(step.addr), len: step.len })),
            Mode::Klm | Mode::Ksm => self.reach_behind(key, step, walk),
        }
    }

    /// The key, if it permits the step as far as its context can tell.
    #[inline]
    fn judge(&self, step: &Step, qpn: Option<u32>) -> Result<&Key, Cause> {
        let key = self.keys.get(index_of(step.key)).ok_or(Cause::NoSuchKey)?;
        let context = &key.context;
        if context.variant != variant_of(step.key) {
            return Err(Cause::WrongVariant { variant: context.variant });
        }
        if context.is(flag::FREE) {
            return Err(Cause::Free);
        }
        if let Some(asker) = step.pd.filter(|&pd| pd != context.pd) {
            return Err(Cause::PdMismatch { key: context.pd, asker });
        }
        if let Some(asker) = qpn.filter(|&qpn| context.is_bound() && qpn != context.qpn) {
            return Err(Cause::QpMismatch { key: context.qpn, asker });
        }
        if !context.is(step.flags) {
            return Err(Cause::RightMissing);
        }
        let len = (!context.is(flag::LENGTH64)).then_some(context.len);
        let inside = step.addr.checked_sub(context.start).is_some_and(|offset| {
            // Address 2^64 is the end of every key.
            let room = len.map_or(u64::MAX, |len| len.saturating_sub(offset));
            let fits = step.len <= room && len.is_none_or(|len| offset <= len);
            fits && step.addr.checked_add(step.len.saturating_sub(1)).is_some()
        });
        if !inside {
            return Err(Cause::OutOfBounds { start: context.start, len });
        }
        Ok(key)
    }
}

#[cold]
fn reach_null<F>(step: &Step, walk: &mut Walk<F>) -> Outcome
where
    F: FnMut(Piece) -> ControlFlow<()>,
{
    if step.flags & !(flag::LR | flag::LW) != 0 {
        return Err(step.refuse(walk.access, Cause::RightMissing));
    }
    match step.len {
        0 => Ok(ControlFlow::Continue(())),
        len => Ok((walk.take)(Piece { place: Place::Null, len })),
    }
}

/// The table starts with the page that has the key's first address, at the address that is a
/// multiple of the page size.
///
/// `judge` saw that the last address of the step is below 2^64 and the first not below the key's
/// start, so nothing here overflows.
#[inline]
fn reach_pages<F>(Key { store, context }: &Key, step: &Step, walk: &mut Walk<F>) -> Outcome
where
    F: FnMut(Piece) -> ControlFlow<()>,
{
    let page_mask = (1u64 << (context.log_page_size & 63)) - 1;
    let from_first_page = step.addr - (context.start & !page_mask);
    let mut index = from_first_page >> (context.log_page_size & 63);
    let mut offset = from_first_page & page_mask;
    let mut left = step.len;
    loop {
        let entry = store.get(index);
        if entry & walk.rights != walk.rights {
            let cause = match entry & page_rights(true, true) {
                0 => Cause::EntryNotPresent { index },
                _ => Cause::EntryRightMissing { index },
            };
            return Err(step.refuse(walk.access, cause));
        }
        let len = left.min(page_mask - offset + 1);
        let flow = (walk.take)(Piece { place: Place::Memory(entry & !page_mask | offset), len });
        left -= len;
        if left == 0 || flow.is_break() {
            return Ok(flow);
        }
        index += 1;
        offset = 0;
    }
}
