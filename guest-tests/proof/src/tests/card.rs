//! A card of a few keys, behind a real control socket, that lies when told to.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use control::{
    Access, Answer, Envelope, Greeting, Hex, Mkey, Piece, Refusal, RefusalKind, Request, SCHEMA,
    Status, Translation,
};
use serde_json::Value;

use crate::examine::{ACCESSES, permits};

/// What it is not honest about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lie {
    /// The first piece is one frame further.
    FirstFrame,
    /// The last piece is.
    LastFrame,
    /// The first two pieces change places.
    Swapped,
    /// The last piece is one byte too short.
    PieceTooShort,
    /// The last piece is one byte too long.
    PieceTooLong,
    /// The last piece is not there.
    PieceMissing,
    /// There is one more piece.
    PieceTooMany,
    /// Another piece for anything but local reads.
    OtherFrameForOtherAccess,
    /// More is promised than comes.
    Endless,
    /// Remote reads are refused.
    RightMissing,
    /// Remote writes are permitted.
    RightTooMany,
    /// The context names one right less.
    RightMissingInContext,
    /// The context names all rights.
    RightTooManyInContext,
    /// The key is in the next domain, for the context and for accesses.
    OtherDomain,
    /// Domains are not compared.
    AnyDomain,
    /// One byte after the end belongs to it.
    EndsLate,
    /// The last byte does not belong to it.
    EndsEarly,
    /// One byte before the start belongs to it.
    StartsEarly,
    /// Lengths beyond 2^32 are cut.
    LengthCut,
    /// The context has another length.
    LengthInContext,
    /// The context says 2^64.
    Length64,
    /// The context has another first address.
    StartInContext,
    /// The context says that the key is free.
    FreeInContext,
    /// The key is not known at all.
    NoContext,
    /// Variants are not compared.
    AnyVariant,
    /// Keys that are freed stay.
    Immortal,
    /// So do keys that a change replaced.
    ImmortalWhenChanged,
    /// Refuses for a wrong reason.
    WrongReason,
    /// A live key is left over at the end.
    LeakedKey,
    /// A protection domain is.
    LeakedDomain,
    /// A queue is gone.
    LostQueue,
    /// A table is not empty without a driver.
    FullTable,
    /// A page is kept.
    KeptPage,
    /// A call that fails creates a key.
    CreatesOnFailure,
    /// It edits one.
    EditsOnFailure,
    /// Nothing is counted.
    CountsNothing,
    /// Edits are not counted.
    CountsNoEdits,
    /// Live keys are not counted.
    CountsNoKeys,
}

pub struct Key {
    pub variant: u32,
    pub domain: u32,
    pub access: u32,
    pub start: u64,
    pub length: u64,
    pub runs: Vec<(u64, u64)>,
}

pub struct State {
    pub keys: BTreeMap<u32, Key>,
    pub objects: BTreeMap<String, u64>,
    pub created: u64,
    pub edited: u64,
    pub pages: u64,
    pub lie: Option<Lie>,
}

impl Default for State {
    fn default() -> Self {
        let objects = [("mkey", 40), ("pd", 3), ("qp", 2), ("srq", 0)];
        Self {
            keys: BTreeMap::new(),
            objects: objects.map(|(kind, count)| (kind.to_owned(), count)).into(),
            created: 40,
            edited: 1,
            pages: 100,
            lie: None,
        }
    }
}

impl State {
    pub fn lies(&self, lie: Lie) -> bool {
        self.lie == Some(lie)
    }

    fn status(&self) -> Status {
        let mut objects = self.objects.clone();
        // The driver has two keys of its own, until it goes.
        let own = if objects["mkey"] == 0 { 0 } else { 2 };
        if !self.lies(Lie::CountsNoKeys) {
            objects.insert("mkey_live".to_owned(), self.keys.len() as u64 + own);
        }
        let mut counters = BTreeMap::from([("interrupts".to_owned(), 7)]);
        if !self.lies(Lie::CountsNothing) {
            counters.insert("command:CREATE_MKEY".to_owned(), self.created);
        }
        if !self.lies(Lie::CountsNoEdits) {
            counters.insert("umr".to_owned(), self.edited);
        }
        Status {
            state: "ready".to_owned(),
            connected: true,
            connections: 1,
            objects,
            pages: self.pages,
            counters,
        }
    }

    fn mkey(&self, key: u32) -> Option<Mkey> {
        let found = self.keys.get(&(key >> 8)).filter(|found| found.variant == key & 0xff)?;
        let mut access: Vec<Access> =
            ACCESSES.into_iter().filter(|&access| permits(found.access, access)).collect();
        if self.lies(Lie::RightMissingInContext) {
            access.pop();
        }
        if self.lies(Lie::RightTooManyInContext) {
            access = ACCESSES.to_vec();
        }
        let lie = |lie, by| if self.lies(lie) { by } else { 0 };
        (!self.lies(Lie::NoContext)).then(|| Mkey {
            key: key.into(),
            free: self.lies(Lie::FreeInContext),
            mode: "MTT".to_owned(),
            pd: found.domain + u32::from(self.lies(Lie::OtherDomain)),
            start: Hex(found.start + lie(Lie::StartInContext, 4096)),
            length: Hex(found.length + lie(Lie::LengthInContext, 1)),
            length64: self.lies(Lie::Length64),
            log_page_size: 12,
            access,
            capacity: 4,
            filled: 4,
        })
    }

    fn translate(
        &self,
        key: u32,
        (address, length): (u64, u64),
        access: Access,
        domain: Option<u32>,
    ) -> Result<Vec<(u64, u64)>, &'static str> {
        let Some(found) = self.keys.get(&(key >> 8)) else {
            return Err(if self.lies(Lie::WrongReason) { "free_kea" } else { "no_such_key" });
        };
        if found.variant != key & 0xff && !self.lies(Lie::AnyVariant) {
            return Err("wrong_variant");
        }
        let own = found.domain + u32::from(self.lies(Lie::OtherDomain));
        if domain.is_some_and(|domain| domain != own) && !self.lies(Lie::AnyDomain) {
            return Err("pd_mismatch");
        }
        let granted = match access {
            Access::RemoteRead if self.lies(Lie::RightMissing) => false,
            Access::RemoteWrite if self.lies(Lie::RightTooMany) => true,
            _ => permits(found.access, access),
        };
        if !granted {
            return Err("right_missing");
        }
        let early = u64::from(self.lies(Lie::StartsEarly));
        let late = i128::from(self.lies(Lie::EndsLate)) - i128::from(self.lies(Lie::EndsEarly));
        let length = if self.lies(Lie::LengthCut) { length & 0xffff_ffff } else { length };
        let end = i128::from(found.start) + i128::from(found.length) + late;
        let too_early = address < found.start.saturating_sub(early);
        if too_early || i128::from(address) + i128::from(length) > end {
            return Err("out_of_bounds");
        }
        let mut runs = found.runs.clone();
        let first = access == Access::LocalRead;
        match self.lie {
            Some(Lie::FirstFrame) => runs.first_mut().unwrap().0 += 4096,
            Some(Lie::OtherFrameForOtherAccess) if !first => runs[0].0 += 4096,
            Some(Lie::LastFrame) => runs.last_mut().unwrap().0 += 4096,
            Some(Lie::Swapped) if runs.len() > 1 => runs.swap(0, 1),
            Some(Lie::PieceTooShort) => runs.last_mut().unwrap().1 -= 1,
            Some(Lie::PieceTooLong) => runs.last_mut().unwrap().1 += 1,
            Some(Lie::PieceMissing) => drop(runs.pop()),
            Some(Lie::PieceTooMany) => runs.push((0x9_9000, 1)),
            _ => {}
        }
        Ok(runs)
    }

    fn answer(&self, request: &Request) -> Result<Value, Refusal> {
        let value = match request {
            Request::Status {} => serde_json::to_value(self.status()),
            Request::Mkey { key } => {
                let mkey = self.mkey(u32::try_from(key.0).unwrap()).ok_or_else(|| Refusal {
                    kind: RefusalKind::NotFound,
                    message: "no such key".to_owned(),
                })?;
                serde_json::to_value(mkey)
            }
            Request::Translate { key, address, length, access, pd, skip, limit } => {
                let key = u32::try_from(key.0).unwrap();
                let translation = match self.translate(key, (address.0, length.0), *access, *pd) {
                    Err(reason) => {
                        Translation::Refused { reason: reason.to_owned(), message: "no".to_owned() }
                    }
                    Ok(runs) => {
                        let rest = runs.iter().skip(usize::try_from(*skip).unwrap());
                        // Few at a time, so that there is something to go through.
                        let some: Vec<Piece> = rest
                            .clone()
                            .take((*limit).min(2) as usize)
                            .map(|&(address, length)| Piece {
                                address: address.into(),
                                length: length.into(),
                            })
                            .collect();
                        let more = rest.count() > some.len() || self.lies(Lie::Endless);
                        Translation::Pieces { pieces: some, more }
                    }
                };
                serde_json::to_value(translation)
            }
            other => panic!("the judge asks {other:?}"),
        };
        Ok(value.unwrap())
    }
}

/// Serves one client until it goes.
pub fn serve(path: &Path, state: &Arc<Mutex<State>>) -> JoinHandle<()> {
    let listener = UnixListener::bind(path).unwrap();
    let state = Arc::clone(state);
    std::thread::spawn(move || talk(listener.accept().unwrap().0, &state))
}

fn talk(stream: UnixStream, state: &Mutex<State>) {
    let mut out = stream.try_clone().unwrap();
    let mut send = |line: Value| writeln!(out, "{line}");
    let greeting = Greeting { mlx5emu: "test".to_owned(), schema: SCHEMA };
    send(serde_json::to_value(greeting).unwrap()).unwrap();
    for line in BufReader::new(stream).lines() {
        let envelope: Envelope = serde_json::from_str(&line.unwrap()).unwrap();
        let answer = match state.lock().unwrap().answer(&envelope.request) {
            Ok(value) => Answer { id: envelope.id, ok: Some(value), error: None },
            Err(refusal) => Answer { id: envelope.id, ok: None, error: Some(refusal) },
        };
        // The judge may have seen enough.
        if send(serde_json::to_value(answer).unwrap()).is_err() {
            return;
        }
    }
}
