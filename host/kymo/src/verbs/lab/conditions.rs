//! What is true of the machine before a test begins.

use std::fs;

/// CPUs that are online, as the kernel lists them.
pub fn online() -> Option<Vec<u32>> {
    let text = fs::read_to_string("/sys/devices/system/cpu/online").ok()?;
    crate::verbs::record::units::cpus(text.trim()).ok().map(|cpus| cpus.0)
}
