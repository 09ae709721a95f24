//! The story for a terminal: an indented tree.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};

use crate::names::Category;
use crate::story::{Call, Lane, Span, Story};
use crate::words::duration;

/// How it is shown.
#[derive(Debug, Clone, Copy, Default)]
pub struct Show {
    /// Colours.
    pub colour: bool,
    /// Every function, and calls that only prepare in full.
    pub everything: bool,
}

/// Writes the story.
pub fn tree(story: &Story, show: Show, to: &mut dyn Write) -> io::Result<()> {
    let mut tree = Tree { story, show, to };
    tree.head()?;
    for call in &story.calls {
        tree.call(call)?;
    }
    tree.foot()
}

struct Tree<'a> {
    story: &'a Story,
    show: Show,
    to: &'a mut dyn Write,
}

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const RED: Style = AnsiColor::Red.on_default().bold();
const GREEN: Style = AnsiColor::Green.on_default();

impl Tree<'_> {
    fn head(&mut self) -> io::Result<()> {
        let Story { command, kernel, .. } = self.story;
        let command = self.styled(BOLD, command);
        writeln!(self.to, "{command} on Linux {kernel}\n")
    }

    fn call(&mut self, call: &Call) -> io::Result<()> {
        if call.times > 1
            && let Some(span) = self.story.spans.get(call.span)
        {
            return self.line(span, 0, call.times);
        }
        self.span(call.span, 0, call.main || self.show.everything)?;
        if !call.main && !self.show.everything {
            return Ok(());
        }
        for line in &call.answers {
            let mark = self.styled(GREEN, "→");
            let (about, rest) = line.split_once(':').unwrap_or(("", line));
            let about = self.styled(BOLD, about);
            let colon = if about.is_empty() { "" } else { ":" };
            writeln!(self.to, "{:12}  {mark} {about}{colon}{rest}", "")?;
        }
        writeln!(self.to)
    }

    /// A line, and the lines of what is below.
    fn span(&mut self, index: usize, depth: usize, full: bool) -> io::Result<()> {
        let Some(span) = self.story.spans.get(index) else { return Ok(()) };
        self.line(span, depth, 1)?;
        let mut below = if full { self.told(index) } else { Vec::new() }.into_iter().peekable();
        while let Some(inner) = below.next() {
            // Small steps that come again and again are one line.
            let mut times = 1;
            while below.next_if(|&next| self.same(inner, next)).is_some() {
                times += 1;
            }
            match self.story.spans.get(inner) {
                Some(span) if times > 1 => self.line(span, depth + 1, times)?,
                _ => self.span(inner, depth + 1, full)?,
            }
        }
        Ok(())
    }

    /// What is shown below a span; what is below others stands in their place.
    fn told(&self, index: usize) -> Vec<usize> {
        let below = self.story.below(index).flat_map(|(index, span)| {
            match span.title.is_some() || span.failed.is_some() || self.show.everything {
                true => vec![index],
                false => self.told(index),
            }
        });
        below.collect()
    }

    /// Two steps with the same words and nothing below.
    fn same(&self, one: usize, other: usize) -> bool {
        let words = |index: usize| {
            let span = self.story.spans.get(index)?;
            let alone = self.story.below(index).next().is_none();
            alone.then_some((&span.title, &span.name, &span.facts, &span.failed))
        };
        words(one).is_some() && words(one) == words(other)
    }

    fn line(&mut self, span: &Span, depth: usize, times: usize) -> io::Result<()> {
        let name = span.title.as_deref().unwrap_or(&span.name);
        // Where the words are not the function's name already.
        let own = match &span.title {
            Some(title) if !title.contains(&span.name) && span.category != Category::Waiting => {
                format!(" [{}]", span.name)
            }
            _ => String::new(),
        };
        let facts: Vec<String> =
            span.facts.iter().map(|(name, value)| format!("{name} {value}")).collect();
        let facts = match facts.is_empty() {
            true => String::new(),
            false => format!(" ({})", facts.join(", ")),
        };
        let failed = match &span.failed {
            Some(why) => format!(" {}", self.styled(RED, &format!("failed: {why}"))),
            None if span.open => " …".to_owned(),
            None => String::new(),
        };
        let time = match span.end - span.start {
            0 if matches!(span.lane, Lane::Bus | Lane::Card) => String::new(),
            time => duration(time),
        };
        let times = if times > 1 { format!(" × {times}") } else { String::new() };
        let name = if depth == 0 { self.styled(BOLD, name) } else { name.to_owned() };
        let own = self.styled(DIM, &own);
        writeln!(
            self.to,
            "{time:>12}  {:indent$}{name}{own}{times}{facts}{failed}",
            "",
            indent = depth * 2
        )
    }

    fn foot(&mut self) -> io::Result<()> {
        for note in notes(self.story) {
            let note = self.styled(DIM, &note);
            writeln!(self.to, "{note}")?;
        }
        Ok(())
    }

    fn styled(&self, style: Style, text: &str) -> String {
        match self.show.colour && !text.is_empty() {
            true => format!("{style}{text}{style:#}"),
            false => text.to_owned(),
        }
    }
}

/// What the reader of a story should know, a sentence each.
pub(crate) fn notes(story: &Story) -> Vec<String> {
    let clock = story.clock.map(|clock| {
        let (error, drift) = (duration(clock.error), clock.drift);
        format!(
            "The card's clock is put on the guest's to within {error} (drift {drift} in 10⁹). With the \
             tracer on, everything takes longer than without: compare shares, not times."
        )
    });
    let notes = story.notes.iter().map(|note| format!("Note: {note}."));
    clock.into_iter().chain(notes).collect()
}
