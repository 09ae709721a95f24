//! What people see, and the file that the README's table is made of.

use std::collections::BTreeMap;
use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use serde::Serialize;

use crate::guest::Results;
use crate::talk::{Message, Outcome, SuiteResult, ToolResult};
use crate::tools::Tool;

const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default().bold();

/// Lines of a program's output, of the console and of the card's log that are shown with a failure.
const TAIL: usize = 40;

/// Writes for people.
pub struct Report<'a> {
    out: &'a mut dyn Write,
    colour: bool,
    failed_tools: usize,
    failed_tests: usize,
}

/// What the README's table is made of.
#[derive(Debug, Serialize)]
pub struct Summary {
    kernel: String,
    tools: Vec<(String, bool)>,
    suite: BTreeMap<&'static str, usize>,
}

impl<'a> Report<'a> {
    /// `colour` is for terminals.
    pub fn new(out: &'a mut dyn Write, colour: bool) -> Self {
        Self { out, colour, failed_tools: 0, failed_tests: 0 }
    }

    /// Much of the text is the guest's: it must not steer the terminal.
    fn line(&mut self, style: Style, word: &str, text: &str) -> io::Result<()> {
        let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let word =
            if self.colour { format!("{style}{word:6}{style:#}") } else { format!("{word:6}") };
        writeln!(self.out, "  {word} {}", text.trim_end())?;
        self.out.flush()
    }

    fn excerpt(&mut self, what: &str, text: &str) -> io::Result<()> {
        let lines: Vec<&str> = text.lines().collect();
        let shown = lines.iter().skip(lines.len().saturating_sub(TAIL));
        writeln!(self.out, "         {what}:")?;
        shown.into_iter().try_for_each(|line| self.line(Style::new(), "", &format!("  | {line}")))
    }

    /// One result, as it comes.
    pub fn message(&mut self, message: &Message, tools: &[Tool]) -> io::Result<()> {
        match message {
            Message::Hello { kernel, devices } => {
                writeln!(self.out, "Linux {kernel} with {}", devices.join(", "))
            }
            Message::Tool(result) => self.tool(result, tools),
            Message::Pyverbs(result) => self.test(result),
            Message::End {} => Ok(()),
        }
    }

    fn tool(&mut self, result: &ToolResult, tools: &[Tool]) -> io::Result<()> {
        let text = format!("{:<44} {:>5.1} s", result.name, result.seconds);
        match judge(result, tools) {
            Ok(()) => self.line(GOOD, "ok", &text),
            Err(why) => {
                self.failed_tools += 1;
                self.line(BAD, "FAILED", &format!("{text}: {why}"))?;
                result.programs.iter().try_for_each(|one| self.excerpt(&one.command, &one.output))
            }
        }
    }

    fn test(&mut self, result: &SuiteResult) -> io::Result<()> {
        let text = format!("{:<70} {:>5.1} s", result.name, result.seconds);
        match result.result {
            Outcome::Ok => self.line(GOOD, "ok", &text),
            Outcome::Skip => self.line(Style::new(), "skip", &format!("{text}: {}", result.reason)),
            bad => {
                self.failed_tests += 1;
                self.line(BAD, bad.word(), &text)?;
                self.excerpt("why", &result.reason)
            }
        }
    }

    /// What is wrong with the run, and the difference from the table of rdma-core's tests; true when
    /// all is good.
    pub fn end(&mut self, results: &Results, differences: &[String]) -> io::Result<bool> {
        for problem in &results.problems {
            self.line(BAD, "FAILED", problem)?;
        }
        for difference in differences {
            self.line(BAD, "DIFFERS", difference)?;
        }
        let good = self.failed_tools + self.failed_tests == 0
            && results.problems.is_empty()
            && differences.is_empty();
        if !good {
            self.excerpt("the end of the guest's console", &results.console)?;
            self.excerpt("the end of the card's log", &results.card_log)?;
        }
        let counts: Vec<String> =
            counts(&results.suite).iter().map(|(word, count)| format!("{count} {word}")).collect();
        if !counts.is_empty() {
            writeln!(self.out, "rdma-core's own tests: {}", counts.join(", "))?;
        }
        if !results.tools.is_empty() {
            writeln!(self.out, "tools: {}, {} failed", results.tools.len(), self.failed_tools)?;
        }
        Ok(good)
    }
}

impl Summary {
    /// Of one run.
    pub fn new(results: &Results, tools: &[Tool]) -> Self {
        let tool = |result: &ToolResult| (result.name.clone(), judge(result, tools).is_ok());
        Self {
            kernel: results.kernel.clone(),
            tools: results.tools.iter().map(tool).collect(),
            suite: counts(&results.suite),
        }
    }
}

fn judge(result: &ToolResult, tools: &[Tool]) -> Result<(), String> {
    let tool = tools.iter().find(|tool| tool.name == result.name);
    tool.map_or_else(|| Err("nobody asked for it".to_owned()), |tool| tool.judge(result))
}

fn counts(results: &[SuiteResult]) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    for result in results {
        *counts.entry(result.result.word()).or_default() += 1;
    }
    counts
}
