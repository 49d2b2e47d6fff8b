//! What a program and a collector share: shared memory, socket messages, event descriptions.
//!
//! The mirror of `emit/include/kymo/abi`, and the only crate that knows a byte offset. It opens nothing, maps
//! nothing and has no clock. The authority for every layout is `spec/`.

pub mod desc;
