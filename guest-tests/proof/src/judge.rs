//! The run: one message after the other, each answered when the card has been asked.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, Read as _, Write};
use std::time::{Duration, Instant};

use control::{Client, Status};

use crate::card::Card;
use crate::cases::{CASES, Case};
use crate::examine::{Examination, examine, gone};
use crate::protocol::{MAX_LINE, Message, PROTOCOL, Region, Word};
use crate::report::Report;
use crate::verdict::{CaseResult, JudgeError, Verdict};

/// After so many failures there is nothing to be learned from more.
const ENOUGH: usize = 200;

/// How often a call that must not reach the card is tried before it is a failure. The driver also fills
/// its stock of keys when it likes.
const TRIES: u32 = 5;

/// What the driver keeps as it likes: its stock of free keys, and what lies in them.
const STOCK: [&str; 2] = ["mkey", "translation"];

/// Counters that stand still when a registration fails before the card hears of it.
const CREATED: &str = "command:CREATE_MKEY";
const EDITED: &str = "umr";

/// Keys that can be used.
const LIVE: &str = "mkey_live";

/// Judges a guest that runs [`crate::PROGRAM`] with these standard streams, by what the card says.
///
/// An error means that there is no verdict; what is wrong with the registrations is in the verdict.
pub fn judge(
    guest_stdin: impl Write,
    guest_stdout: impl BufRead,
    control: &mut Client,
    report: &mut Report<'_>,
) -> Result<Verdict, JudgeError> {
    Judge::new(control, report, CASES, Duration::from_millis(200)).run(guest_stdin, guest_stdout)
}

/// How far the program is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Silent,
    Greeted,
    Cases,
    Rested,
    Unloaded,
    Ended,
}

pub(crate) struct Judge<'a, 'o> {
    card: Card<'a>,
    report: &'a mut Report<'o>,
    required: &'a [Case],
    /// Between two looks at a card that should come to rest.
    interval: Duration,
    phase: Phase,
    verdict: Verdict,
    case: Option<CaseResult>,
    /// What the guest has registered now.
    live: BTreeMap<u32, Region>,
    /// Objects after the warm-up.
    baseline: BTreeMap<String, u64>,
    /// Counters before a call that must fail, and how often it has been tried.
    mark: Option<[u64; 2]>,
    tries: u32,
}

impl<'a, 'o> Judge<'a, 'o> {
    pub(crate) fn new(
        control: &'a mut Client,
        report: &'a mut Report<'o>,
        required: &'a [Case],
        interval: Duration,
    ) -> Self {
        Self {
            card: Card::new(control),
            report,
            required,
            interval,
            phase: Phase::Silent,
            verdict: Verdict::default(),
            case: None,
            live: BTreeMap::new(),
            baseline: BTreeMap::new(),
            mark: None,
            tries: 0,
        }
    }

    pub(crate) fn run(
        mut self,
        mut stdin: impl Write,
        mut stdout: impl BufRead,
    ) -> Result<Verdict, JudgeError> {
        loop {
            let mut line = String::new();
            if stdout.by_ref().take(MAX_LINE).read_line(&mut line)? == 0 {
                return Err(JudgeError::Ended(self.whereabouts()));
            }
            if !line.ends_with('\n') {
                let what = "ended within a line, or the line is too long";
                return Err(JudgeError::Protocol(what.to_owned()));
            }
            let message = serde_json::from_str(&line).map_err(|error| {
                let start: String = line.trim_end().chars().take(80).collect();
                JudgeError::Protocol(format!("{error} in \"{start}\""))
            })?;
            let mut word = self.hear(message)?;
            if self.failures() > ENOUGH {
                self.fail("too many failures, the rest is not looked at".to_owned());
                self.end_case()?;
                word = Word::Stop;
            }
            stdin.write_all(word.line())?;
            stdin.flush()?;
            if word == Word::Stop || self.phase == Phase::Ended {
                return Ok(self.verdict);
            }
        }
    }

    fn hear(&mut self, message: Message) -> Result<Word, JudgeError> {
        match (self.phase, message) {
            (Phase::Silent, Message::Hello { protocol: PROTOCOL, kernel, device }) => {
                self.phase = Phase::Greeted;
                self.report.hello(&kernel, &device)?;
                (self.verdict.kernel, self.verdict.device) = (kernel, device);
            }
            (Phase::Greeted, Message::Warm {}) => {
                self.phase = Phase::Cases;
                self.warm()?;
            }
            (Phase::Cases, Message::Case { name }) => self.begin_case(name)?,
            (Phase::Cases, Message::Rest {}) => {
                self.phase = Phase::Rested;
                self.rest()?;
            }
            (Phase::Rested, Message::Unloaded { how }) => {
                self.phase = Phase::Unloaded;
                self.unloaded(how)?;
            }
            (Phase::Unloaded, Message::End {}) => {
                self.phase = Phase::Ended;
                self.completeness();
            }
            (_, Message::Failed { call, errno }) => {
                self.fail(format!("{call} failed: {}", errno_name(errno)));
            }
            (Phase::Cases, message) if self.case.is_some() => return self.hear_in_case(message),
            (phase, message) => {
                let text = format!("{message:?}");
                let start: String = text.chars().take(80).collect();
                return Err(JudgeError::Protocol(format!("in phase {phase:?} it says {start}")));
            }
        }
        Ok(Word::Go)
    }

    fn hear_in_case(&mut self, message: Message) -> Result<Word, JudgeError> {
        match message {
            Message::Registered { regions, story } => {
                for region in regions {
                    self.registered(region, story)?;
                }
            }
            Message::Deregistered { ids } => {
                for id in ids {
                    self.deregistered(id)?;
                }
            }
            Message::Mark {} => self.mark = Some(Self::made(&self.card.status()?)?),
            Message::Refused { call, errno, expected } => {
                return self.refused(&call, errno, &expected);
            }
            Message::Note { text } => {
                if let Some(case) = &mut self.case {
                    case.notes.push(text);
                }
            }
            other => return Err(JudgeError::Protocol(format!("within a case it says {other:?}"))),
        }
        Ok(Word::Go)
    }

    fn begin_case(&mut self, name: String) -> Result<(), JudgeError> {
        self.end_case()?;
        self.case = Some(CaseResult { name, ..CaseResult::default() });
        Ok(())
    }

    fn end_case(&mut self) -> Result<(), JudgeError> {
        let Some(mut case) = self.case.take() else { return Ok(()) };
        if !self.live.is_empty() {
            case.failures.push(format!("{} registrations are left over", self.live.len()));
            self.live.clear();
        }
        self.report.case(&case)?;
        self.verdict.cases.push(case);
        Ok(())
    }

    /// The driver has what it keeps: the same must be there when the cases are over.
    fn warm(&mut self) -> Result<(), JudgeError> {
        let status = self.quiet()?;
        // A card that does not count would pass every comparison.
        if status.counters.get(CREATED).is_none_or(|&count| count == 0) {
            self.fail(format!("the card counts no {CREATED}, though a key has been used"));
        }
        Self::made(&status)?;
        if !status.objects.contains_key(LIVE) {
            return Err(JudgeError::Protocol(format!("the card has no count of {LIVE}")));
        }
        self.baseline = status.objects;
        Ok(())
    }

    fn registered(&mut self, region: Region, story: bool) -> Result<(), JudgeError> {
        let found = examine(&mut self.card, &region)?;
        let twice =
            self.live.iter().find(|(id, live)| **id != region.id && live.lkey == region.lkey);
        if let Some((id, _)) = twice {
            let text = format!("registrations {id} and {} have one key {}", region.id, region.lkey);
            self.fail(text);
        }
        if story {
            self.report.story(&region, &found)?;
        }
        self.count(&region, found, 1);
        let (id, key) = (region.id, region.lkey);
        if let Some(before) = self.live.insert(id, region)
            && before.lkey != key
        {
            self.is_gone(&before)?;
        }
        Ok(())
    }

    fn deregistered(&mut self, id: u32) -> Result<(), JudgeError> {
        let region = self.live.remove(&id).ok_or_else(|| {
            JudgeError::Protocol(format!("registration {id} is gone, but it never came"))
        })?;
        self.is_gone(&region)
    }

    fn is_gone(&mut self, region: &Region) -> Result<(), JudgeError> {
        let found = gone(&mut self.card, region)?;
        self.count(region, found, 0);
        Ok(())
    }

    fn count(&mut self, region: &Region, found: Examination, registrations: u64) {
        let Some(case) = &mut self.case else { return };
        case.registrations += registrations;
        case.frames = case.frames.saturating_add(found.frames);
        case.refusals += found.refusals;
        let failures = found.failures.into_iter();
        case.failures.extend(failures.map(|text| format!("registration {}: {text}", region.id)));
    }

    /// How often keys were made and edited.
    fn made(status: &Status) -> Result<[u64; 2], JudgeError> {
        let edited = status
            .counters
            .get(EDITED)
            .copied()
            .ok_or_else(|| JudgeError::Protocol(format!("the card has no counter {EDITED}")))?;
        Ok([status.counters.get(CREATED).copied().unwrap_or(0), edited])
    }

    fn refused(&mut self, call: &str, errno: i32, expected: &[i32]) -> Result<Word, JudgeError> {
        let before = self.mark.take().ok_or_else(|| {
            JudgeError::Protocol(format!("{call} is refused, but it was not announced"))
        })?;
        if !expected.contains(&errno) {
            let names: Vec<String> = expected.iter().map(|&errno| errno_name(errno)).collect();
            let names = names.join(" or ");
            self.fail(format!("{call}: {} instead of {names}", errno_name(errno)));
        } else if Self::made(&self.card.status()?)? != before {
            self.tries += 1;
            if self.tries < TRIES {
                self.quiet()?;
                return Ok(Word::Again);
            }
            self.fail(format!("{call}: the card saw {CREATED} or {EDITED}"));
        } else if let Some(case) = &mut self.case {
            case.refused_calls += 1;
        }
        self.tries = 0;
        Ok(Word::Go)
    }

    /// Waits until no command comes for a while, or a minute is over: what depends on it is compared
    /// all the same.
    fn quiet(&mut self) -> Result<Status, JudgeError> {
        let begun = Instant::now();
        let mut before = self.card.status()?;
        loop {
            std::thread::sleep(self.interval);
            let now = self.card.status()?;
            if now.counters == before.counters || begun.elapsed() > Duration::from_secs(60) {
                return Ok(now);
            }
            before = now;
        }
    }

    fn rest(&mut self) -> Result<(), JudgeError> {
        self.end_case()?;
        let objects = self.quiet()?.objects;
        self.verdict.live_keys = objects.get(LIVE).copied().unwrap_or(0);
        let kinds: BTreeSet<&String> = self.baseline.keys().chain(objects.keys()).collect();
        let mut failures = Vec::new();
        for kind in kinds.into_iter().filter(|kind| !STOCK.contains(&kind.as_str())) {
            let count = |objects: &BTreeMap<String, u64>| objects.get(kind).copied().unwrap_or(0);
            let (before, after) = (count(&self.baseline), count(&objects));
            if before != after {
                failures.push(format!(
                    "{kind}: {before} before the first case, {after} after the last"
                ));
            }
        }
        self.verdict.failures.extend(failures);
        Ok(())
    }

    fn unloaded(&mut self, how: String) -> Result<(), JudgeError> {
        let status = self.quiet()?;
        for (kind, count) in status.objects.iter().filter(|(_, count)| **count != 0) {
            self.verdict.failures.push(format!("{kind}: {count} are left after {how}"));
        }
        if status.pages != 0 {
            let text = format!("{} pages are not given back after {how}", status.pages);
            self.verdict.failures.push(text);
        }
        self.verdict.unloaded = how;
        Ok(())
    }

    /// Whether all cases have come and have shown what they must.
    fn completeness(&mut self) {
        let verdict = &mut self.verdict;
        let come = verdict.cases.iter().map(|case| case.name.as_str());
        let wanted = self.required.iter().map(|case| case.name);
        if !come.clone().eq(wanted.clone()) {
            let missing: Vec<&str> =
                wanted.filter(|name| !come.clone().any(|c| c == *name)).collect();
            verdict.failures.push(format!("not the cases that must come; missing: {missing:?}"));
        }
        for (case, least) in verdict.cases.iter().zip(self.required) {
            if !least.is_shown_by(case.registrations, case.refused_calls) {
                let Case { registrations, refused, either, .. } = *least;
                verdict.failures.push(format!(
                    "{}: {} registrations and {} refused calls are shown, at least {registrations} and \
                     {refused} must be, and {either} of either kind",
                    case.name, case.registrations, case.refused_calls
                ));
            }
        }
    }

    fn fail(&mut self, text: String) {
        match &mut self.case {
            Some(case) => case.failures.push(text),
            None => self.verdict.failures.push(text),
        }
    }

    fn failures(&self) -> usize {
        self.verdict.failures().count() + self.case.as_ref().map_or(0, |case| case.failures.len())
    }

    fn whereabouts(&self) -> String {
        match &self.case {
            Some(case) => format!("in case \"{}\"", case.name),
            None => format!("in phase {:?}", self.phase),
        }
    }
}

fn errno_name(errno: i32) -> String {
    let known = [
        (0, "success"),
        (1, "EPERM"),
        (2, "ENOENT"),
        (12, "ENOMEM"),
        (13, "EACCES"),
        (14, "EFAULT"),
        (16, "EBUSY"),
        (22, "EINVAL"),
        (95, "EOPNOTSUPP"),
        (110, "ETIMEDOUT"),
    ];
    let name = known.iter().find(|(number, _)| *number == errno);
    name.map_or_else(|| format!("errno {errno}"), |(_, name)| (*name).to_owned())
}
