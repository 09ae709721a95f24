//! Every structure that crosses the bus, as data: where each field is, how wide it is and what it
//! is called. Nothing here knows what a field means to the device.
//!
//! Names are those of the kernel's `include/linux/mlx5/mlx5_ifc.h` (bit structures) and
//! `device.h`/`qp.h` (plain C structures), so that anything here can be looked up there; the tests
//! of this crate prove every offset and width against the headers of the supported kernels.
#![forbid(unsafe_code)]

mod bits;
mod mkey;

pub use bits::{FieldInfo, FieldValue, LayoutInfo, bit_offset, get_bits, set_bits};

#[doc(hidden)]
pub mod __private {
    pub use pastey::paste;
}
pub use mkey::*;
