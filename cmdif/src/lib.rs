//! How a command travels: initialization segment, command queue, mailboxes.
