//! Programs for the guest that are compiled here: its first program and those that a caller brings.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::cache::{About, Cache, Entry};
use crate::error::{Error, Result};
use crate::options::GuestProgram;
use crate::stop::Stop;
use crate::tools::{self, Tools};

/// Change it with how they are compiled.
const RECIPE: u32 = 1;

/// The guest's first program, and the header that its files share.
const INIT: &[(&str, &str)] = &[
    ("guest.h", include_str!("../guest/guest.h")),
    ("files.c", include_str!("../guest/files.c")),
    ("slot.c", include_str!("../guest/slot.c")),
    ("init.c", include_str!("../guest/init.c")),
    ("job.c", include_str!("../guest/job.c")),
];

const GCC_FILES: &str = "usr/lib/gcc/x86_64-linux-gnu/14";
const LIBC_FILES: &str = "usr/lib/x86_64-linux-gnu";

/// Where the compiled programs are.
#[derive(Debug)]
pub(crate) struct Programs {
    entry: Entry,
}

impl Programs {
    /// The guest's first program.
    pub(crate) fn init(&self) -> PathBuf {
        self.entry.path.join("init")
    }

    /// One that a caller brought.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.entry.path.join("bin").join(name)
    }

    /// Finds them or compiles them.
    pub(crate) fn get(
        cache: &Cache,
        tools: &Tools,
        programs: &[GuestProgram],
        stop: &Stop,
    ) -> Result<Self> {
        let recipe = format!("{RECIPE} {INIT:?} {programs:?}");
        let entry = cache.entry("programs", &recipe, stop, |part| {
            let compiler = Compiler { tree: tools.tree(), tools, stop };
            let objects = compiler.compile_all(&part.join("init.d"), INIT)?;
            compiler.link_static(&objects, &part.join("init"))?;
            let bin = part.join("bin");
            fs::create_dir(&bin).map_err(Error::path("make", &bin))?;
            for program in programs {
                let sources = part.join(format!("{}.d", program.name));
                let objects = compiler.compile_all(&sources, program.files)?;
                compiler.link(&objects, &bin.join(program.name))?;
            }
            let names = programs.iter().map(|program| program.name);
            let names = ["init"].into_iter().chain(names).collect::<Vec<_>>().join(", ");
            Ok(About::new(format!("guest programs: {names}"), BTreeMap::new()))
        })?;
        Ok(Self { entry })
    }
}

struct Compiler<'a> {
    tree: PathBuf,
    tools: &'a Tools,
    stop: &'a Stop,
}

impl Compiler<'_> {
    /// Compiles a program's files, which are written to `dir`.
    fn compile_all(&self, dir: &Path, files: &[(&str, &str)]) -> Result<Vec<PathBuf>> {
        fs::create_dir(dir).map_err(Error::path("make", dir))?;
        for (name, text) in files {
            let file = dir.join(name);
            fs::write(&file, text).map_err(Error::path("write", &file))?;
        }
        let sources = files.iter().filter(|(name, _)| name.ends_with(".c"));
        sources.map(|(name, _)| self.compile(&dir.join(name))).collect()
    }

    fn compile(&self, source: &Path) -> Result<PathBuf> {
        let object = source.with_extension("o");
        // gcc starts the compiler proper and the assembler, which need the tree's dynamic linker too.
        let wrapper = tools::linker(&self.tree);
        let wrapper = wrapper.map(|word| word.to_string_lossy().into_owned()).join(",");
        self.tools.run("usr/bin/gcc-14", self.stop, |gcc| {
            gcc.arg("-wrapper").arg(wrapper);
            gcc.arg(format!("--sysroot={}", self.tree.display()));
            for place in [GCC_FILES, "usr/bin"] {
                gcc.arg(format!("-B{}/", self.tree.join(place).display()));
            }
            gcc.args([
                "-std=gnu17",
                "-D_GNU_SOURCE",
                "-O2",
                "-Wall",
                "-Wextra",
                "-Werror",
                "-pthread",
            ]);
            gcc.arg("-c").arg(source).arg("-o").arg(&object);
        })?;
        Ok(object)
    }

    /// Calls the linker itself: the program that gcc would call it through starts it directly.
    fn ld(&self, words: &[&str], objects: &[PathBuf], tail: &[&str], output: &Path) -> Result<()> {
        let word = |word: &&str| match word.split_once(':') {
            Some(("gcc", file)) => self.tree.join(GCC_FILES).join(file),
            Some(("libc", file)) => self.tree.join(LIBC_FILES).join(file),
            _ => PathBuf::from(word),
        };
        self.tools.run("usr/bin/x86_64-linux-gnu-ld.bfd", self.stop, |ld| {
            ld.arg(format!("--sysroot={}", self.tree.display()));
            for place in [GCC_FILES, LIBC_FILES] {
                ld.arg(format!("-L{}", self.tree.join(place).display()));
            }
            ld.arg("-s").arg("-o").arg(output);
            ld.args(words.iter().map(word)).args(objects).args(tail.iter().map(word));
        })?;
        Ok(())
    }

    fn link_static(&self, objects: &[PathBuf], output: &Path) -> Result<()> {
        let before = ["-static", "libc:crt1.o", "libc:crti.o", "gcc:crtbeginT.o"];
        let libraries = ["--start-group", "-lgcc", "-lgcc_eh", "-lc", "--end-group"];
        let after = [&libraries[..], &["gcc:crtend.o", "libc:crtn.o"]].concat();
        self.ld(&before, objects, &after, output)
    }

    fn link(&self, objects: &[PathBuf], output: &Path) -> Result<()> {
        let loader = "/lib64/ld-linux-x86-64.so.2";
        let before =
            ["-pie", "-dynamic-linker", loader, "libc:Scrt1.o", "libc:crti.o", "gcc:crtbeginS.o"];
        let after = ["-libverbs", "-lc", "-lgcc", "gcc:crtendS.o", "libc:crtn.o"];
        self.ld(&before, objects, &after, output)
    }
}
