//! One line an event, or one line a field.

use std::fmt::{self, Write as _};

use anstyle::{AnsiColor, Style};
use layouts::Status;
use layouts::decode::{Content, Decoded};
use probe::Point;

use crate::log::value_name;
use crate::{Entry, TraceEvent, TraceValue};

/// Most fields in a line.
const FIELDS: usize = 8;
/// Most bytes of data in a line.
const BYTES: usize = 32;
/// Numbers that are counts, not addresses or bits.
const COUNTS: &[&str] = &[
    "slot",
    "len",
    "length",
    "byte_count",
    "byte_cnt",
    "vector",
    "intr",
    "held",
    "given",
    "returned",
    "asked",
    "index",
    "num_pages",
    "input_num_entries",
    "output_num_entries",
    "inlen",
    "outlen",
];
/// Values that say what a reply answers: it is in the headline.
const HEADLINE: &[&str] = &["opcode", "op_mod", "register_id", "kind"];

/// How traces are written for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Text {
    /// Every field, a line each, zeros too.
    pub full: bool,
    /// With colours for a terminal.
    pub colour: bool,
}

impl Text {
    /// An entry, with its newline.
    pub fn entry(&self, entry: &Entry) -> String {
        let mut text = String::new();
        // Memory takes everything: there is nothing to fail.
        let _ = match entry {
            Entry::Event(event) => self.event(&mut text, event),
            Entry::Dropped { time, count } => self.note(
                &mut text,
                *time,
                format_args!("{count} events dropped: the trace could not keep up"),
            ),
            Entry::Settings { time, settings } => {
                let filter = settings.filter.as_deref().unwrap_or("none");
                let level = settings.level;
                self.note(
                    &mut text,
                    *time,
                    format_args!("traced from here: {level}, filter {filter}"),
                )
            }
        };
        text
    }

    fn note(&self, out: &mut String, time: u64, what: fmt::Arguments<'_>) -> fmt::Result {
        let style = self.style(Some(AnsiColor::Red));
        writeln!(out, "{}  {style}-- {what} --{style:#}", Seconds(time))
    }

    fn event(&self, out: &mut String, event: &TraceEvent) -> fmt::Result {
        let bad = is_bad(event);
        let style = self.style(Some(if bad { AnsiColor::Red } else { colour(event.point) }));
        write!(out, "{}  {style}{:15}{style:#}", Seconds(event.time), event.point)?;
        if event.function != 0 {
            write!(out, " function {}", event.function)?;
        }
        let fields = event.fields();
        if let Some(headline) = headline(event, &fields) {
            let style = if self.colour { Style::new().bold() } else { Style::new() };
            write!(out, " {style}{headline}{style:#}")?;
        }
        for (name, value) in event.values.iter().filter(|(name, _)| !HEADLINE.contains(&&**name)) {
            match value {
                TraceValue::Word(word) => write!(out, " {name}={word}")?,
                TraceValue::Number(number) => {
                    write!(out, " {name}=")?;
                    value_of(out, name, *number, value_name(name, *number))?;
                }
            }
        }
        if self.full {
            return self.every_field(out, event, &fields);
        }
        let shown = fields.iter().filter(|field| !field.is_zero() && !is_header(field));
        for (n, field) in shown.clone().take(FIELDS).enumerate() {
            write!(out, "{}{}=", if n == 0 { "  " } else { " " }, field.path.brief())?;
            content(out, field)?;
        }
        let rest = shown.count().saturating_sub(FIELDS);
        if rest > 0 {
            write!(out, " +{rest}")?;
        }
        if fields.is_empty() && !event.bytes.is_empty() && event.point != Point::Fault {
            write!(out, "  {}", Hex(&event.bytes, BYTES))?;
        }
        out.write_char('\n')
    }

    fn every_field(&self, out: &mut String, event: &TraceEvent, fields: &[Decoded]) -> fmt::Result {
        let structure = event.structure.as_deref().unwrap_or("data");
        if !event.bytes.is_empty() {
            write!(out, "  {structure}, {} bytes", event.length)?;
            if event.length != event.bytes.len() as u64 {
                write!(out, ", of which the first {} were kept", event.bytes.len())?;
            }
        }
        out.write_char('\n')?;
        for field in fields {
            let style = self.style(field.is_zero().then_some(AnsiColor::BrightBlack));
            write!(out, "{:20}{style}{} = ", "", field.path)?;
            content(out, field)?;
            writeln!(out, "{style:#}")?;
        }
        if fields.is_empty() && !event.bytes.is_empty() {
            for (n, line) in event.bytes.chunks(16).enumerate() {
                writeln!(out, "{:20}{:#06x}  {}", "", n * 16, Hex(line, 16))?;
            }
        }
        Ok(())
    }

    fn style(&self, colour: Option<AnsiColor>) -> Style {
        let style = Style::new();
        if self.colour { style.fg_color(colour.map(Into::into)) } else { style }
    }
}

/// What an event is about: the command, the event's type, the work request's opcode.
pub(super) fn headline(event: &TraceEvent, fields: &[Decoded]) -> Option<String> {
    let named = |name: &str| {
        let field = fields.iter().find(|field| field.path.is(name))?;
        match (&field.content, field.name) {
            (_, Some(name)) => Some(name.to_owned()),
            (Content::Number(number), None) => Some(format!("{number:#x}")),
            (Content::Bytes(_), None) => None,
        }
    };
    match event.point {
        Point::Command => event.opcode().map(|opcode| opcode.to_string()),
        Point::Reply => {
            let Some(opcode) = event.opcode() else { return Some("not delivered".into()) };
            let status = named("status").unwrap_or_default();
            let done = status == Status::OK.to_string();
            Some(if done { opcode.to_string() } else { format!("{opcode} {status}") })
        }
        Point::Event => named("mlx5_eqe.type"),
        Point::WorkRequest => named("mlx5_wqe_ctrl_seg.opcode"),
        Point::Completion => {
            let syndrome = fields.iter().find(|field| field.path.is("mlx5_err_cqe.syndrome"));
            let opcode = named("opcode")?;
            Some(match syndrome.and_then(|field| field.name) {
                Some(syndrome) => format!("{opcode} {syndrome}"),
                None => opcode,
            })
        }
        Point::Create | Point::Modify | Point::Destroy => event.word("kind").map(Into::into),
        // Its bytes are the rule's name.
        Point::Fault => Some(format!("{:?}", String::from_utf8_lossy(&event.bytes))),
        _ => None,
    }
}

/// Something failed or was refused.
fn is_bad(event: &TraceEvent) -> bool {
    match event.point {
        Point::Reply => {
            event.bytes.first().is_some_and(|&status| status != 0) || event.opcode().is_none()
        }
        Point::Completion => event.structure.as_deref() == Some("mlx5_err_cqe"),
        Point::Fault => true,
        _ => event.value("refused").is_some(),
    }
}

fn colour(point: Point) -> AnsiColor {
    match point {
        Point::Command | Point::Reply | Point::Mailbox => AnsiColor::Cyan,
        Point::Doorbell | Point::WorkRequest | Point::Completion => AnsiColor::Green,
        Point::Translation | Point::Create | Point::Modify | Point::Destroy => AnsiColor::Yellow,
        Point::Event | Point::Interrupt => AnsiColor::Magenta,
        Point::PacketSent | Point::PacketReceived => AnsiColor::Blue,
        Point::Health | Point::Port | Point::Reset | Point::Fault => AnsiColor::Red,
        _ => AnsiColor::White,
    }
}

/// What the headline says already.
fn is_header(field: &Decoded) -> bool {
    field.path.0.len() == 2 && ["opcode", "status"].contains(&field.path.last())
        || field.path.is("mlx5_eqe.type")
}

fn content(out: &mut String, field: &Decoded) -> fmt::Result {
    match &field.content {
        Content::Number(number) => value_of(out, field.path.last(), *number, field.name),
        Content::Bytes(bytes) => match text(bytes) {
            Some(text) => write!(out, "{text:?}"),
            None => write!(out, "{}", Hex(bytes, BYTES)),
        },
    }
}

fn value_of(out: &mut String, name: &str, number: u64, called: Option<&str>) -> fmt::Result {
    match called {
        Some(called) => out.write_str(called),
        None if number < 10 || COUNTS.contains(&name) => write!(out, "{number}"),
        None => write!(out, "{number:#x}"),
    }
}

/// Bytes that are printable text with zeros behind it.
fn text(bytes: &[u8]) -> Option<&str> {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    let (text, zeros) = bytes.split_at_checked(end)?;
    let printable = |byte: &u8| byte.is_ascii_graphic() || *byte == b' ';
    let is_text = text.len() >= 4 && text.iter().all(printable);
    (is_text && zeros.iter().all(|&byte| byte == 0)).then(|| std::str::from_utf8(text).ok())?
}

/// Ns as seconds.
struct Seconds(u64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>5}.{:09}", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

/// Bytes, up to so many.
struct Hex<'a>(&'a [u8], usize);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, byte) in self.0.iter().take(self.1).enumerate() {
            let gap = if i > 0 && i.is_multiple_of(4) { "_" } else { "" };
            write!(f, "{gap}{byte:02x}")?;
        }
        if self.0.len() > self.1 { write!(f, "…({})", self.0.len()) } else { Ok(()) }
    }
}
