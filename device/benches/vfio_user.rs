//! What a message costs: over a socket between two threads, beside a server that only echoes, and
//! in one thread, where no switch of threads hides the work.
#![allow(missing_docs)] // of what the macros make

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use device::vfio_user::{Connection, DmaMap, Errno, Irq, IrqChange, Progress, Region, Target};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

const VERSION: u16 = 1;
const REGION_READ: u16 = 9;
const REGION_WRITE: u16 = 10;
const NO_REPLY: u32 = 0x10;

/// A device of one BAR that does nothing.
struct Nothing;

impl Target for Nothing {
    fn regions(&self) -> &[Region] {
        const { &[Region::new(32 << 20)] }
    }
    fn irqs(&self) -> &[Irq] {
        &[]
    }
    fn region_read(&mut self, _: u32, _: u64, _: &mut [u8]) -> Result<(), Errno> {
        Ok(())
    }
    fn region_write(&mut self, _: u32, _: u64, _: &[u8]) -> Result<(), Errno> {
        Ok(())
    }
    fn dma_map(&mut self, _: DmaMap) -> Result<(), Errno> {
        Ok(())
    }
    fn dma_unmap(&mut self, _: u64, _: u64) -> Result<(), Errno> {
        Ok(())
    }
    fn dma_unmap_all(&mut self) -> Result<(), Errno> {
        Ok(())
    }
    fn set_irqs(&mut self, _: u32, _: IrqChange) -> Result<(), Errno> {
        Ok(())
    }
    fn reset(&mut self) -> Result<(), Errno> {
        Ok(())
    }
}

fn message(command: u16, flags: u32, body: &[&[u8]]) -> Vec<u8> {
    let body = body.concat();
    let size = 16 + body.len() as u32;
    let mut message = Vec::new();
    message.extend(1_u16.to_ne_bytes());
    message.extend(command.to_ne_bytes());
    for word in [size, flags, 0] {
        message.extend(word.to_ne_bytes());
    }
    message.extend(body);
    message
}

fn read_message() -> Vec<u8> {
    message(REGION_READ, 0, &[&0x1fc_u64.to_ne_bytes(), &[0; 4], &4_u32.to_ne_bytes()])
}

fn posted_message() -> Vec<u8> {
    let head: [&[u8]; 4] = [&0x800_u64.to_ne_bytes(), &[0; 4], &8_u32.to_ne_bytes(), &[1; 8]];
    message(REGION_WRITE, NO_REPLY, &head)
}

/// Agrees on the version.
fn greet(client: &mut UnixStream, serve: impl FnOnce()) {
    client.write_all(&message(VERSION, 0, &[&[0; 4]])).unwrap();
    serve();
    let mut reply = [0; 16 + 4 + 20];
    assert_ne!(client.read(&mut reply).unwrap(), 0);
}

fn serve(mut connection: Connection) {
    let mut poll = Poll::new().unwrap();
    let mut events = Events::with_capacity(8);
    let raw = connection.as_raw_fd();
    poll.registry().register(&mut SourceFd(&raw), Token(0), Interest::READABLE).unwrap();
    let mut hung_up = false;
    loop {
        match connection.serve(&mut Nothing, hung_up) {
            Ok(Progress::More) => continue,
            Ok(_) => {}
            Err(_) => return,
        }
        poll.poll(&mut events, None).unwrap();
        hung_up |= events.iter().any(|event| event.is_read_closed());
    }
}

/// A read of four bytes: 32 bytes there, 36 back.
fn round_trips(c: &mut Criterion) {
    let mut group = c.benchmark_group("round trip");
    let request = read_message();
    let mut reply = [0; 36];

    let (mut client, mut server) = UnixStream::pair().unwrap();
    let echo = std::thread::spawn(move || {
        let mut request = [0; 32];
        while server.read_exact(&mut request).is_ok() {
            server.write_all(&[0; 36]).unwrap();
        }
    });
    group.bench_function("echo", |b| {
        b.iter(|| {
            client.write_all(&request).unwrap();
            client.read_exact(&mut reply).unwrap();
        })
    });
    drop(client);
    echo.join().unwrap();

    let (mut client, server) = UnixStream::pair().unwrap();
    let connection = Connection::new(server).unwrap();
    let server = std::thread::spawn(|| serve(connection));
    greet(&mut client, || ());
    group.bench_function("region read", |b| {
        b.iter(|| {
            client.write_all(&request).unwrap();
            client.read_exact(&mut reply).unwrap();
        })
    });
    drop(client);
    server.join().unwrap();
    group.finish();
}

fn in_one_thread(c: &mut Criterion) {
    let (mut client, server) = UnixStream::pair().unwrap();
    let mut connection = Connection::new(server).unwrap();
    greet(&mut client, || {
        connection.serve(&mut Nothing, false).unwrap();
    });
    let mut reply = [0; 36];

    let mut group = c.benchmark_group("one thread");
    let (mut one, mut other) = UnixStream::pair().unwrap();
    group.bench_function("echo", |b| {
        let request = read_message();
        b.iter(|| {
            one.write_all(&request).unwrap();
            let mut buffer = [0; 32];
            assert_eq!(other.read(&mut buffer).unwrap(), 32);
            other.write_all(&[0; 36]).unwrap();
            one.read_exact(&mut reply).unwrap();
        })
    });
    group.bench_function("region read", |b| {
        let request = read_message();
        b.iter(|| {
            client.write_all(&request).unwrap();
            connection.serve(&mut Nothing, false).unwrap();
            client.read_exact(&mut reply).unwrap();
        })
    });
    for burst in [1, 8, 64] {
        group.throughput(Throughput::Elements(burst));
        group.bench_function(format!("{burst} posted writes, only sent and received"), |b| {
            let posted = posted_message();
            let mut buffer = vec![0; 1 << 16];
            b.iter(|| {
                for _ in 0..burst {
                    one.write_all(&posted).unwrap();
                }
                assert_eq!(other.read(&mut buffer).unwrap(), posted.len() * burst as usize);
            })
        });
        group.bench_function(format!("{burst} posted writes"), |b| {
            let posted = posted_message();
            b.iter(|| {
                for _ in 0..burst {
                    client.write_all(&posted).unwrap();
                }
                connection.serve(&mut Nothing, false).unwrap();
            })
        });
    }
    group.finish();
}

criterion_group!(benches, round_trips, in_one_thread);
criterion_main!(benches);
