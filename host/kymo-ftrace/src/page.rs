//! Ring-buffer pages.
