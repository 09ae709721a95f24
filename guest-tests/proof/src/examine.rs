//! One registration, compared with the card.

use control::{Access, ClientError, Mkey};

use crate::card::{Answer, Card, Question};
use crate::frames::{self, Run};
use crate::protocol::Region;

/// Flags of `ibv_access_flags` and the accesses that each permits.
pub(crate) const RIGHTS: [(u32, Access); 4] = [
    (1, Access::LocalWrite),
    (2, Access::RemoteWrite),
    (4, Access::RemoteRead),
    (8, Access::RemoteAtomic),
];

/// Reasons for which a key that is gone is refused.
const GONE: [&str; 3] = ["free_key", "no_such_key", "wrong_variant"];

/// What came out.
#[derive(Debug, Default)]
pub(crate) struct Examination {
    /// What is wrong.
    pub failures: Vec<String>,
    /// Page frames that were compared.
    pub frames: u64,
    /// Accesses that the card refused as it must.
    pub refusals: u64,
    /// The key's context in the card.
    pub mkey: Option<Mkey>,
    /// Where the registration lies, as the card has it.
    pub runs: Vec<Run>,
}

/// Whether a registration with these flags permits an access. Its own card may always read it.
pub(crate) fn permits(flags: u32, access: Access) -> bool {
    RIGHTS.iter().find(|(_, other)| *other == access).is_none_or(|(flag, _)| flags & flag != 0)
}

/// Examines one registration; no list of it is longer than the guest's own.
pub(crate) fn examine(card: &mut Card<'_>, region: &Region) -> Result<Examination, ClientError> {
    let mut found = Examination::default();
    let keys = [region.lkey, region.rkey].map(|key| u32::try_from(key.0));
    let [Ok(lkey), Ok(rkey)] = keys else {
        found.failures.push(format!("keys {} and {} are too long", region.lkey, region.rkey));
        return Ok(found);
    };
    let expected = match frames::expected(region) {
        Ok(expected) => expected,
        Err(why) => {
            found.failures.push(why);
            return Ok(found);
        }
    };
    found.failures.extend(frames::fit_page_size(region).err());
    found.frames = frames::pages(region);
    of_key(card, region, lkey, &expected, &mut found)?;
    if rkey != lkey {
        of_key(card, region, rkey, &expected, &mut found)?;
    }
    Ok(found)
}

/// Checks that a key is refused whatever is asked of it.
pub(crate) fn gone(card: &mut Card<'_>, region: &Region) -> Result<Examination, ClientError> {
    let mut found = Examination::default();
    for key in [region.lkey, region.rkey].map(|key| u32::try_from(key.0)).into_iter().flatten() {
        for (length, access) in [(1, Access::LocalRead), (region.length, Access::LocalWrite)] {
            let question =
                Question { key, address: region.iova.0, length, access, domain: region.domain };
            found.must_refuse(card, question, &GONE, "the registration is gone")?;
        }
        if region.rkey == region.lkey {
            break;
        }
    }
    Ok(found)
}

fn of_key(
    card: &mut Card<'_>,
    region: &Region,
    key: u32,
    expected: &[Run],
    found: &mut Examination,
) -> Result<(), ClientError> {
    let Some(mkey) = card.mkey(key)? else {
        found.failures.push(format!("the card has no key {key:#x}"));
        return Ok(());
    };
    found.context(region, key, &mkey);
    let domain = region.domain.unwrap_or(mkey.pd);
    let whole = Question {
        key,
        address: region.iova.0,
        length: region.length,
        access: Access::LocalRead,
        domain: Some(domain),
    };
    match card.reaches(whole)? {
        Answer::Reaches(pieces) => {
            let runs = frames::answered(&pieces);
            let difference = frames::difference(expected, &runs);
            found.failures.extend(difference.map(|text| format!("key {key:#x}: {text}")));
            found.runs = runs;
        }
        Answer::Refused(reason) => {
            found.failures.push(format!("key {key:#x}: local reads are refused ({reason})"));
        }
    }
    for (flag, access) in RIGHTS {
        let question = Question { access, ..whole };
        if region.access & flag == 0 {
            found.must_refuse(card, question, &["right_missing"], "nobody gave that right")?;
        } else {
            found.must_begin(card, question, expected)?;
        }
    }
    for other in [domain ^ 1, domain.wrapping_add(0x100) & 0xff_ffff] {
        let question = Question { domain: Some(other), ..whole };
        found.must_refuse(card, question, &["pd_mismatch"], "it is another domain")?;
    }
    let other = Question { key: key ^ 1, ..whole };
    found.must_refuse(card, other, &["wrong_variant"], "it is another variant of the key")?;
    found.boundaries(card, whole)?;
    found.mkey = Some(mkey);
    Ok(())
}

impl Examination {
    /// The key's context says what the guest asked for.
    fn context(&mut self, region: &Region, key: u32, mkey: &Mkey) {
        let mut differs = |what: &str, guest: String, card: String| {
            if guest != card {
                self.failures.push(format!(
                    "key {key:#x}: {what} is {guest} for the guest, {card} for the card"
                ));
            }
        };
        let names = |list: Vec<Access>| list.into_iter().map(name).collect::<Vec<_>>().join(", ");
        differs("the key", format!("{key:#x}"), mkey.key.to_string());
        differs("free", "false".to_owned(), mkey.free.to_string());
        differs("the first address", region.iova.to_string(), mkey.start.to_string());
        let length =
            if mkey.length64 { "2^64".to_owned() } else { format!("{:#x}", mkey.length.0) };
        differs("the length", format!("{:#x}", region.length), length);
        if let Some(domain) = region.domain {
            differs("the protection domain", domain.to_string(), mkey.pd.to_string());
        }
        let all = ACCESSES.into_iter();
        differs(
            "the list of rights",
            names(all.clone().filter(|&access| permits(region.access, access)).collect()),
            names(all.filter(|access| mkey.access.contains(access)).collect()),
        );
    }

    /// Beside the registration there is nothing.
    fn boundaries(&mut self, card: &mut Card<'_>, whole: Question) -> Result<(), ClientError> {
        let before = whole.address.wrapping_sub(1);
        let after = whole.address.wrapping_add(whole.length);
        for (address, length) in [
            (before, 1),
            (after, 1),
            (whole.address, whole.length.saturating_add(1)),
            (before, whole.length.saturating_add(1)),
            (whole.address, whole.length.saturating_add(1 << 32)),
            (whole.address, u64::MAX),
        ] {
            let question = Question { address, length, ..whole };
            self.must_refuse(card, question, &["out_of_bounds"], "it is out of bounds")?;
        }
        Ok(())
    }

    fn must_begin(
        &mut self,
        card: &mut Card<'_>,
        question: Question,
        expected: &[Run],
    ) -> Result<(), ClientError> {
        let asked = describe(&question);
        match card.begins(question)? {
            Answer::Refused(reason) => {
                self.failures.push(format!("{asked} is refused ({reason}), but it is permitted"));
            }
            Answer::Reaches(pieces) => {
                let first = expected.get(..1).unwrap_or_default();
                if let Some(text) = frames::difference(first, &frames::answered(&pieces)) {
                    self.failures.push(format!("{asked}: {text}"));
                }
            }
        }
        Ok(())
    }

    fn must_refuse(
        &mut self,
        card: &mut Card<'_>,
        question: Question,
        reasons: &[&str],
        why: &str,
    ) -> Result<(), ClientError> {
        match card.begins(question)? {
            Answer::Refused(reason) if reasons.contains(&reason.as_str()) => self.refusals += 1,
            Answer::Refused(reason) => self.failures.push(format!(
                "{} is refused with {reason} instead of {}",
                describe(&question),
                reasons.join(" or ")
            )),
            Answer::Reaches(_) => {
                self.failures.push(format!("{} is permitted, but {why}", describe(&question)));
            }
        }
        Ok(())
    }
}

/// All accesses, in the order in which people read them.
pub(crate) const ACCESSES: [Access; 5] = [
    Access::LocalRead,
    Access::LocalWrite,
    Access::RemoteRead,
    Access::RemoteWrite,
    Access::RemoteAtomic,
];

pub(crate) fn name(access: Access) -> &'static str {
    match access {
        Access::LocalRead => "local read",
        Access::LocalWrite => "local write",
        Access::RemoteRead => "remote read",
        Access::RemoteWrite => "remote write",
        Access::RemoteAtomic => "remote atomic",
    }
}

fn describe(question: &Question) -> String {
    let Question { key, address, length, access, domain } = question;
    let domain = domain.map_or(String::new(), |domain| format!(" in domain {domain}"));
    format!("key {key:#x}: {} of {length} bytes at {address:#x}{domain}", name(*access))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_reads_need_no_flag() {
        assert!(permits(0, Access::LocalRead));
        assert!(!permits(2 | 4 | 8, Access::LocalWrite));
        assert!(permits(1, Access::LocalWrite));
    }
}
