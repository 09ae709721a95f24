//! Public reports about mlx5, each as something that can be run.
//!
//! A report is a directory beside this one: `about.toml` says what was reported and what a correct driver
//! and card promise, `plan.toml` what the card does wrong, `guest.py` what is done in the guest. What a
//! kernel does instead of what is promised is a finding in `about.toml`; a change in either direction is
//! a failure. `guest-tests/reactions` has the same form for what nobody reported: how the driver takes each
//! fault that the card can show.
//!
//! [`catalogue`] reads the reports, [`boot`](run) runs them in as few guests as their needs allow (`talk` is
//! what the guest says), [`judge`] compares, [`show`] is for people, [`shown`], [`page`] with its [`tables`], and [`junit`] for files.
#![forbid(unsafe_code)]

mod boot;
pub mod catalogue;
pub mod judge;
pub mod junit;
pub mod page;
mod relay;
pub mod show;
pub mod shown;
pub mod tables;
mod talk;

pub use boot::{Failure, Request, Results, run};
