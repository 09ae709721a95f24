//! Guest memory in files: the interval map, rights, limits, and what happens to bytes.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use device::memory::{GuestMemory, MAX_FILES, MAX_MAPS, MapError, PAGE_SIZE, Rights, UnmapError};
use dma::{Dma, DmaError};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};

/// A sealed file in memory, as QEMU makes one for guest RAM.
fn memfd(size: u64) -> File {
    let file = memfd_create("guest", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&file, size).unwrap();
    fcntl_add_seals(&file, SealFlags::SHRINK).unwrap();
    File::from(file)
}

fn descriptor(file: &File) -> OwnedFd {
    file.try_clone().unwrap().into()
}

fn with(file: &File, offset: u64) -> Option<(OwnedFd, u64)> {
    Some((descriptor(file), offset))
}

/// Two pages of a file at 0x10000, in reverse order, and one at 0x20000 that is the first again.
fn three_maps() -> (GuestMemory, File) {
    let file = memfd(0x4000);
    let mut memory = GuestMemory::new();
    memory.map(0x10000, 0x1000, Rights::READ_WRITE, with(&file, 0x1000)).unwrap();
    memory.map(0x11000, 0x1000, Rights::READ_WRITE, with(&file, 0)).unwrap();
    memory.map(0x20000, 0x1000, Rights::READ_WRITE, with(&file, 0)).unwrap();
    (memory, file)
}

#[test]
fn bytes_go_to_the_place_in_the_file() {
    let (memory, file) = three_maps();
    memory.write(0x10010, b"one").unwrap();
    memory.write(0x20000, b"two").unwrap();
    let mut found = [0; 3];
    file.read_exact_at(&mut found, 0x1010).unwrap();
    assert_eq!(&found, b"one");
    memory.read(0x11000, &mut found).unwrap();
    assert_eq!(&found, b"two");
}

#[test]
fn an_access_may_span_adjacent_ranges() {
    let (memory, file) = three_maps();
    let data: Vec<u8> = (0..0x1800).map(|i| (i % 251) as u8).collect();
    memory.write(0x10400, &data).unwrap();
    let mut back = vec![0; data.len()];
    memory.read(0x10400, &mut back).unwrap();
    assert_eq!(back, data);
    let mut first = [0; 4];
    file.read_exact_at(&mut first, 0x1400).unwrap();
    assert_eq!(first, data[..4]);
    file.read_exact_at(&mut first, 0).unwrap();
    assert_eq!(first, data[0xc00..0xc04]);
}

#[test]
fn an_access_is_refused_as_a_whole() {
    let (mut memory, file) = three_maps();
    memory.map(0x12000, 0x1000, Rights::READ, with(&file, 0x2000)).unwrap();
    memory.map(0x13000, 0x1000, Rights::WRITE, with(&file, 0x3000)).unwrap();
    memory.write(0x11000, &[0x55; 0x1000]).unwrap();
    let data = [0xaa; 0x1000];
    let write = |addr, len: usize| memory.write(addr, &data[..len]);
    let forbidden =
        |addr, len: usize, write| Err(DmaError::Forbidden { addr, len: len as u64, write });
    let unmapped = |addr, len: usize| Err(DmaError::Unmapped { addr, len: len as u64 });
    assert_eq!(write(0x11800, 0x1000), forbidden(0x11800, 0x1000, true));
    assert_eq!(memory.read(0x12800, &mut [0; 0x1000]), forbidden(0x12800, 0x1000, false));
    assert_eq!(write(0x13800, 0x1000), unmapped(0x13800, 0x1000));
    assert_eq!(write(0x20800, 0x1000), unmapped(0x20800, 0x1000));
    assert_eq!(write(0xfff8, 16), unmapped(0xfff8, 16));
    assert_eq!(write(u64::MAX - 3, 8), unmapped(u64::MAX - 3, 8));
    assert_eq!(write(0, 1), unmapped(0, 1));
    assert_eq!(memory.copy(0x12000, 0x13000, 0x1001), forbidden(0x12000, 0x1001, false));
    assert_eq!(memory.copy(0x11000, 0x13000, 0x1001), unmapped(0x13000, 0x1001));
    assert_eq!(memory.copy(0x13000, 0x12000, 1), forbidden(0x13000, 1, false));
    assert_eq!(memory.copy(0x12000, 0x11800, 0x1000), forbidden(0x11800, 0x1000, true));
    let mut all = [0xff; 0x4000];
    file.read_exact_at(&mut all, 0).unwrap();
    assert_eq!(all[..0x1000], [0x55; 0x1000]);
    assert_eq!(all[0x1000..], [0; 0x3000], "nothing was written");
    assert_eq!(memory.write(0xdead, &[]), Ok(()));
    assert_eq!(memory.read(0xdead, &mut []), Ok(()));
    assert_eq!(memory.copy(0xdead, 0xbeef, 0), Ok(()));
}

#[test]
fn a_range_without_descriptor_is_known_but_out_of_reach() {
    let mut memory = GuestMemory::new();
    memory.map(0xc0000, 0x20000, Rights::READ, None).unwrap();
    let refused = Err(DmaError::Unmapped { addr: 0xc0000, len: 4 });
    assert_eq!(memory.read(0xc0000, &mut [0; 4]), refused);
    assert!(matches!(
        memory.map(0xdf000, 0x1000, Rights::READ, None).unwrap_err(),
        MapError::Overlap
    ));
    assert_eq!(memory.unmap(0xc0000, 0x20000), Ok(1));
    memory.map(0xdf000, 0x1000, Rights::READ, None).unwrap();
}

#[test]
fn malformed_ranges_are_refused() {
    let file = memfd(0x4000);
    let none = Rights { read: false, write: false };
    let cases: &[(u64, u64, Rights, u64)] = &[
        (0x1000, 0, Rights::READ, 0),
        (0x1001, 0x1000, Rights::READ, 0),
        (0x1000, 0x1001, Rights::READ, 0),
        (0x1000, 0x800, Rights::READ, 0),
        (0x1000, 0x1000, none, 0),
        (0x1000, 0x1000, Rights::READ, 8),
        (0x1000, 0x1000, Rights::READ, 0x4000),
        (0x1000, 0x4000, Rights::READ, 0x1000),
        (0x1000, 0x1000, Rights::READ, u64::MAX - 0xfff),
        (u64::MAX - 0xfff, 0x2000, Rights::READ, 0),
        (0x1000, u64::MAX - 0xfff, Rights::READ, 0),
    ];
    for &(addr, size, rights, offset) in cases {
        let mut memory = GuestMemory::new();
        let error = memory.map(addr, size, rights, with(&file, offset)).unwrap_err();
        assert_eq!(error.errno(), rustix::io::Errno::INVAL, "{addr:#x} {size:#x} {offset:#x}");
        assert_eq!((memory.maps(), memory.bytes()), (0, 0));
    }
    let mut memory = GuestMemory::new();
    memory.map(u64::MAX - 0xfff, 0x1000, Rights::READ_WRITE, with(&file, 0)).unwrap();
    memory.write(u64::MAX - 7, &[7; 8]).unwrap();
    for (addr, size) in [(0, 0), (1, 0x1000), (0, 1), (0x2000, u64::MAX - 0xfff)] {
        assert_eq!(memory.unmap(addr, size), Err(UnmapError::Malformed));
    }
    assert_eq!(memory.unmap(u64::MAX - 0xfff, 0x1000), Ok(1));
}

#[test]
fn ranges_may_not_overlap() {
    let file = memfd(0x8000);
    let mut memory = GuestMemory::new();
    memory.map(0x4000, 0x2000, Rights::READ, with(&file, 0)).unwrap();
    for (addr, size) in
        [(0x4000, 0x2000), (0x3000, 0x2000), (0x5000, 0x2000), (0x3000, 0x4000), (0x4000, 0x1000)]
    {
        let error = memory.map(addr, size, Rights::READ, with(&file, 0)).unwrap_err();
        assert!(matches!(error, MapError::Overlap), "{addr:#x}: {error}");
        assert_eq!(error.errno(), rustix::io::Errno::EXIST);
    }
    memory.map(0x3000, 0x1000, Rights::READ, with(&file, 0)).unwrap();
    memory.map(0x6000, 0x1000, Rights::READ, with(&file, 0)).unwrap();
}

#[test]
fn unmapping_takes_whole_ranges_only() {
    let (mut memory, _file) = three_maps();
    for (addr, size) in [(0x10000, 0x1800 & !0xfff), (0x10000, 0x2000)] {
        // The first is exactly one range, the second the other with a hole before it.
        assert_eq!(memory.unmap(addr, size), Ok(1));
    }
    assert_eq!(memory.unmap(0x10000, 0x2000), Ok(0), "nothing is there any more");
    let file = memfd(0x4000);
    memory.map(0x10000, 0x4000, Rights::READ, with(&file, 0)).unwrap();
    for (addr, size) in [(0x10000, 0x1000), (0x11000, 0x1000), (0x13000, 0x1000), (0, 0x12000)] {
        assert_eq!(memory.unmap(addr, size), Err(UnmapError::Cuts), "{addr:#x}");
    }
    assert_eq!(memory.maps(), 2);
    assert_eq!(memory.unmap(0, 1 << 48), Ok(2));
}

#[test]
fn an_unmapped_range_is_out_of_reach_at_once() {
    let (mut memory, file) = three_maps();
    memory.write(0x10000, &[1]).unwrap();
    memory.unmap(0x10000, 0x1000).unwrap();
    assert_eq!(memory.write(0x10000, &[1]), Err(DmaError::Unmapped { addr: 0x10000, len: 1 }));
    memory.write(0x11000, &[1]).unwrap();
    memory.unmap_all();
    assert_eq!(memory.write(0x11000, &[1]), Err(DmaError::Unmapped { addr: 0x11000, len: 1 }));
    // Not even when the file is there again, elsewhere.
    memory.map(0x50000, 0x1000, Rights::READ_WRITE, with(&file, 0)).unwrap();
    memory.write(0x50000, &[1]).unwrap();
    memory.unmap_all();
    memory.map(0x60000, 0x1000, Rights::READ_WRITE, with(&file, 0)).unwrap();
    assert_eq!(memory.write(0x50000, &[1]), Err(DmaError::Unmapped { addr: 0x50000, len: 1 }));
}

/// Lines of /proc/self/smaps that belong to mappings of `file`.
fn smaps(file: &File) -> Vec<String> {
    let inode = std::os::unix::fs::MetadataExt::ino(&file.metadata().unwrap()).to_string();
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut inside = false;
    let mut found = Vec::new();
    for line in smaps.lines() {
        // A mapping's first line is `start-end rights offset device inode path`.
        if let [range, _, _, _, number, ..] = *line.split_whitespace().collect::<Vec<_>>()
            && range.contains('-')
        {
            inside = number == inode;
        }
        if inside {
            found.push(line.to_owned());
        }
    }
    found
}

#[test]
fn a_file_is_mapped_once_stays_out_of_dumps_and_is_given_back() {
    let file = memfd(1 << 20);
    let mut memory = GuestMemory::new();
    for i in 0..100 {
        memory.map(i << 20, 0x1000, Rights::READ_WRITE, with(&file, i * 0x1000)).unwrap();
    }
    assert_eq!(memory.bytes(), 1 << 20);
    let lines = smaps(&file);
    let flags: Vec<_> = lines.iter().filter(|line| line.starts_with("VmFlags:")).collect();
    assert_eq!(flags.len(), 1, "one mapping: {lines:#?}");
    assert!(flags[0].split_whitespace().any(|flag| flag == "dd"), "not dumped: {flags:?}");
    for i in 0..100 {
        assert_eq!(memory.bytes(), 1 << 20);
        memory.unmap(i << 20, 0x1000).unwrap();
    }
    assert_eq!(memory.bytes(), 0);
    assert_eq!(smaps(&file), [""; 0]);

    memory.map(0, 0x1000, Rights::READ, with(&file, 0)).unwrap();
    memory.unmap_all();
    assert_eq!(smaps(&file), [""; 0]);
    memory.map(0, 0x1000, Rights::READ, with(&file, 0)).unwrap();
    drop(memory);
    assert_eq!(smaps(&file), [""; 0]);
}

#[test]
fn a_file_that_grows_is_mapped_further() {
    let file = memfd(0x1000);
    let mut memory = GuestMemory::new();
    memory.map(0, 0x1000, Rights::READ_WRITE, with(&file, 0)).unwrap();
    memory.write(0x800, b"before").unwrap();
    let error = memory.map(0x1000, 0x1000, Rights::READ_WRITE, with(&file, 0x1000)).unwrap_err();
    assert!(matches!(error, MapError::TooShort { size: 0x1000, needed: 0x2000 }));
    ftruncate(&file, 0x3000).unwrap();
    memory.map(0x1000, 0x1000, Rights::READ_WRITE, with(&file, 0x1000)).unwrap();
    assert_eq!(memory.bytes(), 0x3000);
    memory.copy(0x800, 0x1ff0, 6).unwrap();
    let mut back = [0; 6];
    memory.read(0x1ff0, &mut back).unwrap();
    assert_eq!(&back, b"before");
}

#[test]
fn a_descriptor_that_only_reads_gives_no_right_to_write() {
    let file = memfd(0x2000);
    let read_only = File::open(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap();
    let mut memory = GuestMemory::new();
    let error = memory.map(0, 0x1000, Rights::READ_WRITE, with(&read_only, 0)).unwrap_err();
    assert!(matches!(error, MapError::ReadOnly), "{error}");
    memory.map(0, 0x1000, Rights::READ, with(&read_only, 0)).unwrap();
    assert_eq!(memory.write(0, &[1]), Err(DmaError::Forbidden { addr: 0, len: 1, write: true }));
    // The same file through a better descriptor.
    memory.map(0x1000, 0x1000, Rights::READ_WRITE, with(&file, 0)).unwrap();
    memory.write(0x1000, b"x").unwrap();
    let mut back = [0];
    memory.read(0, &mut back).unwrap();
    assert_eq!(&back, b"x");

    let sealed = memfd(0x1000);
    fcntl_add_seals(&sealed, SealFlags::WRITE).unwrap();
    let error = memory.map(0x5000, 0x1000, Rights::WRITE, with(&sealed, 0)).unwrap_err();
    assert_eq!(error.errno(), rustix::io::Errno::ACCESS);
    memory.map(0x5000, 0x1000, Rights::READ, with(&sealed, 0)).unwrap();
    memory.read(0x5000, &mut back).unwrap();
}

#[test]
fn only_regular_files_are_memory() {
    let (pipe, _end) = std::io::pipe().unwrap();
    let (socket, _end) = std::os::unix::net::UnixStream::pair().unwrap();
    let event = rustix::event::eventfd(0, rustix::event::EventfdFlags::empty()).unwrap();
    let cases: [(&str, OwnedFd); 5] = [
        ("pipe", pipe.into()),
        ("socket", socket.into()),
        ("directory", File::open("/").unwrap().into()),
        ("device", File::open("/dev/zero").unwrap().into()),
        ("eventfd", event),
    ];
    for (what, descriptor) in cases {
        let mut memory = GuestMemory::new();
        let error = memory.map(0, 0x1000, Rights::READ, Some((descriptor, 0))).unwrap_err();
        assert!(matches!(error, MapError::NotAFile), "{what}: {error}");
    }
    // An ordinary file on a disk is memory too, only not sealed.
    let file = tempfile::tempfile().unwrap();
    file.set_len(0x1234).unwrap();
    let mut memory = GuestMemory::new();
    memory.map(0, 0x1000, Rights::READ_WRITE, with(&file, 0)).unwrap();
    memory.write(0xff0, b"disk").unwrap();
    let mut back = [0; 4];
    file.read_exact_at(&mut back, 0xff0).unwrap();
    assert_eq!(&back, b"disk");
    let error = memory.map(0x1000, 0x1000, Rights::READ, with(&file, 0x1000)).unwrap_err();
    assert!(matches!(error, MapError::TooShort { .. }), "the last page is not whole: {error}");
}

#[test]
fn ranges_and_files_are_limited() {
    let file = memfd(0x1000);
    let mut memory = GuestMemory::new();
    for i in 0..MAX_MAPS as u64 {
        memory.map(i * PAGE_SIZE, PAGE_SIZE, Rights::READ_WRITE, with(&file, 0)).unwrap();
    }
    let top = MAX_MAPS as u64 * PAGE_SIZE;
    let error = memory.map(top, PAGE_SIZE, Rights::READ, with(&file, 0)).unwrap_err();
    assert!(matches!(error, MapError::TooManyMaps), "{error}");
    assert_eq!(error.errno(), rustix::io::Errno::NOSPC);
    memory.write(top - 8, &[1; 8]).unwrap();
    assert_eq!(memory.unmap(0, top), Ok(MAX_MAPS));

    for i in 0..MAX_FILES as u64 {
        memory.map(i * PAGE_SIZE, PAGE_SIZE, Rights::READ, with(&memfd(0x1000), 0)).unwrap();
    }
    let error = memory.map(top, PAGE_SIZE, Rights::READ, with(&file, 0)).unwrap_err();
    assert!(matches!(error, MapError::TooMuch), "{error}");
    memory.unmap(0, PAGE_SIZE).unwrap();
    memory.map(top, PAGE_SIZE, Rights::READ, with(&file, 0)).unwrap();
    memory.unmap_all();

    let error = memory.map(0, PAGE_SIZE, Rights::READ, with(&memfd(1 << 50), 0)).unwrap_err();
    assert!(matches!(error, MapError::TooMuch), "address space is not for the taking: {error}");
}

#[test]
fn copies_may_overlap() {
    let (memory, _file) = three_maps();
    memory.write(0x10000, b"abcdefgh").unwrap();
    memory.copy(0x10000, 0x10002, 6).unwrap();
    let mut back = [0; 8];
    memory.read(0x10000, &mut back).unwrap();
    assert_eq!(&back, b"ababcdef");
    // Two addresses of the same page of the file.
    memory.write(0x11000, b"abcdefgh").unwrap();
    memory.copy(0x20000, 0x11002, 6).unwrap();
    memory.read(0x20000, &mut back).unwrap();
    assert_eq!(&back, b"ababcdef");
    // Across ranges, both ends cut at different places.
    let data: Vec<u8> = (0..0xc00).map(|i| (i % 241) as u8).collect();
    memory.write(0x10000, &data).unwrap();
    memory.copy(0x10000, 0x10e00, data.len() as u64).unwrap();
    let mut copy = vec![0; data.len()];
    memory.read(0x10e00, &mut copy).unwrap();
    assert_eq!(copy, data);
}

#[test]
fn compare_exchange_says_what_was_there() {
    let (mut memory, file) = three_maps();
    memory.map(0x30000, 0x1000, Rights::READ, with(&file, 0)).unwrap();
    assert_eq!(memory.compare_exchange(0x10008, [0; 8], *b"newvalue"), Ok([0; 8]));
    assert_eq!(memory.compare_exchange(0x10008, [0; 8], [9; 8]), Ok(*b"newvalue"));
    let mut back = [0; 8];
    memory.read(0x10008, &mut back).unwrap();
    assert_eq!(&back, b"newvalue");
    assert_eq!(
        memory.compare_exchange(0x10004, [0; 8], [0; 8]),
        Err(DmaError::Misaligned { addr: 0x10004 })
    );
    assert_eq!(
        memory.compare_exchange(0x30000, [0; 8], [0; 8]),
        Err(DmaError::Forbidden { addr: 0x30000, len: 8, write: true })
    );
    assert_eq!(
        memory.compare_exchange(0x40000, [0; 8], [0; 8]),
        Err(DmaError::Unmapped { addr: 0x40000, len: 8 })
    );
}

/// Adds one to the big-endian counter at 0, `times` times.
fn count_up(memory: &GuestMemory, times: u64) {
    for _ in 0..times {
        let mut old = [0; 8];
        memory.read(0, &mut old).unwrap();
        loop {
            let new = (u64::from_be_bytes(old) + 1).to_be_bytes();
            let was = memory.compare_exchange(0, old, new).unwrap();
            if was == old {
                break;
            }
            old = was;
        }
    }
}

const CHILD: &str = "GUEST_MEMORY_TEST_FILE";

/// Does nothing unless it runs as the child of the test below.
#[test]
fn child_that_counts_up() {
    let Some(path) = std::env::var_os(CHILD) else { return };
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut memory = GuestMemory::new();
    memory.map(0, 0x1000, Rights::READ_WRITE, with(&file, 0)).unwrap();
    count_up(&memory, 50_000);
}

#[test]
fn compare_exchange_holds_between_processes() {
    let file = memfd(0x1000);
    let mut memory = GuestMemory::new();
    memory.map(0, 0x1000, Rights::READ_WRITE, with(&file, 0)).unwrap();
    let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_that_counts_up"])
        .env(CHILD, path)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    while memory.read_be64(0).unwrap() == 0 {
        assert_eq!(child.try_wait().unwrap(), None, "waited for the child's first count");
    }
    count_up(&memory, 50_000);
    assert!(child.wait().unwrap().success());
    assert_eq!(memory.read_be64(0), Ok(100_000));
}

/// Runs `write` with one view of a file and `check` with another, in two threads, until `check`
/// has run `times` times.
fn race(write: impl Fn(&GuestMemory, u64) + Sync, check: impl Fn(&GuestMemory), times: u64) {
    let file = memfd(0x1000);
    let view = || {
        let mut memory = GuestMemory::new();
        memory.map(0, 0x1000, Rights::READ_WRITE, with(&file, 0)).unwrap();
        memory
    };
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = view();
        let (done, write) = (&done, &write);
        scope.spawn(move || {
            let mut round = 0;
            while !done.load(Ordering::Relaxed) {
                round += 1;
                write(&writer, round);
            }
        });
        let reader = view();
        for _ in 0..times {
            check(&reader);
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn aligned_words_are_written_and_read_whole() {
    for size in [2, 4, 8] {
        race(
            |memory, round| memory.write(0x100, &[round as u8; 8][..size]).unwrap(),
            |memory| {
                let mut word = [0; 8];
                let word = &mut word[..size];
                memory.read(0x100, word).unwrap();
                assert!(word.iter().all(|byte| *byte == word[0]), "torn: {word:x?}");
            },
            200_000,
        );
    }
}

#[test]
fn an_owner_word_is_seen_after_the_body_before_it() {
    race(
        |memory, round| {
            memory.write(0x40, [round.to_ne_bytes(); 6].as_flattened()).unwrap();
            memory.write(0x80, &round.to_ne_bytes()).unwrap();
        },
        |memory| {
            let mut owner = [0; 8];
            memory.read(0x80, &mut owner).unwrap();
            let mut body = [0; 48];
            memory.read(0x40, &mut body).unwrap();
            let owner = u64::from_ne_bytes(owner);
            // The next round's body may be there already, an older one never.
            for word in body.as_chunks().0 {
                let word = u64::from_ne_bytes(*word);
                assert!(word >= owner, "owner of round {owner} with a body of round {word}");
            }
        },
        500_000,
    );
}
