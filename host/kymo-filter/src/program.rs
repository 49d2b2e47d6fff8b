// SPDX-License-Identifier: MIT OR Apache-2.0
//! The filter as a small program over the packed payload of a record [spec/filter.md 6]: a list of decisions that only
//! jump forward. Whoever runs one checks it first; then it ends, and reads nothing but the payload and its pool.

/// Bytes of an instruction.
pub const INSN_BYTES: usize = 16;
/// Instructions that a program may have.
pub const INSNS_MAX: usize = 250;
/// Bytes of constants that a program may have.
pub const POOL_BYTES_MAX: usize = 4096;
/// Jump target: the record is selected.
pub const ACCEPT: u8 = 255;
/// Jump target: it is not.
pub const REJECT: u8 = 254;
/// Variable fields that a walk may pass.
const WALK_MAX: u16 = 32;
/// Bytes of an entry of a walk: `u16` gap, `u16` bytes of an element.
const WALK_ENTRY_BYTES: usize = 4;

/// Operations.
pub mod op {
    #![allow(missing_docs, reason = "spec/filter.md 6.2 says what each does")]
    pub const ALWAYS: u8 = 1;
    pub const EQ: u8 = 2;
    pub const LT: u8 = 3;
    pub const LE: u8 = 4;
    pub const GT: u8 = 5;
    pub const GE: u8 = 6;
    pub const STR_EQ: u8 = 7;
    pub const STR_PREFIX: u8 = 8;
    pub const STR_SUFFIX: u8 = 9;
    pub const WALK: u8 = 10;
}

/// Types of what is read, and flags beside them.
pub mod ty {
    #![allow(missing_docs, reason = "spec/filter.md 6.3 says what each is")]
    pub const NONE: u8 = 0;
    pub const U8: u8 = 1;
    pub const U16: u8 = 2;
    pub const U32: u8 = 3;
    pub const U64: u8 = 4;
    pub const I8: u8 = 5;
    pub const I16: u8 = 6;
    pub const I32: u8 = 7;
    pub const I64: u8 = 8;
    pub const F32: u8 = 9;
    pub const F64: u8 = 10;
    pub const BOOL: u8 = 11;
    pub const LEN: u8 = 12;
    pub const STR: u8 = 13;
    pub const MASKED: u8 = 0x40;
    pub const BEHIND: u8 = 0x80;
    pub const FLAGS: u8 = MASKED | BEHIND;
}

/// One decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Insn {
    /// One of [`op`].
    pub op: u8,
    /// One of [`ty`], and its flags.
    pub ty: u8,
    /// Next instruction where the test holds.
    pub jump_true: u8,
    /// Next instruction where it does not.
    pub jump_false: u8,
    /// Bytes from the start of the payload, or from where the walk ended.
    pub offset: u16,
    /// Bytes from the start of the pool.
    pub aux: u16,
    /// What is compared with.
    pub imm: u64,
}

impl Insn {
    /// As in memory: little endian, in the order of the fields.
    pub fn to_bytes(self) -> [u8; INSN_BYTES] {
        let mut bytes = [0; INSN_BYTES];
        bytes[..4].copy_from_slice(&[self.op, self.ty, self.jump_true, self.jump_false]);
        bytes[4..6].copy_from_slice(&self.offset.to_le_bytes());
        bytes[6..8].copy_from_slice(&self.aux.to_le_bytes());
        bytes[8..].copy_from_slice(&self.imm.to_le_bytes());
        bytes
    }

    /// From memory.
    pub fn from_bytes(bytes: &[u8; INSN_BYTES]) -> Self {
        let [op, ty, jump_true, jump_false, o0, o1, a0, a1, imm @ ..] = *bytes;
        Self {
            op,
            ty,
            jump_true,
            jump_false,
            offset: u16::from_le_bytes([o0, o1]),
            aux: u16::from_le_bytes([a0, a1]),
            imm: u64::from_le_bytes(imm),
        }
    }
}

/// A program and its constants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The decisions, from the first on.
    pub insns: Vec<Insn>,
    /// Constants.
    pub pool: Vec<u8>,
    /// Bytes that every payload of the event has.
    pub payload_min_bytes: u16,
}

impl Program {
    /// Whether a record with this payload is selected.
    pub fn run(&self, payload: &[u8]) -> bool {
        run(&self.insns, &self.pool, payload)
    }

    /// See [`check`].
    pub fn check(&self) -> Result<(), ProgramError> {
        check(&self.insns, self.payload_min_bytes, &self.pool)
    }
}

/// Why a program is refused. Compile the filter again with the version of kymo that runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// Sizes.
    #[error(
        "the filter program has {insns} instructions and {pool} bytes of constants; 1 to 250 and up to 4096 are allowed"
    )]
    Size {
        /// Instructions.
        insns: usize,
        /// Bytes.
        pool: usize,
    },
    /// An instruction.
    #[error("instruction {at} of the filter program: {what}; compile the filter again")]
    Insn {
        /// Its position.
        at: usize,
        /// What is wrong with it.
        what: &'static str,
    },
}

/// Whether `insns` may be run on payloads of at least `payload_min_bytes` [spec/filter.md 6.4].
pub fn check(insns: &[Insn], payload_min_bytes: u16, pool: &[u8]) -> Result<(), ProgramError> {
    if insns.is_empty() || insns.len() > INSNS_MAX || pool.len() > POOL_BYTES_MAX {
        return Err(ProgramError::Size { insns: insns.len(), pool: pool.len() });
    }
    for at in 0..insns.len() {
        check_one(insns, at, payload_min_bytes, pool).map_err(|what| ProgramError::Insn { at, what })?;
    }
    Ok(())
}

fn check_one(insns: &[Insn], at: usize, payload_min_bytes: u16, pool: &[u8]) -> Result<(), &'static str> {
    let insn = insns[at];
    for target in [insn.jump_true, insn.jump_false] {
        if target != ACCEPT && target != REJECT && !(at + 1..insns.len()).contains(&target.into()) {
            return Err("it jumps backward or out of the program");
        }
    }
    let in_pool = |bytes: usize| usize::from(insn.aux) + bytes <= pool.len();
    let flags = insn.ty & ty::FLAGS;
    let bytes = match (insn.op, insn.ty & !ty::FLAGS) {
        (op::ALWAYS, ty::NONE) => {
            let is_plain = flags == 0 && (insn.offset, insn.aux, insn.imm) == (0, 0, 0);
            return if is_plain && insn.jump_true == insn.jump_false { Ok(()) } else { Err("it decides nothing") };
        }
        (op::WALK, ty::NONE) => return check_walk(insns, at, pool),
        (op::EQ..=op::GE, kind @ ty::U8..=ty::LEN) => {
            let is_masked = flags & ty::MASKED != 0;
            match is_masked {
                true if kind > ty::I64 => return Err("only integers have a mask"),
                true if !in_pool(8) => return Err("its mask lies outside of the constants"),
                false if insn.aux != 0 => return Err("it has no constant"),
                _ => width(kind),
            }
        }
        (op::STR_EQ..=op::STR_SUFFIX, ty::STR) => {
            if flags & ty::MASKED != 0 {
                return Err("text has no mask");
            }
            if insn.imm > u16::MAX.into() || !in_pool(insn.imm as usize) {
                return Err("its text lies outside of the constants");
            }
            2
        }
        _ => return Err("there is no such operation on such a type"),
    };
    if flags & ty::BEHIND != 0 {
        return check_behind(insns, at);
    }
    if usize::from(insn.offset) + bytes > payload_min_bytes.into() {
        return Err("it reads behind the shortest payload");
    }
    Ok(())
}

/// Only the walk in front of it leads to an instruction that reads behind a walk.
fn check_behind(insns: &[Insn], at: usize) -> Result<(), &'static str> {
    let before = at.checked_sub(1).map(|before| insns[before]);
    if before.is_none_or(|before| before.op != op::WALK) {
        return Err("it reads behind a walk, and there is none in front of it");
    }
    let leads_here = |insn: &Insn| usize::from(insn.jump_true) == at || usize::from(insn.jump_false) == at;
    if insns[..at - 1].iter().any(leads_here) {
        return Err("something jumps between it and its walk");
    }
    Ok(())
}

fn check_walk(insns: &[Insn], at: usize, pool: &[u8]) -> Result<(), &'static str> {
    let insn = insns[at];
    let is_next = usize::from(insn.jump_true) == at + 1 && insn.jump_true == insn.jump_false;
    if !is_next || insns.get(at + 1).is_none_or(|next| next.ty & ty::BEHIND == 0) {
        return Err("nothing reads behind its walk");
    }
    if !(1..=WALK_MAX).contains(&insn.offset) || insn.imm != 0 || insn.ty != ty::NONE {
        return Err("it walks over none or over too many fields");
    }
    let start = usize::from(insn.aux);
    let entries = pool.get(start..start + usize::from(insn.offset) * WALK_ENTRY_BYTES);
    let Some(entries) = entries else { return Err("its walk lies outside of the constants") };
    match entries.chunks_exact(WALK_ENTRY_BYTES).all(|entry| matches!(entry[2], 1 | 2 | 4 | 8) && entry[3] == 0) {
        true => Ok(()),
        false => Err("an element has 1, 2, 4 or 8 bytes"),
    }
}

/// Bytes of a type that is compared as a number.
fn width(kind: u8) -> usize {
    match kind {
        ty::U16 | ty::I16 | ty::LEN => 2,
        ty::U32 | ty::I32 | ty::F32 => 4,
        ty::U64 | ty::I64 | ty::F64 => 8,
        _ => 1,
    }
}

/// Runs a checked program. A record that cannot be decided, because its payload is too short, is selected: the
/// collector looks at it again. A program that was not checked ends too, and selects.
pub fn run(insns: &[Insn], pool: &[u8], payload: &[u8]) -> bool {
    let (mut at, mut base) = (0u8, 0usize);
    // Jumps go forward only, so no instruction runs twice.
    for _ in 0..=insns.len() {
        if at == ACCEPT || at == REJECT {
            return at == ACCEPT;
        }
        let Some(insn) = insns.get(usize::from(at)) else { return true };
        let outcome = match insn.op {
            op::ALWAYS => Some(true),
            op::WALK => walk(insn, pool, payload).map(|end| {
                base = end;
                true
            }),
            _ => decide(insn, pool, payload, if insn.ty & ty::BEHIND != 0 { base } else { 0 }),
        };
        let Some(outcome) = outcome else { return true };
        at = if outcome { insn.jump_true } else { insn.jump_false };
    }
    true
}

/// Where the last of the variable fields ends.
fn walk(insn: &Insn, pool: &[u8], payload: &[u8]) -> Option<usize> {
    let start = usize::from(insn.aux);
    let entries = pool.get(start..start + usize::from(insn.offset) * WALK_ENTRY_BYTES)?;
    entries.chunks_exact(WALK_ENTRY_BYTES).try_fold(0, |base, entry| {
        let at = base + usize::from(u16::from_le_bytes([entry[0], entry[1]]));
        let count = usize::from(u16::from_le_bytes(bytes(payload, at)?));
        Some(at + 2 + count * usize::from(u16::from_le_bytes([entry[2], entry[3]])))
    })
}

fn bytes<const N: usize>(from: &[u8], at: usize) -> Option<[u8; N]> {
    from.get(at..)?.first_chunk().copied()
}

fn decide(insn: &Insn, pool: &[u8], payload: &[u8], base: usize) -> Option<bool> {
    let at = base + usize::from(insn.offset);
    let order = match insn.ty & !ty::FLAGS {
        ty::STR => return text(insn, pool, payload, at),
        ty::F32 => f64::from(f32::from_le_bytes(bytes(payload, at)?)).partial_cmp(&f64::from_bits(insn.imm)),
        ty::F64 => f64::from_le_bytes(bytes(payload, at)?).partial_cmp(&f64::from_bits(insn.imm)),
        kind => {
            let value = integer(kind, payload, at)?;
            Some(if insn.ty & ty::MASKED != 0 {
                (value & u64::from_le_bytes(bytes(pool, insn.aux.into())?)).cmp(&insn.imm)
            } else if (ty::I8..=ty::I64).contains(&kind) {
                (value as i64).cmp(&(insn.imm as i64))
            } else {
                value.cmp(&insn.imm)
            })
        }
    };
    let Some(order) = order else { return Some(false) };
    Some(match insn.op {
        op::EQ => order.is_eq(),
        op::LT => order.is_lt(),
        op::LE => order.is_le(),
        op::GT => order.is_gt(),
        op::GE => order.is_ge(),
        _ => return None,
    })
}

/// An integer, extended to 64 bits by its sign.
fn integer(kind: u8, payload: &[u8], at: usize) -> Option<u64> {
    Some(match kind {
        ty::U8 => u8::from_le_bytes(bytes(payload, at)?).into(),
        ty::U16 | ty::LEN => u16::from_le_bytes(bytes(payload, at)?).into(),
        ty::U32 => u32::from_le_bytes(bytes(payload, at)?).into(),
        ty::U64 => u64::from_le_bytes(bytes(payload, at)?),
        ty::I8 => i8::from_le_bytes(bytes(payload, at)?) as i64 as u64,
        ty::I16 => i16::from_le_bytes(bytes(payload, at)?) as i64 as u64,
        ty::I32 => i32::from_le_bytes(bytes(payload, at)?) as i64 as u64,
        ty::I64 => i64::from_le_bytes(bytes(payload, at)?) as u64,
        ty::BOOL => u64::from(u8::from_le_bytes(bytes(payload, at)?) != 0),
        _ => return None,
    })
}

fn text(insn: &Insn, pool: &[u8], payload: &[u8], at: usize) -> Option<bool> {
    let length = usize::from(u16::from_le_bytes(bytes(payload, at)?));
    let text = payload.get(at + 2..at + 2 + length)?;
    let start = usize::from(insn.aux);
    let wanted = pool.get(start..start.checked_add(usize::try_from(insn.imm).ok()?)?)?;
    Some(match insn.op {
        op::STR_EQ => text == wanted,
        op::STR_PREFIX => text.starts_with(wanted),
        op::STR_SUFFIX => text.ends_with(wanted),
        _ => return None,
    })
}
