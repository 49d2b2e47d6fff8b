// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a small target sends over a line [spec/target.md]: frames found among bytes that were lost, flipped, torn or
//! doubled; records in their order, with what is missing, where; and the CTF trace of them. Has no clock, and opens
//! nothing.
//!
//! ```
//! let mut receiver = kymo_target::Receiver::new();
//! let mut trace = kymo_target::Trace::new([7; 16], "host");
//! for piece in [&b"bytes"[..], &b"from the line"[..]] {
//!     receiver.push(piece, None);
//!     for batch in receiver.take() {
//!         let packets = trace.packets(&batch, receiver.epochs());
//!         // append them to the stream file trace::file_name(batch.epoch)
//!         assert!(packets.is_empty());
//!     }
//! }
//! receiver.finish();
//! assert_eq!(receiver.stray_bytes(), 18);
//! ```

mod content;
mod ctf;
mod frame;
mod receiver;

pub use content::Record;
pub use ctf::{Trace, file_name};
pub use frame::{Frame, FrameKind, PAYLOAD_BYTES_MAX, Scanner};
pub use receiver::{Batch, Epoch, Receiver, TargetGap};
