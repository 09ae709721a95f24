//! What a layer says about what happens, and who wants to know it.

use std::fmt;

use layouts::{LayoutInfo, layout};

use crate::Point;

/// What happens at a point: the structure in question and its bytes, and named values.
#[derive(Debug, Clone, Copy)]
pub struct Site<'a> {
    /// Where.
    pub point: Point,
    /// What `bytes` hold, if they are a structure.
    pub layout: Option<&'static LayoutInfo>,
    /// The structure, or data.
    pub bytes: &'a [u8],
    /// What is known beside them: `slot`, `qpn`, `key`, …
    pub values: &'a [(&'static str, Value)],
}

impl Site<'_> {
    /// The value of this name, if it is a number.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.values.iter().find(|(known, _)| *known == name).and_then(|(_, value)| match value {
            Value::Number(number) => Some(*number),
            Value::Word(_) => None,
        })
    }
}

/// A value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value {
    /// A number, an address or a flag.
    Number(u64),
    /// A name from a small set, as the reason for a refusal.
    Word(&'static str),
}

macro_rules! numbers {
    ($($ty:ty)*) => {$(
        impl From<$ty> for Value {
            fn from(number: $ty) -> Self {
                Self::Number(number.into())
            }
        }
    )*};
}
numbers!(u8 u16 u32 u64 bool);

impl From<usize> for Value {
    fn from(number: usize) -> Self {
        Self::Number(number as u64)
    }
}

impl From<&'static str> for Value {
    fn from(word: &'static str) -> Self {
        Self::Word(word)
    }
}

layout! {
    /// A run of guest memory. A translation's bytes are these, one after the other.
    Piece = "piece", 0x10 {
        address: u64 = 0x00[63:0],
        length: u64 = 0x08[63:0],
    }
}

/// Whoever wants to know what happens at the points that are armed: a trace.
pub trait Hook: fmt::Debug + Send {
    /// Something happens. `now` is the function's clock in ns.
    fn at(&self, now: u64, site: &Site<'_>);
}

/// Says what happens at a point, if the point is armed; nothing is computed otherwise.
///
/// ```
/// # use layouts::CqDoorbell;
/// # let (probe, words, uar) = (probe::Probe::new(), [0; 8], 3u32);
/// probe::at!(probe, Doorbell, (&CqDoorbell::INFO, &words), uar = uar, cqn = CqDoorbell(&words).cqn());
/// probe::at!(probe, DmaWrite, (None, &[1, 2, 3]), addr = 0x1000u64);
/// probe::at!(probe, Interrupt, vector = 5u16);
/// ```
#[macro_export]
macro_rules! at {
    ($probe:expr, $point:ident $(, $name:ident = $value:expr)* $(,)?) => {
        $crate::at!($probe, $point, (None, &[]) $(, $name = $value)*)
    };
    ($probe:expr, $point:ident, ($layout:expr, $bytes:expr) $(, $name:ident = $value:expr)* $(,)?) => {
        if $probe.armed($crate::Point::$point) {
            let _ = $probe.at(&$crate::Site {
                point: $crate::Point::$point,
                layout: ::core::convert::Into::into($layout),
                bytes: $bytes,
                values: &[$( (stringify!($name), $crate::Value::from($value)) ),*],
            });
        }
    };
}

/// The same at a point where something may go wrong: what is to happen instead, if anything.
///
/// ```
/// # let probe = probe::Probe::new();
/// if probe::ask!(probe, Interrupt, vector = 5u16) == Some(probe::Action::Lose) {
///     return;
/// }
/// ```
#[macro_export]
macro_rules! ask {
    ($probe:expr, $point:ident $(, $name:ident = $value:expr)* $(,)?) => {
        $crate::ask!($probe, $point, (None, &[]) $(, $name = $value)*)
    };
    ($probe:expr, $point:ident, ($layout:expr, $bytes:expr) $(, $name:ident = $value:expr)* $(,)?) => {
        if $probe.armed($crate::Point::$point) {
            $probe.at(&$crate::Site {
                point: $crate::Point::$point,
                layout: ::core::convert::Into::into($layout),
                bytes: $bytes,
                values: &[$( (stringify!($name), $crate::Value::from($value)) ),*],
            })
        } else {
            None
        }
    };
}
