//! The table in the terminal.

use std::fmt;

use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{ContentArrangement, Table};

use super::{Numbers, Report};

/// Cases that are named for one kind of damage; the page has all.
const NAMED: usize = 3;

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = new(&[
            "campaign",
            "steps",
            "classes",
            "cases",
            "done",
            "not reached",
            "with findings",
            "reboots",
            "time",
        ]);
        for run in self.runs {
            let n = Numbers::of(run);
            table.add_row([
                run.header.title(),
                n.steps.to_string(),
                n.classes.to_string(),
                n.cases.to_string(),
                n.done.to_string(),
                n.not_reached.to_string(),
                n.damaged.to_string(),
                n.rebooted.to_string(),
                format!("{} min", n.seconds.div_ceil(60)),
            ]);
        }
        writeln!(f, "{table}")?;
        if self.groups.is_empty() {
            return writeln!(f, "No damage was found.");
        }
        let mut table = new(&["finding", "what", "cases", "for example"]);
        for group in &self.groups {
            let examples = group.seen.iter().take(NAMED);
            let examples: Vec<_> = examples.map(|seen| seen.case.case.as_str()).collect();
            table.add_row([
                group.kind.name().to_owned(),
                group.what.to_owned(),
                group.seen.len().to_string(),
                examples.join("\n"),
            ]);
        }
        writeln!(f, "{table}")?;
        if let Some(seen) = self.groups.first().and_then(|group| group.seen.first()) {
            writeln!(f, "Again: {}", seen.header.repeat(&seen.case.case))?;
        }
        Ok(())
    }
}

fn new(head: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(head);
    table
}
