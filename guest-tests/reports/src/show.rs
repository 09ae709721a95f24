//! What people see in the terminal.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};

use crate::boot::Results;
use crate::catalogue::Report;
use crate::judge::{Judgement, Seen, Verdict};

const GOOD: Style = AnsiColor::Green.on_default();
const NOTE: Style = AnsiColor::Yellow.on_default();
const BAD: Style = AnsiColor::Red.on_default().bold();

/// Lines of a log that are shown with a failure.
const TAIL: usize = 40;

/// Writes for people.
pub struct Show<'a> {
    out: &'a mut dyn Write,
    colour: bool,
    verbose: bool,
}

impl<'a> Show<'a> {
    /// `colour` is for terminals; `verbose` shows what kept promises were seen by.
    pub fn new(out: &'a mut dyn Write, colour: bool, verbose: bool) -> Self {
        Self { out, colour, verbose }
    }

    /// Much of the text is the guest's: it must not steer the terminal.
    fn line(&mut self, indent: usize, style: Style, word: &str, text: &str) -> io::Result<()> {
        let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let word =
            if self.colour { format!("{style}{word:8}{style:#}") } else { format!("{word:8}") };
        writeln!(self.out, "{:indent$}{word} {}", "", text.trim_end())?;
        self.out.flush()
    }

    /// One report, as it comes.
    pub fn judgement(
        &mut self,
        reports: &[Report],
        judgement: &Judgement,
        seen: &Seen,
    ) -> io::Result<()> {
        let report = reports.iter().find(|report| report.name == judgement.report);
        let title = report.map_or("", |report| report.about.title.as_str());
        let word = judgement.word();
        let style = match word {
            "FAILED" => BAD,
            "finding" => NOTE,
            _ => GOOD,
        };
        let id = report.map_or("", |report| report.id.as_str());
        self.line(2, style, word, &format!("{id:4} {title}  ({:.0} s)", judgement.seconds))?;
        for row in &judgement.rows {
            match &row.verdict {
                Verdict::Ok if !self.verbose => {}
                Verdict::Ok => {
                    self.line(6, GOOD, "ok", &format!("{}: {}", row.promise, row.seen))?
                }
                Verdict::Finding(what) => {
                    self.line(6, NOTE, "finding", &format!("{}: {what}", row.promise))?
                }
                Verdict::Without(why) => {
                    self.line(6, Style::new(), "-", &format!("{}: {why}", row.promise))?
                }
                Verdict::Failed(why) => {
                    self.line(6, BAD, "FAILED", &format!("{}: {why}", row.promise))?;
                    let says =
                        report.and_then(|r| r.about.promise.iter().find(|p| p.name == row.promise));
                    if let Some(promise) = says {
                        self.line(6, Style::new(), "", &format!("  promised: {}", promise.says))?;
                    }
                    for line in row.seen.lines() {
                        self.line(6, Style::new(), "", &format!("  seen: {line}"))?;
                    }
                }
            }
        }
        if !judgement.is_good() || self.verbose {
            self.excerpt("the kernel's log", &seen.log)?;
        }
        Ok(())
    }

    fn excerpt(&mut self, what: &str, text: &str) -> io::Result<()> {
        let lines: Vec<&str> = text.lines().collect();
        writeln!(self.out, "         {what}:")?;
        for line in lines.iter().skip(lines.len().saturating_sub(TAIL)) {
            self.line(6, Style::new(), "", &format!("  | {line}"))?;
        }
        Ok(())
    }

    /// What is wrong with the run, and how many came to what; true when all is good.
    pub fn end(&mut self, results: &Results) -> io::Result<bool> {
        for problem in &results.problems {
            self.line(2, BAD, "FAILED", problem)?;
        }
        if !results.problems.is_empty() {
            let logs = results.logs.clone();
            self.excerpt("the end of console and card's log", &logs)?;
        }
        let count = |word| results.judgements.iter().filter(|one| one.word() == word).count();
        let counts: Vec<String> = ["ok", "finding", "-", "FAILED"]
            .into_iter()
            .map(|word| (word, count(word)))
            .filter(|(_, count)| *count != 0)
            .map(|(word, count)| format!("{count} {word}"))
            .collect();
        writeln!(self.out, "Linux {}: {}", results.kernel, counts.join(", "))?;
        Ok(results.problems.is_empty() && results.judgements.iter().all(Judgement::is_good))
    }
}
