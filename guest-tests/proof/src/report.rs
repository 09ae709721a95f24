//! What people see of a run.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};

use crate::examine::{ACCESSES, Examination, RIGHTS, name};
use crate::frames::merged;
use crate::protocol::Region;
use crate::verdict::{CaseResult, Verdict};

const TITLE: Style = Style::new().bold();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default().bold();
const QUIET: Style = Style::new().dimmed();

/// Failures of one case that are shown; the verdict has them all.
const SHOWN: usize = 10;

/// Rows of frames in the story.
const ROWS: usize = 8;

/// Writes for people.
pub struct Report<'a> {
    out: &'a mut dyn Write,
    colour: bool,
}

impl<'a> Report<'a> {
    /// `colour` is for terminals.
    pub fn new(out: &'a mut dyn Write, colour: bool) -> Self {
        Self { out, colour }
    }

    /// Much of the text is the guest's: it must not steer the terminal.
    fn paint(&self, style: Style, text: &str) -> String {
        let text: String = text.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        if self.colour { format!("{style}{text}{style:#}") } else { text }
    }

    pub(crate) fn hello(&mut self, kernel: &str, device: &str) -> io::Result<()> {
        let line =
            format!("Linux {kernel} registers memory on {device}; the card is asked about it");
        writeln!(self.out, "{}", self.paint(TITLE, &line))
    }

    /// One registration from both sides.
    pub(crate) fn story(&mut self, region: &Region, found: &Examination) -> io::Result<()> {
        let title = "One registration, from both sides";
        writeln!(self.out, "\n{}\n", self.paint(TITLE, title))?;
        self.row("", "the guest says", "the card says", QUIET)?;
        for (what, guest, card) in story_rows(region, found) {
            self.row(what, &guest, &card, Style::new())?;
        }
        let (verdict, style) =
            if found.failures.is_empty() { ("equal", GOOD) } else { ("DIFFERENT", BAD) };
        let refused = format!("{} accesses that it must refuse are refused", found.refusals);
        writeln!(self.out, "\n  {}; {refused}", self.paint(style, verdict))?;
        writeln!(self.out, "\n{}\n", self.paint(TITLE, "All registrations"))?;
        let heads = ["registrations", "frames", "refused by card", "by kernel"];
        let [a, b, c, d] = heads;
        let line = format!("          {:<32}{a:>15}{b:>12}{c:>18}{d:>12}", "");
        writeln!(self.out, "{}", self.paint(QUIET, line.trim_end()))
    }

    fn row(&mut self, what: &str, guest: &str, card: &str, style: Style) -> io::Result<()> {
        let what = self.paint(QUIET, &format!("{what:<8}"));
        let sides = self.paint(style, format!("{guest:<36}  {card}").trim_end());
        writeln!(self.out, "  {what}{sides}")
    }

    pub(crate) fn case(&mut self, case: &CaseResult) -> io::Result<()> {
        let (word, style) = if case.failures.is_empty() { ("ok", GOOD) } else { ("FAILED", BAD) };
        writeln!(
            self.out,
            "  {}{:<34}{:>13}{:>12}{:>18}{:>12}",
            self.paint(style, &format!("{word:<8}")),
            self.paint(Style::new(), &case.name),
            grouped(case.registrations),
            grouped(case.frames),
            grouped(case.refusals),
            grouped(case.refused_calls),
        )?;
        for text in case.failures.iter().take(SHOWN) {
            writeln!(self.out, "          {}", self.paint(BAD, text))?;
        }
        if let Some(more) = case.failures.len().checked_sub(SHOWN).filter(|&more| more > 0) {
            writeln!(self.out, "          and {more} more")?;
        }
        for text in &case.notes {
            writeln!(self.out, "          {}", self.paint(QUIET, text))?;
        }
        self.out.flush()
    }

    /// The counts, and whether that is good.
    pub fn summary(&mut self, verdict: &Verdict) -> io::Result<()> {
        let total = |of: fn(&CaseResult) -> u64| grouped(verdict.total(of));
        writeln!(
            self.out,
            "\n  {} cases: {} registrations and {} page frames compared, {} refusals by the card \
             checked,\n  {} calls refused by the kernel of which the card saw nothing",
            verdict.cases.len(),
            total(|case| case.registrations),
            total(|case| case.frames),
            total(|case| case.refusals),
            total(|case| case.refused_calls),
        )?;
        for text in verdict.failures.iter().take(SHOWN) {
            writeln!(self.out, "  {}", self.paint(BAD, text))?;
        }
        if verdict.failures.is_empty() && !verdict.unloaded.is_empty() {
            let line = format!(
                "At the end {} keys live, as before the first case; after {} the card's tables are \
                 empty and every page is back",
                verdict.live_keys, verdict.unloaded
            );
            writeln!(self.out, "  {}", self.paint(Style::new(), &line))?;
        }
        let (text, style) = if verdict.passed() {
            ("Every translation is equal to the guest's own page frames.".to_owned(), GOOD.bold())
        } else {
            (format!("Failures: {}", verdict.failures().count()), BAD)
        };
        writeln!(self.out, "\n{}", self.paint(style, &text))?;
        self.out.flush()
    }
}

/// What each side says: a name, the guest, the card.
fn story_rows(region: &Region, found: &Examination) -> Vec<(&'static str, String, String)> {
    let Region { address, length, lkey, rkey, .. } = region;
    let flags = [(1, "LOCAL_WRITE"), (2, "REMOTE_WRITE"), (4, "REMOTE_READ"), (8, "REMOTE_ATOMIC")];
    debug_assert_eq!(flags.len(), RIGHTS.len());
    let asked = flags.iter().filter(|(flag, _)| region.access & flag != 0);
    let asked: Vec<&str> = asked.map(|(_, name)| *name).collect();
    let keys = format!("lkey {lkey}, rkey {rkey}");
    let domain = region.domain.map_or("not told".to_owned(), |domain| domain.to_string());
    let mut rows = match &found.mkey {
        None => vec![("key", keys, "no such key".to_owned())],
        Some(mkey) => {
            let index = format!(
                "index {:#x}, variant {:#04x}, {}, {}",
                mkey.key.0 >> 8,
                mkey.key.0 & 0xff,
                mkey.mode,
                if mkey.free { "free" } else { "in use" }
            );
            let granted = ACCESSES.into_iter().filter(|access| mkey.access.contains(access));
            let granted: Vec<&str> = granted.map(name).collect();
            vec![
                (
                    "range",
                    format!("{length} bytes at {address}"),
                    format!("{} bytes at {}", mkey.length.0, mkey.start),
                ),
                ("key", keys, index),
                ("domain", domain, mkey.pd.to_string()),
                ("rights", asked.join(", "), granted.join(", ")),
            ]
        }
    };
    let frames = merged(&region.frames);
    let count = frames.len().max(found.runs.len());
    for at in 0..count.min(ROWS) {
        let guest = match frames.get(at) {
            Some((frame, 1)) => format!("frame {frame:#x}"),
            Some((frame, count)) => format!("{count} frames from {frame:#x}"),
            None => "nothing".to_owned(),
        };
        let card = match found.runs.get(at) {
            Some((start, length)) => format!("{length} bytes at {start:#x}"),
            None => "nothing".to_owned(),
        };
        rows.push((if at == 0 { "memory" } else { "" }, guest, card));
    }
    if let Some(more) = count.checked_sub(ROWS).filter(|&more| more > 0) {
        rows.push(("", format!("and {more} more"), String::new()));
    }
    rows
}

/// A number with its digits in groups of three.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 2);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_come_in_groups() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1 000"), (1_234_567, "1 234 567")] {
            assert_eq!(grouped(number), text);
        }
    }
}
