// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;

/// A format with one field: its declaration and columns.
fn one(declaration: &str, size: u64) -> Result<Field, FormatError> {
    let text = format!(
        "name: e\nID: 7\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
         \tfield:{declaration};\toffset:8;\tsize:{size};\tsigned:1;\n\nprint fmt: \"x\", REC->x\n"
    );
    parse_event(&text).map(|mut event| event.fields.remove(0))
}

#[track_caller]
fn check(declaration: &str, size: u64, name: &str, ty: &str, kind: FieldEncoding) {
    let field = one(declaration, size).unwrap();
    assert_eq!((field.name.as_str(), field.ty.as_str(), field.kind), (name, ty, kind), "{declaration}");
    assert_eq!((field.offset, u64::from(field.size), field.signed), (8, size, true));
}

const fn number(bytes: u16, signed: bool) -> Element {
    Element::Number { bytes, signed }
}

#[test]
fn numbers() {
    for (declaration, size, ty) in [
        ("int x", 4, "int"),
        ("int x", 8, "int"),
        ("unsigned  long\tx", 8, "unsigned long"),
        ("bool x", 1, "bool"),
        ("enum hrtimer_mode x", 4, "enum hrtimer_mode"),
        ("enum xfs_group_type x", 1, "enum xfs_group_type"),
        ("__be32 x", 4, "__be32"),
        ("foo_t x", 2, "foo_t"),
    ] {
        check(declaration, size, "x", ty, FieldEncoding::Number);
        assert!(!one(declaration, size).unwrap().is_pointer());
    }
}

#[test]
fn pointers() {
    for (declaration, ty) in [
        ("const char * filename", "const char *"),
        ("const char *filename", "const char *"),
        ("const void* filename", "const void*"),
        ("const char *const * filename", "const char *const *"),
        ("const void *const filename", "const void *const"),
        ("struct iocb * * filename", "struct iocb * *"),
        ("void __seg_gs * filename", "void __seg_gs *"),
        ("char __attribute__((btf_type_tag(\"user\"))) * filename", "char *"),
        ("void (*filename)(void)", "void (*)(void)"),
        ("void (* filename)(struct timer_list *, void (*)(int))", "void (*)(struct timer_list *, void (*)(int))"),
    ] {
        check(declaration, 8, "filename", ty, FieldEncoding::Number);
        assert!(one(declaration, 8).unwrap().is_pointer(), "{declaration}");
    }
}

#[test]
fn arrays() {
    check("char x[16]", 16, "x", "char", FieldEncoding::Chars { count: 16 });
    check("char x[TASK_COMM_LEN]", 16, "x", "char", FieldEncoding::Chars { count: 16 });
    check("char x [ 4 ]", 4, "x", "char", FieldEncoding::Chars { count: 4 });
    check("const char x[3]", 3, "x", "const char", FieldEncoding::Chars { count: 3 });
    check("__u8 x[28]", 28, "x", "__u8", FieldEncoding::Array { count: 28, element_bytes: 1 });
    check("unsigned char x[ETH_ALEN]", 6, "x", "unsigned char", FieldEncoding::Array { count: 6, element_bytes: 1 });
    check("unsigned long x[6]", 48, "x", "unsigned long", FieldEncoding::Array { count: 6, element_bytes: 8 });
    // The size decides: on a 32-bit kernel, `long` has 4 bytes.
    check("unsigned long x[6]", 24, "x", "unsigned long", FieldEncoding::Array { count: 6, element_bytes: 4 });
    check("unsigned long x[NUM]", 32, "x", "unsigned long", FieldEncoding::Array { count: 4, element_bytes: 8 });
    check("u32 x[2][3]", 24, "x", "u32", FieldEncoding::Array { count: 6, element_bytes: 4 });
    check("foo_t x[4]", 16, "x", "foo_t", FieldEncoding::Array { count: 4, element_bytes: 4 });
    check("void * x[2]", 16, "x", "void *", FieldEncoding::Array { count: 2, element_bytes: 8 });
    // Nothing says how large one is.
    check("foo_t x[NUM]", 16, "x", "foo_t", FieldEncoding::Opaque);
    check("foo_t x[2]", 24, "x", "foo_t", FieldEncoding::Opaque);
    check("foo_t x[7]", 16, "x", "foo_t", FieldEncoding::Opaque);
    check("u64 x[NUM]", 12, "x", "u64", FieldEncoding::Opaque);
    check("struct foo x[2]", 16, "x", "struct foo", FieldEncoding::Opaque);
    check("u8 x[99999999999999999999]", 4, "x", "u8", FieldEncoding::Array { count: 4, element_bytes: 1 });
    check("u8 x[4294967295][4294967295]", 4, "x", "u8", FieldEncoding::Array { count: 4, element_bytes: 1 });
    check("u32 x[0]", 8, "x", "u32", FieldEncoding::Array { count: 2, element_bytes: 4 });
}

#[test]
fn dynamic_data() {
    for (ty, element) in [
        ("char", Element::Char),
        ("const char", Element::Char),
        ("unsigned char", number(1, false)),
        ("signed char", number(1, true)),
        ("u8", number(1, false)),
        ("__u8", number(1, false)),
        ("s16", number(2, true)),
        ("unsigned short", number(2, false)),
        ("unsigned", number(4, false)),
        ("unsigned int", number(4, false)),
        ("int", number(4, true)),
        ("__le32", number(4, false)),
        ("gfp_t", number(4, false)),
        ("pid_t", number(4, true)),
        ("long", number(8, true)),
        ("unsigned long", number(8, false)),
        ("long long unsigned int", number(8, false)),
        ("size_t", number(8, false)),
        ("u64", number(8, false)),
        ("const struct foo *", number(8, false)),
        ("enum foo", number(4, true)),
        ("struct foo", Element::Bytes),
        ("cpumask_t", Element::Bytes),
        ("__be32", Element::Bytes),
    ] {
        check(&format!("__data_loc {ty}[] x"), 4, "x", ty, FieldEncoding::DataLoc { element });
        check(&format!("__rel_loc {ty}[] x"), 4, "x", ty, FieldEncoding::RelLoc { element });
        check(&format!("{ty} x[]"), 0, "x", ty, FieldEncoding::Rest { element });
    }
}

#[test]
fn structures() {
    check("struct foo x", 8, "x", "struct foo", FieldEncoding::Opaque);
    check("union { u32 a; u64 b; } x", 8, "x", "union { u32 a; u64 b; }", FieldEncoding::Opaque);
    check("struct { char offset:4; } x", 1, "x", "struct { char offset:4; }", FieldEncoding::Opaque);
    check("u128 x", 16, "x", "u128", FieldEncoding::Opaque);
    check("u24 x", 3, "x", "u24", FieldEncoding::Opaque);
    check("int x", 0, "x", "int", FieldEncoding::Opaque);
}

#[test]
fn common_fields_by_name() {
    let text = "name: sched_switch\nID: 65535\nformat:\n\
        \tfield:unsigned char common_preempt_lazy_count;\toffset:0;\tsize:1;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:12;\tsize:4;\tsigned:1;\n\
        \tfield:unsigned short common_type;\toffset:2;\tsize:2;\tsigned:0;\n\
        \n\tfield:int x;\toffset:16;\tsize:4;\n";
    let event = parse_event(text).unwrap();
    let place = |offset, size| Some(ByteRange { offset, size });
    assert_eq!((event.name.as_str(), event.id, event.print.as_str()), ("sched_switch", 65535, ""));
    assert_eq!(event.common.pid, place(12, 4));
    assert_eq!(event.common.type_, place(2, 2).unwrap());
    assert_eq!((event.common.flags, event.common.preempt_count), (None, None));
    assert_eq!(event.fields.len(), 1);
    assert!(!event.fields[0].signed);
}

#[test]
fn the_print_format_may_hold_anything() {
    let text = "name: e\nID: 7\n\tfield:u16 common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        print fmt: \"a\nname: b\nID: x\n\tfield:broken\n\"\n";
    let event = parse_event(text).unwrap();
    assert_eq!(event.name, "e");
    assert_eq!(event.print, "\"a\nname: b\nID: x\n\tfield:broken\n\"");
}

/// The message of the error that `text` gives, with a good head in front.
#[track_caller]
fn check_error(text: &str, expect: &str) {
    let error = parse_event(text).unwrap_err().to_string();
    assert!(error.contains(expect), "{text:?} gives {error:?}, not {expect:?}");
}

#[test]
fn errors() {
    const TYPE: &str = "\tfield:u16 common_type;\toffset:0;\tsize:2;\tsigned:0;\n";
    check_error("", "no `name:`");
    check_error("name: \nID: 1\n", "no `name:`");
    check_error("name: e\n", "no `ID:`");
    check_error("name: e\nID: 1\n", "common_type");
    check_error("name: e\nID: 65536\n", "line 2: the event id `65536`");
    check_error("name: e\nID: -1\n", "line 2");
    for (line, expect) in [
        ("\tfield:int x;", "line 4: the field has no good `offset"),
        ("\tfield:int x;\toffset:-8;\tsize:4;", "`offset:"),
        ("\tfield:int x;\toffset:8;", "`size:"),
        ("\tfield:int x;\toffset:8;\tsize:0x4;", "`size:"),
        ("\tfield:int x;\toffset:8;\tsize:4;\tsigned:yes;", "`signed:"),
        ("\tfield:int;\toffset:8;\tsize:4;", "`int` is not a declaration"),
        ("\tfield:;\toffset:8;\tsize:4;", "`` is not"),
        ("\tfield:int 9x;\toffset:8;\tsize:4;", "not a declaration"),
        ("\tfield:int x];\toffset:8;\tsize:4;", "not a declaration"),
        ("\tfield:int é;\toffset:8;\tsize:4;", "not a declaration"),
        ("\tfield:int x;\toffset:65535;\tsize:1;", "ends at byte 65536"),
        ("\tfield:int x;\toffset:18446744073709551615;\tsize:18446744073709551615;", "ends at byte"),
        ("\tfield:__data_loc char[] x;\toffset:8;\tsize:8;", "`x` has 8 bytes"),
        ("\tfield:char common_pid[4];\toffset:8;\tsize:4;", "`common_pid` has 4 bytes"),
    ] {
        check_error(&format!("name: e\nID: 1\n{TYPE}{line}\n"), expect);
    }
    check_error(&" ".repeat(TEXT_BYTES_MAX + 1), "more than 1048576");
}

const HEADER_PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
    \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
    \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
    \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";

#[test]
fn page_formats() {
    let format = PageFormat { time_offset: 0, commit_offset: 8, commit_bytes: 8, data_offset: 16, data_bytes: 4080 };
    assert_eq!(parse_page_format(HEADER_PAGE), Ok(format));
    // Sub-buffers of 256 KiB.
    let large = HEADER_PAGE.replace("4080", "262128");
    assert_eq!(parse_page_format(&large), Ok(PageFormat { data_bytes: 262_128, ..format }));
    let narrow = HEADER_PAGE.replace("commit;\toffset:8;\tsize:8", "commit;\toffset:8;\tsize:4").replace(":16", ":12");
    assert_eq!(parse_page_format(&narrow), Ok(PageFormat { commit_bytes: 4, data_offset: 12, ..format }));
    for (from, to, expect) in [
        ("timestamp", "t", "field: timestamp"),
        ("commit", "c", "field: commit"),
        ("char data", "char d", "field: data"),
        ("offset:0;\tsize:8", "offset:0;\tsize:4", "`timestamp` has 4 bytes"),
        ("commit;\toffset:8;\tsize:8", "commit;\toffset:8;\tsize:2", "`commit` has 2 bytes"),
        ("4080", "4294967296", "line 4"),
        ("offset:16", "offset:65536", "ends at byte 65536"),
    ] {
        let error = parse_page_format(&HEADER_PAGE.replace(from, to)).unwrap_err().to_string();
        assert!(error.contains(expect), "{from} {to}: {error}");
    }
}
