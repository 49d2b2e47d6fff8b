// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules of CTF 1.8 and how each is broken.

use super::breaks::{Break, Edit};

const fn declare(name: &'static str, text: &'static str) -> Break {
    Break { name, edit: Edit::Declare(text) }
}

const fn replace(name: &'static str, from: &'static str, to: &'static str) -> Break {
    Break { name, edit: Edit::Replace(from, to) }
}

pub const BREAKS: &[Break] = &[
    // Words and values.
    declare("a comment is not closed", "/* open"),
    replace("a number is too large", "size = 64", "size = 18446744073709551616"),
    replace("an escape does not exist", "name = \"s", "name = \"\\q"),
    replace("a string is not closed", "name = \"s", "name = \"s\n"),
    declare("a character has no meaning", "@;"),
    replace("a semicolon is missing", "minor = 8;", "minor = 8"),
    replace("a semicolon is missing behind a part", "};\n};\n", "}\n};\n"),
    declare("a field is a keyword", "struct z1 { integer { size = 8; } event; };"),
    declare("a typedef is a keyword", "typedef integer { size = 8; } stream;"),
    declare("a structure is a keyword", "struct clock { integer { size = 8; } a; };"),
    declare("an enumeration is a keyword", "enum env : integer { size = 8; } { A };"),
    declare("a variant is a keyword", "variant variant { integer { size = 8; } a; };"),
    declare("a label is a keyword", "enum z2 : integer { size = 8; } { int };"),
    replace("signed in quotes", "signed = true", "signed = \"true\""),
    replace("a base in quotes", "base = 10", "base = \"10\""),
    replace("a byte order in quotes", "byte_order = le; base", "byte_order = \"le\"; base"),
    replace("the trace's byte order in quotes", "\tbyte_order = le;", "\tbyte_order = \"le\";"),
    replace("an encoding in quotes", "encoding = UTF8", "encoding = \"UTF8\""),
    // Types.
    replace("an integer without a size", "size = 8; ", ""),
    declare("an unused integer without a size", "typealias integer { signed = true; } := z3;"),
    replace("a size of 0", "size = 8;", "size = 0;"),
    replace("a negative size", "size = 32;", "size = -32;"),
    replace("a size that is text", "size = 32;", "size = \"32\";"),
    replace("signed is 2", "signed = false", "signed = 2"),
    replace("signed is a word", "signed = true", "signed = perhaps"),
    replace("an alignment of 3", "align = 8;", "align = 3;"),
    replace("an alignment of 0", "align = 8;", "align = 0;"),
    declare("an unused alignment of 12", "typealias integer { size = 8; align = 12; } := z4;"),
    declare("a structure's alignment of 12", "struct z5 { integer { size = 8; } a; } align(12);"),
    replace("a base of 12", "base = 10;", "base = 12;"),
    replace("a base of a word", "base = 10;", "base = dozen;"),
    declare("an unused base of 3", "typealias integer { size = 8; base = 3; } := z6;"),
    replace("a byte order of its own", "byte_order = le; base", "byte_order = pdp; base"),
    replace("an encoding of its own", "encoding = UTF8", "encoding = EBCDIC"),
    replace("a clock that is not declared", "map = clock.", "map = clock.no_"),
    replace("a float of no form", "mant_dig = 24", "mant_dig = 23"),
    declare("an unused float of no form", "typealias floating_point { exp_dig = 3; mant_dig = 9; } := z7;"),
    declare("an enumeration of a float", "enum z8 : floating_point { exp_dig = 8; mant_dig = 24; } { A };"),
    declare("an enumeration of text", "enum z9 : string { A };"),
    declare("an enumeration of a structure", "enum z33 : struct { integer { size = 8; } a; } { A };"),
    declare("an enumeration without labels", "enum z10 : integer { size = 8; } { };"),
    declare("a label that is a number", "enum z11 : integer { size = 8; } { 5 };"),
    declare("a label above its integer", "enum z12 : integer { size = 8; } { A = 256 };"),
    declare("a label below its integer", "enum z13 : integer { size = 8; } { A = -1 };"),
    declare("a label above its signed integer", "enum z14 : integer { size = 8; signed = true; } { A = 128 };"),
    declare("a range above its integer", "enum z15 : integer { size = 4; } { A = 3 ... 16 };"),
    declare("labels that count above their integer", "enum z16 : integer { size = 1; } { A, B, C };"),
    declare("a range backwards", "enum z17 : integer { size = 8; } { A = 5 ... 4 };"),
    declare("a member twice", "struct z18 { integer { size = 8; } a; integer { size = 8; } a; };"),
    declare("a structure in itself", "struct z19 { struct z19 a; };"),
    declare("an array of a negative length", "struct z20 { integer { size = 8; } a[-1]; };"),
    replace("a length that is not there", "};\n};\n", "\t\tinteger { size = 8; } y[nowhere];\n};\n};\n"),
    replace(
        "a length that comes later",
        "fields := struct {\n",
        "fields := struct {\n\t\tinteger { size = 8; } y[x];\n\t\tinteger { size = 8; } x;\n",
    ),
    replace(
        "a length that is text",
        "fields := struct {\n",
        "fields := struct {\n\t\tstring x;\n\t\tinteger { size = 8; } y[x];\n",
    ),
    replace(
        "a length that has a sign",
        "fields := struct {\n",
        "fields := struct {\n\t\tinteger { size = 8; signed = true; } x;\n\t\tinteger { size = 8; } y[x];\n",
    ),
    declare("a variant without options", "variant z21 { };"),
    declare("an option twice", "variant z22 { integer { size = 8; } a; integer { size = 8; } a; };"),
    replace(
        "an option without a label",
        "fields := struct {\n",
        "fields := struct {\n\t\tenum : integer { size = 8; } { A } x;\n\t\tvariant <x> { string B; } y;\n",
    ),
    replace("a variant without a tag", "fields := struct {\n", "fields := struct {\n\t\tvariant { string B; } y;\n"),
    replace(
        "a tag that is no enumeration",
        "fields := struct {\n",
        "fields := struct {\n\t\tinteger { size = 8; } x;\n\t\tvariant <x> { string B; } y;\n",
    ),
    declare("a type that is not declared", "typealias nowhere_t := z23;"),
    declare("a structure that is not declared", "struct z24 { struct nowhere a; };"),
    replace("a field of a type that is not declared", "fields := struct {\n", "fields := struct {\n\t\tnowhere_t y;\n"),
    declare("an alias twice", "typealias integer { size = 8; } := z25;\ntypealias integer { size = 8; } := z25;"),
    declare("a typedef twice", "typedef integer { size = 8; } z26;\ntypedef integer { size = 8; } z26;"),
    declare("a structure twice", "struct z27 { integer { size = 8; } a; };\nstruct z27 { integer { size = 8; } a; };"),
    declare("an enumeration twice", "enum z28 : integer { size = 8; } { A };\nenum z28 : integer { size = 8; } { A };"),
    declare("a variant twice", "variant z29 { string a; };\nvariant z29 { string a; };"),
    // Blocks.
    replace("version 3", "major = 1;", "major = 3;"),
    replace("a UUID of 15 bytes", "\tbyte_order =", "\tuuid = \"c0010203-0405-0607-0809-0a0b0c0d0e\";\n\tbyte_order ="),
    replace("a clock without a name", "\tname = clk", "\tdescribed = clk"),
    replace("a clock of frequency 0", "\tfreq = ", "\tfreq = 0; freq = "),
    declare("a clock twice", "clock { name = z30; };\nclock { name = z30; };"),
    declare("a stream twice", "stream { id = 777; };\nstream { id = 777; };"),
    declare(
        "an event of no stream",
        "event { name = \"z31\"; id = 5000; stream_id = 4711; fields := struct { string a; }; };",
    ),
    Break { name: "an event twice", edit: Edit::RepeatBlock("event {\n") },
    replace("a part of no name", "fields := struct {", "payload := struct {"),
    replace("a part of a stream of no name", "event.header := struct {", "event.payload := struct {"),
    replace("a part that is no structure", "stream {\n", "stream {\n\tevent.context := string;\n"),
    declare("a field outside of a structure", "integer { size = 8; } z32;"),
];
