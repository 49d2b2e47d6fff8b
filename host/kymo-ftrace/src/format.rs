//! Events of an event format file.
