//! Whatever a client sends, the server neither panics nor hangs, and as long as the sizes in the
//! headers are right it answers each message that wants an answer, in order.

use std::os::fd::AsFd;

use device::vfio_user::Errno;
use proptest::prelude::*;
use rustix::event::{EventfdFlags, eventfd};

use crate::bytes;
use crate::peer::{NO_REPLY, Peer, REPLY, message};

/// Numbers that are likely to matter.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..20_u64,
        any::<u64>(),
        (0..64_u32).prop_map(|bit| 1 << bit),
        (0..64_u32).prop_map(|bit| (1_u64 << bit).wrapping_sub(1)),
        Just(0x1000),
        Just(32),
    ]
}

/// Bodies of any kind, many of them made of such numbers.
fn body() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        number().prop_map(|value| (value as u32).to_ne_bytes().to_vec()),
        number().prop_map(|value| value.to_ne_bytes().to_vec()),
    ];
    prop_oneof![
        4 => prop::collection::vec(word, 0..12).prop_map(|words| words.concat()),
        1 => prop::collection::vec(any::<u8>(), 0..200),
        1 => (1..24_u32, 0..40_u32, 0..70_u32, 0..70_u32).prop_map(|(flags, index, start, count)|
            bytes![20_u32, flags | 32, index % 6, start, count]),
        1 => (0..9_u32, number(), 1..64_u32).prop_map(|(region, offset, count)|
            bytes![offset % (1 << 26), region, count]),
    ]
}

#[derive(Debug, Clone)]
struct Sent {
    command: u16,
    flags: u32,
    body: Vec<u8>,
    descriptors: usize,
}

fn sent() -> impl Strategy<Value = Sent> {
    let flags = prop_oneof![8 => Just(0), 3 => Just(NO_REPLY), 1 => Just(REPLY), 1 => any::<u32>()];
    let descriptors = prop_oneof![6 => Just(0_usize), 2 => 1..4_usize, 1 => 0..40_usize];
    (prop_oneof![20 => 0..20_u16, 1 => any::<u16>()], flags, body(), descriptors)
        .prop_map(|(command, flags, body, descriptors)| Sent { command, flags, body, descriptors })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() })]

    #[test]
    fn messages_of_any_content_are_answered_in_order(
        messages in prop::collection::vec(sent(), 1..60),
        refuse in any::<bool>(),
        cuts in prop::collection::vec(1..90_usize, 1..20),
    ) {
        let mut peer = Peer::new();
        peer.target.refuse = refuse.then_some(Errno::BUSY);
        let event = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        let mut expected = Vec::new();
        let mut replies = Vec::new();
        let mut cuts = cuts.iter().cycle();
        for (id, Sent { command, flags, body, descriptors }) in (0_u16..).zip(messages) {
            let whole = message(id, command, flags, &body);
            if flags & NO_REPLY == 0 && flags & 0xf != REPLY {
                expected.push((id, command));
            }
            if descriptors > 0 {
                peer.send_with(&whole, &vec![event.as_fd(); descriptors]);
            } else {
                for part in whole.chunks(*cuts.next().unwrap()) {
                    peer.send(part);
                    if part.len() % 2 == 0 {
                        peer.serve().unwrap();
                    }
                }
            }
            if id % 8 == 7 {
                peer.serve().unwrap();
                replies.extend(peer.replies());
            }
        }
        // Reads of a megabyte fill the socket.
        peer.settle();
        replies.extend(peer.replies());
        let answered: Vec<_> = replies.iter().map(|reply| (reply.id, reply.command)).collect();
        prop_assert_eq!(answered, expected);
        for reply in &replies {
            prop_assert_eq!(reply.flags & 0xf, REPLY);
            prop_assert_eq!(reply.flags & 0x20 != 0, reply.error != 0);
        }
        peer.target.refuse = None;
        peer.in_step();
    }

    #[test]
    fn bytes_of_any_value_do_no_harm(
        parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..300), 1..40),
        negotiated in any::<bool>(),
    ) {
        let mut peer = if negotiated { Peer::new() } else { Peer::connected() };
        for part in parts {
            peer.send(&part);
            if peer.serve().is_err() {
                break;
            }
            peer.replies();
        }
    }
}
