//! Guest memory beside plain memcpy.
#![allow(missing_docs)] // of what the macros make

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use device::memory::{GuestMemory, Rights};
use dma::Dma;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

const SIZE: u64 = 64 << 20;

/// 64 MiB as one range, and again as 16384 ranges of a page.
fn memory() -> GuestMemory {
    let file = memfd_create("guest", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&file, SIZE).unwrap();
    let mut memory = GuestMemory::new();
    let again = || file.try_clone().unwrap();
    memory.map(0, SIZE, Rights::READ_WRITE, Some((again(), 0))).unwrap();
    for page in (0..SIZE).step_by(4096) {
        memory.map(SIZE + page, 4096, Rights::READ_WRITE, Some((again(), page))).unwrap();
    }
    memory.write(0, &vec![1; SIZE as usize]).unwrap();
    memory
}

fn copies(c: &mut Criterion) {
    let memory = memory();
    for (name, len) in [("64 B", 64_usize), ("4 KiB", 4096), ("1 MiB", 1 << 20)] {
        let mut group = c.benchmark_group(format!("copy {name}"));
        group.throughput(Throughput::Bytes(len as u64));
        let (source, mut target) = (vec![1_u8; len], vec![0_u8; len]);
        group.bench_function("memcpy", |b| {
            b.iter(|| black_box(&mut target[..]).copy_from_slice(black_box(&source)))
        });
        group.bench_function("guest to guest", |b| {
            b.iter(|| memory.copy(black_box(0), black_box(32 << 20), len as u64).unwrap())
        });
        group.bench_function("read", |b| {
            b.iter(|| memory.read(black_box(4096), black_box(&mut target[..])).unwrap())
        });
        group.bench_function("write", |b| {
            b.iter(|| memory.write(black_box(4096), black_box(&source[..])).unwrap())
        });
        group.bench_function("read through 4 KiB ranges", |b| {
            b.iter(|| memory.read(black_box(SIZE), black_box(&mut target[..])).unwrap())
        });
        group.finish();
    }
}

fn words(c: &mut Criterion) {
    let memory = memory();
    let mut group = c.benchmark_group("8 bytes");
    group.bench_function("read, one range", |b| {
        b.iter(|| memory.read_be64(black_box(0x1238)).unwrap())
    });
    let mut page = 0;
    group.bench_function("read, 16384 ranges in turn", |b| {
        b.iter(|| {
            page = (page + 0x1000 * 4099) % SIZE;
            memory.read_be64(black_box(SIZE + page)).unwrap()
        })
    });
    group.bench_function("write, one range", |b| {
        b.iter(|| memory.write(black_box(0x1238), black_box(&[1; 8])).unwrap())
    });
    group.finish();
}

fn maps(c: &mut Criterion) {
    let mut memory = memory();
    let file = memfd_create("other", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&file, 4096).unwrap();
    memory.map(1 << 40, 4096, Rights::READ, Some((file.try_clone().unwrap(), 0))).unwrap();
    c.bench_function("map and unmap a page among 16384", |b| {
        b.iter(|| {
            let file = file.try_clone().unwrap();
            memory.map(2 << 40, 4096, Rights::READ, Some((file, 0))).unwrap();
            memory.unmap(2 << 40, 4096).unwrap();
        })
    });
}

criterion_group!(benches, copies, words, maps);
criterion_main!(benches);
