//! Markdown, for a report that is kept with a project.

use std::fmt::Write as _;

use super::{Group, Numbers, Report, parts};

/// Cases that are named for one kind of damage.
const NAMED: usize = 8;
/// Lines of what shows it.
const LINES: usize = 14;

impl Report<'_> {
    /// The numbers and every kind of damage, with what was failed, what the kernel said and the command
    /// that does it again.
    pub fn markdown(&self) -> String {
        let mut out = String::new();
        // Writing to a string can't fail.
        let _ = self.write_markdown(&mut out);
        out
    }

    fn write_markdown(&self, out: &mut String) -> std::fmt::Result {
        writeln!(
            out,
            "| campaign | steps | classes | cases | done | not reached | with findings |"
        )?;
        writeln!(out, "| --- | --- | --- | --- | --- | --- | --- |")?;
        for run in self.runs {
            let Numbers { steps, classes, cases, done, not_reached, damaged, .. } =
                Numbers::of(run);
            let title = run.header.title();
            writeln!(
                out,
                "| {title} | {steps} | {classes} | {cases} | {done} | {not_reached} | {damaged} |"
            )?;
        }
        self.write_overview(out)?;
        for (number, group) in self.groups.iter().enumerate() {
            writeln!(out, "\n## {}. {}: {}\n", number + 1, capital(group.kind.name()), group.what)?;
            group.write(out)?;
        }
        Ok(())
    }

    /// Every kind of damage in a line, with the number of cases in which each kernel shows it.
    fn write_overview(&self, out: &mut String) -> std::fmt::Result {
        let kernels = kernels(self.runs.iter().map(|run| run.header.kernel.as_str()));
        writeln!(out, "\n| | finding | {} |", kernels.join(" | "))?;
        writeln!(out, "| --- | --- |{}", " --- |".repeat(kernels.len()))?;
        for (number, group) in self.groups.iter().enumerate() {
            let cases = |kernel: &&str| {
                let seen = group.seen.iter().filter(|seen| seen.header.kernel == **kernel).count();
                if seen == 0 { "-".to_owned() } else { seen.to_string() }
            };
            let cells: Vec<String> = kernels.iter().map(cases).collect();
            let (kind, what) = (group.kind.name(), group.what.replace('|', "\\|"));
            writeln!(out, "| {} | {kind}: {what} | {} |", number + 1, cells.join(" | "))?;
        }
        Ok(())
    }
}

/// Each kernel once, in this order.
fn kernels<'a>(all: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut kernels = Vec::new();
    for kernel in all {
        if !kernels.contains(&kernel) {
            kernels.push(kernel);
        }
    }
    kernels
}

impl Group<'_> {
    fn write(&self, out: &mut String) -> std::fmt::Result {
        let kernels = kernels(self.seen.iter().map(|seen| seen.header.kernel.as_str()));
        writeln!(out, "Kernels: {}.\n", kernels.join(", "))?;
        writeln!(
            out,
            "| workload | step | failed by | what the driver did |\n| --- | --- | --- | --- |"
        )?;
        for seen in self.seen.iter().take(NAMED) {
            let (step, failure) = parts(&seen.case.case);
            let reaction = seen.case.reaction().replace('|', "\\|");
            writeln!(out, "| {} | `{step}` | {failure} | {reaction} |", seen.header.workload.name,)?;
        }
        if let Some(more) = self.seen.len().checked_sub(NAMED).filter(|&more| more > 0) {
            writeln!(out, "\nand {more} more cases.")?;
        }
        let Some(first) = self.seen.first() else { return Ok(()) };
        if !first.finding.detail.is_empty() {
            writeln!(out, "\n```text")?;
            for line in first.finding.detail.iter().take(LINES) {
                writeln!(out, "{line}")?;
            }
            writeln!(out, "```")?;
        }
        writeln!(out, "\nAgain:\n\n```console\n$ {}\n```", first.header.repeat(&first.case.case))
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
