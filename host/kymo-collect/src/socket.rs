// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sequenced-packet sockets, never blocking: listen, connect, packets in and out, and who the peer is.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use kymo_abi::wire::BYTES_MAX;
use rustix::fs::Mode;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType,
};

/// Room for the longest message, and to see that one is longer.
pub(crate) const PACKET_ROOM: usize = BYTES_MAX + 8;

fn new() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

/// A listening socket at `path`.
pub(crate) fn listen(path: &Path) -> io::Result<OwnedFd> {
    let socket = new()?;
    only_for_its_user(&socket)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&socket, 4096)?;
    Ok(socket)
}

/// Before a bind: the name will be one that other users cannot connect or write to, whatever umask and directory.
pub(crate) fn only_for_its_user(socket: &OwnedFd) -> io::Result<()> {
    Ok(rustix::fs::fchmod(socket, Mode::RUSR | Mode::WUSR)?)
}

/// The next connection, if there is one.
pub(crate) fn accept(listener: &OwnedFd) -> io::Result<OwnedFd> {
    Ok(rustix::net::accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?)
}

/// Connects without waiting: `WouldBlock` when the other side's queue is full.
pub(crate) fn connect(path: &Path) -> io::Result<OwnedFd> {
    let socket = new()?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// The next packet, or `None` at the end of the connection. A packet that is too long arrives longer than
/// [`BYTES_MAX`].
pub(crate) fn receive(socket: impl AsFd, room: &mut [u8; PACKET_ROOM]) -> io::Result<Option<&[u8]>> {
    let (bytes, _) = rustix::net::recv(socket, &mut room[..], RecvFlags::DONTWAIT)?;
    Ok((bytes > 0).then_some(&room[..bytes]))
}

/// Sends one packet, with a descriptor beside it where there is one.
pub(crate) fn send(socket: impl AsFd, packet: &[u8], descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors: Vec<_> = descriptor.into_iter().collect();
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
    }
    rustix::net::sendmsg(socket, &[IoSlice::new(packet)], &mut control, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?;
    Ok(())
}

/// Who the other side is, by the kernel's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeerId {
    /// 0 for a process of a pid namespace that we do not see.
    pub pid: u32,
    pub uid: u32,
}

pub(crate) fn peer(socket: &OwnedFd) -> io::Result<PeerId> {
    let mut found = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut bytes = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: `found` is a ucred of `bytes` bytes and lives through the call; the descriptor is open [spec/session.md
    // 2].
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            std::ptr::from_mut(&mut found).cast(),
            &mut bytes,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(PeerId { pid: u32::try_from(found.pid).unwrap_or(0), uid: found.uid })
}
