//! Questions to the card.

use control::{
    Access, Client, ClientError, Hex, Mkey, Piece, RefusalKind, Request, Status, Translation,
};

/// Pieces that are asked for at a time.
const PIECES: u32 = 8192;

/// A card that answers on its control socket.
pub(crate) struct Card<'a> {
    client: &'a mut Client,
}

/// An access through a key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Question {
    pub key: u32,
    pub address: u64,
    pub length: u64,
    pub access: Access,
    pub domain: Option<u32>,
}

/// What the card says to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It reaches these; perhaps not all, if not all were asked for.
    Reaches(Vec<Piece>),
    /// It is refused for this reason.
    Refused(String),
}

impl<'a> Card<'a> {
    pub(crate) fn new(client: &'a mut Client) -> Self {
        Self { client }
    }

    pub(crate) fn status(&mut self) -> Result<Status, ClientError> {
        self.client.ask(Request::Status {})
    }

    /// The key's context, if there is such a key.
    pub(crate) fn mkey(&mut self, key: u32) -> Result<Option<Mkey>, ClientError> {
        match self.client.ask(Request::Mkey { key: key.into() }) {
            Ok(mkey) => Ok(Some(mkey)),
            Err(ClientError::Refused(refusal)) if refusal.kind == RefusalKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Where an access begins.
    pub(crate) fn begins(&mut self, question: Question) -> Result<Answer, ClientError> {
        Ok(match self.translate(question, 0, 1)? {
            Translation::Pieces { pieces, .. } => Answer::Reaches(pieces),
            Translation::Refused { reason, .. } => Answer::Refused(reason),
        })
    }

    /// Everything that an access reaches.
    pub(crate) fn reaches(&mut self, question: Question) -> Result<Answer, ClientError> {
        let mut all = Vec::new();
        loop {
            match self.translate(question, all.len() as u64, PIECES)? {
                Translation::Refused { reason, .. } => return Ok(Answer::Refused(reason)),
                Translation::Pieces { pieces, more } => {
                    let stuck = pieces.is_empty();
                    all.extend(pieces);
                    if !more {
                        return Ok(Answer::Reaches(all));
                    }
                    if stuck {
                        return Err(ClientError::Protocol(
                            "more pieces are promised, but none comes".to_owned(),
                        ));
                    }
                }
            }
        }
    }

    fn translate(
        &mut self,
        question: Question,
        skip: u64,
        limit: u32,
    ) -> Result<Translation, ClientError> {
        let Question { key, address, length, access, domain } = question;
        let (key, address, length) = (key.into(), Hex(address), Hex(length));
        self.client.ask(Request::Translate {
            key,
            address,
            length,
            access,
            pd: domain,
            skip,
            limit,
        })
    }
}
