// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a `trace.dat` says of itself, versions 6 and 7. Every size is held against the file before anything is done
//! with it.

use super::super::imported::Imported;
use super::unpack::Packing;
use crate::Error;

/// What such a file begins with.
pub const MAGIC: &[u8] = b"\x17\x08\x44tracing";

/// Pages of other sizes are none.
const PAGE_BYTES_MAX: u32 = 64 << 20;

/// Systems, events, CPUs, options: more than this of any is damage.
const COUNT_MAX: u32 = 1 << 16;

/// Sections of options that follow each other at most.
const SECTIONS_MAX: usize = 4096;

/// Ids of options.
mod id {
    pub const DONE: u16 = 0;
    pub const DATE: u16 = 1;
    pub const BUFFER: u16 = 3;
    pub const TRACECLOCK: u16 = 4;
    pub const UNAME: u16 = 5;
    pub const OFFSET: u16 = 7;
    pub const CPUCOUNT: u16 = 8;
    pub const VERSION: u16 = 9;
    pub const TRACEID: u16 = 11;
    pub const TSC2NSEC: u16 = 14;
    pub const HEADER_INFO: u16 = 16;
    pub const FTRACE_EVENTS: u16 = 17;
    pub const EVENT_FORMATS: u16 = 18;
    pub const KALLSYMS: u16 = 19;
    pub const PRINTK: u16 = 20;
    pub const CMDLINES: u16 = 21;
    pub const BUFFER_TEXT: u16 = 22;
}

/// A file.
#[derive(Debug, Default)]
pub struct DatFile {
    pub version: u32,
    pub is_big_endian: bool,
    pub page_bytes: usize,
    pub packing: Packing,
    pub header_page: Vec<u8>,
    /// Systems and format texts.
    pub formats: Vec<(String, Vec<u8>)>,
    pub kallsyms: Vec<u8>,
    pub printk: Vec<u8>,
    pub cmdlines: Vec<u8>,
    pub buffers: Vec<Buffer>,
    /// From 1970 to the origin of the file's clock, where the file says it.
    pub date_ns: Option<i64>,
    /// What is to be added to all times.
    pub shift_ns: i64,
    /// Multiplier and shift from cycles to ns.
    pub tsc2nsec: Option<(u32, u32)>,
    pub uname: String,
    pub recorder: String,
    /// Of version 6: the one clock.
    clock: String,
}

/// A ring buffer of the recorded system.
#[derive(Debug)]
pub struct Buffer {
    pub name: String,
    pub clock: String,
    pub page_bytes: usize,
    pub content: Content,
}

impl Buffer {
    /// The CPUs of which it has pages.
    pub fn cpus(&self) -> &[CpuData] {
        match &self.content {
            Content::Pages(cpus) => cpus,
            Content::Text(_) => &[],
        }
    }
}

/// What a buffer holds.
#[derive(Debug)]
pub enum Content {
    /// Pages, by CPU.
    Pages(Vec<CpuData>),
    /// Text of a latency tracer.
    Text(Vec<u8>),
}

/// Where the pages of a CPU are.
#[derive(Clone, Copy, Debug)]
pub struct CpuData {
    pub cpu: u32,
    pub offset: u64,
    /// In the file, packed or not.
    pub bytes: u64,
}

/// Bytes with a place in them. What is not there is an error of the section.
#[derive(Clone, Copy)]
pub struct Bytes<'f> {
    bytes: &'f [u8],
    at: usize,
    is_big_endian: bool,
    section: &'static str,
}

impl<'f> Bytes<'f> {
    fn new(bytes: &'f [u8], is_big_endian: bool, section: &'static str) -> Self {
        Bytes { bytes, at: 0, is_big_endian, section }
    }

    fn fault(&self, what: &str) -> Error {
        let place = format!("{}, byte {}", self.section, self.at);
        Error::Malformed { format: "trace.dat", place, what: what.to_owned() }
    }

    fn take(&mut self, count: u64) -> Result<&'f [u8], Error> {
        let rest = &self.bytes[self.at..];
        let found = usize::try_from(count).ok().and_then(|count| rest.get(..count));
        let found =
            found.ok_or_else(|| self.fault("the file ends here, or a size makes no sense; copy the file again"))?;
        self.at += found.len();
        Ok(found)
    }

    fn number<const N: usize>(&mut self) -> Result<u64, Error> {
        let bytes = self.take(N as u64)?;
        let fold = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
        Ok(if self.is_big_endian { bytes.iter().fold(0, fold) } else { bytes.iter().rev().fold(0, fold) })
    }

    fn u16(&mut self) -> Result<u16, Error> {
        Ok(self.number::<2>()? as u16)
    }

    fn u32(&mut self) -> Result<u32, Error> {
        Ok(self.number::<4>()? as u32)
    }

    fn u64(&mut self) -> Result<u64, Error> {
        self.number::<8>()
    }

    fn count(&mut self) -> Result<u32, Error> {
        let count = self.u32()?;
        if count > COUNT_MAX { Err(self.fault("a count beyond 65536")) } else { Ok(count) }
    }

    /// Text up to a NUL.
    fn text(&mut self) -> Result<String, Error> {
        let rest = &self.bytes[self.at..];
        let end = rest.iter().position(|byte| *byte == 0).ok_or_else(|| self.fault("a text without end"))?;
        self.at += end + 1;
        Ok(String::from_utf8_lossy(&rest[..end]).into_owned())
    }

    fn sized(&mut self) -> Result<&'f [u8], Error> {
        let size = self.u64()?;
        self.take(size)
    }
}

/// Reads all but the pages.
pub fn parse(bytes: &[u8], imported: &mut Imported) -> Result<DatFile, Error> {
    let mut head = Bytes::new(bytes, false, "head");
    head.take(MAGIC.len() as u64)?;
    let version = head.text()?;
    let version: u32 = version.parse().map_err(|_| head.fault("a version that is no number"))?;
    if !(6..=7).contains(&version) {
        let what =
            format!("version {version} of the format is not known; convert it: trace-cmd convert --file-version 7");
        return Err(head.fault(&what));
    }
    head.is_big_endian = head.take(1)? == [1];
    head.take(1)?;
    let page_bytes = head.u32()?;
    if !(64..=PAGE_BYTES_MAX).contains(&page_bytes) {
        return Err(head.fault("a page size that no machine has"));
    }
    let mut file =
        DatFile { version, is_big_endian: head.is_big_endian, page_bytes: page_bytes as usize, ..DatFile::default() };
    if version == 6 {
        file.version_6(head, imported)?
    } else {
        file.version_7(head, imported)?
    }
    if file.header_page.is_empty() {
        return Err(Error::Malformed {
            format: "trace.dat",
            place: "head".to_owned(),
            what: "the file does not say how pages begin; it was cut while it was written".to_owned(),
        });
    }
    Ok(file)
}

impl DatFile {
    fn version_6(&mut self, mut from: Bytes<'_>, imported: &mut Imported) -> Result<(), Error> {
        from.section = "version 6";
        self.header_info(&mut from)?;
        self.ftrace_events(&mut from)?;
        self.event_formats(&mut from)?;
        let bytes = from.u32()?;
        self.kallsyms = from.take(bytes.into())?.to_vec();
        let bytes = from.u32()?;
        self.printk = from.take(bytes.into())?.to_vec();
        self.cmdlines = from.sized()?.to_vec();
        let cpus = from.count()?;
        let buffer = self.buffer_6(&mut from, String::new(), cpus, imported)?;
        self.buffers.insert(0, buffer);
        Ok(())
    }

    /// A buffer's options, and its table of CPUs or its text.
    fn buffer_6(
        &mut self,
        from: &mut Bytes<'_>,
        name: String,
        mut cpus: u32,
        imported: &mut Imported,
    ) -> Result<Buffer, Error> {
        let mut kind = from.take(10)?;
        if kind.starts_with(b"options") {
            while let Some((id, data)) = option(from)? {
                if id == id::BUFFER {
                    let mut data = Bytes::new(data, self.is_big_endian, "option BUFFER");
                    let offset = data.u64()?;
                    let name = data.text()?;
                    let mut there = *from;
                    there.at = usize::try_from(offset).unwrap_or(usize::MAX).min(from.bytes.len());
                    let buffer = self.buffer_6(&mut there, name, cpus, imported);
                    match buffer {
                        Ok(buffer) => self.buffers.push(buffer),
                        Err(error) => imported.note(error.to_string()),
                    }
                } else if id == id::CPUCOUNT {
                    cpus = Bytes::new(data, self.is_big_endian, "option CPUCOUNT").count()?;
                } else {
                    self.option(id, data, imported)?;
                }
            }
            kind = from.take(10)?;
        }
        let clock = self.clock.clone();
        if kind.starts_with(b"latency") {
            let text = from.bytes[from.at..].to_vec();
            return Ok(Buffer { name, clock, page_bytes: self.page_bytes, content: Content::Text(text) });
        }
        if !kind.starts_with(b"flyrecord") {
            return Err(from.fault("neither options, flyrecord nor latency; the file was cut while it was written"));
        }
        let mut list = Vec::new();
        for cpu in 0..cpus {
            list.push(CpuData { cpu, offset: from.u64()?, bytes: from.u64()? });
        }
        Ok(Buffer { name, clock, page_bytes: self.page_bytes, content: Content::Pages(list) })
    }

    fn version_7(&mut self, mut head: Bytes<'_>, imported: &mut Imported) -> Result<(), Error> {
        let name = head.text()?;
        head.text()?;
        self.packing = Packing::by_name(&name).ok_or_else(|| {
            head.fault(&format!("packed by {name:?}; unpack it: trace-cmd convert --compression none"))
        })?;
        let mut offset = head.u64()?;
        for _ in 0..SECTIONS_MAX {
            if offset == 0 {
                return Ok(());
            }
            offset = match self.options_7(head, offset, imported) {
                Ok(offset) => offset,
                // What was read so far may do.
                Err(error) if !self.formats.is_empty() && !self.buffers.is_empty() => {
                    imported.leave_out("sections that are not whole", 1);
                    imported.note(error.to_string());
                    return Ok(());
                }
                Err(error) => return Err(error),
            };
        }
        Err(head.fault("options without end"))
    }

    /// Reads one section of options; where the next one is, 0 for none.
    fn options_7(&mut self, head: Bytes<'_>, offset: u64, imported: &mut Imported) -> Result<u64, Error> {
        let data = self.section(head, offset, id::DONE, "options")?;
        let mut options = Bytes::new(&data, self.is_big_endian, "options");
        loop {
            let id = options.u16()?;
            let bytes = options.u32()?;
            let data = options.take(bytes.into())?;
            if id == id::DONE {
                return if data.len() >= 8 { Bytes::new(data, self.is_big_endian, "options").u64() } else { Ok(0) };
            }
            self.option_7(head, id, data, imported)?;
        }
    }

    fn option_7(&mut self, head: Bytes<'_>, id: u16, data: &[u8], imported: &mut Imported) -> Result<(), Error> {
        let big = self.is_big_endian;
        let mut option = Bytes::new(data, big, "options");
        match id {
            id::HEADER_INFO => {
                let data = self.section(head, option.u64()?, id, "header info")?;
                self.header_info(&mut Bytes::new(&data, big, "header info"))
            }
            id::FTRACE_EVENTS => {
                let data = self.section(head, option.u64()?, id, "ftrace events")?;
                self.ftrace_events(&mut Bytes::new(&data, big, "ftrace events"))
            }
            id::EVENT_FORMATS => {
                let data = self.section(head, option.u64()?, id, "event formats")?;
                self.event_formats(&mut Bytes::new(&data, big, "event formats"))
            }
            id::KALLSYMS | id::PRINTK => {
                let data = self.section(head, option.u64()?, id, "symbols")?;
                let mut data = Bytes::new(&data, big, "symbols");
                let bytes = data.u32()?;
                let text = data.take(bytes.into())?.to_vec();
                *(if id == id::KALLSYMS { &mut self.kallsyms } else { &mut self.printk }) = text;
                Ok(())
            }
            id::CMDLINES => {
                let data = self.section(head, option.u64()?, id, "command lines")?;
                self.cmdlines = Bytes::new(&data, big, "command lines").sized()?.to_vec();
                Ok(())
            }
            id::BUFFER => self.buffer_7(option),
            id::BUFFER_TEXT => {
                let (offset, name, clock) = (option.u64()?, option.text()?, option.text()?);
                let content = Content::Text(self.section(head, offset, id, "latency text")?);
                self.buffers.push(Buffer { name, clock, page_bytes: self.page_bytes, content });
                Ok(())
            }
            _ => self.option(id, data, imported),
        }
    }

    fn buffer_7(&mut self, mut option: Bytes<'_>) -> Result<(), Error> {
        option.u64()?;
        let (name, clock) = (option.text()?, option.text()?);
        let page_bytes = option.u32()?;
        if !(64..=PAGE_BYTES_MAX).contains(&page_bytes) {
            return Err(option.fault("a page size that no buffer has"));
        }
        let count = option.count()?;
        let mut cpus = Vec::new();
        for _ in 0..count {
            cpus.push(CpuData { cpu: option.u32()?, offset: option.u64()?, bytes: option.u64()? });
        }
        self.buffers.push(Buffer { name, clock, page_bytes: page_bytes as usize, content: Content::Pages(cpus) });
        Ok(())
    }

    /// The data of a section of version 7, unpacked.
    fn section(&self, mut head: Bytes<'_>, offset: u64, id: u16, name: &'static str) -> Result<Vec<u8>, Error> {
        head.section = name;
        head.at = usize::try_from(offset).unwrap_or(usize::MAX).min(head.bytes.len());
        let found = head.u16()?;
        let flags = head.u16()?;
        head.u32()?;
        let bytes = head.u64()?;
        if found != id {
            return Err(head.fault(&format!("section {found} stands where section {id} should be")));
        }
        let data = head.take(bytes)?;
        if flags & 1 == 0 {
            return Ok(data.to_vec());
        }
        let mut data = Bytes::new(data, self.is_big_endian, name);
        let (packed, unpacked) = (data.u32()?, data.u32()?);
        let bytes = data.take(packed.into())?;
        self.packing.unpack(bytes, unpacked as usize).map_err(|what| data.fault(&what))
    }

    fn header_info(&mut self, from: &mut Bytes<'_>) -> Result<(), Error> {
        from.text()?;
        self.header_page = from.sized()?.to_vec();
        from.text()?;
        from.sized()?;
        Ok(())
    }

    fn ftrace_events(&mut self, from: &mut Bytes<'_>) -> Result<(), Error> {
        for _ in 0..from.count()? {
            let text = from.sized()?.to_vec();
            self.formats.push(("ftrace".to_owned(), text));
        }
        Ok(())
    }

    fn event_formats(&mut self, from: &mut Bytes<'_>) -> Result<(), Error> {
        for _ in 0..from.count()? {
            let system = from.text()?;
            for _ in 0..from.count()? {
                let text = from.sized()?.to_vec();
                self.formats.push((system.clone(), text));
            }
        }
        Ok(())
    }

    fn option(&mut self, id: u16, data: &[u8], imported: &mut Imported) -> Result<(), Error> {
        let text = || String::from_utf8_lossy(data).trim_end_matches('\0').trim().to_owned();
        match id {
            // us between the file's clock and 1970.
            id::DATE => self.date_ns = Some(number(&text()).saturating_mul(1000)),
            id::OFFSET => self.shift_ns = self.shift_ns.saturating_add(number(&text())),
            id::TRACECLOCK => {
                let text = text();
                let chosen = text.split(['[', ']']).nth(1).unwrap_or("local");
                self.clock = chosen.to_owned();
            }
            id::UNAME => self.uname = text(),
            id::VERSION => self.recorder = text(),
            id::TSC2NSEC => {
                let mut data = Bytes::new(data, self.is_big_endian, "option TSC2NSEC");
                self.tsc2nsec = Some((data.u32()?, data.u32()?));
            }
            id::TRACEID | id::CPUCOUNT => {}
            _ => imported.leave_out("options (CPU statistics, hooks, guests, process maps)", 1),
        }
        Ok(())
    }
}

/// The next option of version 6; none at their end.
fn option<'f>(from: &mut Bytes<'f>) -> Result<Option<(u16, &'f [u8])>, Error> {
    let id = from.u16()?;
    if id == id::DONE {
        return Ok(None);
    }
    let bytes = from.u32()?;
    Ok(Some((id, from.take(bytes.into())?)))
}

/// A number in decimal, or hexadecimal with `0x`; 0 where it is none.
fn number(text: &str) -> i64 {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
    let value = match digits.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).map_or(0, |value| value as i64),
        None => digits.parse().unwrap_or(0),
    };
    value.wrapping_mul(sign)
}
