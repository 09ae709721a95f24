//! How long a driver waits for one small RDMA write over a real socket: from posting it to its
//! completion, beside a server that only echoes. The two take turns, so that whatever else the
//! machine does happens to both.
#![allow(missing_docs)]

#[path = "../tests/server/running.rs"]
#[allow(dead_code)]
mod running;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use driver::Driver;
use driver::mkey::{Access, Region};
use driver::qp::{Peer, Receive, Shape, data_segment};
use driver::vfio_user::VfioUser;
use layouts::{QpType, WqeOpcode, WqeRaddrSeg};
use running::Running;

const ROUNDS: usize = 5000;
const MEMORY: u64 = 256 << 20;
/// Bytes of the write that asks for a doorbell, and of its reply.
const REQUEST: usize = 16 + 16 + 8;
const REPLY: usize = 16 + 16;

fn main() {
    // `cargo test --benches` only asks whether it runs.
    let full = std::env::args().any(|arg| arg == "--bench");
    let rounds = if full { ROUNDS } else { 3 };
    let running = Running::start();
    let mut driver = Driver::new(VfioUser::connect(&running.socket(), MEMORY).expect("a card"));
    let mut device = driver.power_on().expect("a device");
    let pd = driver.alloc_pd().expect("a domain");
    let page = driver.memory.alloc(4096).expect("memory");
    let region = Region {
        start: page,
        len: 4096,
        log_page_size: 12,
        pages: vec![page],
        pd,
        access: Access::ALL,
    };
    let key = driver.register(&mut device, &region).expect("a key").key;
    let mut cq =
        driver.create_cq(device.uar, device.completion_eqn, 6).expect("a completion queue");
    let shape = Shape {
        kind: QpType::RC,
        pd,
        uar: device.uar,
        cqns: [cq.cqn; 2],
        log_sq_size: 6,
        receive: Receive::None,
        spare_srqn: device.spare_srqn(),
    };
    let mut pair = [(); 2].map(|()| driver.create_qp(shape).expect("a queue pair"));
    let lid = device.port.lids.0;
    for (one, other) in [(0, 1), (1, 0)] {
        let peer = Peer { qpn: pair[other].qpn, lid, psn: 0 };
        driver.rst2init(&pair[one], pd, 0).expect("INIT");
        driver.init2rtr(&pair[one], peer).expect("RTR");
        driver.rtr2rts(&pair[one], 0).expect("RTS");
    }
    let mut write = vec![0; 16];
    let mut remote = [0; WqeRaddrSeg::SIZE];
    let mut segment = WqeRaddrSeg(&mut remote[..]);
    segment.set_raddr(page + 2048);
    segment.set_rkey(key);
    write.extend(remote);
    write.extend(data_segment(key, page, 64));

    let (mut client, mut server) = UnixStream::pair().expect("a socket");
    let echo = std::thread::spawn(move || {
        let mut request = [0; REQUEST];
        while server.read_exact(&mut request).is_ok() {
            server.write_all(&[0; REPLY]).expect("a client");
        }
    });
    let (mut echoes, mut writes) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let start = Instant::now();
        client.write_all(&[0; REQUEST]).expect("a server");
        client.read_exact(&mut [0; REPLY]).expect("an echo");
        echoes.push(start.elapsed());

        let start = Instant::now();
        driver.post_send(&mut pair[0], WqeOpcode::RDMA_WRITE, &write).expect("posted");
        while driver.poll_cq(&mut cq).expect("a good completion").is_none() {}
        writes.push(start.elapsed());
    }
    drop(client);
    echo.join().expect("the echo");
    let (echo, write) = (percentiles(echoes), percentiles(writes));
    println!("an echo: p50 {:?}, p99 {:?}", echo.0, echo.1);
    println!("64-byte write, posted to completed: p50 {:?}, p99 {:?}", write.0, write.1);
    println!(
        "ratio: p50 {:.2}, p99 {:.2}",
        write.0.as_secs_f64() / echo.0.as_secs_f64(),
        write.1.as_secs_f64() / echo.1.as_secs_f64()
    );
}

fn percentiles(mut samples: Vec<Duration>) -> (Duration, Duration) {
    samples.sort_unstable();
    (samples[samples.len() / 2], samples[samples.len() * 99 / 100])
}
