//! The container of traces and recordings.
