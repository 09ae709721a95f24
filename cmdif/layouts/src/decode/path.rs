//! Where a field is: the structure, inner structures, the field.

use std::fmt;

/// One step of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Name of a field, of an inner structure in its outer one, or of the outermost structure.
    pub name: &'static str,
    /// An inner structure's own name.
    pub structure: Option<&'static str>,
    /// Which element of an array; of raw bits, the offset in bytes.
    pub index: Option<usize>,
}

impl Step {
    pub(super) fn named(name: &'static str) -> Self {
        Self { name, structure: None, index: None }
    }

    pub(super) fn part(name: &'static str, structure: &'static str) -> Self {
        Self { name, structure: Some(structure), index: None }
    }

    fn is(&self, text: &str) -> bool {
        let (name, index) = match text.strip_suffix(']').and_then(|text| text.split_once('[')) {
            None => (text, None),
            Some((name, index)) => (name, Some(index)),
        };
        let same = |own: &str| own == name || own.strip_prefix("mlx5_") == Some(name);
        let indexed = match (index, self.index) {
            (None, _) => true,
            (Some(text), Some(own)) => match text.strip_prefix("0x") {
                Some(hex) => usize::from_str_radix(hex, 16) == Ok(own),
                None => text.parse() == Ok(own),
            },
            (Some(_), None) => false,
        };
        indexed && (same(self.name) || self.structure.is_some_and(same))
    }
}

/// Steps from the outermost structure to a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path(pub Vec<Step>);

impl Path {
    /// Whether `text` names this field: any number of its last steps, joined by dots, an inner
    /// structure by either of its names. `mkc.pd` is `create_mkey_in.memory_key_mkey_entry.pd`.
    pub fn is(&self, text: &str) -> bool {
        let mut own = self.0.iter().rev();
        text.rsplit('.').all(|wanted| own.next().is_some_and(|step| step.is(wanted)))
    }

    /// The same for people: of an inner structure's two names the shorter, as `mkc.pd`.
    pub fn brief(&self) -> String {
        let short = |step: &Step| {
            let name = step.structure.filter(|own| own.len() < step.name.len());
            Step { name: name.unwrap_or(step.name), ..*step }
        };
        Self(self.0.iter().map(short).collect()).to_string()
    }

    /// The field's own name.
    pub fn last(&self) -> &'static str {
        self.0.last().map_or("", |step| step.name)
    }
}

/// Without the outermost structure: `memory_key_mkey_entry.pd`.
impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, step) in self.0.iter().skip(1).enumerate() {
            if n > 0 {
                f.write_str(".")?;
            }
            f.write_str(step.name)?;
            match step.index {
                Some(at) if step.name == "raw" => write!(f, "[{at:#x}]")?,
                Some(index) => write!(f, "[{index}]")?,
                None => {}
            }
        }
        Ok(())
    }
}
