//! Collector: user rings to packets.
