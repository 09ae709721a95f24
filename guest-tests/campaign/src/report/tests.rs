use super::*;
use crate::case::Choice;
use crate::class::Class;
use crate::shard::Shard;
use crate::steps::Steps;
use crate::workload::{Phase, Workload};

fn results() -> Vec<Results> {
    let class = Class {
        phase: Phase::Work,
        at: "command".into(),
        name: "CREATE_MKEY".into(),
        r#where: [].into(),
    };
    let choice = Choice { full: false, seed: 0, shard: Shard::WHOLE };
    let workload = Workload::find("reg_mr").unwrap();
    let header = Header::new(&workload, "6.12.1", choice, vec![Steps { class, count: 5 }]);
    let case = |failure: &str, fired, findings| CaseResult {
        case: format!("work/command/CREATE_MKEY#1/{failure}"),
        fired,
        phases: [].into(),
        findings,
        rebooted: false,
        disturbed: false,
        seconds: 2.0,
    };
    let finding = Finding {
        kind: Kind::Report,
        what: "WARNING: at x.c:1 </script>".into(),
        detail: vec!["------------[ cut here ]------------".into()],
    };
    let cases = vec![
        case("NO_RES", 1, vec![]),
        case("never", 1, vec![finding.clone()]),
        case("LIM_ERR", 1, vec![finding]),
        case("INT_ERR", 0, vec![]),
    ];
    vec![Results { header, cases }]
}

#[test]
fn the_same_damage_is_one_finding() {
    let results = results();
    let report = Report::new(&results);
    assert_eq!(report.groups.len(), 1);
    assert_eq!(report.groups[0].seen.len(), 2);
    assert!(report.has_findings() && report.has_unreached());
    let numbers = Numbers::of(&results[0]);
    assert_eq!((numbers.steps, numbers.classes, numbers.done), (5, 1, 4));
    assert_eq!((numbers.not_reached, numbers.damaged), (1, 2));
    assert_eq!(
        numbers.cases,
        3 * 4,
        "three steps of five, four ways to fail a command that makes a key"
    );
}

#[test]
fn the_table_and_the_markdown_say_how_to_see_it_again() {
    let results = results();
    let report = Report::new(&results);
    let again = "mlx5emu campaign --workload reg_mr --kernel 6.12.1 --case 'work/command/CREATE_MKEY#1/never'";
    for text in [report.to_string(), report.markdown()] {
        assert!(text.contains(again), "{text}");
        assert!(text.contains("WARNING: at x.c:1"), "{text}");
    }
}

#[test]
fn the_markdown_begins_with_every_finding_and_its_number_of_cases() {
    let results = results();
    let text = Report::new(&results).markdown();
    let head = text.split("\n## 1.").next().unwrap();
    assert!(head.contains("| | finding | 6.12.1 |"), "{head}");
    assert!(head.contains("| kernel warning: WARNING: at x.c:1 </script> | 2 |"), "{head}");
}

#[test]
fn junit_has_a_test_for_each_case() {
    let results = results();
    let xml = Report::new(&results).junit().unwrap();
    assert!(xml.contains("tests=\"4\"") && xml.contains("failures=\"2\""), "{xml}");
    assert_eq!(xml.matches("<skipped").count(), 1, "{xml}");
}

#[test]
fn what_a_guest_says_stays_text_in_the_page() {
    let results = results();
    let page = Report::new(&results).html();
    assert!(page.contains("\\u003c/script>"));
    assert_eq!(page.matches("</script>").count(), 1);
    assert!(!page.contains("/*DATA*/"));
}
