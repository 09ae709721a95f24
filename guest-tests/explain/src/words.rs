//! Values in the words that people know them by.

use crate::events::Values;
use crate::format::Value;

/// Names and values of what was fetched, for people.
pub(crate) fn facts(values: &Values) -> Vec<(String, String)> {
    let shown = |(name, value): (&String, &Value)| match value {
        Value::Number(number) => Some((name.clone(), number_text(name, *number))),
        Value::Text(text) => Some((name.clone(), text.clone())),
        Value::Numbers(_) => None,
    };
    let mut facts: Vec<_> = values.iter().filter_map(shown).collect();
    facts.retain(|(name, _)| !["ret", "vmemmap", "opcode", "modifier"].contains(&name.as_str()));
    facts.sort_by_key(|(name, _)| order(name));
    facts
}

/// The order in which people ask.
fn order(name: &str) -> usize {
    const ORDER: &[&str] =
        &["address", "length", "iova", "offset", "pages", "access", "lkey", "rkey"];
    ORDER.iter().position(|own| *own == name).unwrap_or(ORDER.len())
}

fn number_text(name: &str, number: i64) -> String {
    match name {
        "access" => flags(number as u64, ACCESS),
        "state" => index(number, STATES),
        "operation" => index(number, OPERATIONS),
        "address" | "iova" | "offset" | "remote" | "lkey" | "rkey" | "mkey" | "mr" | "flags"
        | "mask" | "allowed" | "work" => format!("{number:#x}"),
        _ => number.to_string(),
    }
}

const ACCESS: &[&str] = &[
    "LOCAL_WRITE",
    "REMOTE_WRITE",
    "REMOTE_READ",
    "REMOTE_ATOMIC",
    "MW_BIND",
    "ZERO_BASED",
    "ON_DEMAND",
    "HUGETLB",
    "FLUSH_GLOBAL",
    "FLUSH_PERSISTENT",
];
const STATES: &[&str] = &["RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"];
const OPERATIONS: &[&str] = &[
    "RDMA_WRITE",
    "RDMA_WRITE_WITH_IMM",
    "SEND",
    "SEND_WITH_IMM",
    "RDMA_READ",
    "ATOMIC_CMP_AND_SWP",
    "ATOMIC_FETCH_AND_ADD",
    "LOCAL_INV",
    "BIND_MW",
    "SEND_WITH_INV",
];

fn flags(number: u64, names: &[&str]) -> String {
    let named = names.iter().enumerate().filter(|(bit, _)| number >> bit & 1 != 0);
    let mut list: Vec<String> = named.map(|(_, name)| (*name).to_owned()).collect();
    let rest = number & !((1 << names.len()) - 1);
    if rest != 0 || list.is_empty() {
        list.push(format!("{rest:#x}"));
    }
    list.join(", ")
}

fn index(number: i64, names: &[&str]) -> String {
    let name = usize::try_from(number).ok().and_then(|number| names.get(number));
    name.map_or_else(|| number.to_string(), |name| (*name).to_owned())
}

/// An errno by its name.
pub(crate) fn errno(number: i64) -> String {
    let name = match number {
        1 => "EPERM",
        2 => "ENOENT",
        4 => "EINTR",
        5 => "EIO",
        9 => "EBADF",
        11 => "EAGAIN",
        12 => "ENOMEM",
        13 => "EACCES",
        14 => "EFAULT",
        16 => "EBUSY",
        19 => "ENODEV",
        22 => "EINVAL",
        28 => "ENOSPC",
        95 => "EOPNOTSUPP",
        110 => "ETIMEDOUT",
        121 => "EREMOTEIO",
        _ => return format!("errno {number}"),
    };
    name.to_owned()
}

/// A time as people read it, three digits of it.
pub(crate) fn duration(ns: i64) -> String {
    let (value, unit) = match ns {
        ns if ns < 1_000 => return format!("{ns} ns"),
        ns if ns < 1_000_000 => (ns as f64 / 1e3, "µs"),
        ns if ns < 1_000_000_000 => (ns as f64 / 1e6, "ms"),
        ns => (ns as f64 / 1e9, "s"),
    };
    let digits = match value {
        value if value < 9.995 => 2,
        value if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits() {
        let cases = [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_234, "1.23 µs"),
            (12_345, "12.3 µs"),
            (999_400, "999 µs"),
            (1_500_000, "1.50 ms"),
            (2_000_000_000, "2.00 s"),
        ];
        for (ns, text) in cases {
            assert_eq!(duration(ns), text);
        }
    }

    #[test]
    fn rights_and_states_have_names() {
        assert_eq!(number_text("access", 3), "LOCAL_WRITE, REMOTE_WRITE");
        assert_eq!(number_text("access", 0), "0x0");
        assert_eq!(number_text("access", 1 << 20 | 1), "LOCAL_WRITE, 0x100000");
        assert_eq!(number_text("state", 3), "RTS");
        assert_eq!(number_text("state", 99), "99");
        assert_eq!(number_text("lkey", 0x1234), "0x1234");
        assert_eq!(number_text("entries", 17), "17");
    }
}
