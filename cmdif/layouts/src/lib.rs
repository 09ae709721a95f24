//! Every structure that crosses the bus, as data: where each field is, how wide it is and what it
//! is called. Nothing here knows what a field means to the device.
//!
//! Names are those of the kernel's `include/linux/mlx5/mlx5_ifc.h` (bit structures) and
//! `device.h`/`qp.h` (plain C structures), so that anything here can be looked up there; the tests
//! of this crate prove every offset and width against the headers of the supported kernels.
#![forbid(unsafe_code)]

mod bits;
mod cap_type;
mod caps;
mod cmd;
mod codes;
mod command_queue;
mod cqe;
pub mod decode;
mod doorbell;
mod eqe;
mod event;
mod iseg;
mod layout;
mod mad;
mod mkey;
mod opcode;
mod qp_codes;
mod reg;
mod register;
mod registry;
mod status;
mod translation;
mod wqe;

pub use bits::{
    ArrayInfo, Element, FieldInfo, FieldValue, LayoutInfo, PartInfo, be64_at, bit_offset, get_bits,
    kernel_name, set_bits,
};

#[doc(hidden)]
pub mod __private {
    pub use pastey::paste;
}
pub use cap_type::*;
pub use caps::*;
pub use cmd::*;
pub use command_queue::*;
pub use cqe::*;
pub use doorbell::*;
pub use eqe::*;
pub use event::*;
pub use iseg::*;
pub use mad::*;
pub use mkey::*;
pub use opcode::*;
pub use qp_codes::*;
pub use reg::*;
pub use register::*;
pub use registry::all;
pub use status::*;
pub use translation::*;
pub use wqe::*;
