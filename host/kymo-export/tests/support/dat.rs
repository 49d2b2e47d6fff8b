// SPDX-License-Identifier: MIT OR Apache-2.0
//! A file of trace-cmd, put together: two CPUs with a page each, with the kernel's own format texts.

use std::io::Write as _;

use kymo_ftrace::format::{EventFormat, parse_event};

const HEADER_PAGE: &str = include_str!("../../../kymo-ftrace/tests/formats/header_page");
const SWITCH: &str = include_str!("../../../kymo-ftrace/tests/formats/sched.sched_switch.format");
const EXEC: &str = include_str!("../../../kymo-ftrace/tests/formats/sched.sched_process_exec.format");
const PRINT: &str = include_str!("../../../kymo-ftrace/tests/formats/ftrace.print.format");
const PAGE_BYTES: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    None,
    Zlib,
    Zstd,
}

/// Which form the file has.
pub struct Dat {
    pub version: u32,
    pub is_big_endian: bool,
    pub packing: Packing,
}

/// A value of a field.
enum Put<'v> {
    Number(i64),
    Text(&'v str),
}

impl Dat {
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = b"\x17\x08\x44tracing".to_vec();
        out.extend_from_slice(self.version.to_string().as_bytes());
        out.extend_from_slice(&[0, u8::from(self.is_big_endian), 8]);
        self.push(&mut out, PAGE_BYTES as u64, 4);
        if self.version == 6 { self.version_6(out) } else { self.version_7(out) }
    }

    fn push(&self, out: &mut Vec<u8>, value: u64, bytes: usize) {
        let big = value.to_be_bytes();
        let little = value.to_le_bytes();
        out.extend_from_slice(if self.is_big_endian { &big[8 - bytes..] } else { &little[..bytes] });
    }

    fn sized(&self, out: &mut Vec<u8>, bytes: &[u8]) {
        self.push(out, bytes.len() as u64, 8);
        out.extend_from_slice(bytes);
    }

    fn header_info(&self) -> Vec<u8> {
        let mut out = b"header_page\0".to_vec();
        self.sized(&mut out, HEADER_PAGE.as_bytes());
        out.extend_from_slice(b"header_event\0");
        self.sized(&mut out, b"# compressed entry header\n");
        out
    }

    fn ftrace_events(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.push(&mut out, 1, 4);
        self.sized(&mut out, PRINT.as_bytes());
        out
    }

    fn event_formats(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.push(&mut out, 1, 4);
        out.extend_from_slice(b"sched\0");
        self.push(&mut out, 2, 4);
        self.sized(&mut out, SWITCH.as_bytes());
        self.sized(&mut out, EXEC.as_bytes());
        out
    }

    fn symbols(&self, text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        self.push(&mut out, text.len() as u64, 4);
        out.extend_from_slice(text);
        out
    }

    fn cmdlines(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.sized(&mut out, b"7 a b\n9 c\n");
        out
    }

    fn version_6(&self, mut out: Vec<u8>) -> Vec<u8> {
        out.extend(self.header_info());
        out.extend(self.ftrace_events());
        out.extend(self.event_formats());
        out.extend(self.symbols(b"ffff0000 T start\n"));
        out.extend(self.symbols(b""));
        out.extend(self.cmdlines());
        self.push(&mut out, 2, 4);
        out.extend_from_slice(b"options  \0");
        for (id, data) in [(4, &b"[local] global\0"[..]), (5, b"Linux host 6.1 x86_64\0")] {
            self.push(&mut out, id, 2);
            self.push(&mut out, data.len() as u64, 4);
            out.extend_from_slice(data);
        }
        self.push(&mut out, 0, 2);
        out.extend_from_slice(b"flyrecord\0");
        let table = out.len() + 32;
        let first = table.next_multiple_of(PAGE_BYTES);
        for cpu in 0..2 {
            self.push(&mut out, (first + cpu * PAGE_BYTES) as u64, 8);
            self.push(&mut out, PAGE_BYTES as u64, 8);
        }
        out.resize(first, 0);
        (0..2).for_each(|cpu| out.extend(self.page(cpu)));
        out
    }

    fn version_7(&self, mut out: Vec<u8>) -> Vec<u8> {
        let name = match self.packing {
            Packing::None => "none",
            Packing::Zlib => "zlib",
            Packing::Zstd => "zstd",
        };
        out.extend_from_slice(format!("{name}\x001\0").as_bytes());
        let head = out.len();
        out.resize(head + 8, 0);
        let mut options = Vec::new();
        let sections = [
            (16, self.header_info()),
            (17, self.ftrace_events()),
            (18, self.event_formats()),
            (19, self.symbols(b"ffff0000 T start\n")),
            (21, self.cmdlines()),
        ];
        for (id, data) in sections {
            let offset = self.section(&mut out, id, &data, self.packing != Packing::None);
            self.push(&mut options, id, 2);
            self.push(&mut options, 8, 4);
            self.push(&mut options, offset as u64, 8);
        }
        let uname = b"Linux host 6.1 x86_64\0";
        self.push(&mut options, 5, 2);
        self.push(&mut options, uname.len() as u64, 4);
        options.extend_from_slice(uname);
        // The pages stand at the end, as they do in real files: the options' section is as long as it will be.
        let mut buffer = Vec::new();
        let pages: Vec<Vec<u8>> = (0..2).map(|cpu| self.packed_page(cpu)).collect();
        let buffer_bytes = 8 + 1 + 6 + 4 + 4 + 2 * 20;
        let begin = out.len() + 16 + options.len() + 6 + buffer_bytes + 6 + 8;
        self.push(&mut buffer, 0, 8);
        buffer.extend_from_slice(b"\0local\0");
        self.push(&mut buffer, PAGE_BYTES as u64, 4);
        self.push(&mut buffer, 2, 4);
        let mut at = begin;
        for (cpu, page) in pages.iter().enumerate() {
            self.push(&mut buffer, cpu as u64, 4);
            self.push(&mut buffer, at as u64, 8);
            // Without the number of pieces, where it is packed.
            let bytes = page.len() - if self.packing == Packing::None { 0 } else { 4 };
            self.push(&mut buffer, bytes as u64, 8);
            at += page.len();
        }
        self.push(&mut options, 3, 2);
        self.push(&mut options, buffer.len() as u64, 4);
        options.extend_from_slice(&buffer);
        self.push(&mut options, 0, 2);
        self.push(&mut options, 8, 4);
        self.push(&mut options, 0, 8);
        let offset = self.section(&mut out, 0, &options, false);
        let mut place = Vec::new();
        self.push(&mut place, offset as u64, 8);
        out[head..head + 8].copy_from_slice(&place);
        assert_eq!(out.len(), begin);
        pages.iter().for_each(|page| out.extend_from_slice(page));
        out
    }

    fn section(&self, out: &mut Vec<u8>, id: u64, data: &[u8], is_packed: bool) -> usize {
        let offset = out.len();
        let body = if is_packed { self.pack(data) } else { data.to_vec() };
        self.push(out, id, 2);
        self.push(out, u64::from(is_packed), 2);
        self.push(out, 0, 4);
        self.push(out, body.len() as u64, 8);
        out.extend(body);
        offset
    }

    /// Sizes of both, and the packed bytes.
    fn pack(&self, data: &[u8]) -> Vec<u8> {
        let packed = match self.packing {
            Packing::None => data.to_vec(),
            Packing::Zlib => {
                let mut to = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
                to.write_all(data).unwrap();
                to.finish().unwrap()
            }
            Packing::Zstd => ruzstd::encoding::compress_to_vec(data, ruzstd::encoding::CompressionLevel::Fastest),
        };
        let mut out = Vec::new();
        self.push(&mut out, packed.len() as u64, 4);
        self.push(&mut out, data.len() as u64, 4);
        out.extend(packed);
        out
    }

    fn packed_page(&self, cpu: usize) -> Vec<u8> {
        if self.packing == Packing::None {
            return self.page(cpu);
        }
        let mut out = Vec::new();
        self.push(&mut out, 1, 4);
        out.extend(self.pack(&self.page(cpu)));
        out
    }

    fn page(&self, cpu: usize) -> Vec<u8> {
        let (switch, exec, print) =
            (parse_event(SWITCH).unwrap(), parse_event(EXEC).unwrap(), parse_event(PRINT).unwrap());
        let switched = |prev: &'static str, pid, prio, state, next: &'static str, next_pid| {
            vec![
                ("prev_comm", Put::Text(prev)),
                ("prev_pid", Put::Number(pid)),
                ("prev_prio", Put::Number(prio)),
                ("prev_state", Put::Number(state)),
                ("next_comm", Put::Text(next)),
                ("next_pid", Put::Number(next_pid)),
                ("next_prio", Put::Number(120)),
            ]
        };
        let mut data = Vec::new();
        if cpu == 0 {
            self.record(&mut data, &switch, 0, 7, &switched("a b", 7, 120, 1, "idle", 0), "");
            let fields = [("pid", Put::Number(9)), ("old_pid", Put::Number(9))];
            self.record(&mut data, &exec, 500, 0, &fields, "/bin/true");
        } else {
            self.record(&mut data, &print, 0, 9, &[], "hello there\n");
            self.record(&mut data, &switch, 300, 9, &switched("c", 9, 98, 0, "a b", 7), "");
        }
        let mut out = Vec::new();
        self.push(&mut out, 1_000_000 * (cpu as u64 + 1), 8);
        // Twelve records were overwritten in front of CPU 0's page; the number stands behind the data.
        let flags = if cpu == 0 { 3 << 30 } else { 0 };
        self.push(&mut out, data.len() as u64 | flags, 8);
        out.extend(data);
        if cpu == 0 {
            self.push(&mut out, 12, 8);
        }
        out.resize(PAGE_BYTES, 0);
        out
    }

    /// A record whose text of variable length, if it has any, is `text`.
    fn record(
        &self,
        out: &mut Vec<u8>,
        format: &EventFormat,
        delta: u32,
        pid: i64,
        fields: &[(&str, Put<'_>)],
        text: &str,
    ) {
        use kymo_ftrace::format::FieldEncoding;
        let mut data = Vec::new();
        let mut put = |at: u16, bytes: u16, value: i64| {
            let end = usize::from(at) + usize::from(bytes);
            data.resize(data.len().max(end), 0);
            let mut number = Vec::new();
            self.push(&mut number, value as u64, bytes.into());
            data[usize::from(at)..end].copy_from_slice(&number);
        };
        let common = format.common;
        put(common.type_.offset, common.type_.size, format.id.into());
        common.pid.iter().for_each(|place| put(place.offset, place.size, pid));
        for field in &format.fields {
            match fields.iter().find(|(name, _)| *name == field.name) {
                Some((_, Put::Number(value))) => put(field.offset, field.size, *value),
                Some((_, Put::Text(text))) => {
                    (0..field.size).for_each(|at| {
                        put(field.offset + at, 1, text.as_bytes().get(usize::from(at)).copied().unwrap_or(0).into());
                    });
                }
                None => put(field.offset, field.size, 0),
            }
        }
        for field in &format.fields {
            let at = data.len();
            match field.kind {
                FieldEncoding::DataLoc { .. } => {
                    let mut word = Vec::new();
                    self.push(&mut word, (at | (text.len() + 1) << 16) as u64, 4);
                    data[usize::from(field.offset)..][..4].copy_from_slice(&word);
                    data.extend_from_slice(text.as_bytes());
                    data.push(0);
                }
                FieldEncoding::Rest { .. } => {
                    data.extend_from_slice(text.as_bytes());
                    data.push(0);
                }
                _ => {}
            }
        }
        data.resize(data.len().next_multiple_of(4), 0);
        let type_len = (data.len() / 4) as u32;
        assert!(type_len <= 28, "a longer record has another head");
        let head = if self.is_big_endian { type_len << 27 | delta } else { type_len | delta << 5 };
        self.push(out, head.into(), 4);
        out.extend(data);
    }
}
