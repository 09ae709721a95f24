//! Results for CI systems that read JUnit's XML.

use std::fmt::Write as _;

use crate::boot::Results;
use crate::judge::Verdict;

/// A suite; each promise of each report is a case.
pub fn xml(results: &Results) -> String {
    let mut cases = String::new();
    let (mut count, mut failures, mut skipped) = (0, 0, 0);
    for judgement in &results.judgements {
        for row in &judgement.rows {
            count += 1;
            let (class, name) = (escaped(&judgement.report), escaped(&row.promise));
            // Writing to a string never fails.
            let _ = write!(cases, "  <testcase classname=\"{class}\" name=\"{name}\">");
            let _ = match &row.verdict {
                Verdict::Ok => Ok(()),
                Verdict::Finding(what) => {
                    write!(cases, "<system-out>finding: {}</system-out>", escaped(what))
                }
                Verdict::Without(why) => {
                    skipped += 1;
                    write!(cases, "<skipped message=\"{}\"/>", escaped(why))
                }
                Verdict::Failed(why) => {
                    failures += 1;
                    let seen = escaped(&row.seen);
                    write!(cases, "<failure message=\"{}\">{seen}</failure>", escaped(why))
                }
            };
            cases.push_str("</testcase>\n");
        }
    }
    for problem in &results.problems {
        count += 1;
        failures += 1;
        let problem = escaped(problem);
        let _ = writeln!(
            cases,
            "  <testcase classname=\"run\" name=\"run\"><failure message=\"{problem}\"/></testcase>"
        );
    }
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"reports {}\" tests=\"{count}\" \
         failures=\"{failures}\" skipped=\"{skipped}\">\n{cases}</testsuite>\n",
        escaped(&results.kernel)
    )
}

fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\n' => out.push_str("&#10;"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::{Judgement, Row};

    #[test]
    fn text_of_the_guest_does_not_break_the_file() {
        let row = Row {
            promise: "p".to_owned(),
            verdict: Verdict::Failed("<\"&>".to_owned()),
            seen: "a\u{1b}b\nc".to_owned(),
        };
        let judgements = vec![Judgement { report: "A1".to_owned(), rows: vec![row], seconds: 0.0 }];
        let text = xml(&Results { judgements, ..Results::default() });
        let failure = "<failure message=\"&lt;&quot;&amp;&gt;\">a b&#10;c</failure>";
        assert!(text.contains(failure), "{text}");
        assert!(text.contains("tests=\"1\" failures=\"1\" skipped=\"0\""), "{text}");
    }
}
