//! The headers that `ci/headers` has fetched.

use std::collections::HashMap;
use std::path::PathBuf;

/// A kernel whose headers are read.
#[derive(Clone, Copy)]
pub struct Kernel {
    pub name: &'static str,
    /// Whether an unknown difference fails the build. The newest kernel moves under our feet; what
    /// is new in it is printed.
    pub gates: bool,
}

pub const KERNELS: [Kernel; 3] = [
    Kernel { name: "6.1", gates: true },
    Kernel { name: "6.12", gates: true },
    Kernel { name: "latest", gates: false },
];

impl Kernel {
    /// The folder of this kernel's `include/linux/mlx5`.
    pub fn dir(self) -> PathBuf {
        let var =
            |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let dir = var("MLX5EMU_HEADERS").unwrap_or_else(|| {
            let cache = var("XDG_CACHE_HOME")
                .or_else(|| Some(var("HOME")?.join(".cache")))
                .expect("neither MLX5EMU_HEADERS nor XDG_CACHE_HOME nor HOME is set");
            cache.join("mlx5emu/headers")
        });
        let dir = dir.join(self.name);
        assert!(
            dir.join("VERSION").is_file(),
            "no kernel headers in {}: run ci/headers",
            dir.display()
        );
        dir
    }

    /// The exact package and version.
    pub fn version(self) -> String {
        self.read("VERSION").trim().to_owned()
    }

    /// A header's text.
    pub fn read(self, file: &str) -> String {
        let path = self.dir().join(file);
        std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }

    /// A header as tokens, without comments and preprocessor lines; and its object-like macros
    /// with a number for a value.
    pub fn tokens(self, file: &str) -> (Vec<String>, HashMap<String, usize>) {
        let text = without_comments(&self.read(file)).replace("\\\n", " ");
        let mut tokens = Vec::new();
        let mut numbers = HashMap::new();
        for line in text.lines() {
            if let Some(directive) = line.trim_start().strip_prefix('#') {
                let words: Vec<_> = directive.split_whitespace().collect();
                if let ["define", name, value] = words[..]
                    && let Some(value) = number(value.trim_matches(['(', ')']))
                {
                    numbers.insert(name.to_owned(), value);
                }
                continue;
            }
            let mut rest = line.trim_start();
            while let Some(first) = rest.chars().next() {
                let word = |c: char| c.is_alphanumeric() || c == '_';
                let len = if word(first) {
                    rest.find(|c| !word(c)).unwrap_or(rest.len())
                } else {
                    first.len_utf8()
                };
                tokens.push(rest[..len].to_owned());
                rest = rest[len..].trim_start();
            }
        }
        (tokens, numbers)
    }
}

/// A C integer literal's value.
pub fn number(text: &str) -> Option<usize> {
    match text.strip_prefix("0x") {
        Some(hex) => usize::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

fn without_comments(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, comment)) = rest.split_once("/*") {
        out.push_str(before);
        out.push(' ');
        rest = comment.split_once("*/").expect("a comment ends").1;
    }
    out + rest
}
