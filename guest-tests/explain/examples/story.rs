//! Tells a story again: `story GUEST-FILE [CARD-TRACE]`; with ALL=1, every function.

use std::error::Error;
use std::{env, fs, io};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let guest = fs::read(arguments.next().ok_or("usage: story GUEST-FILE [CARD-TRACE]")?)?;
    let trace = arguments.next().map(fs::read).transpose()?;
    let story = explain::Story::new(&guest, trace.as_deref())?;
    let show = explain::Show { colour: false, everything: env::var_os("ALL").is_some() };
    explain::tree(&story, show, &mut io::stdout())?;
    Ok(())
}
