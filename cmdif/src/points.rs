//! What is told to the probe about a command on its way.

use layouts::{
    AccessRegisterIn, CommandMailbox, CommandQueueEntry, DeliveryStatus, MboxIn, Opcode, command,
};
use probe::{Action, Point, Probe, Site, ask, at};

/// Tells about the command in one slot.
#[derive(Clone, Copy)]
pub(crate) struct Points<'a> {
    pub(crate) probe: &'a Probe,
    pub(crate) slot: u8,
}

impl Points<'_> {
    /// A whole command has come.
    pub(crate) fn command(self, input: &[u8]) -> Option<Action> {
        ask!(self.probe, Command, (command(opcode(input)).0, input), slot = self.slot)
    }

    /// It has been carried out.
    pub(crate) fn reply(self, input: &[u8], output: &[u8]) -> Option<Action> {
        if !self.probe.armed(Point::Reply) {
            return None;
        }
        let opcode = opcode(input);
        // What is in a reply follows from these.
        let values = [
            ("slot", self.slot.into()),
            ("opcode", opcode.0.into()),
            ("op_mod", MboxIn(input).op_mod().into()),
            ("register_id", AccessRegisterIn(input).register_id().into()),
        ];
        let count = if opcode == Opcode::ACCESS_REG { values.len() } else { values.len() - 1 };
        self.probe.at(&Site {
            point: Point::Reply,
            layout: Some(command(opcode).1),
            bytes: output,
            values: values.get(..count).unwrap_or_default(),
        })
    }

    /// It could not be delivered; `entry` is what the slot held.
    pub(crate) fn undelivered(self, entry: &[u8], status: DeliveryStatus) {
        let info = &CommandQueueEntry::INFO;
        at!(self.probe, Reply, (info, entry), slot = self.slot, delivery = status.0);
    }

    /// A mailbox was read, or is written to `address`; `direction` is that of the message.
    pub(crate) fn mailbox(self, block: &[u8], address: u64, direction: &'static str) {
        let info = &CommandMailbox::INFO;
        at!(
            self.probe,
            Mailbox,
            (info, block),
            slot = self.slot,
            addr = address,
            direction = direction
        );
    }
}

fn opcode(input: &[u8]) -> Opcode {
    Opcode(MboxIn(input).opcode())
}
