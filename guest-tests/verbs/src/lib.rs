//! Runs RDMA tools and rdma-core's own tests in a guest, and judges what comes of them.
//!
//! Python scripts (`guest/*.py`) run in the guest: they do what a plan says and tell each result
//! ([`Message`]); nothing is judged there. [`tools`] is a table of command lines and of what makes their
//! output good, [`suite`] a table of what each test of rdma-core came to, [`speed`] a comparison with soft-RoCE.
//! [`run`] boots a guest, follows it and gives [`Results`].
#![forbid(unsafe_code)]

mod guest;
pub mod programs;
pub mod report;
pub mod speed;
pub mod suite;
mod talk;
pub mod tools;

pub use guest::{Failure, Request, Results, run};
pub use talk::{Message, Outcome, Program, SuiteResult, ToolResult};
