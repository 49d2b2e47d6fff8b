// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a target's bytes come from: a file, a pipe, a terminal, a TCP connection. A terminal gets its settings back.

use std::fs::File;
use std::io;
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use anyhow::{Context as _, bail};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::io::{Errno, read, write};
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcsetattr};

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(10);

/// What a read gave.
pub enum Got {
    /// So many bytes.
    Bytes(usize),
    /// None yet.
    Nothing,
    /// No more will come.
    End,
}

/// A line from a target.
pub struct Source {
    fd: OwnedFd,
    /// Of a regular file: when it was changed, nanoseconds since 1970.
    file_ns: Option<u64>,
    can_ask: bool,
    /// Of a terminal: as it was.
    before: Option<Termios>,
}

impl Source {
    /// Opens what `--from` names.
    pub fn open(from: &str, baud: Option<u32>) -> anyhow::Result<Source> {
        if let Some(address) = from.strip_prefix("tcp:") {
            return Source::connect(address);
        }
        let fd = if from == "-" {
            io::stdin().as_fd().try_clone_to_owned().context("cannot take standard input")?
        } else {
            open_line(from)?
        };
        let stat = fstat(&fd).with_context(|| format!("cannot look at {from}"))?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        if kind == FileType::Directory {
            bail!("{from} is a directory; --from takes a terminal, a pipe, a file or tcp:HOST:PORT");
        }
        let is_terminal = isatty(&fd);
        if baud.is_some() && !is_terminal {
            bail!("--baud is for terminals, and {from} is none");
        }
        let changed_ns = (stat.st_mtime as u64).saturating_mul(1_000_000_000).saturating_add(stat.st_mtime_nsec as u64);
        let file_ns = (kind == FileType::RegularFile).then_some(changed_ns);
        let mut source = Source { fd, file_ns, can_ask: false, before: None };
        if is_terminal {
            source.make_raw(from, baud)?;
        }
        Ok(source)
    }

    fn connect(address: &str) -> anyhow::Result<Source> {
        let address = if address.contains(':') { address.to_owned() } else { format!("localhost:{address}") };
        let found = address
            .to_socket_addrs()
            .with_context(|| format!("tcp:{address}: no such address; it is tcp:HOST:PORT"))?;
        let mut failed = None;
        for one in found {
            match TcpStream::connect_timeout(&one, CONNECT) {
                Ok(stream) => {
                    return Ok(Source { fd: stream.into(), file_ns: None, can_ask: true, before: None });
                }
                Err(error) => failed = Some(error),
            }
        }
        Err(failed.map_or_else(|| anyhow::anyhow!("no address"), Into::into))
            .with_context(|| format!("cannot connect to {address}; does something listen there?"))
    }

    /// Bytes as they are: no echo, no lines, no signals, eight bits.
    fn make_raw(&mut self, from: &str, baud: Option<u32>) -> anyhow::Result<()> {
        let settings = tcgetattr(&self.fd).with_context(|| format!("cannot read the settings of {from}"))?;
        let mut raw = settings.clone();
        raw.make_raw();
        if let Some(baud) = baud {
            raw.set_speed(baud)
                .with_context(|| format!("{from}: a speed of {baud} bits per second is not possible"))?;
        }
        self.before = Some(settings);
        self.can_ask = true;
        tcsetattr(&self.fd, OptionalActions::Flush, &raw).with_context(|| format!("cannot set {from}"))
    }

    /// Whether the bytes were there before: nothing is known of when they came.
    pub fn is_file(&self) -> bool {
        self.file_ns.is_some()
    }

    /// Bytes of a file; of all else it is not known how many come.
    pub fn bytes(&self) -> Option<u64> {
        let stat = rustix::fs::fstat(&self.fd).ok()?;
        self.file_ns.and(u64::try_from(stat.st_size).ok())
    }

    /// Of a file the one time that is known: when it was changed.
    pub fn file_ns(&self) -> Option<u64> {
        self.file_ns
    }

    /// Asks the target to say who it is. Nothing depends on it.
    pub fn ask(&self) {
        if self.can_ask {
            let _ = write(&self.fd, b"h");
        }
    }

    /// Bytes, after no more than `patience`.
    pub fn read(&mut self, bytes: &mut [u8], patience: Duration) -> anyhow::Result<Got> {
        let is_ready = self.is_file() || wait(self.fd.as_fd(), patience).context("cannot wait for the line")?;
        if !is_ready {
            return Ok(Got::Nothing);
        }
        match read(&self.fd, bytes) {
            Ok(0) => Ok(Got::End),
            Ok(count) => Ok(Got::Bytes(count)),
            Err(Errno::INTR | Errno::AGAIN) => Ok(Got::Nothing),
            // A terminal whose other end is gone.
            Err(Errno::IO) if self.before.is_some() => Ok(Got::End),
            Err(error) => Err(error).context("cannot read from the line"),
        }
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = tcsetattr(&self.fd, OptionalActions::Now, before);
        }
    }
}

/// A terminal is opened for writing, too, and does not become ours; nothing waits for a carrier.
fn open_line(from: &str) -> anyhow::Result<OwnedFd> {
    let flags = OFlags::NOCTTY | OFlags::CLOEXEC;
    let is_terminal = std::fs::metadata(from)
        .is_ok_and(|metadata| std::os::unix::fs::FileTypeExt::is_char_device(&metadata.file_type()));
    if is_terminal {
        let both = open(from, flags | OFlags::RDWR | OFlags::NONBLOCK, Mode::empty());
        return both.with_context(|| format!("cannot open {from}"));
    }
    // Of a named pipe this waits for who writes into it, as every reader of one does.
    Ok(File::open(from).with_context(|| format!("cannot open {from}"))?.into())
}

fn wait(fd: BorrowedFd<'_>, patience: Duration) -> Result<bool, Errno> {
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    let patience = patience.try_into().map_err(|_| Errno::INVAL)?;
    match poll(&mut fds, Some(&patience)) {
        Ok(count) => Ok(count > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error),
    }
}
