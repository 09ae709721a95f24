//! The table of rdma-core's own tests (`pyverbs.table`): what each came to.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::talk::{Outcome, SuiteResult};

/// The committed table.
pub const TABLE: &str = include_str!("../pyverbs.table");

/// Longest reason that the table keeps.
const LONGEST: usize = 160;

/// What a test came to: `ok`, or `skip` and the reason.
type Rows = BTreeMap<String, String>;

/// Reads a table.
pub fn parse(text: &str) -> Rows {
    let rows = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    rows.filter_map(|row| row.split_once(' '))
        .map(|(name, what)| (name.to_owned(), what.trim().to_owned()))
        .collect()
}

/// Writes a table: a line for each test, under a title.
pub fn format(results: &[SuiteResult]) -> String {
    let rows = rows(results);
    let width = rows.keys().map(String::len).max().unwrap_or(0);
    let mut text = String::from(
        "# What each of rdma-core's own tests (python3-pyverbs 56.1) comes to on the card's InfiniBand port:\n\
         # ok, or skip with the test's own reason. `ci/verbs --write` renews it.\n",
    );
    for (name, what) in rows {
        let _ = writeln!(text, "{name:width$}  {what}");
    }
    text
}

/// Differences between what came and the table, for people.
pub fn compare(table: &Rows, results: &[SuiteResult]) -> Vec<String> {
    let came = rows(results);
    let names: std::collections::BTreeSet<&String> = table.keys().chain(came.keys()).collect();
    let difference = |name: &String| match (table.get(name), came.get(name)) {
        (Some(said), Some(is)) if said == is => None,
        (Some(said), Some(is)) => Some(format!("{name}: {is}, not {said}")),
        (None, Some(is)) => Some(format!("{name}: {is}; the table does not have it")),
        (_, None) => Some(format!("{name} did not come")),
    };
    names.into_iter().filter_map(difference).collect()
}

fn rows(results: &[SuiteResult]) -> Rows {
    results.iter().map(|result| (result.name.clone(), what(result))).collect()
}

fn what(result: &SuiteResult) -> String {
    match result.result {
        Outcome::Ok => "ok".to_owned(),
        // Only a skip is expected to have a reason that stays.
        Outcome::Skip => format!("skip  {}", line_of(result.reason.lines().next())),
        other => format!("{}  {}", other.word(), line_of(result.reason.lines().last())),
    }
}

fn line_of(line: Option<&str>) -> String {
    line.unwrap_or_default().trim().chars().take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(name: &str, result: Outcome, reason: &str) -> SuiteResult {
        SuiteResult { name: name.to_owned(), result, reason: reason.to_owned(), seconds: 0.1 }
    }

    fn some() -> Vec<SuiteResult> {
        vec![
            result("test_a.A.test_long_name", Outcome::Ok, ""),
            result("test_b.B.test", Outcome::Skip, "No such  thing\nand more"),
        ]
    }

    #[test]
    fn a_table_that_was_written_is_no_different() {
        let table = parse(&format(&some()));
        assert_eq!(table.len(), 2);
        assert_eq!(compare(&table, &some()), Vec::<String>::new());
    }

    #[test]
    fn every_difference_is_told() {
        let table = parse(&format(&some()));
        let mut results = some();
        results[0] = result("test_a.A.test_long_name", Outcome::Fail, "Traceback\n1 != 2\n");
        assert_eq!(compare(&table, &results), ["test_a.A.test_long_name: FAIL  1 != 2, not ok"]);
        results[0] = result("test_c.C.test", Outcome::Ok, "");
        let differences = compare(&table, &results);
        assert_eq!(
            differences,
            [
                "test_a.A.test_long_name did not come",
                "test_c.C.test: ok; the table does not have it"
            ]
        );
        let mut results = some();
        results[1].reason = "Another thing".to_owned();
        assert_eq!(compare(&table, &results).len(), 1);
    }

    /// What the project promises about the suite.
    #[test]
    fn the_committed_table_has_no_failure_and_enough_passes() {
        let table = parse(TABLE);
        let bad: Vec<_> = table
            .iter()
            .filter(|(_, what)| {
                *what != "ok" && what.strip_prefix("skip  ").is_none_or(str::is_empty)
            })
            .collect();
        assert!(bad.is_empty(), "{bad:?}");
        assert!(table.values().filter(|what| *what == "ok").count() >= 130);
    }
}
