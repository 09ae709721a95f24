//! Configuration space and BARs, as a client finds them.

use device::pci::{MSIX_BAR, MSIX_BAR_SIZE, MSIX_VECTORS};

use crate::running::{BAR0, COMMAND, CONFIG, ON, Running, read};

#[test]
fn a_client_finds_the_card() {
    let running = Running::start();
    let mut client = running.connect();
    let sizes: Vec<u64> =
        (0..9).map(|n| client.region(n).map_or(0, |region| region.size)).collect();
    assert_eq!(sizes, [function::BAR0_SIZE, 0, MSIX_BAR_SIZE, 0, 0, 0, 0, 4096, 0]);
    for index in 0..9 {
        let mappable = client.region(index).is_some_and(|region| region.file_offset.is_some());
        assert!(!mappable, "region {index} can't be mapped");
    }
    let counts: Vec<u32> = (0..5).map(|n| client.get_irq_info(n).unwrap().count).collect();
    assert_eq!(counts, [0, 0, MSIX_VECTORS.into(), 1, 0]);

    assert_eq!(read(&mut client, CONFIG, 0), [0xb3, 0x15, 0x1b, 0x10]);
    // Capabilities, by their links.
    let mut found = Vec::new();
    let [mut at] = read(&mut client, CONFIG, 0x34);
    while at != 0 {
        let [id, next] = read(&mut client, CONFIG, at.into());
        found.push(id);
        at = next;
    }
    assert_eq!(found, [0x10, 0x11, 0x01]);
    let mut extended = Vec::new();
    let mut at = 0x100;
    while at != 0 {
        let head = u32::from_le_bytes(read(&mut client, CONFIG, at));
        extended.push(head & 0xffff);
        at = u64::from(head >> 20);
    }
    assert_eq!(extended, [0x0003, 0x0001]);
}

#[test]
fn registers_are_there_once_memory_is_enabled() {
    let running = Running::start();
    let mut client = running.connect();
    assert_eq!(read(&mut client, BAR0, 0x4), [0xff; 4]);
    assert_eq!(read(&mut client, MSIX_BAR, 0x1000), [0xff; 8]);
    client.region_write(CONFIG, COMMAND, &ON).unwrap();
    let [revision_high, revision_low, ..] = read::<4>(&mut client, BAR0, 0x4);
    assert_eq!([revision_high, revision_low], [0, 5], "command interface revision");
    assert_eq!(read::<1>(&mut client, BAR0, 0x1fc)[0] & 0x80, 0, "the firmware is up");
    assert_eq!(read(&mut client, MSIX_BAR, 0x1000), [0; 8]);
}

#[test]
fn accesses_of_any_size_and_place_are_answered() {
    let running = Running::start();
    let mut client = running.connect();
    client.region_write(CONFIG, COMMAND, &ON).unwrap();
    for (region, size) in [(BAR0, function::BAR0_SIZE), (MSIX_BAR, MSIX_BAR_SIZE), (CONFIG, 4096)] {
        for len in [1, 2, 3, 4, 5, 8, 13, 64, 4096] {
            for offset in [0, 1, 3, 0xffe, 0x1fff, size / 2 + 1, size - len] {
                if offset + len <= size {
                    let mut data = vec![0; len as usize];
                    client.region_read(region, offset, &mut data).unwrap();
                    client.region_write(region, offset, &data).unwrap();
                }
            }
        }
    }
    assert_eq!(read(&mut client, CONFIG, 0), [0xb3, 0x15, 0x1b, 0x10]);
}
