use std::fs::File;
use std::io::Read as _;

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

use super::*;
use crate::memory::Rights;

const COMMAND: u64 = 0x04;
const ON: [u8; 2] = [0x06, 0x00];
const INITIALIZING: u64 = 0x1fc;

fn endpoint() -> Endpoint {
    let mut endpoint = Endpoint::new(&Config::default(), None);
    let memory = memfd_create("guest", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&memory, 0x1000).unwrap();
    endpoint.memory.map(0x1000, 0x1000, Rights::READ_WRITE, Some((memory, 0))).unwrap();
    endpoint
}

fn read<const N: usize>(endpoint: &mut Endpoint, space: Space, offset: u64) -> [u8; N] {
    let mut data = [0x5a; N];
    endpoint.read(space, offset, &mut data).unwrap();
    data
}

fn with_bus<T>(endpoint: &Endpoint, act: impl FnOnce(&HostBus<'_>) -> T) -> T {
    let Endpoint { config, memory, vectors, .. } = endpoint;
    act(&HostBus { config, memory, vectors })
}

fn event() -> (OwnedFd, File) {
    let ours = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
    let theirs = File::from(ours.try_clone().unwrap());
    (ours, theirs)
}

fn fired(mut end: &File) -> bool {
    end.read(&mut [0; 8]).is_ok()
}

#[test]
fn bars_answer_only_while_memory_is_enabled() {
    let mut endpoint = endpoint();
    for space in [Space::Bar0, Space::Msix] {
        assert_eq!(read(&mut endpoint, space, INITIALIZING), [0xff; 4]);
    }
    endpoint.write(Space::Config, COMMAND, &ON).unwrap();
    let [first, ..]: [u8; 4] = read(&mut endpoint, Space::Bar0, INITIALIZING);
    assert_eq!(first & 0x80, 0, "the firmware is up");
    assert_eq!(read(&mut endpoint, Space::Msix, 0), [0; 4]);
}

#[test]
fn the_card_reaches_memory_only_as_bus_master() {
    let mut endpoint = endpoint();
    let mut word = [0; 8];
    with_bus(&endpoint, |bus| {
        let forbidden = |addr, len, write| DmaError::Forbidden { addr, len, write };
        assert_eq!(bus.read(0x1000, &mut word), Err(forbidden(0x1000, 8, false)));
        assert_eq!(bus.write(0x1008, &[1, 2]), Err(forbidden(0x1008, 2, true)));
        assert_eq!(bus.copy(0x1000, 0x1800, 3), Err(forbidden(0x1000, 3, false)));
        let swap = bus.compare_exchange(0x1010, [0; 8], [1; 8]);
        assert_eq!(swap, Err(forbidden(0x1010, 8, true)));
    });
    endpoint.write(Space::Config, COMMAND, &ON).unwrap();
    with_bus(&endpoint, |bus| {
        assert_eq!(bus.write(0x1000, b"as it is"), Ok(()));
        assert_eq!(bus.copy(0x1000, 0x1800, 8), Ok(()));
        assert_eq!(bus.compare_exchange(0x1800, *b"as it is", *b"as it be"), Ok(*b"as it is"));
        assert_eq!(bus.read(0x1800, &mut word), Ok(()));
    });
    assert_eq!(&word, b"as it be");
}

#[test]
fn interrupts_need_bus_mastering_and_wait_for_their_descriptor() {
    const MSIX_CONTROL: u64 = 0x9e;
    let mut endpoint = endpoint();
    let (ours, end) = event();
    endpoint.assign_vector(1, Some(ours));
    with_bus(&endpoint, |bus| bus.interrupt(1));
    assert!(!fired(&end));
    endpoint.write(Space::Config, COMMAND, &ON).unwrap();
    with_bus(&endpoint, |bus| bus.interrupt(1));
    assert!(fired(&end));

    with_bus(&endpoint, |bus| bus.interrupt(2));
    assert_eq!(read(&mut endpoint, Space::Msix, MSIX_PENDING_AT), [0; 8], "MSI-X is off");
    endpoint.write(Space::Config, MSIX_CONTROL, &[0, 0x80]).unwrap();
    with_bus(&endpoint, |bus| bus.interrupt(2));
    assert_eq!(read(&mut endpoint, Space::Msix, MSIX_PENDING_AT), [4, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(read(&mut endpoint, Space::Msix, MSIX_PENDING_AT - 2), [0, 0, 4, 0]);
    assert_eq!(read(&mut endpoint, Space::Msix, MSIX_PENDING_AT + 7), [0; 4]);
    let (ours, end) = event();
    endpoint.assign_vector(2, Some(ours));
    assert!(fired(&end));

    with_bus(&endpoint, |bus| bus.interrupt(3));
    endpoint.write(Space::Config, MSIX_CONTROL, &[0, 0x00]).unwrap();
    assert_eq!(read(&mut endpoint, Space::Msix, MSIX_PENDING_AT), [0; 8], "switched off");
}

#[test]
fn a_function_level_reset_keeps_what_is_the_clients() {
    let mut endpoint = endpoint();
    endpoint.write(Space::Config, COMMAND, &ON).unwrap();
    let (ours, end) = event();
    endpoint.assign_vector(0, Some(ours));
    // Device control with the bit that starts it.
    endpoint.write(Space::Config, 0x68, &[0x10, 0xa8]).unwrap();
    assert_eq!(read(&mut endpoint, Space::Config, COMMAND), [0; 2]);
    assert_eq!(endpoint.memory.maps(), 1);
    endpoint.write(Space::Config, COMMAND, &ON).unwrap();
    with_bus(&endpoint, |bus| bus.interrupt(0));
    assert!(fired(&end));
}

#[test]
fn nothing_of_a_client_that_is_gone_is_kept() {
    let mut endpoint = endpoint();
    endpoint.write(Space::Config, COMMAND, &ON).unwrap();
    let (ours, mut end) = event();
    endpoint.assign_vector(0, Some(ours));
    endpoint.disconnect();
    assert_eq!((endpoint.memory.maps(), endpoint.memory.bytes()), (0, 0));
    assert_eq!(read(&mut endpoint, Space::Config, COMMAND), [0; 2]);
    endpoint.write(Space::Config, COMMAND, &ON).unwrap();
    with_bus(&endpoint, |bus| bus.interrupt(0));
    assert!(end.read(&mut [0; 8]).is_err());
}

#[test]
fn accesses_outside_are_refused() {
    let mut endpoint = endpoint();
    endpoint.write(Space::Config, COMMAND, &ON).unwrap();
    for space in [Space::Bar0, Space::Msix, Space::Config] {
        let size = space.size();
        for (offset, len) in [(size, 1), (size - 1, 2), (u64::MAX, 1), (u64::MAX - 3, 8)] {
            assert!(endpoint.read(space, offset, &mut vec![0; len]).is_err());
            assert!(endpoint.write(space, offset, &vec![0; len]).is_err());
        }
        assert!(endpoint.read(space, size - 3, &mut [0; 3]).is_ok());
        assert!(endpoint.write(space, size - 3, &[0; 3]).is_ok());
    }
}
