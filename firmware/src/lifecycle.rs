//! From power-on to a running function and back: ENABLE_HCA, the interface step sequence, INIT_HCA,
//! TEARDOWN_HCA, DISABLE_HCA.

use layouts::{
    DisableHcaIn, EnableHcaIn, InitHcaIn, QueryIssiOut, SetDriverVersionIn, SetIssiIn,
    TeardownHcaIn, TeardownHcaOut,
};

use crate::error::{self, CmdError};
use crate::{Cx, Firmware};

/// Where a function is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum State {
    /// After power-on, reset or DISABLE_HCA.
    #[default]
    Off,
    /// After ENABLE_HCA: pages and capabilities are exchanged.
    Enabled,
    /// After INIT_HCA: objects can be made.
    Ready,
    /// After TEARDOWN_HCA: pages go back.
    TornDown,
}

impl State {
    /// For people and the control socket.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Enabled => "enabled",
            Self::Ready => "ready",
            Self::TornDown => "torn_down",
        }
    }
}

/// The life cycle.
#[derive(Debug, Default)]
pub struct Life {
    /// Where the function is.
    pub state: State,
    /// Interface step sequence id that the driver chose: 0 or 1.
    pub issi: u16,
    /// What the driver calls itself (SET_DRIVER_VERSION).
    pub driver_version: String,
}

/// The interface step sequences that the device knows, a bit each.
const SUPPORTED_ISSI: u32 = 0b11;

/// ENABLE_HCA.
pub fn enable(fw: &mut Firmware, _cx: &Cx, input: EnableHcaIn<&[u8]>) -> Result<(), CmdError> {
    own_function(input.function_id())?;
    fw.life.state = State::Enabled;
    Ok(())
}

/// DISABLE_HCA: back to power-on. Pages that the driver did not take back stay the guest's
/// memory; the device forgets them.
pub fn disable(fw: &mut Firmware, cx: &Cx, input: DisableHcaIn<&[u8]>) -> Result<(), CmdError> {
    own_function(input.function_id())?;
    let kept = fw.pages.held();
    if kept > 0 {
        cx.probe.mistake("pages left behind", || {
            format!("DISABLE_HCA while the device holds {kept} pages of the guest")
        });
    }
    fw.power_on();
    Ok(())
}

/// QUERY_ISSI.
pub fn query_issi(
    fw: &mut Firmware,
    _cx: &Cx,
    mut out: QueryIssiOut<&mut [u8]>,
) -> Result<(), CmdError> {
    out.set_current_issi(fw.life.issi);
    out.set_supported_issi_dw0(SUPPORTED_ISSI);
    Ok(())
}

/// SET_ISSI.
pub fn set_issi(fw: &mut Firmware, _cx: &Cx, input: SetIssiIn<&[u8]>) -> Result<(), CmdError> {
    let issi = input.current_issi();
    if issi >= 32 || SUPPORTED_ISSI >> issi & 1 == 0 {
        return Err(error::BAD_ISSI.with(format!("ISSI {issi}")));
    }
    fw.life.issi = issi;
    Ok(())
}

/// INIT_HCA.
pub fn init(fw: &mut Firmware, _cx: &Cx, _input: InitHcaIn<&[u8]>) -> Result<(), CmdError> {
    fw.life.state = State::Ready;
    Ok(())
}

/// TEARDOWN_HCA: every object is gone afterwards, whether the driver destroyed it or not.
pub fn teardown(
    fw: &mut Firmware,
    cx: &Cx,
    input: TeardownHcaIn<&[u8]>,
    _out: TeardownHcaOut<&mut [u8]>,
) -> Result<(), CmdError> {
    // Profile 0 is the graceful one; the fast ones are not offered (force_teardown and
    // fast_teardown are 0).
    if input.profile() != 0 {
        return Err(error::BAD_VALUE.with(format!("profile {:#x}", input.profile())));
    }
    let left: Vec<String> = fw
        .object_counts()
        .into_iter()
        .filter(|(_, n)| *n > 0)
        .map(|(kind, n)| format!("{n} {kind}"))
        .collect();
    if !left.is_empty() {
        cx.probe.mistake("objects left behind", || {
            format!("TEARDOWN_HCA while there are objects: {}", left.join(", "))
        });
    }
    fw.forget_objects();
    fw.life.state = State::TornDown;
    Ok(())
}

/// SET_DRIVER_VERSION.
pub fn set_driver_version(
    fw: &mut Firmware,
    _cx: &Cx,
    input: SetDriverVersionIn<&[u8]>,
) -> Result<(), CmdError> {
    let text = input.0.get(0x10..0x50).unwrap_or_default();
    let text = text.split(|&b| b == 0).next().unwrap_or_default();
    fw.life.driver_version =
        String::from_utf8_lossy(text).chars().filter(|c| !c.is_control()).collect();
    log::debug!("driver {}", fw.life.driver_version);
    Ok(())
}

/// A command for a function that is not the one that it was sent to.
pub fn own_function(function_id: u16) -> Result<(), CmdError> {
    if function_id == 0 {
        Ok(())
    } else {
        Err(error::BAD_FUNCTION.with(format!("function {function_id}")))
    }
}
