//! Results for CI systems that read JUnit's XML.

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use crate::boot::Results;
use crate::judge::{Row, Verdict};

/// A suite; each promise of each report is a case.
pub fn xml(results: &Results) -> Result<String, quick_junit::SerializeError> {
    let mut suite = TestSuite::new(format!("reports {}", results.kernel));
    for judgement in &results.judgements {
        for row in &judgement.rows {
            let mut case = TestCase::new(row.promise.as_str(), status(row));
            case.set_classname(judgement.report.as_str());
            if let Verdict::Finding(what) = &row.verdict {
                case.set_system_out(format!("finding: {what}"));
            }
            suite.add_test_case(case);
        }
    }
    for problem in &results.problems {
        suite.add_test_case(TestCase::new("run", failure(problem)));
    }
    let mut report = Report::new("reports");
    report.add_test_suite(suite);
    report.to_string()
}

fn status(row: &Row) -> TestCaseStatus {
    match &row.verdict {
        Verdict::Ok | Verdict::Finding(_) => TestCaseStatus::success(),
        Verdict::Without(why) => {
            let mut status = TestCaseStatus::skipped();
            status.set_message(why.as_str());
            status
        }
        Verdict::Failed(why) => {
            let mut status = failure(why);
            status.set_description(row.seen.as_str());
            status
        }
    }
}

fn failure(why: &str) -> TestCaseStatus {
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
    status.set_message(why);
    status
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::Judgement;

    #[test]
    fn text_of_the_guest_does_not_break_the_file() {
        let row = Row {
            promise: "p".to_owned(),
            verdict: Verdict::Failed("<\"&>".to_owned()),
            seen: "a\u{1b}b</failure>".to_owned(),
        };
        let judgements = vec![Judgement { report: "A1".to_owned(), rows: vec![row], seconds: 0.0 }];
        let text = xml(&Results { judgements, ..Results::default() }).unwrap();
        assert!(text.contains("message=\"&lt;&quot;&amp;&gt;\""), "{text}");
        assert_eq!(text.matches("</failure>").count(), 1, "{text}");
        assert!(!text.contains('\u{1b}') && text.contains("failures=\"1\""), "{text}");
    }
}
