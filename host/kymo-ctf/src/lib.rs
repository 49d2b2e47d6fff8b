//! CTF: packets to trace and back. No clock, no sockets.
