//! Guest memory that arrives as file descriptors.
