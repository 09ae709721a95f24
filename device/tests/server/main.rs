//! A server in this process, asked through its sockets.

mod boot;
mod config_space;
mod control;
mod inspect;
mod lifecycle;
mod running;
mod slot;
mod trace;
