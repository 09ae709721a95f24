//! The client of the `vfio_user` crate, which somebody else wrote.

use std::os::fd::AsRawFd;

use device::vfio_user::Disconnect;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use vfio_user::Client;

use crate::concurrency::with_server;
use crate::peer::{BAR, Call, MSIX};

#[test]
fn it_finds_what_it_expects() {
    let (target, end) = with_server(|path| {
        let mut client = Client::new(path).unwrap();
        let sizes: Vec<_> = (0..10).map(|i| client.region(i).map(|region| region.size)).collect();
        let sized = |size: u64| Some(size);
        assert_eq!(sizes[..4], [sized(BAR), sized(0), sized(0x1000), sized(0x1000)]);
        assert_eq!((sizes[7], sizes[9]), (sized(0x1000), None));
        assert_eq!(client.region(0).unwrap().flags, 3);

        let msix = client.get_irq_info(MSIX).unwrap();
        assert_eq!((msix.index, msix.flags, msix.count), (MSIX, 1, 64));

        let mut data = [0; 8];
        client.region_read(0, 0x1fc, &mut data).unwrap();
        assert_eq!(data, [0xfc, 0xfd, 0xfe, 0xff, 0, 1, 2, 3]);
        client.region_write(7, 4, &[6, 0]).unwrap();

        let memory = memfd_create("guest", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&memory, 0x10000).unwrap();
        client.dma_map(0x1000, 0x8000, 0x2000, memory.as_raw_fd()).unwrap();
        client.dma_unmap(0x8000, 0x2000).unwrap();

        let event = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        client.set_irqs(MSIX, 4 | 32, 0, 2, &[event.as_raw_fd(); 2]).unwrap();
        client.set_irqs(MSIX, 1 | 32, 0, 0, &[]).unwrap();
        client.reset().unwrap();
        client.shutdown().unwrap();
    });
    assert!(matches!(end, Disconnect::Closed), "{end}");
    let rights = device::memory::Rights::READ_WRITE;
    let expected = [
        Call::Read { region: 0, offset: 0x1fc, len: 8 },
        Call::Write { region: 7, offset: 4, data: vec![6, 0] },
        Call::Map { address: 0x8000, size: 0x2000, rights, offset: Some(0x1000) },
        Call::Unmap { address: 0x8000, size: 0x2000 },
        Call::Assign { index: MSIX, first: 0, count: 2 },
        Call::Disable { index: MSIX },
        Call::Reset,
    ];
    assert_eq!(target.calls, expected);
}
