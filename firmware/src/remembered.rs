//! Translations as they were, for faults that use them once more.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};

use mtt::Piece;

/// Most translations that are remembered, and pieces of one; of what is longer nothing is.
const MOST: usize = 1024;
const PIECES: usize = 256;

/// A key, an address and a length.
type Asked = (u32, u64, u64);

/// What was asked, and what the answer was, of the translations that were used last.
#[derive(Debug, Default)]
pub struct Remembered(RefCell<Answers>);

#[derive(Debug, Default)]
struct Answers {
    by_question: BTreeMap<Asked, Vec<Piece>>,
    in_order: VecDeque<Asked>,
}

impl Remembered {
    /// Remembers an answer, instead of an earlier one to the same question.
    pub fn note(&self, asked: Asked, pieces: &[Piece]) {
        if pieces.len() > PIECES {
            return;
        }
        let Answers { by_question, in_order } = &mut *self.0.borrow_mut();
        if by_question.insert(asked, pieces.to_vec()).is_none() {
            in_order.push_back(asked);
        }
        if in_order.len() > MOST
            && let Some(oldest) = in_order.pop_front()
        {
            by_question.remove(&oldest);
        }
    }

    /// Puts the answer that was given last to `pieces`; false if there was none.
    pub fn recall(&self, asked: Asked, pieces: &mut Vec<Piece>) -> bool {
        let answers = self.0.borrow();
        let Some(old) = answers.by_question.get(&asked) else { return false };
        pieces.clone_from(old);
        true
    }

    /// Forgets all.
    pub fn reset(&mut self) {
        *self.0.get_mut() = Answers::default();
    }
}

#[cfg(test)]
mod tests {
    use mtt::Place;

    use super::*;

    #[test]
    fn the_last_answer_is_remembered_and_memory_is_bounded() {
        let remembered = Remembered::default();
        let piece = |at| Piece { place: Place::Memory(at), len: 16 };
        let mut pieces = Vec::new();
        for n in 0..2 * MOST as u64 {
            remembered.note((7, n, 16), &[piece(0)]);
            remembered.note((7, n, 16), &[piece(n)]);
        }
        assert!(!remembered.recall((7, 0, 16), &mut pieces), "the oldest are forgotten");
        assert!(remembered.recall((7, MOST as u64, 16), &mut pieces));
        assert_eq!(pieces, [piece(MOST as u64)]);
        remembered.note((8, 0, 16), &vec![piece(0); PIECES + 1]);
        assert!(!remembered.recall((8, 0, 16), &mut pieces));
        assert_eq!(remembered.0.borrow().by_question.len(), MOST);
    }
}
