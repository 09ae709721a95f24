//! VERSION.

use device::vfio_user::{Disconnect, Errno};

use crate::bytes;
use crate::peer::{DEVICE_GET_INFO, DEVICE_RESET, NO_REPLY, Peer, VERSION, message};

fn version(minor: u16, text: &[u8]) -> Vec<u8> {
    let mut body = bytes![0_u16, minor];
    body.extend_from_slice(text);
    body
}

/// The JSON value in a reply.
fn answer(body: &[u8]) -> serde_json::Value {
    assert_eq!(body[..4], bytes![0_u16, 0_u16]);
    let (last, text) = body[4..].split_last().unwrap();
    assert_eq!(*last, 0);
    serde_json::from_slice(text).unwrap()
}

#[test]
fn what_qemu_sends_is_answered_in_full() {
    let text = "{\"capabilities\": {\"max_dma_maps\": 65535, \"max_msg_fds\": 16, \
        \"max_data_xfer_size\": 1048576, \"pgsizes\": 4096, \"write_multiple\": true, \
        \"migration\": {\"pgsize\": 4096, \"max_bitmap_size\": 268435456}}}\0";
    let mut peer = Peer::connected();
    let body = version(0, text.as_bytes());
    let reply = peer.ask(VERSION, &body).unwrap();
    assert!(reply.len() <= body.len(), "QEMU has no room for more than it sent");
    assert_eq!(
        answer(&reply),
        serde_json::json!({"capabilities": {
            "max_dma_maps": 65535, "max_msg_fds": 16, "max_data_xfer_size": 1 << 20,
            "pgsizes": 4096, "write_multiple": true,
        }})
    );
    peer.in_step();
    assert!(peer.server.negotiated());
}

#[test]
fn only_what_the_client_knows_is_offered() {
    let cases = [
        ("", "{\"capabilities\":{}}"),
        ("{}\0", "{\"capabilities\":{}}"),
        ("{\"capabilities\":{}}\0", "{\"capabilities\":{}}"),
        ("{\"capabilities\":{\"write_multiple\":false}}\0", "{\"capabilities\":{}}"),
        ("{\"capabilities\":{\"max_msg_fds\":1}}\0", "{\"capabilities\":{\"max_msg_fds\":16}}"),
        (
            "{\"other\":[1],\"capabilities\":{\"twin_socket\":{\"supported\":true},\"pgsizes\":4096}}\0",
            "{\"capabilities\":{\"pgsizes\":4096}}",
        ),
    ];
    for (text, expected) in cases {
        for minor in [0, 1, 9] {
            let mut peer = Peer::connected();
            let reply = peer.ask(VERSION, &version(minor, text.as_bytes())).unwrap();
            let expected: serde_json::Value = serde_json::from_str(expected).unwrap();
            assert_eq!(answer(&reply), expected, "{text}");
            peer.in_step();
        }
    }
}

#[test]
fn malformed_ones_are_refused_and_may_be_mended() {
    let deep = "[".repeat(10_000) + "\0";
    let cases: &[(&str, &[u8])] = &[
        ("no version", b""),
        ("half a version", b"\0\0\0"),
        ("no zero at the end", b"\0\0\0\0{}"),
        ("a zero too many", b"\0\0\0\0{}\0\0"),
        ("an empty text", b"\0\0\0\0\0"),
        ("not JSON", b"\0\0\0\0{\0"),
        ("not an object", b"\0\0\0\0[]x\0"),
        ("a list", b"\0\0\0\0[]\0"),
        ("a number", b"\0\0\0\x007\0"),
        ("not UTF-8", b"\0\0\0\0{\"\xff\":1}\0"),
        ("capabilities a list", b"\0\0\0\0{\"capabilities\":[7]}\0"),
        ("a number as text", b"\0\0\0\0{\"capabilities\":{\"max_msg_fds\":\"16\"}}\0"),
        ("a negative number", b"\0\0\0\0{\"capabilities\":{\"pgsizes\":-1}}\0"),
        ("a number as flag", b"\0\0\0\0{\"capabilities\":{\"pgsizes\":true}}\0"),
        ("no number", b"\0\0\0\0{\"capabilities\":{\"pgsizes\":false}}\0"),
        ("a fraction", b"\0\0\0\0{\"capabilities\":{\"pgsizes\":4096.5}}\0"),
        ("nothing as number", b"\0\0\0\0{\"capabilities\":{\"pgsizes\":null}}\0"),
        ("a flag as number", b"\0\0\0\0{\"capabilities\":{\"write_multiple\":1}}\0"),
    ];
    let deep = version(0, deep.as_bytes());
    let mut peer = Peer::connected();
    for (what, body) in cases.iter().copied().chain([("deeply nested", &deep[..])]) {
        assert_eq!(peer.ask(VERSION, body), Err(Errno::INVAL.raw_os_error() as u32), "{what}");
        assert!(!peer.server.negotiated());
    }
    peer.ask(VERSION, &version(0, b"{}\0")).unwrap();
    peer.in_step();
}

#[test]
fn a_text_that_is_too_long_is_refused() {
    let mut text = vec![b' '; 16 << 10];
    text[..2].copy_from_slice(b"{}");
    *text.last_mut().unwrap() = 0;
    Peer::connected().ask(VERSION, &version(0, &text)).unwrap();
    text.insert(2, b' ');
    let error = Err(Errno::TOOBIG.raw_os_error() as u32);
    assert_eq!(Peer::connected().ask(VERSION, &version(0, &text)), error);
}

#[test]
fn nothing_is_done_before() {
    let mut peer = Peer::connected();
    let proto = Err(Errno::PROTO.raw_os_error() as u32);
    assert_eq!(peer.ask(DEVICE_GET_INFO, &bytes![16_u32, 0_u32, 0_u32, 0_u32]), proto);
    assert_eq!(peer.ask(DEVICE_RESET, &[]), proto);
    assert_eq!(peer.target.calls, []);
    peer.ask(VERSION, &version(0, b"")).unwrap();
    peer.in_step();
}

#[test]
fn the_second_one_is_refused() {
    let mut peer = Peer::new();
    peer.refused("again", VERSION, &version(0, b"{}\0"), Errno::INVAL);
    peer.refused("another major", VERSION, &bytes![1_u16, 0_u16], Errno::INVAL);
}

#[test]
fn another_major_version_ends_the_connection() {
    let mut peer = Peer::connected();
    let id = peer.id();
    peer.send(&message(id, VERSION, 0, &bytes![1_u16, 0_u16]));
    assert!(matches!(peer.serve(), Err(Disconnect::Version)));
    let error = Errno::PROTONOSUPPORT.raw_os_error() as u32;
    assert_eq!(peer.only_reply(id, VERSION), Err(error));
}

#[test]
fn it_may_come_without_wish_for_a_reply() {
    let mut peer = Peer::connected();
    let id = peer.id();
    peer.send(&message(id, VERSION, NO_REPLY, &bytes![0_u16, 0_u16]));
    peer.serve().unwrap();
    peer.in_step();
}
