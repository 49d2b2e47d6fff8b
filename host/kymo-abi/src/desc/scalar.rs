// SPDX-License-Identifier: MIT OR Apache-2.0
//! The types of one number [spec/event.md 1, 3.4]: one table, whose mirror is `emit/include/kymo/abi/types.h`.

/// What the bits of a number mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// An integer.
    Int {
        /// Two's complement.
        signed: bool,
        /// To show it in.
        base: Base,
    },
    /// IEEE 754.
    Float,
    /// 0 or 1.
    Bool,
}

/// The base in which people want to see an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Base {
    /// 2.
    Binary,
    /// 8.
    Octal,
    /// 10.
    Decimal,
    /// 16.
    Hexadecimal,
}

impl Base {
    /// Number of its digits.
    pub const fn radix(self) -> u8 {
        match self {
            Base::Binary => 2,
            Base::Octal => 8,
            Base::Decimal => 10,
            Base::Hexadecimal => 16,
        }
    }
}

const UNSIGNED: Form = Form::Int { signed: false, base: Base::Decimal };
const SIGNED: Form = Form::Int { signed: true, base: Base::Decimal };
const OCTAL: Form = Form::Int { signed: false, base: Base::Octal };
const HEX: Form = Form::Int { signed: false, base: Base::Hexadecimal };

macro_rules! scalars {
    ($($scalar:ident $name:literal $code:literal $bytes:literal $form:expr;)*) => {
        /// The type of one number.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "the names are the field types of spec/event.md 1")]
        pub enum Scalar {
            $($scalar = $code,)*
        }

        impl Scalar {
            /// All of them, in the order of their codes.
            pub const ALL: &[Scalar] = &[$(Scalar::$scalar),*];

            /// Its name in a declaration.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Scalar::$scalar => $name,)*
                }
            }

            /// Bytes of one number.
            pub const fn bytes(self) -> u32 {
                match self {
                    $(Scalar::$scalar => $bytes,)*
                }
            }

            /// What its bits mean.
            pub const fn form(self) -> Form {
                match self {
                    $(Scalar::$scalar => $form,)*
                }
            }
        }
    };
}

// Name in Rust, name in a declaration, code in a description, bytes in a record, form.
scalars! {
    U8 "u8" 1 1 UNSIGNED;
    U16 "u16" 2 2 UNSIGNED;
    U32 "u32" 3 4 UNSIGNED;
    U64 "u64" 4 8 UNSIGNED;
    I8 "i8" 5 1 SIGNED;
    I16 "i16" 6 2 SIGNED;
    I32 "i32" 7 4 SIGNED;
    I64 "i64" 8 8 SIGNED;
    X8 "x8" 9 1 HEX;
    X16 "x16" 10 2 HEX;
    X32 "x32" 11 4 HEX;
    X64 "x64" 12 8 HEX;
    F32 "f32" 13 4 Form::Float;
    F64 "f64" 14 8 Form::Float;
    Bool "bool" 15 1 Form::Bool;
    O32 "o32" 16 4 OCTAL;
}

impl Scalar {
    /// Its code in a description (`enum kymo_type`).
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The scalar with this code.
    pub fn by_code(code: u8) -> Option<Scalar> {
        Scalar::ALL.iter().copied().find(|scalar| scalar.code() == code)
    }

    /// Whether an enumeration may have this integer.
    pub const fn is_integer(self) -> bool {
        matches!(self.form(), Form::Int { .. })
    }
}

// Another size of float needs more than a row: kymo-ctf reads it, but filters and listings do not know it.
const _: () = {
    let mut at = 0;
    while at < Scalar::ALL.len() {
        let scalar = Scalar::ALL[at];
        assert!(!matches!(scalar.form(), Form::Float) || matches!(scalar.bytes(), 4 | 8), "a float has 4 or 8 bytes");
        assert!(scalar.code() < 32, "codes from 32 on are no numbers");
        at += 1;
    }
};
