// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions of addresses, as far as somebody knows them.

/// Functions of addresses. Whoever has files implements it; [`NoSymbols`] knows none.
pub trait Symbols {
    /// The kernel's function at an address, such as `hrtimer_wakeup+0x12`.
    fn kernel(&self, address: u64) -> Option<String>;
    /// The kernel's function so many bytes behind the begin of its text, as the events of interrupts off tell it.
    fn kernel_offset(&self, _offset: i64) -> Option<String> {
        None
    }
    /// A program's function and line at an address, as the process had it mapped at that time.
    fn user(&self, process: i32, address: u64, time: i64) -> Option<String>;
}

impl<S: Symbols + ?Sized> Symbols for Box<S> {
    fn kernel(&self, address: u64) -> Option<String> {
        (**self).kernel(address)
    }

    fn kernel_offset(&self, offset: i64) -> Option<String> {
        (**self).kernel_offset(offset)
    }

    fn user(&self, process: i32, address: u64, time: i64) -> Option<String> {
        (**self).user(process, address, time)
    }
}

/// Knows no function.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSymbols;

impl Symbols for NoSymbols {
    fn kernel(&self, _: u64) -> Option<String> {
        None
    }

    fn user(&self, _: i32, _: u64, _: i64) -> Option<String> {
        None
    }
}
