//! The guest programs' sources.

use std::process::Command;

use crate::GUEST_PROGRAMS;
use crate::cases::CASES;

#[test]
fn the_program_has_the_cases_that_the_judge_wants() {
    let (_, files) = GUEST_PROGRAMS.iter().find(|(name, _)| *name == "mrproof").unwrap();
    let (_, source) = files[0];
    let table = source.split_once("} CASES[] = {").unwrap().1.split_once("};").unwrap().0;
    let names: Vec<&str> = table
        .lines()
        .filter_map(|line| line.trim().strip_prefix("{\"")?.split('"').next())
        .collect();
    assert_eq!(names, CASES.iter().map(|case| case.name).collect::<Vec<_>>());
}

/// As the image's build compiles them, where the headers are here as well.
#[test]
fn the_programs_compile_without_a_warning() {
    let has = |path: &str| std::path::Path::new(path).exists();
    if !has("/usr/bin/gcc") || !has("/usr/include/infiniband/mlx5dv.h") {
        eprintln!("not tried: it needs gcc and libibverbs-dev");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for (name, source) in GUEST_PROGRAMS.iter().flat_map(|(_, files)| *files) {
        let file = dir.path().join(name);
        std::fs::write(&file, source).unwrap();
        let output = Command::new("/usr/bin/gcc")
            .args(["-std=gnu17", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread"])
            .args(["-fsyntax-only"])
            .arg(&file)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {said}");
        assert_eq!(said, "", "{name}");
    }
}
