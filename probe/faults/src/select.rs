//! Which of the things at a point a rule is about: names become comparisons of bits.

use std::ops::RangeInclusive;

use layouts::decode::{Place, places, value_name, work_request_places};
use layouts::{LayoutInfo, Opcode, QpType, WqeCtrlSeg, WqeOpcode};
use probe::{Patch, Point, Site, Value};

use crate::point::{self, Told};
use crate::rule::{Arg, Rule, Wrong};

/// One thing that must be so.
#[derive(Debug, Clone)]
pub enum Test {
    /// A field of the structure.
    Field {
        /// Where it is: in which structures the bytes may be, unless it is in all of them.
        places: Vec<(Option<&'static str>, Place)>,
        /// What it may be.
        wanted: Vec<RangeInclusive<u64>>,
    },
    /// A value beside it.
    Number(&'static str, Vec<RangeInclusive<u64>>),
    /// A word beside it.
    Word(&'static str, Vec<String>),
}

impl Test {
    /// Whether it is so.
    pub fn holds(&self, site: &Site<'_>) -> bool {
        let any = |wanted: &[RangeInclusive<u64>], value| {
            wanted.iter().any(|range| range.contains(&value))
        };
        match self {
            Self::Field { places, wanted } => {
                let own = site.layout.map(|layout| layout.name);
                let place = places.iter().find(|(layout, _)| layout.is_none() || *layout == own);
                let value = place.and_then(|(_, place)| place.get(site.bytes));
                value.is_some_and(|value| any(wanted, value))
            }
            Self::Number(name, wanted) => site.number(name).is_some_and(|value| any(wanted, value)),
            Self::Word(name, wanted) => site.values.iter().any(|(known, value)| {
                known == name
                    && matches!(value, Value::Word(word) if wanted.iter().any(|w| w == word))
            }),
        }
    }
}

/// What a rule's `where` asks for at `point`.
pub fn tests(rule: &Rule, point: Point) -> Result<Vec<Test>, Wrong> {
    let mut flat = Vec::new();
    for (key, arg) in &rule.r#where {
        flatten(key, arg, &mut flat);
    }
    let opcode = only_opcode(rule, point);
    let structures = point::structures(point, opcode);
    let candidates: Vec<Candidate> = structures
        .iter()
        .map(|&layout| match work_request(rule, point) {
            Some((opcode, st)) => (layout, work_request_places(opcode, st)),
            None => (layout, places(layout)),
        })
        .collect();
    let mut tests = Vec::new();
    for (path, arg) in flat {
        let wrong = |message| Wrong::new(["where", &path], message);
        tests.push(test(point, &candidates, &path, arg).map_err(wrong)?);
    }
    // The opcode first: all other fields are where its structure has them.
    tests.sort_by_key(|test| match test {
        Test::Field { places, .. } => {
            !places.iter().any(|(_, place)| place.path.last() == "opcode")
        }
        Test::Number(name, _) => *name != "opcode",
        Test::Word(..) => true,
    });
    Ok(tests)
}

/// The one command that a rule is about, if it is about one.
pub fn only_opcode(rule: &Rule, point: Point) -> Option<Opcode> {
    match (point, rule.r#where.get("opcode")?) {
        (Point::Command | Point::Reply, Arg::Text(name)) => Opcode::from_name(name),
        (Point::Command | Point::Reply, Arg::Number(code)) => Some(Opcode(*code as u16)),
        _ => None,
    }
}

/// The one kind of work request that a rule is about, if it is about one.
fn work_request(rule: &Rule, point: Point) -> Option<(WqeOpcode, Option<QpType>)> {
    let code = |key: &str, names: Names<'_>| one(rule.r#where.get(key)?, 8, names).ok();
    if point != Point::WorkRequest {
        return None;
    }
    let opcode = code("opcode", &|value| value_name(WqeCtrlSeg::INFO.name, "opcode", value))?;
    let st = code("st", &|value| value_name("qpc", "st", value));
    Some((WqeOpcode(opcode as u8), st.map(|st| QpType(st as u8))))
}

/// `mkc = { pd = 3 }` is `"mkc.pd" = 3`.
fn flatten<'a>(path: &str, arg: &'a Arg, flat: &mut Vec<(String, &'a Arg)>) {
    match arg {
        Arg::Table(inner) => {
            inner.iter().for_each(|(key, arg)| flatten(&format!("{path}.{key}"), arg, flat));
        }
        arg => flat.push((path.to_owned(), arg)),
    }
}

/// A structure that the bytes may be, and where its fields are.
type Candidate = (&'static LayoutInfo, Vec<Place>);

fn test(point: Point, candidates: &[Candidate], path: &str, arg: &Arg) -> Result<Test, String> {
    if let Some(told) = point::told(point).iter().find(|told| told.name == path) {
        return told_test(told, arg);
    }
    let mut found = Vec::new();
    for (layout, places) in candidates {
        if let Some(place) = find(places, path)? {
            let only =
                (!point::is_header(layout) && !in_header(point, &place)).then_some(layout.name);
            found.push((only, place));
        }
    }
    let Some((_, place)) = found.first() else {
        let structures: Vec<_> = candidates.iter().map(|(layout, _)| *layout).collect();
        return Err(no_field(point, &structures, path));
    };
    let names = |value| value_name(place.structure, place.path.last(), value);
    let wanted = ranges(arg, place.width(), &names).map_err(|why| format!("{path}: {why}"))?;
    Ok(Test::Field { places: found, wanted })
}

/// Whether a field is where every command has it.
fn in_header(point: Point, place: &Place) -> bool {
    matches!(
        (point, place.path.last()),
        (Point::Command, "opcode") | (Point::Reply, "status" | "syndrome")
    ) && place.path.0.len() == 2
}

fn told_test(told: &Told, arg: &Arg) -> Result<Test, String> {
    if told.words.is_empty() {
        let names = |value| {
            told.named_as.and_then(|(structure, field)| value_name(structure, field, value))
        };
        let width = if told.named_as.is_some() { 16 } else { 64 };
        let wanted = ranges(arg, width, &names).map_err(|why| format!("{}: {why}", told.name))?;
        return Ok(Test::Number(told.at_point, wanted));
    }
    let given = match arg {
        Arg::Many(many) => many.iter().collect(),
        one => vec![one],
    };
    let words = given.into_iter().map(|arg| match arg {
        Arg::Text(text) if told.words.contains(&text.as_str()) => Ok(text.clone()),
        _ => Err(format!("{}: expected one of {}", told.name, told.words.join(", "))),
    });
    Ok(Test::Word(told.at_point, words.collect::<Result<_, _>>()?))
}

fn no_field(point: Point, structures: &[&'static LayoutInfo], path: &str) -> String {
    let told: Vec<_> = point::told(point).iter().map(|told| told.name).collect();
    let beside =
        if told.is_empty() { String::new() } else { format!("; beside it: {}", told.join(", ")) };
    let names: Vec<_> = structures.iter().map(|layout| layout.name).collect();
    match names.first() {
        None => format!("{path}: {point} has no such value{beside}"),
        Some(_) if point == Point::WorkRequest => {
            format!(
                "{path}: no such field (those behind the control segment need one opcode, and st \
                 for UD and XRC){beside}"
            )
        }
        Some(_) if structures.iter().any(|layout| point::is_header(layout)) => {
            format!(
                "{path}: no such field in {} (fields of one command need its opcode){beside}",
                names.join(", ")
            )
        }
        Some(_) => format!("{path}: no such field in {}{beside}", names.join(", ")),
    }
}

/// The field that a path names. Of several the outermost, if there is only one that is.
fn find(places: &[Place], path: &str) -> Result<Option<Place>, String> {
    let mut all: Vec<Place> = places.iter().filter(|place| place.path.is(path)).cloned().collect();
    all.sort_by_key(|place| place.path.0.len());
    let depth = all.first().map_or(0, |place| place.path.0.len());
    let outermost = all.iter().take_while(|place| place.path.0.len() == depth).count();
    if outermost > 1 {
        let names: Vec<_> = all.iter().take(outermost).map(|place| place.path.brief()).collect();
        return Err(format!("{path} could be any of {}", names.join(", ")));
    }
    Ok(all.into_iter().next())
}

/// Other values for fields.
pub fn patches(
    structures: &[&'static LayoutInfo],
    point: Point,
    args: &std::collections::BTreeMap<String, Arg>,
) -> Result<Vec<Patch>, (String, String)> {
    let mut flat = Vec::new();
    for (key, arg) in args {
        flatten(key, arg, &mut flat);
    }
    let mut patches = Vec::new();
    for (path, arg) in flat {
        let wrong = |message: String| (path.clone(), message);
        let mut place = None;
        for layout in structures {
            place = place.or(find(&places(layout), &path).map_err(wrong)?);
        }
        let place = place.ok_or_else(|| wrong(no_field(point, structures, &path)))?;
        let names = |value| value_name(place.structure, place.path.last(), value);
        let value =
            one(arg, place.width(), &names).map_err(|why| wrong(format!("{path}: {why}")))?;
        let mut left = place.width();
        for &(bit, width) in &place.runs {
            left -= width;
            let mask = u64::MAX >> (64 - width.clamp(1, 64));
            patches.push(Patch {
                bit,
                width,
                value: value.checked_shr(left as u32).unwrap_or(0) & mask,
            });
        }
    }
    Ok(patches)
}

/// A name for every value that has one.
pub type Names<'a> = &'a dyn Fn(u64) -> Option<&'static str>;

/// What a field of so many bits may be.
fn ranges(arg: &Arg, width: usize, names: Names<'_>) -> Result<Vec<RangeInclusive<u64>>, String> {
    match arg {
        Arg::Many(many) => {
            let all: Result<Vec<_>, _> = many.iter().map(|arg| ranges(arg, width, names)).collect();
            Ok(all?.concat())
        }
        Arg::Text(text) => {
            if let Some((low, high)) = text.split_once("..")
                && let (Some(low), Some(high)) = (number(low), number(high))
            {
                let last = high.checked_sub(1).filter(|last| low <= *last);
                return Ok(vec![low..=last.ok_or_else(|| format!("\"{text}\" holds no value"))?]);
            }
            if let Some(prefix) = text.strip_suffix('*') {
                let named = values(width)
                    .filter(|value| names(*value).is_some_and(|n| n.starts_with(prefix)));
                let all: Vec<_> = named.map(|value| value..=value).collect();
                return if all.is_empty() { Err(unknown(text, width, names)) } else { Ok(all) };
            }
            one(arg, width, names).map(|value| vec![value..=value])
        }
        arg => one(arg, width, names).map(|value| vec![value..=value]),
    }
}

/// A single value for so many bits.
pub fn one(arg: &Arg, width: usize, names: Names<'_>) -> Result<u64, String> {
    let value = match arg {
        Arg::Bool(on) => u64::from(*on),
        Arg::Number(number) => *number,
        Arg::Text(text) => match number(text) {
            Some(number) => number,
            None => values(width)
                .find(|value| names(*value) == Some(text))
                .ok_or_else(|| unknown(text, width, names))?,
        },
        Arg::Many(_) | Arg::Table(_) => return Err("expected one value".into()),
    };
    if width < 64 && value >> width != 0 {
        return Err(format!("{value:#x} does not fit into {width} bits"));
    }
    Ok(value)
}

/// The values that may have names: fields of codes are not wider.
fn values(width: usize) -> RangeInclusive<u64> {
    let most = if width <= 16 { (1 << width) - 1 } else { 0xffff };
    0..=most
}

fn number(text: &str) -> Option<u64> {
    match text.trim().strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.trim().parse().ok(),
    }
}

/// Most names that a message lists.
const LISTED: usize = 40;

fn unknown(text: &str, width: usize, names: Names<'_>) -> String {
    let all: Vec<_> = values(width).filter_map(names).collect();
    // One that differs in a letter or two is what was meant, most likely.
    let close = all.iter().filter(|name| distance(name, text) <= 2);
    let close: Vec<_> = close.copied().take(3).collect();
    match (all.len(), close.is_empty()) {
        (0, _) => format!("\"{text}\" is no number, and its values have no names"),
        (_, false) => {
            format!("no value is called \"{text}\"; did you mean {}?", close.join(" or "))
        }
        (1..=LISTED, true) => {
            format!("no value is called \"{text}\"; there are {}", all.join(", "))
        }
        _ => format!("no value is called \"{text}\""),
    }
}

/// How many letters have to be added, removed or changed.
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.bytes().enumerate() {
        let mut diagonal = i;
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
        for (j, b) in other.bytes().enumerate() {
            let (left, above) = (row.get(j).copied(), row.get(j + 1).copied());
            let (left, above) = (left.unwrap_or(0), above.unwrap_or(0));
            let best = (diagonal + usize::from(a != b)).min(left + 1).min(above + 1);
            diagonal = above;
            if let Some(cell) = row.get_mut(j + 1) {
                *cell = best;
            }
        }
    }
    row.last().copied().unwrap_or(0)
}
