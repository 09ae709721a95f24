//! A reader of `mlx5_ifc.h`: structures of bits, nested, in arrays and in unions.

use std::collections::HashMap;

use crate::headers::{Kernel, number};

/// What is at a place in a structure.
#[derive(Clone, Debug)]
pub struct Item {
    pub name: String,
    pub bit: usize,
    /// Bits of an element.
    pub width: usize,
    /// Elements; None: one, and no array.
    pub count: Option<usize>,
    /// The structure's name, if it is one.
    pub of: Option<String>,
}

/// A structure, its unnamed parts dissolved.
#[derive(Clone, Debug)]
pub struct Structure {
    /// Bits of the fixed part.
    pub size: usize,
    pub items: Vec<Item>,
}

impl Structure {
    pub fn find(&self, name: &str) -> Option<&Item> {
        self.items.iter().find(|item| item.name == name)
    }
}

struct Body {
    is_union: bool,
    members: Vec<Member>,
}

enum Member {
    /// `u8 NAME[DIM]...`
    Bits(String, Vec<usize>),
    /// `struct TYPE NAME[DIM]...`
    Of(String, String, Vec<usize>),
    /// `struct { ... }`, named or not.
    Inline(Body),
}

/// Everything that the header declares.
pub struct Ifc {
    types: HashMap<String, Body>,
}

impl Ifc {
    pub fn read(kernel: Kernel) -> Self {
        let mut types = HashMap::new();
        for file in ["mlx5_ifc.h", "mlx5_ifc_fpga.h"] {
            let (tokens, numbers) = kernel.tokens(file);
            let mut reader = Reader { tokens: &tokens, at: 0, numbers: &numbers };
            while reader.at < tokens.len() {
                match (reader.peek(0), reader.peek(2)) {
                    ("struct" | "union", "{") => {
                        let is_union = reader.next() == "union";
                        let name = short(reader.next());
                        let body = reader.body(is_union);
                        reader.expect(";");
                        types.insert(name, body);
                    }
                    // Functions and enums have no structures with a body in them.
                    _ => reader.at += 1,
                }
            }
        }
        Self { types }
    }

    pub fn structure(&self, name: &str) -> Option<Structure> {
        let mut items = Vec::new();
        let size = self.flatten(self.types.get(name)?, 0, &mut items);
        Some(Structure { size, items })
    }

    fn size(&self, name: &str) -> usize {
        self.structure(name).unwrap_or_else(|| panic!("mlx5_ifc_{name}_bits is not declared")).size
    }

    /// Adds a body's items, the first at `base`, and returns its size.
    fn flatten(&self, body: &Body, base: usize, items: &mut Vec<Item>) -> usize {
        let (mut bit, mut end) = (base, base);
        for member in &body.members {
            if body.is_union {
                bit = base;
            }
            match member {
                Member::Bits(name, dims) => {
                    let (count, width) = match dims[..] {
                        // Flexible: bytes.
                        [0] => (Some(0), 8),
                        [width] => (None, width),
                        [count, width] => (Some(count), width),
                        _ => panic!("{name} has {} dimensions", dims.len()),
                    };
                    items.push(Item { name: name.clone(), bit, width, count, of: None });
                    bit += width * count.unwrap_or(1);
                }
                Member::Inline(inner) => bit += self.flatten(inner, bit, items),
                Member::Of(of, name, dims) => {
                    let width = self.size(of);
                    let count = dims.first().copied();
                    for i in 0..count.unwrap_or(1).max(1) {
                        let name = match count {
                            None | Some(0) => name.clone(),
                            Some(_) => format!("{name}_{i}"),
                        };
                        let bit = bit + i * width;
                        let count = count.filter(|&count| count == 0);
                        items.push(Item { name, bit, width, count, of: Some(of.clone()) });
                        self.alternatives(of, bit, items);
                    }
                    bit += width * count.unwrap_or(1);
                }
            }
            end = end.max(bit);
        }
        end - base
    }

    /// A named union's members are reached by name; we name them without the union.
    fn alternatives(&self, of: &str, bit: usize, items: &mut Vec<Item>) {
        let Some(Body { is_union: true, members }) = self.types.get(of) else { return };
        for member in members {
            if let Member::Of(of, name, _) = member {
                let (name, of) = (name.clone(), of.clone());
                items.push(Item { name, bit, width: self.size(&of), count: None, of: Some(of) });
            }
        }
    }
}

fn short(name: &str) -> String {
    let name = name.strip_prefix("mlx5_ifc_").unwrap_or(name);
    name.strip_suffix("_bits").unwrap_or(name).to_owned()
}

struct Reader<'a> {
    tokens: &'a [String],
    at: usize,
    numbers: &'a HashMap<String, usize>,
}

impl<'a> Reader<'a> {
    fn peek(&self, ahead: usize) -> &'a str {
        self.tokens.get(self.at + ahead).map_or("", String::as_str)
    }

    fn next(&mut self) -> &'a str {
        let token = self.peek(0);
        self.at += 1;
        token
    }

    #[track_caller]
    fn expect(&mut self, token: &str) {
        let found = self.next();
        assert_eq!(found, token, "near {:?}", &self.tokens[self.at.saturating_sub(9)..self.at]);
    }

    fn body(&mut self, is_union: bool) -> Body {
        self.expect("{");
        let mut members = Vec::new();
        while self.peek(0) != "}" {
            members.push(self.member());
            self.expect(";");
        }
        self.expect("}");
        Body { is_union, members }
    }

    fn member(&mut self) -> Member {
        match self.next() {
            "u8" => {
                let name = self.next().to_owned();
                Member::Bits(name, self.dims())
            }
            "DECLARE_FLEX_ARRAY" => {
                self.expect("(");
                self.next(); // struct or union
                let of = short(self.next());
                self.expect(",");
                let name = self.next().to_owned();
                self.expect(")");
                Member::Of(of, name, vec![0])
            }
            kind @ ("struct" | "union") if self.peek(0) == "{" => {
                let body = self.body(kind == "union");
                if self.peek(0) != ";" {
                    self.next();
                }
                Member::Inline(body)
            }
            "struct" | "union" => {
                let of = short(self.next());
                let name = self.next().to_owned();
                Member::Of(of, name, self.dims())
            }
            other => panic!("{other} is no member"),
        }
    }

    /// The dimensions of an array; a flexible one's is 0.
    fn dims(&mut self) -> Vec<usize> {
        let mut dims = Vec::new();
        while self.peek(0) == "[" {
            self.next();
            if self.peek(0) == "]" {
                dims.push(0);
            } else {
                let text = self.next();
                // A macro that is an expression itself stands only in structures that we leave out.
                dims.push(number(text).or_else(|| self.numbers.get(text).copied()).unwrap_or(0));
            }
            self.expect("]");
        }
        dims
    }
}
