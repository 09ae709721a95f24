//! Builds the guest and starts QEMU.
