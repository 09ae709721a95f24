//! Memory keys and their translations.
