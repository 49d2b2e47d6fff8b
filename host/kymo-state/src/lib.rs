//! The state of the machine as events [spec/kernel.md 6].
