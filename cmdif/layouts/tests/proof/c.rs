//! Questions to the C compiler about the plain C in the kernels' headers. Only the declarations
//! that are asked about are taken from a header: the whole of it would want half of the kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use crate::headers::Kernel;

/// What the declarations use and the headers do not declare.
const STUBS: &str = "
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
typedef uint8_t u8;
typedef uint16_t u16, __be16;
typedef uint32_t u32, __be32;
typedef uint64_t u64, __be64;
#define __packed __attribute__((packed))
#define BIT(n) (1ul << (n))
#define struct_group(name, ...) union { struct { __VA_ARGS__ }; struct { __VA_ARGS__ } name; }
";

/// The declarations at top level of a header that begin with one of `keywords`. A declaration
/// begins and ends at the left margin.
pub fn declarations(kernel: Kernel, file: &str, keywords: &[&str]) -> Vec<String> {
    let text = kernel.read(file);
    let mut found = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if keywords.iter().any(|word| line.split(' ').next() == Some(word)) && line.ends_with('{') {
            let mut declaration = line.to_owned();
            for line in lines.by_ref() {
                declaration += "\n";
                declaration += line;
                if line.starts_with('}') {
                    break;
                }
            }
            found.push(declaration);
        }
    }
    found
}

/// The words of C source.
pub fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// A C program that prints numbers.
#[derive(Default)]
pub struct Program {
    declarations: String,
    /// What is printed: expressions of type `unsigned long long`.
    questions: Vec<String>,
}

impl Program {
    pub fn declare(&mut self, declaration: &str) {
        self.declarations += declaration;
        self.declarations += "\n";
    }

    /// Asks for an expression's value; the answer has the number that is returned.
    pub fn ask(&mut self, expression: String) -> usize {
        self.questions.push(expression);
        self.questions.len() - 1
    }

    /// The answers by number. What does not compile has none.
    pub fn run(&self) -> BTreeMap<usize, u64> {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (source, program) = (dir.path().join("ask.c"), dir.path().join("ask"));
        let mut wrong = BTreeSet::new();
        loop {
            let mut text = format!("{STUBS}{}\nint main(void) {{\n", self.declarations);
            let first = text.lines().count() + 1;
            for (number, question) in self.questions.iter().enumerate() {
                if !wrong.contains(&number) {
                    text +=
                        &format!("printf(\"{number} %llu\\n\", (unsigned long long)({question}));");
                }
                text += "\n";
            }
            text += "}\n";
            std::fs::write(&source, text).expect("the program is written");
            let gcc = Command::new("gcc")
                .env("LC_ALL", "C")
                .args(["-w", "-ftrack-macro-expansion=0", "-fmax-errors=0", "-o"])
                .args([&program, &source])
                .output()
                .expect("gcc runs");
            if gcc.status.success() {
                break;
            }
            let messages = String::from_utf8_lossy(&gcc.stderr);
            let before = wrong.len();
            for message in messages.lines().filter(|line| line.contains(": error: ")) {
                let line = message.split(':').nth(1).and_then(|line| line.parse::<usize>().ok());
                let number = line.and_then(|line| line.checked_sub(first));
                wrong.extend(number.filter(|&number| number < self.questions.len()));
            }
            assert!(wrong.len() > before, "the declarations do not compile:\n{messages}");
        }
        let output = Command::new(&program).output().expect("the program runs");
        String::from_utf8(output.stdout)
            .expect("text")
            .lines()
            .map(|line| {
                let (number, answer) = line.split_once(' ').expect("number and answer");
                (number.parse().expect("a number"), answer.parse().expect("an answer"))
            })
            .collect()
    }
}
