//! A client makes its file shorter under us: its accesses fail, the process lives.
#![allow(unsafe_code)]

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use device::memory::{GuestMemory, MapError, Rights};
use dma::{Dma, DmaError};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

fn memfd(size: u64) -> File {
    let file = memfd_create("guest", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&file, size).unwrap();
    File::from(file)
}

fn client(file: &File) -> GuestMemory {
    let mut memory = GuestMemory::new();
    let descriptor = file.try_clone().unwrap().into();
    memory.map(0x10000, 0x4000, Rights::READ_WRITE, Some((descriptor, 0))).unwrap();
    memory
}

fn gone(addr: u64, len: u64) -> Option<DmaError> {
    Some(DmaError::Gone { addr, len })
}

type Touch = fn(&GuestMemory) -> Result<(), DmaError>;

#[test]
fn every_kind_of_access_survives() {
    let cases: &[(Touch, Option<DmaError>)] = &[
        (|memory| memory.read(0x12000, &mut [0; 3]), gone(0x12000, 3)),
        (|memory| memory.read(0x12000, &mut [0; 8]), gone(0x12000, 8)),
        (|memory| memory.read(0x10800, &mut [0; 0x2000]), gone(0x10800, 0x2000)),
        (|memory| memory.write(0x13fff, &[1]), gone(0x13fff, 1)),
        (|memory| memory.write(0x13ff0, &[1; 4]), gone(0x13ff0, 4)),
        (|memory| memory.write(0x10fff, &[1; 0x1003]), gone(0x10fff, 0x1003)),
        // Both ends are in the file that is gone: the source is named.
        (|memory| memory.copy(0x10000, 0x11000, 0x1000), gone(0x10000, 0x1000)),
        (|memory| memory.copy(0x11000, 0x10000, 0x1000), gone(0x11000, 0x1000)),
        (|memory| memory.compare_exchange(0x11000, [0; 8], [1; 8]).map(|_| ()), gone(0x11000, 8)),
    ];
    for (number, (touch, expected)) in cases.iter().enumerate() {
        let file = memfd(0x4000);
        let memory = client(&file);
        memory.write(0x10000, &[1; 0x4000]).unwrap();
        assert!(!memory.gone());
        ftruncate(&file, 0x1000).unwrap();
        let result = touch(&memory);
        assert_eq!(result.err(), *expected, "case {number}");
        assert!(memory.gone());
        // Nothing of the file can be reached from now on, not even what it still has.
        assert_eq!(memory.write(0x10000, &[2]).err(), gone(0x10000, 1), "case {number}");
        let mut first = [9];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut first, 0).unwrap();
        assert_eq!(first, [1], "case {number}: the file's pages were left alone");
    }
}

#[test]
fn others_do_not_notice() {
    let (file, other) = (memfd(0x4000), memfd(0x4000));
    let (memory, neighbour) = (client(&file), client(&other));
    ftruncate(&file, 0).unwrap();
    assert_eq!(memory.read(0x10000, &mut [0]).err(), gone(0x10000, 1));
    neighbour.write(0x10000, b"still here").unwrap();
    assert!(!neighbour.gone());
    // The client comes back with a new file of the old one's size.
    let mut memory = memory;
    memory.unmap_all();
    assert!(!memory.gone());
    let descriptor = other.try_clone().unwrap().into();
    memory.map(0, 0x1000, Rights::READ, Some((descriptor, 0))).unwrap();
    let mut back = [0; 10];
    memory.read(0, &mut back).unwrap();
    assert_eq!(&back, b"still here");
}

#[test]
fn a_file_that_was_cut_is_not_mapped_again() {
    let file = memfd(0x4000);
    let mut memory = client(&file);
    ftruncate(&file, 0).unwrap();
    memory.read(0x10000, &mut [0]).unwrap_err();
    ftruncate(&file, 0x4000).unwrap();
    let descriptor = file.try_clone().unwrap().into();
    let error = memory.map(0, 0x1000, Rights::READ, Some((descriptor, 0))).unwrap_err();
    assert!(matches!(error, MapError::Gone), "{error}");
    assert_eq!(memory.read(0x10000, &mut [0]).err(), gone(0x10000, 1));
}

#[test]
fn two_functions_with_one_file_each_find_out() {
    let file = memfd(0x4000);
    let memories = [client(&file), client(&file)];
    ftruncate(&file, 0x2000).unwrap();
    std::thread::scope(|scope| {
        for memory in memories {
            scope.spawn(move || {
                memory.write(0x10000, &[1]).unwrap();
                assert_eq!(memory.write(0x12000, &[1]).err(), gone(0x12000, 1));
            });
        }
    });
}

#[test]
fn many_clients_come_and_go_while_others_fault() {
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for round in 0..500 {
                    let file = memfd(0x4000);
                    let memory = client(&file);
                    memory.write(0x10000, &[1; 64]).unwrap();
                    if round % 2 == 0 {
                        ftruncate(&file, 0).unwrap();
                        assert_eq!(memory.write(0x13000, &[1]).err(), gone(0x13000, 1));
                    }
                }
            });
        }
    });
}

const CHILD: &str = "GUEST_MEMORY_TEST_FOREIGN_FAULT";

/// Does nothing unless it runs as the child of the test below.
#[test]
fn child_with_a_fault_that_is_not_ours() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let file = memfd(0x4000);
    let _memory = client(&file);
    // A mapping of the same file that our handler knows nothing about.
    // SAFETY: a fresh mapping, and the read of it is meant to end the process.
    unsafe {
        let base = libc::mmap(
            std::ptr::null_mut(),
            0x4000,
            libc::PROT_READ,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        );
        assert_ne!(base, libc::MAP_FAILED);
        ftruncate(&file, 0).unwrap();
        std::ptr::read_volatile(base.cast::<u8>());
    }
}

#[test]
fn faults_elsewhere_still_end_the_process() {
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_with_a_fault_that_is_not_ours"])
        .env(CHILD, "1")
        .stdout(std::process::Stdio::null())
        .status()
        .unwrap();
    assert_eq!(status.signal(), Some(libc::SIGBUS), "{status}");
}
