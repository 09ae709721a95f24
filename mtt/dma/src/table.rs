//! One table type for all objects: ids are given out, looked up, referenced and given back by one
//! piece of code, so that a double destroy, a destroy while in use and an unknown id are answered
//! the same way for every kind of object.

use std::collections::VecDeque;

use thiserror::Error;

/// No id is left: the configured number of objects exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("table is full ({limit} objects)")]
pub struct TableFull {
    /// How many objects the table may hold.
    pub limit: u32,
}

/// Why an object was not removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum RemoveError {
    /// No object has this id.
    #[error("no object has id {0:#x}")]
    Unknown(u32),
    /// Other objects still refer to it.
    #[error("object {id:#x} is in use by {users} others")]
    Busy {
        /// The object's id.
        id: u32,
        /// How many references are held.
        users: u32,
    },
}

#[derive(Debug)]
struct Slot<T> {
    users: u32,
    object: Option<T>,
}

/// How many ids rest before the one that was given back first is used again.
const REST: usize = 4096;

/// Objects by id. Lookup is O(1); an id that was given back is not used again before many others
/// were, as long as there are others.
///
/// Ids begin at `first`, which callers set above zero so that an id of zero, the mark of a field
/// that nobody filled in, names no object.
#[derive(Debug)]
pub struct Table<T> {
    first: u32,
    limit: u32,
    slots: Vec<Slot<T>>,
    free: VecDeque<u32>,
    live: u32,
}

impl<T> Table<T> {
    /// An empty table of at most `limit` objects whose ids begin at `first`.
    pub fn new(first: u32, limit: u32) -> Self {
        Self { first, limit, slots: Vec::new(), free: VecDeque::new(), live: 0 }
    }

    /// Adds an object and returns its id.
    pub fn insert(&mut self, object: T) -> Result<u32, TableFull> {
        if self.live >= self.limit {
            return Err(TableFull { limit: self.limit });
        }
        // The longer an id rests, the likelier a stale use of it is noticed; but the table must not
        // grow without end because objects come and go.
        let fresh_left = (self.slots.len() as u64) < u64::from(self.limit);
        let index = if fresh_left && self.free.len() < REST {
            self.slots.push(Slot { users: 0, object: None });
            (self.slots.len() - 1) as u32
        } else {
            self.free.pop_front().ok_or(TableFull { limit: self.limit })?
        };
        let slot = self.slots.get_mut(index as usize).ok_or(TableFull { limit: self.limit })?;
        slot.object = Some(object);
        self.live += 1;
        Ok(self.first + index)
    }

    fn slot(&self, id: u32) -> Option<&Slot<T>> {
        self.slots.get(id.checked_sub(self.first)? as usize)
    }

    fn slot_mut(&mut self, id: u32) -> Option<&mut Slot<T>> {
        self.slots.get_mut(id.checked_sub(self.first)? as usize)
    }

    /// The object with this id.
    pub fn get(&self, id: u32) -> Option<&T> {
        self.slot(id)?.object.as_ref()
    }

    /// The object with this id, to be changed.
    pub fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        self.slot_mut(id)?.object.as_mut()
    }

    /// Notes that another object refers to `id`; false if there is no such object.
    #[must_use]
    pub fn hold(&mut self, id: u32) -> bool {
        match self.slot_mut(id) {
            Some(slot) if slot.object.is_some() => {
                slot.users += 1;
                true
            }
            _ => false,
        }
    }

    /// Takes one reference to `id` back.
    pub fn release(&mut self, id: u32) {
        if let Some(slot) = self.slot_mut(id) {
            debug_assert!(slot.users > 0, "object {id:#x} released more often than held");
            slot.users = slot.users.saturating_sub(1);
        }
    }

    /// How many references to `id` are held.
    pub fn users(&self, id: u32) -> u32 {
        self.slot(id).map_or(0, |slot| slot.users)
    }

    /// Removes an object that nothing refers to.
    pub fn remove(&mut self, id: u32) -> Result<T, RemoveError> {
        let slot = self.slot_mut(id).ok_or(RemoveError::Unknown(id))?;
        if slot.object.is_some() && slot.users > 0 {
            return Err(RemoveError::Busy { id, users: slot.users });
        }
        let object = slot.object.take().ok_or(RemoveError::Unknown(id))?;
        self.live -= 1;
        self.free.push_back(id - self.first);
        Ok(object)
    }

    /// How many objects exist.
    pub fn len(&self) -> usize {
        self.live as usize
    }

    /// Whether no object exists.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// All objects with their ids, by rising id.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (self.first..).zip(&self.slots).filter_map(|(id, slot)| Some((id, slot.object.as_ref()?)))
    }

    /// All objects with their ids, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        (self.first..)
            .zip(&mut self.slots)
            .filter_map(|(id, slot)| Some((id, slot.object.as_mut()?)))
    }

    /// Forgets every object and every reference, and gives the memory back.
    pub fn clear(&mut self) {
        let Self { first: _, limit: _, slots, free, live } = self;
        *slots = Vec::new();
        *free = VecDeque::new();
        *live = 0;
    }
}
