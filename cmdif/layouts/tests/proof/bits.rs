//! Bit structures against `mlx5_ifc.h`.

use layouts::{ArrayInfo, FieldInfo, LayoutInfo, PartInfo};

use crate::differences::Differences;
use crate::headers::Kernel;
use crate::ifc::{Ifc, Item, Structure};

/// Headers that every command has, whose own structures are not in the header: ours, and a command
/// that has nothing else.
const ALIASES: &[(&str, &str)] = &[("mbox_in", "alloc_pd_in"), ("mbox_out", "nop_out")];

#[test]
fn bit_structures_are_those_of_the_kernels() {
    let differences = Differences::of(|kernel, differences| {
        let ifc = Ifc::read(kernel);
        for layout in layouts::all().into_iter().filter(|layout| is_bits(layout)) {
            let alias = ALIASES.iter().find(|(ours, _)| *ours == layout.name);
            match ifc.structure(alias.map_or(layout.name, |(_, theirs)| theirs)) {
                None => differences.add(kernel, layout.name, "absent"),
                Some(structure) => {
                    Check { kernel, layout, structure: &structure, differences }
                        .run(alias.is_some());
                }
            }
        }
    });
    differences.judge(include_str!("bits.txt"), "cmdif/layouts/tests/proof/bits.txt");
}

/// Whether a structure is one of `mlx5_ifc.h`.
pub fn is_bits(layout: &LayoutInfo) -> bool {
    !crate::plain::is_plain(layout) && !crate::NO_HEADER.contains(&layout.name)
}

struct Check<'a> {
    kernel: Kernel,
    layout: &'static LayoutInfo,
    structure: &'a Structure,
    differences: &'a mut Differences,
}

impl Check<'_> {
    fn run(mut self, header_only: bool) {
        if !header_only {
            if self.layout.size * 8 != self.structure.size {
                self.differ("size", format!("{:#x}", self.structure.size / 8));
            }
            self.undeclared();
        }
        for field in self.layout.fields {
            self.field(field);
        }
        for part in self.layout.parts {
            self.part(part);
        }
        for array in self.layout.arrays {
            self.array(array);
        }
    }

    fn differ(&mut self, what: &str, how: impl std::fmt::Display) {
        self.differences.add(self.kernel, format!("{}.{what}", self.layout.name), how);
    }

    /// What the header has at our name. Numbers are known by their place too.
    fn find(&mut self, name: &str, bit: usize, width: usize) -> Option<Item> {
        if let Some(item) = self.structure.find(name) {
            return Some(item.clone());
        }
        let number = |item: &&Item| item.of.is_none() && is_named(item);
        let same = |item: &&Item| item.bit == bit && item.width == width;
        let overlaps = |item: &&Item| {
            item.bit < bit + width && bit < item.bit + item.width * item.count.unwrap_or(1)
        };
        let numbers = || self.structure.items.iter().filter(number);
        let how = if let Some(item) = numbers().find(same) {
            format!("called {}", item.name)
        } else if let Some(item) = numbers().find(overlaps) {
            format!("absent, {} is there", item.name)
        } else {
            "absent".to_owned()
        };
        self.differ(name, how);
        None
    }

    fn field(&mut self, field: &FieldInfo) {
        let Some(item) = self.find(field.name, field.bit, field.width) else { return };
        if (item.bit, item.width, item.count) != (field.bit, field.width, None) || item.of.is_some()
        {
            self.differ(field.name, place(&item));
        }
    }

    fn part(&mut self, part: &PartInfo) {
        let Some(item) = self.structure.find(part.name).cloned() else {
            return self.differ(part.name, "absent");
        };
        if item.bit != part.byte * 8 || item.of.as_deref() != Some(part.layout.name) {
            self.differ(part.name, place(&item));
        }
    }

    fn array(&mut self, array: &ArrayInfo) {
        let bits = array.element * 8;
        let Some(item) = self.find(array.name, array.byte * 8, bits * array.count) else { return };
        let same = match (array.count, item.count) {
            // Our elements of an open array may be several of the header's.
            (0, Some(0)) => item.width != 0 && bits.is_multiple_of(item.width),
            // A field that is wider than a number is an array to us.
            (count, None) => count != 0 && count * bits == item.width,
            (count, Some(of)) => count == of && bits == item.width,
        };
        if item.bit != array.byte * 8 || !same {
            self.differ(array.name, place(&item));
        }
    }

    /// What the header has and we have not.
    fn undeclared(&mut self) {
        for item in self.structure.items.iter().filter(|item| is_named(item)) {
            let LayoutInfo { fields, parts, arrays, .. } = self.layout;
            let declared = fields.iter().any(|field| field.name == item.name)
                || parts.iter().any(|part| part.name == item.name)
                || arrays.iter().any(|array| array.name == item.name);
            // A place that we know by another name has been reported under that.
            let known = fields.iter().any(|f| f.bit == item.bit && f.width == item.width);
            // A union's own name and a choice of its members are enough for a part.
            let in_part = item.of.is_some() && parts.iter().any(|p| p.byte * 8 == item.bit);
            if !declared && !known && !in_part {
                self.differ(&item.name, "not declared");
            }
        }
    }
}

/// Whether it is more than a name for bits without a meaning.
fn is_named(item: &Item) -> bool {
    let filler = item.name.split_once("_to_").is_some_and(|(before, after)| {
        let digit = |c: char| c.is_ascii_digit();
        before.ends_with(digit) && after.chars().all(digit)
    });
    !item.name.starts_with("rese") && !filler
}

fn place(item: &Item) -> String {
    let mut place = format!("at bit {:#x}, {} wide", item.bit, item.width);
    if let Some(count) = item.count {
        place += &format!(", {count} of them");
    }
    if let Some(of) = &item.of {
        place += &format!(", {of}");
    }
    place
}
