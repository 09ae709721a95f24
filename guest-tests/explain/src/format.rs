//! How the kernel lays out its records: the `format` files of its events.

use std::collections::BTreeMap;

/// One kind of record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Format {
    /// Its event's name.
    pub(crate) name: String,
    fields: Vec<(String, Field)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Field {
    offset: usize,
    size: usize,
    /// Bytes of an element, if it is an array.
    element: Option<usize>,
    signed: bool,
    /// It is not the value but where that is: length and offset, 16 bits each.
    elsewhere: bool,
}

/// What a field holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    /// A number; unsigned ones of 64 bits keep their bits.
    Number(i64),
    /// Numbers.
    Numbers(Vec<u64>),
    /// Text.
    Text(String),
}

impl Format {
    /// The number and layout that a file describes.
    pub(crate) fn parse(text: &str) -> Option<(u16, Self)> {
        let of = |name| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let name = of("name:")?.to_owned();
        let id = of("ID:")?.parse().ok()?;
        let fields = text.lines().filter_map(|line| field(line.trim())).collect();
        Some((id, Self { name, fields }))
    }

    /// A field as a number.
    pub(crate) fn number(&self, record: &[u8], name: &str) -> Option<i64> {
        match self.value(record, name)? {
            Value::Number(number) => Some(number),
            _ => None,
        }
    }

    /// A field as text.
    pub(crate) fn text(&self, record: &[u8], name: &str) -> Option<String> {
        match self.value(record, name)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A field by name.
    pub(crate) fn value(&self, record: &[u8], name: &str) -> Option<Value> {
        let (_, field) = self.fields.iter().find(|(own, _)| own == name)?;
        field.value(record)
    }

    /// The fields that are not part of every record, nor of every probe's.
    pub(crate) fn own_values(&self, record: &[u8]) -> BTreeMap<String, Value> {
        let own = |name: &str| !name.starts_with("common_") && !name.starts_with("__probe");
        let fields = self.fields.iter().filter(|(name, _)| own(name));
        fields.filter_map(|(name, field)| Some((name.clone(), field.value(record)?))).collect()
    }
}

impl Field {
    fn value(&self, record: &[u8]) -> Option<Value> {
        let bytes = record.get(self.offset..self.offset.checked_add(self.size)?)?;
        if self.elsewhere {
            let place = little(bytes, false) as u32;
            let (at, length) = ((place & 0xffff) as usize, (place >> 16) as usize);
            return Some(Value::Text(until_zero(record.get(at..at.checked_add(length)?)?)));
        }
        Some(match self.element {
            None => Value::Number(little(bytes, self.signed)),
            Some(1) => Value::Text(until_zero(bytes)),
            Some(size) => {
                Value::Numbers(bytes.chunks(size).map(|part| little(part, false) as u64).collect())
            }
        })
    }
}

/// `field:unsigned long args[6]; offset:16; size:48; signed:0;`
fn field(line: &str) -> Option<(String, Field)> {
    let mut parts = line.strip_prefix("field:")?.split(';').map(str::trim);
    let declaration = parts.next()?;
    let mut number = |prefix: &str| parts.next()?.strip_prefix(prefix)?.parse::<usize>().ok();
    let (offset, size, signed) = (number("offset:")?, number("size:")?, number("signed:")? != 0);
    let (kind, name) = declaration.rsplit_once(' ')?;
    let elsewhere = kind.starts_with("__data_loc");
    let element = name.split_once('[').map(|_| element(kind));
    let name = name.split('[').next()?.to_owned();
    Some((name, Field { offset, size, element, signed, elsewhere }))
}

fn element(kind: &str) -> usize {
    match kind {
        "char" | "unsigned char" | "u8" | "s8" => 1,
        "u16" | "s16" | "unsigned short" => 2,
        "u32" | "s32" | "int" | "unsigned int" => 4,
        _ => 8,
    }
}

fn little(bytes: &[u8], signed: bool) -> i64 {
    let mut wide = [0; 8];
    for (to, from) in wide.iter_mut().zip(bytes) {
        *to = *from;
    }
    let number = i64::from_le_bytes(wide);
    let unused = 64 - 8 * bytes.len().min(8) as u32;
    match signed && unused < 64 {
        true => number << unused >> unused,
        false => number,
    }
}

fn until_zero(bytes: &[u8]) -> String {
    let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "name: probe\nID: 42\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
        \tfield:s32 ret;\toffset:2;\tsize:4;\tsigned:1;\n\
        \tfield:u64 list[];\toffset:6;\tsize:16;\tsigned:0;\n\
        \tfield:__data_loc char[] name;\toffset:22;\tsize:4;\tsigned:0;\n\
        \tfield:char comm[4];\toffset:26;\tsize:4;\tsigned:0;\n\nprint fmt: \"\"\n";

    #[test]
    fn every_kind_of_field() {
        let (id, format) = Format::parse(TEXT).unwrap();
        assert_eq!((id, format.name.as_str()), (42, "probe"));
        let mut record = vec![42, 0, 0xf4, 0xff, 0xff, 0xff];
        record.extend([1u64.to_le_bytes(), 2u64.to_le_bytes()].concat());
        record.extend([30, 0, 3, 0]);
        record.extend(b"ab\0x");
        record.extend(b"xyz");
        assert_eq!(format.number(&record, "ret"), Some(-12));
        assert_eq!(format.value(&record, "list"), Some(Value::Numbers(vec![1, 2])));
        assert_eq!(format.text(&record, "name").as_deref(), Some("xyz"));
        assert_eq!(format.text(&record, "comm").as_deref(), Some("ab"));
        assert_eq!(format.own_values(&record).len(), 4);
    }

    #[test]
    fn a_record_that_is_too_short_has_no_value() {
        let (_, format) = Format::parse(TEXT).unwrap();
        assert_eq!(format.value(&[0; 5], "ret"), None);
        let mut lies = vec![0; 26];
        lies.extend([0; 4]);
        lies[22..26].copy_from_slice(&[0xff, 0xff, 0xff, 0xff]);
        assert_eq!(format.value(&lies, "name"), None);
    }
}
