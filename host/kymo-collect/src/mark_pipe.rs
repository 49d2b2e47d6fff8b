// SPDX-License-Identifier: MIT OR Apache-2.0
//! The pipe behind `$KYMO_MARK` of a session without the kernel [spec/session.md 9]: each line that is written to it is
//! a mark.
//!
//! The collector holds both ends, and the path leads through its own /proc/PID/fd: while it lives nobody waits for a
//! reader, and when it is dead the path is gone, so that no program waits for one that never comes. A pipe in a
//! directory would have neither.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::PathBuf;

use rustix::pipe::PipeFlags;

use crate::MARK_BYTES_MAX;

/// What fits in while the collector does something else, bytes.
const PIPE_BYTES: usize = 1 << 20;

/// Both ends of the pipe, and what is not a whole line yet.
#[derive(Debug)]
pub(crate) struct MarkPipe {
    from: OwnedFd,
    to: OwnedFd,
    rest: Vec<u8>,
}

impl MarkPipe {
    pub(crate) fn new() -> io::Result<MarkPipe> {
        let (from, to) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // Where the limit of a user's pipes is reached it stays as it is: 64 KiB.
        let _ = rustix::pipe::fcntl_setpipe_size(&to, PIPE_BYTES);
        Ok(MarkPipe { from, to, rest: Vec::new() })
    }

    /// The path that programs of this user can write to.
    pub(crate) fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.to.as_raw_fd()).into()
    }

    /// The end that is readable when there is something.
    pub(crate) fn readable(&self) -> &OwnedFd {
        &self.from
    }

    /// Whether something was read that is no mark yet.
    pub(crate) fn has_rest(&self) -> bool {
        !self.rest.is_empty()
    }

    /// The next mark. A line is one; so is what no newline ends, once there is no more.
    pub(crate) fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let mut line: Vec<u8> = self.rest.drain(..=end).collect();
                line.pop();
                if !line.is_empty() {
                    return Some(line);
                }
                continue;
            }
            if self.rest.len() >= MARK_BYTES_MAX {
                return Some(std::mem::take(&mut self.rest));
            }
            let mut room = [0; MARK_BYTES_MAX];
            let left = MARK_BYTES_MAX - self.rest.len();
            match rustix::io::read(&self.from, &mut room[..left]) {
                Ok(bytes @ 1..) => self.rest.extend_from_slice(&room[..bytes]),
                _ => return (!self.rest.is_empty()).then(|| std::mem::take(&mut self.rest)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(pipe: &mut MarkPipe) -> Vec<String> {
        std::iter::from_fn(|| pipe.next()).map(|line| String::from_utf8(line).unwrap()).collect()
    }

    #[test]
    fn lines_are_marks_and_so_is_what_has_no_end() {
        let mut pipe = MarkPipe::new().unwrap();
        assert_eq!(all(&mut pipe), [""; 0]);
        for (written, expect) in
            [("one\n", &["one"][..]), ("a\n\nb\nc", &["a", "b", "c"]), ("\n\n", &[]), ("no end", &["no end"])]
        {
            std::fs::write(pipe.path(), written).unwrap();
            assert_eq!(all(&mut pipe), expect, "{written:?}");
        }
        std::fs::write(pipe.path(), "x".repeat(MARK_BYTES_MAX + 5)).unwrap();
        assert_eq!(all(&mut pipe).iter().map(String::len).collect::<Vec<_>>(), [MARK_BYTES_MAX, 5]);
    }
}
