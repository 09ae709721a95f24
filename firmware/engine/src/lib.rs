//! Executes work requests.
