//! The points at which something happens in the device, and what is noted there.
