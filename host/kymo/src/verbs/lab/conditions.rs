//! What is true of the machine while a test runs, as far as a result is doubtful by it.

use std::fs;

use kymo_lab::{Caveat, caveat};

/// Real-time throttling that a busy thread of a real-time class runs into, if there is any.
pub fn throttling() -> Option<Caveat> {
    let number = |name: &str| -> Option<i64> {
        fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok()?.trim().parse().ok()
    };
    let (runtime, period) = (number("sched_rt_runtime_us")?, number("sched_rt_period_us")?);
    if runtime < 0 || runtime >= period {
        return None;
    }
    let text = format!(
        "real-time threads get {:.1} of every {:.1} ms at most (sched_rt_runtime_us {runtime}, or the fair server of Linux 6.12 and later): \
         a busy thread is stopped for {:.1} ms",
        runtime as f64 / 1e3,
        period as f64 / 1e3,
        (period - runtime) as f64 / 1e3
    );
    Some(caveat("rt-throttling", &text))
}

/// CPUs that are online, as the kernel lists them.
pub fn online() -> Option<Vec<u32>> {
    let text = fs::read_to_string("/sys/devices/system/cpu/online").ok()?;
    crate::verbs::record::units::cpus(text.trim()).ok().map(|cpus| cpus.0)
}
