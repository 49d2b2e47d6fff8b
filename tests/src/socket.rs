// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sockets as programs and sessions have them, for tests that say on them what nobody should.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sockopt};

/// An open connection to a program or a session.
pub struct Packets(OwnedFd);

impl Packets {
    /// Connects to a socket in the runtime directory. Nothing on it waits longer than a tenth of a second.
    pub fn connect(path: &Path) -> io::Result<Packets> {
        let fd = net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let patience = Some(Duration::from_millis(100));
        sockopt::set_socket_timeout(&fd, sockopt::Timeout::Send, patience)?;
        sockopt::set_socket_timeout(&fd, sockopt::Timeout::Recv, patience)?;
        net::connect(&fd, &SocketAddrUnix::new(path)?)?;
        Ok(Packets(fd))
    }

    /// Sends one packet, with a descriptor if there is one.
    pub fn send(&self, packet: &[u8], descriptor: Option<&OwnedFd>) -> io::Result<()> {
        use std::os::fd::AsFd as _;
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = net::SendAncillaryBuffer::new(&mut space);
        let descriptors: Vec<_> = descriptor.iter().map(|fd| fd.as_fd()).collect();
        if !descriptors.is_empty() {
            control.push(net::SendAncillaryMessage::ScmRights(&descriptors));
        }
        net::sendmsg(&self.0, &[io::IoSlice::new(packet)], &mut control, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// The next packet; empty at the end, an error when none comes.
    pub fn receive(&self) -> io::Result<Vec<u8>> {
        let mut buffer = vec![0; 1 << 16];
        let (got, _) = net::recv(&self.0, &mut buffer[..], RecvFlags::empty())?;
        buffer.truncate(got);
        Ok(buffer)
    }
}

/// A message of the wire protocol [spec/session.md 4]: type, length, content.
pub fn message(kind: u32, content: &[u8]) -> Vec<u8> {
    let mut message = kind.to_le_bytes().to_vec();
    message.extend_from_slice(&(content.len() as u32 + 8).to_le_bytes());
    message.extend_from_slice(content);
    message
}

/// Memory of `bytes` bytes with a descriptor, sealed against changes of its size where `sealed`.
pub fn memory(bytes: u64, sealed: bool) -> OwnedFd {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
    let fd = memfd_create("kymo-test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).expect("a memfd");
    ftruncate(&fd, bytes).expect("a size");
    if sealed {
        fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL).expect("seals");
    }
    fd
}
