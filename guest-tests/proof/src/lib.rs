//! Judges the guest's registrations against the device's tables.
