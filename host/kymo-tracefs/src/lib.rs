//! The files of tracefs [spec/kernel.md 1, 2, 3, 8].
