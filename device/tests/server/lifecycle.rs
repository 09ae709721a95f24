//! Clients come, reset and go; the card is always ready for the next.

use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;

use device::server::{Options, Server, StartError};
use function::Config;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use vfio_user::Client;

use crate::running::{BAR0, COMMAND, CONFIG, ON, Running, read, wait};

/// Where the initialization segment keeps the command queue's address: it can be read back.
const QUEUE_HIGH: u64 = 0x10;

fn use_card(client: &mut Client) {
    client.region_write(CONFIG, COMMAND, &ON).unwrap();
    client.region_write(BAR0, QUEUE_HIGH, &[1, 2, 3, 4]).unwrap();
    assert_eq!(read(client, BAR0, QUEUE_HIGH), [1, 2, 3, 4]);
}

fn assert_new(client: &mut Client) {
    assert_eq!(read(client, CONFIG, COMMAND), [0, 0]);
    client.region_write(CONFIG, COMMAND, &ON).unwrap();
    assert_eq!(read(client, BAR0, QUEUE_HIGH), [0; 4], "as after power-on");
}

#[test]
fn each_kind_of_reset_makes_it_new() {
    let running = Running::start();
    let mut client = running.connect();
    use_card(&mut client);
    client.reset().unwrap();
    assert_new(&mut client);
    use_card(&mut client);
    let [low, high] = read(&mut client, CONFIG, 0x68);
    client.region_write(CONFIG, 0x68, &[low, high | 0x80]).unwrap();
    assert_new(&mut client);
}

#[test]
fn the_next_client_finds_it_new_however_the_last_one_went() {
    let running = Running::start();
    for round in 1..=10 {
        let mut client = running.connect();
        assert_eq!(running.status().connections, round);
        assert!(running.status().connected);
        assert_new(&mut client);
        use_card(&mut client);
        let memory = memfd_create("guest", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&memory, 1 << 20).unwrap();
        client.dma_map(0, 0, 1 << 20, memory.as_raw_fd()).unwrap();
        let event = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        client.set_irqs(2, 0x24, 0, 1, &[event.as_raw_fd()]).unwrap();
        // At the end of the loop it goes as a process that was killed goes: without a word.
        drop(client);
        running.wait_disconnected();
    }
}

#[test]
fn a_client_may_die_within_a_message() {
    let running = Running::start();
    for some in [1, 8, 15, 16, 20] {
        let mut stream = UnixStream::connect(running.socket()).unwrap();
        // Version 0.0 with text that never comes whole.
        let message = [1, 0, 1, 0, 100, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        stream.write_all(&message[..some]).unwrap();
        drop(stream);
        running.wait_disconnected();
        assert_new(&mut running.connect());
        running.wait_disconnected();
    }
}

#[test]
fn a_second_client_is_refused_and_the_first_not_disturbed() {
    let running = Running::start();
    let mut client = running.connect();
    use_card(&mut client);
    let mut second = UnixStream::connect(running.socket()).unwrap();
    assert_eq!(second.read(&mut [0]).unwrap(), 0, "closed without an answer");
    assert_eq!(read(&mut client, BAR0, QUEUE_HIGH), [1, 2, 3, 4]);
    assert_eq!(running.status().connections, 1);
}

#[test]
fn a_client_that_went_does_not_keep_the_next_one_out() {
    let running = Running::start();
    for _ in 0..200 {
        // The next one may be there before the last one's end was noticed.
        let mut client = running.connect();
        assert_new(&mut client);
    }
}

#[test]
fn a_client_that_stops_asking_but_does_not_read_is_let_go() {
    let running = Running::start();
    let stream = UnixStream::connect(running.socket()).unwrap();
    stream.set_nonblocking(true).unwrap();
    let version = b"\x01\0\x01\0\x17\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0{}\0";
    (&stream).write_all(version).unwrap();
    // Reads of a megabyte each until the server takes no more of them.
    let mut request = Vec::new();
    for value in [9_u32 << 16 | 2, 32, 0, 0, 0, 0, 0, 1 << 20] {
        request.extend_from_slice(&value.to_ne_bytes());
    }
    while (&stream).write(&request).is_ok_and(|n| n == request.len()) {}
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    running.wait_disconnected();
    assert_new(&mut running.connect());
}

#[test]
fn stopping_removes_the_sockets() {
    let running = Running::start();
    let client = running.connect();
    let dir = running.stop();
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    drop(client);
}

#[test]
fn a_socket_in_use_is_left_alone() {
    let running = Running::start();
    let options = |socket: &str, control: &str| Options {
        socket: running.dir.path().join(socket),
        control: Some(running.dir.path().join(control)),
        record: None,
        metrics: None,
        trace: None,
        config: Config::default(),
    };
    for options in [options("socket", "other"), options("other", "control")] {
        let error = Server::bind(options).err().expect("it is in use");
        assert!(matches!(error, StartError::Socket { .. }), "{error}");
    }
    assert!(!running.dir.path().join("other").exists());
    use_card(&mut running.connect());
}

#[test]
fn memory_that_shrinks_ends_the_connection_and_nothing_else() {
    let running = Running::start();
    let mut client = running.connect();
    let memory = memfd_create("guest", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&memory, 1 << 20).unwrap();
    client.dma_map(0, 0, 1 << 20, memory.as_raw_fd()).unwrap();
    client.region_write(CONFIG, COMMAND, &ON).unwrap();
    ftruncate(&memory, 0).unwrap();
    // A command queue in that memory, and a doorbell.
    client.region_write(BAR0, 0x10, &[0; 4]).unwrap();
    client.region_write(BAR0, 0x14, &[0, 0, 0x10, 0]).unwrap();
    // The connection may end before this is answered.
    let _ = client.region_write(BAR0, 0x18, &[0, 0, 0, 1]);
    wait("the connection to end", || !running.status().connected);
    assert_new(&mut running.connect());
}
