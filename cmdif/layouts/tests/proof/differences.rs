//! Where a kernel differs from what we declare. Every difference is on a list; one that is not, or
//! one on the list that is none any more, fails.

use std::collections::BTreeSet;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::headers::{KERNELS, Kernel};

/// The differences that one comparison found.
#[derive(Default)]
pub struct Differences {
    /// As lines `KERNEL WHAT: HOW`.
    lines: BTreeSet<String>,
    /// Why the newest kernel could not be compared.
    unreadable: Option<String>,
}

impl Differences {
    /// What `compare` finds for each kernel. That the newest kernel's headers are missing, or so
    /// new that we can't read them, is reported and does not fail.
    pub fn of(compare: impl Fn(Kernel, &mut Self)) -> Self {
        let mut all = Self::default();
        for kernel in KERNELS {
            let result = catch_unwind(AssertUnwindSafe(|| {
                let mut differences = Self::default();
                compare(kernel, &mut differences);
                differences
            }));
            match result {
                Ok(differences) => all.lines.extend(differences.lines),
                Err(panic) if kernel.gates => resume_unwind(panic),
                Err(panic) => {
                    let why = panic.downcast::<String>().map_or_else(|_| String::new(), |why| *why);
                    all.unreadable = Some(why);
                }
            }
        }
        all
    }

    pub fn add(
        &mut self,
        kernel: Kernel,
        what: impl std::fmt::Display,
        how: impl std::fmt::Display,
    ) {
        self.lines.insert(format!("{} {what}: {how}", kernel.name));
    }

    /// Compares with the list; `#` begins a comment in it.
    pub fn judge(self, list: &str, file: &str) {
        let known: BTreeSet<_> = list
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .map(str::to_owned)
            .collect();
        let mut failures = Vec::new();
        for kernel in KERNELS {
            let of = |set: &BTreeSet<String>, without: &BTreeSet<String>| -> Vec<_> {
                set.difference(without)
                    .filter(|line| line.split(' ').next() == Some(kernel.name))
                    .cloned()
                    .collect()
            };
            let reports = of(&self.lines, &known)
                .into_iter()
                .map(|line| format!("not on the list: {line}"))
                .chain(of(&known, &self.lines).into_iter().map(|line| format!("stale: {line}")));
            if kernel.gates {
                failures.extend(reports);
                continue;
            }
            // Past the test harness, which would swallow it: this must be seen though it passes.
            let mut stderr = std::io::stderr();
            if let Some(why) = &self.unreadable {
                let _ = writeln!(stderr, "WARNING: {} is not compared: {why}", kernel.name);
                continue;
            }
            let version = kernel.version();
            for report in reports {
                let _ = writeln!(stderr, "WARNING: {file} ({version}): {report}");
            }
        }
        assert!(
            failures.is_empty(),
            "{} difference(s) between the declarations and the kernels, against {file}:\n{}",
            failures.len(),
            failures.join("\n")
        );
    }
}
