//! JUnit XML: a suite a campaign, a test a case.

use std::time::Duration;

use quick_junit::{NonSuccessKind, TestCase, TestCaseStatus, TestSuite};

use super::{Report, parts};
use crate::result::CaseResult;
use crate::store::Results;

impl Report<'_> {
    /// The results as JUnit XML. A case with findings has failed, one whose step was never reached is
    /// skipped.
    pub fn junit(&self) -> Result<String, String> {
        let mut report = quick_junit::Report::new("mlx5emu campaign");
        for Results { header, cases } in self.runs {
            let mut suite = TestSuite::new(header.title());
            for case in cases {
                let mut test = TestCase::new(&case.case, status(case));
                test.set_classname(format!("{}.{}", header.title(), parts(&case.case).0));
                test.set_time(Duration::try_from_secs_f64(case.seconds).unwrap_or_default());
                let log: Vec<_> =
                    case.phases.values().flat_map(|done| &done.log).map(String::as_str).collect();
                test.set_system_out(format!(
                    "{}\n\n{}\n\n{}",
                    header.repeat(&case.case),
                    case.reaction(),
                    log.join("\n")
                ));
                suite.add_test_case(test);
            }
            report.add_test_suite(suite);
        }
        report.to_string().map_err(|error| error.to_string())
    }
}

fn status(case: &CaseResult) -> TestCaseStatus {
    let skipped = match case {
        CaseResult { disturbed: true, .. } => Some("the machine was too slow"),
        CaseResult { fired: 0, findings, .. } if findings.is_empty() => {
            Some("the driver did not get to this step")
        }
        _ => None,
    };
    if let Some(why) = skipped {
        let mut status = TestCaseStatus::skipped();
        status.set_message(why);
        return status;
    }
    let Some(worst) = case.findings.first() else { return TestCaseStatus::success() };
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
    status.set_type(worst.kind.name());
    status.set_message(&worst.what);
    let all = case.findings.iter().map(|finding| {
        format!("{}: {}\n{}", finding.kind, finding.what, finding.detail.join("\n"))
    });
    status.set_description(all.collect::<Vec<_>>().join("\n\n"));
    status
}
