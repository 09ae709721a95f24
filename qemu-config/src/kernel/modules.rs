//! Which of a kernel's modules the guest gets, and in what form.
//!
//! They are unpacked (the guest is slow at that), indexed by depmod, and put on a disk of their own, so
//! that all kernels share one root file system. Those that the root file system itself needs go into
//! the initramfs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use object::{Object as _, ObjectSection as _};

use crate::error::{Error, Result};
use crate::stop::Stop;
use crate::tools::Tools;

/// Needed before the root file system is there, in the order of their use.
const FOR_BOOT: &[&str] = &["virtio_pci", "virtio_blk", "squashfs", "overlay", "virtio_console"];
/// Needed for shared directories.
pub(crate) const FOR_SHARES: &[&str] = &["9p", "9pnet_virtio"];
/// Needed for the card.
pub(crate) const FOR_CARD: &[&str] = &["mlx5_core", "mlx5_ib"];

/// Folders whose modules the guest gets, with everything that those depend on: the card's drivers, what
/// runs on top of them, and what tests of them set up around them.
const FOLDERS: &[&str] = &[
    "kernel/drivers/infiniband/core",
    "kernel/drivers/infiniband/hw/mlx5",
    "kernel/drivers/infiniband/sw",
    "kernel/drivers/infiniband/ulp",
    "kernel/drivers/net/ethernet/mellanox/mlx5",
    "kernel/drivers/net/ethernet/mellanox/mlxfw",
    "kernel/drivers/nvme",
    "kernel/drivers/target",
    "kernel/drivers/vdpa",
    "kernel/drivers/vfio",
    "kernel/drivers/virtio",
    "kernel/fs/9p",
    "kernel/fs/nfs",
    "kernel/fs/nfsd",
    "kernel/net/rds",
    "kernel/net/smc",
    "kernel/net/sunrpc",
    // built outside of the kernel's own tree
    "extra",
    "updates",
];
/// Single modules that tests use. Nothing says that soft-RoCE asks the crypto layer for a crc32.
const SINGLE: &[&str] =
    &["brd", "bridge", "crc32_generic", "loop", "null_blk", "veth", "8021q", "ext4", "fuse"];

/// What [`gather`] made, in the directory that it was given.
#[derive(Debug)]
pub(crate) struct Gathered {
    /// The image with `/usr/lib/modules/RELEASE`.
    pub(crate) image: PathBuf,
    /// Files for the initramfs, in the order in which they are to be loaded.
    pub(crate) boot: Vec<PathBuf>,
}

const IMAGE: &str = "modules.squashfs";
const BOOT: &str = "boot";
const ORDER: &str = "boot/order";

impl Gathered {
    /// What lies in a directory that [`gather`] filled.
    pub(crate) fn open(dir: &Path) -> Result<Self> {
        let order = dir.join(ORDER);
        let text = fs::read_to_string(&order).map_err(Error::path("read", &order))?;
        let boot = text.lines().map(|name| dir.join(BOOT).join(format!("{name}.ko"))).collect();
        Ok(Self { image: dir.join(IMAGE), boot })
    }
}

/// A kernel's modules as they lie in its tree.
#[derive(Debug)]
pub(crate) struct Tree {
    dir: PathBuf,
    release: String,
    files: BTreeMap<String, PathBuf>,
    builtin: BTreeSet<String>,
}

impl Tree {
    /// Finds the tree for this release in what a person may name: the tree itself, or a directory with
    /// `lib/modules/RELEASE`.
    pub(crate) fn find(dir: &Path, release: &str) -> Result<Self> {
        let inside = ["lib/modules", "usr/lib/modules", ""].map(|sub| dir.join(sub).join(release));
        let found = inside.into_iter().find(|path| path.join("kernel").is_dir());
        let itself = || dir.join("kernel").is_dir().then(|| dir.to_owned());
        let Some(found) = found.or_else(itself) else {
            return Err(Error::Option(format!(
                "{} has no modules for kernel {release} (looked for lib/modules/{release}/kernel)",
                dir.display()
            )));
        };
        // A file that every `make modules_install` leaves; without it nothing is known to be built in.
        let list = fs::read_to_string(found.join("modules.builtin")).unwrap_or_default();
        let builtin = list.lines().map(name_of).collect();
        let mut files = BTreeMap::new();
        // What is built outside of the kernel's tree wins, as it does for depmod.
        for top in ["kernel", "extra", "updates"] {
            walk(&found.join(top), &mut |path| {
                files.insert(name_of(&path.to_string_lossy()), path.to_owned());
            });
        }
        Ok(Self { dir: found, release: release.to_owned(), files, builtin })
    }

    /// Those of `names` that are neither modules nor built in.
    pub(crate) fn lacks(&self, names: &[&str]) -> Vec<String> {
        let has = |name: &str| self.files.contains_key(name) || self.builtin.contains(name);
        names.iter().filter(|name| !has(name)).map(|&name| name.to_owned()).collect()
    }

    /// Fails if the guest could not boot with them.
    pub(crate) fn check(&self, more: &[&str]) -> Result<()> {
        let mut names = self.lacks(FOR_BOOT);
        names.extend(self.lacks(more));
        if names.is_empty() {
            return Ok(());
        }
        Err(Error::KernelLacks { release: self.release.clone(), names })
    }

    fn wanted(&self) -> Vec<String> {
        let in_folders = |path: &Path| {
            let inside = path.strip_prefix(&self.dir).unwrap_or(path);
            FOLDERS.iter().any(|folder| inside.starts_with(folder))
        };
        let chosen = self.files.iter().filter(|(_, path)| in_folders(path));
        let single = FOR_BOOT.iter().chain(FOR_SHARES).chain(FOR_CARD).chain(SINGLE);
        chosen.map(|(name, _)| name.clone()).chain(single.map(|&name| name.to_owned())).collect()
    }
}

/// Collects the modules that the guest gets in `dir`.
pub(crate) fn gather(tree: &Tree, tools: &Tools, dir: &Path, stop: &Stop) -> Result<Gathered> {
    let stage = dir.join("stage");
    let target = stage.join("usr/lib/modules").join(&tree.release);
    let needs = stage_with_needs(tree, tools, &target, stop)?;
    for name in ["modules.builtin", "modules.builtin.modinfo", "modules.order"] {
        let from = tree.dir.join(name);
        if from.exists() {
            fs::copy(&from, target.join(name)).map_err(Error::path("copy", &from))?;
        }
    }
    let base = stage.join("usr");
    tools.run("usr/sbin/depmod", stop, |depmod| {
        depmod.arg("-b").arg(&base).arg(&tree.release);
    })?;
    let image = dir.join(IMAGE);
    tools.run("usr/bin/mksquashfs", stop, |squash| {
        squash.arg(&stage).arg(&image);
        squash.args(["-comp", "lz4", "-noappend", "-quiet", "-no-progress", "-all-root"]);
    })?;
    let boot = dir.join(BOOT);
    fs::create_dir(&boot).map_err(Error::path("make", &boot))?;
    let mut order = Vec::new();
    for name in FOR_BOOT {
        load_order(name, &needs, &mut order);
    }
    for name in &order {
        if let Some(from) = needs.get(name).map(|module| &module.staged) {
            let to = boot.join(format!("{name}.ko"));
            fs::copy(from, &to).map_err(Error::path("copy", from))?;
        }
    }
    let file = dir.join(ORDER);
    fs::write(&file, order.join("\n")).map_err(Error::path("write", &file))?;
    fs::remove_dir_all(&stage).map_err(Error::path("remove", &stage))?;
    Gathered::open(dir)
}

#[derive(Debug, Default)]
struct Staged {
    staged: PathBuf,
    needs: Vec<String>,
}

/// Puts the wanted modules and what they need, round after round, unpacked under `target`.
fn stage_with_needs(
    tree: &Tree,
    tools: &Tools,
    target: &Path,
    stop: &Stop,
) -> Result<BTreeMap<String, Staged>> {
    let mut done: BTreeMap<String, Staged> = BTreeMap::new();
    let mut round = tree.wanted();
    while !round.is_empty() {
        let mut staged = BTreeMap::new();
        for name in &round {
            let Some(from) = tree.files.get(name) else { continue };
            if done.contains_key(name) {
                continue;
            }
            let to = target.join(from.strip_prefix(&tree.dir).unwrap_or(from));
            let parent = to.parent().unwrap_or(target);
            fs::create_dir_all(parent).map_err(Error::path("make", parent))?;
            fs::copy(from, &to).map_err(Error::path("copy", from))?;
            staged.insert(name.clone(), to);
        }
        unpack(tools, staged.values_mut(), stop)?;
        round = Vec::new();
        for (name, path) in staged {
            let needs = needs_of(&fs::read(&path).map_err(Error::path("read", &path))?);
            round.extend(needs.iter().cloned());
            done.insert(name, Staged { staged: path, needs });
        }
    }
    Ok(done)
}

/// Unpacks the files in place and corrects their names.
fn unpack<'a>(
    tools: &Tools,
    files: impl Iterator<Item = &'a mut PathBuf>,
    stop: &Stop,
) -> Result<()> {
    let mut packed: BTreeMap<&str, Vec<PathBuf>> = BTreeMap::new();
    for path in files {
        let Some(program) = unpacker(path) else { continue };
        packed.entry(program).or_default().push(path.clone());
        path.set_extension("");
    }
    for (program, files) in packed {
        tools.run(program, stop, |unpack| {
            unpack.args(["-d", "-q", "-f"]).args(&files);
        })?;
        for file in files {
            // xz removes what it has unpacked, zstd does not.
            let _ = fs::remove_file(file);
        }
    }
    Ok(())
}

fn unpacker(path: &Path) -> Option<&'static str> {
    match path.extension()?.to_str()? {
        "xz" => Some("usr/bin/xz"),
        // It reads gzip as well.
        "zst" | "gz" => Some("usr/bin/zstd"),
        _ => None,
    }
}

/// Names of the modules that a module needs, or would like to be loaded first.
fn needs_of(module: &[u8]) -> Vec<String> {
    let info = object::File::parse(module)
        .ok()
        .and_then(|file| file.section_by_name(".modinfo")?.data().ok().map(<[u8]>::to_vec))
        .unwrap_or_default();
    let mut names = Vec::new();
    for entry in info.split(|byte| *byte == 0) {
        let entry = String::from_utf8_lossy(entry);
        let list = match entry.split_once('=') {
            Some(("depends", list)) => list,
            Some(("softdep", list)) => match list.split_once("pre:") {
                Some((_, before)) => before.split("post:").next().unwrap_or_default(),
                None => continue,
            },
            _ => continue,
        };
        names.extend(list.split([',', ' ']).filter(|name| !name.is_empty()).map(normal));
    }
    names
}

/// Adds a module behind what it needs. What is built in isn't in `needs` and drops out.
fn load_order(name: &str, needs: &BTreeMap<String, Staged>, order: &mut Vec<String>) {
    let Some(module) = needs.get(name) else { return };
    if order.iter().any(|known| known == name) {
        return;
    }
    for other in &module.needs {
        // A module that needs itself by a detour would be a broken tree: it is not followed.
        if other != name {
            load_order(other, needs, order);
        }
    }
    order.push(name.to_owned());
}

/// The kernel treats `-` and `_` alike.
fn normal(name: &str) -> String {
    name.replace('-', "_")
}

/// A module's name, from its path.
fn name_of(path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or(path);
    normal(file.split(".ko").next().unwrap_or(file))
}

fn walk(dir: &Path, found: &mut impl FnMut(&Path)) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        // Symbolic links lead out of the tree.
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_dir {
            walk(&path, found);
        } else if path.to_string_lossy().contains(".ko") {
            found(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(dir: &Path, builtin: &str, files: &[&str]) {
        for file in files {
            let path = dir.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, b"").unwrap();
        }
        fs::write(dir.join("modules.builtin"), builtin).unwrap();
    }

    #[test]
    fn a_tree_is_found_under_each_name_that_a_person_may_use() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("lib/modules/6.9.0");
        tree(&inner, "kernel/fs/overlayfs/overlay.ko\n", &["kernel/a/virtio-blk.ko.xz"]);
        for given in [dir.path(), &dir.path().join("lib/modules"), &inner] {
            let tree = Tree::find(given, "6.9.0").unwrap();
            assert_eq!(tree.dir, inner);
            assert_eq!(tree.lacks(&["overlay", "virtio_blk", "squashfs"]), ["squashfs"]);
        }
        let error = Tree::find(dir.path(), "6.9.1").unwrap_err().to_string();
        assert!(error.contains("no modules for kernel 6.9.1"), "{error}");
    }

    #[test]
    fn what_is_lacking_is_named() {
        let dir = tempfile::tempdir().unwrap();
        tree(
            dir.path(),
            "kernel/x/virtio_pci.ko\n",
            &["kernel/x/squashfs.ko", "kernel/x/overlay.ko"],
        );
        let error = Tree::find(dir.path(), "6.9.0").unwrap().check(FOR_CARD).unwrap_err();
        assert_eq!(
            error.to_string(),
            "kernel 6.9.0 lacks virtio_blk, virtio_console, mlx5_core, mlx5_ib \
             (built in, or as a module)"
        );
    }

    #[test]
    fn a_module_of_ones_own_wins_and_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        tree(
            dir.path(),
            "",
            &[
                "kernel/drivers/infiniband/hw/mlx5/mlx5_ib.ko",
                "updates/dkms/mlx5_ib.ko",
                "kernel/drivers/gpu/drm.ko",
            ],
        );
        let tree = Tree::find(dir.path(), "6.9.0").unwrap();
        assert!(tree.files["mlx5_ib"].ends_with("updates/dkms/mlx5_ib.ko"));
        let wanted = tree.wanted();
        assert!(wanted.contains(&"mlx5_ib".to_owned()) && !wanted.contains(&"drm".to_owned()));
    }

    #[test]
    fn modules_are_loaded_behind_what_they_need() {
        let module = |needs: &[&str]| Staged {
            needs: needs.iter().map(|&name| name.to_owned()).collect(),
            ..Staged::default()
        };
        let needs = BTreeMap::from([
            ("a".to_owned(), module(&["b", "c", "builtin"])),
            ("b".to_owned(), module(&["c"])),
            ("c".to_owned(), module(&[])),
        ]);
        let mut order = Vec::new();
        load_order("a", &needs, &mut order);
        load_order("b", &needs, &mut order);
        assert_eq!(order, ["c", "b", "a"]);
    }
}
