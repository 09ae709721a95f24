//! `docs/reports.md` and `docs/reactions.md`: what the guests have shown, between two marks of the page.

use crate::catalogue::Report;
use crate::shown::Shown;
use crate::tables::{Others, tables};

const BEGIN: &str = "<!-- reports: `reports page` writes this -->";
const END: &str = "<!-- end of reports -->";

/// The page with its tables renewed; text outside of the marks stays.
pub fn renewed(
    page: &str,
    reports: &[Report],
    others: &Others,
    shown: &[Shown],
) -> Result<String, String> {
    let (before, rest) = page.split_once(BEGIN).ok_or("the page has no mark to begin at")?;
    let (_, after) = rest.split_once(END).ok_or("the page has no mark to end at")?;
    let tables = tables(reports, others, shown);
    Ok(format!("{before}{BEGIN}\n\n{}\n\n{END}{after}", tables.trim_matches('\n')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_outside_of_the_marks_stays() {
        let page = format!("above\n{BEGIN}\nold\n{END}\nbelow\n");
        let new = renewed(&page, &[], &Others::default(), &[]).unwrap();
        assert!(new.starts_with("above\n") && new.ends_with("\nbelow\n") && !new.contains("old"));
        assert!(renewed("nothing", &[], &Others::default(), &[]).is_err());
    }
}
