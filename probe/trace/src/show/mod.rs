//! Traces for people and for programs.

#[cfg(test)]
mod chrome;
mod json;
mod perfetto;
#[cfg(test)]
mod tests;
mod text;

pub use json::json;
pub use perfetto::Perfetto;
pub use text::Text;
