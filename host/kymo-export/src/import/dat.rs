// SPDX-License-Identifier: MIT OR Apache-2.0
//! `trace.dat` of trace-cmd [spec/exchange.md 3]: what the file says of itself is in `file`, packed data in `unpack`
//! and `chunks`, pages of the other byte order in `swap`. Records are decoded by kymo-ftrace.

mod chunks;
mod file;
mod swap;
mod unpack;

use kymo_ctf::write::EnvValue;
use kymo_ftrace::format::{EventFormat, parse_event, parse_page_format};
use kymo_ftrace::page::Missed;
use kymo_ftrace::{Batch, Decoder, Naming};
use serde_json::json;

use self::chunks::Chunks;
use self::file::{Buffer, Content, DatFile, MAGIC};
use self::swap::Swap;
use super::format::{Format, Task};
use super::imported::{GoesOn, Imported, look};
use super::text;
use super::trace::{Clock, OWN_IDS, StreamKey, TraceWriter, tracer_env};
use crate::Error;

/// Events of a file at most.
const EVENTS_MAX: usize = 30_000;

/// ftrace's own events that are prints; the others keep the kernel's names, because LTTng has none for them.
const PRINTS: [&str; 2] = ["print", "raw_data"];

/// `trace.dat` of trace-cmd.
pub const FORMAT: Format = Format {
    name: "trace.dat",
    about: "trace-cmd, versions 6 and 7",
    is_marked: true,
    is: |bytes| bytes.starts_with(MAGIC),
    import,
    probe,
};

/// Makes a trace of the file.
fn import(task: &Task<'_>) -> Result<Imported, Error> {
    let bytes = task.bytes;
    let mut imported = Imported::default();
    let file = file::parse(bytes, &mut imported)?;
    if file.buffers.iter().all(|buffer| matches!(buffer.content, Content::Text(_))) && !file.buffers.is_empty() {
        return import_latency(&file, task, imported);
    }
    let mut writer = TraceWriter::create(task.dir, &bytes[..bytes.len().min(1 << 16)])?;
    let mut decoding = Decoding::new(&file, &mut writer, &mut imported, task.goes_on)?;
    for (position, buffer) in file.buffers.iter().enumerate() {
        decoding.buffer(&file, bytes, position as u32, buffer, &mut writer, &mut imported)?;
    }
    names(&file, &mut writer)?;
    if !file.kallsyms.is_empty() {
        writer.beside(".kallsyms", &file.kallsyms)?;
    }
    if !file.printk.is_empty() {
        writer.beside(".printk_formats", &file.printk)?;
    }
    (imported.records, imported.lost) = (writer.records, writer.lost);
    let about = json!({ "source": task.source, "format": format!("trace.dat {}", file.version), "buffers": file.buffers.len() });
    writer.finish(&file.clock(), env(&file), &about)?;
    Ok(imported)
}

/// Makes a trace of the text of a latency tracer.
fn import_latency(file: &DatFile, task: &Task<'_>, imported: Imported) -> Result<Imported, Error> {
    let about = json!({ "source": task.source, "format": format!("trace.dat {}, latency", file.version) });
    let texts =
        file.buffers.iter().map(|buffer| if let Content::Text(text) = &buffer.content { &text[..] } else { &[] });
    let text = texts.collect::<Vec<_>>().join(&b'\n');
    text::write(task, &text, imported, text::Origin { env: env(file), about })
}

/// From pages to records.
struct Decoding<'w> {
    goes_on: GoesOn<'w>,
    /// Bytes of pages in the file, and those of the CPUs that are done.
    file_bytes: f64,
    taken: f64,
    decoder: Decoder,
    swap: Option<Swap>,
    batch: Batch,
}

impl<'w> Decoding<'w> {
    fn new(
        file: &DatFile,
        writer: &mut TraceWriter,
        imported: &mut Imported,
        goes_on: GoesOn<'w>,
    ) -> Result<Decoding<'w>, Error> {
        let malformed = |what: String| Error::Malformed { format: "trace.dat", place: "header_page".to_owned(), what };
        let page =
            parse_page_format(&String::from_utf8_lossy(&file.header_page)).map_err(|e| malformed(e.to_string()))?;
        let mut decoder = Decoder::new(page);
        let mut formats: Vec<EventFormat> = Vec::new();
        for (system, text) in file.formats.iter().take(EVENTS_MAX) {
            match parse_event(&String::from_utf8_lossy(text)) {
                Ok(format) if format.id >= OWN_IDS => imported.leave_out("events with an id beyond 65000", 1),
                Ok(format) => {
                    let is_known = formats.iter().any(|known| known.id == format.id);
                    let own = system == "ftrace" && !PRINTS.contains(&format.name.as_str());
                    let naming = if own { Naming::Kernel } else { Naming::Lttng };
                    let class = decoder.add(system, &format, naming, None);
                    if !is_known {
                        writer.events.push(class);
                        formats.push(format);
                    }
                }
                Err(error) => {
                    imported.leave_out("events whose format cannot be read", 1);
                    imported.note(format!("{system}: {error}"));
                }
            }
        }
        let swap = file.is_big_endian.then(|| Swap::new(page, formats));
        let file_bytes = file.buffers.iter().flat_map(Buffer::cpus).map(|cpu| cpu.bytes as f64).sum::<f64>().max(1.0);
        Ok(Decoding { goes_on, file_bytes, taken: 0.0, decoder, swap, batch: Batch::default() })
    }

    fn buffer(
        &mut self,
        file: &DatFile,
        bytes: &[u8],
        position: u32,
        buffer: &Buffer,
        writer: &mut TraceWriter,
        imported: &mut Imported,
    ) -> Result<(), Error> {
        let Content::Pages(cpus) = &buffer.content else {
            imported.leave_out("buffers that hold text beside others with pages", 1);
            return Ok(());
        };
        for cpu in cpus {
            let key = (position, cpu.cpu);
            let mut chunks = Chunks::new(file, bytes, cpu);
            let begin = self.taken;
            let all = chunks.left();
            while let (before, Some(chunk)) = (chunks.left(), chunks.next()) {
                let pages = match chunk {
                    Ok(pages) => pages,
                    Err(what) => {
                        imported.leave_out("CPUs whose data is not whole", 1);
                        imported.note(format!(
                            "buffer {:?}, CPU {}: {what}; what stands before was taken",
                            buffer.name, cpu.cpu
                        ));
                        break;
                    }
                };
                let (first, of_chunk) = (begin + (all - before) as f64, (before - chunks.left()) as f64);
                for (at, page) in pages.chunks(buffer.page_bytes).enumerate() {
                    let of_pages = (at * buffer.page_bytes) as f64 / pages.len() as f64;
                    look(self.goes_on, writer.records, (first + of_chunk * of_pages) / self.file_bytes)?;
                    self.page(page, key, writer, imported)?;
                }
            }
            self.taken = begin + all as f64;
        }
        Ok(())
    }

    fn page(
        &mut self,
        page: &[u8],
        key: StreamKey,
        writer: &mut TraceWriter,
        imported: &mut Imported,
    ) -> Result<(), Error> {
        let Decoding { decoder, swap, batch, .. } = self;
        let swapped = swap.as_ref().map(|swap| swap.page(page));
        let bytes = match &swapped {
            Some(Some(bytes)) => bytes,
            Some(None) => {
                imported.leave_out("pages that make no sense", 1);
                return Ok(());
            }
            None => page,
        };
        let mut pending = match decoder.open(bytes) {
            Ok(pending) => pending,
            Err(error) => {
                imported.leave_out("pages that make no sense", 1);
                imported.note(format!("CPU {}: {error}", key.1));
                return Ok(());
            }
        };
        let mut missed = match pending.missed {
            Missed::None => 0,
            Missed::Some(count) => count,
            Missed::Unknown => {
                imported.note(format!(
                    "CPU {}: the file does not say how many records were lost at one place: counted as 1",
                    key.1
                ));
                1
            }
        };
        loop {
            batch.clear();
            let is_over = decoder.decode(&mut pending, batch);
            if missed > 0 && batch.records > 0 {
                writer.lost(key, std::mem::take(&mut missed), batch.begin)?;
            }
            if batch.records > 0 {
                writer.records(key, &batch.bytes, batch.records, batch.begin, batch.end)?;
            }
            if is_over {
                break;
            }
        }
        let outcome = pending.outcome;
        imported.leave_out("records of events that the file does not describe", outcome.unknown);
        imported.leave_out("records shorter than their event", outcome.short);
        if let Some(error) = outcome.damage {
            imported.leave_out("pages that end in damage", 1);
            imported.note(format!("CPU {}: {error}", key.1));
        }
        Ok(())
    }
}

/// Names of threads, as the file has saved them.
fn names(file: &DatFile, writer: &mut TraceWriter) -> Result<(), Error> {
    let text = String::from_utf8_lossy(&file.cmdlines).into_owned();
    let lines = text.lines().filter_map(|line| line.trim_start().split_once(' '));
    writer.thread_names(lines.filter_map(|(tid, name)| Some((tid.parse().ok()?, name))))
}

/// What the trace says of where it came from [spec/trace.md 5].
fn env(file: &DatFile) -> Vec<(String, EnvValue)> {
    let text = |key: &str, value: &str| (key.to_owned(), EnvValue::Text(value.to_owned()));
    let mut words = file.uname.split(' ');
    let (sysname, host, release) = (words.next(), words.next(), words.next());
    let mut env = vec![text("domain", "kernel"), text("sysname", sysname.filter(|s| !s.is_empty()).unwrap_or("Linux"))];
    host.iter().for_each(|host| env.push(text("hostname", host)));
    release.iter().for_each(|release| env.push(text("kernel_release", release)));
    words.next_back().iter().for_each(|machine| env.push(text("architecture", machine)));
    env.extend(tracer_env());
    env.push(text("recorded_by", &format!("trace-cmd {}", file.recorder)));
    env
}

impl DatFile {
    /// Its clock: of the first buffer with pages.
    fn clock(&self) -> Clock {
        let name =
            self.buffers.iter().map(|buffer| buffer.clock.as_str()).find(|name| !name.is_empty()).unwrap_or("local");
        let is_tsc = name.contains("tsc");
        let frequency_hz = match self.tsc2nsec {
            // ns = cycles * mult >> shift.
            Some((mult, shift)) if is_tsc && mult > 0 && shift < 64 => {
                ((1_000_000_000_u128 << shift) / u128::from(mult)).clamp(1, u128::from(u64::MAX)) as u64
            }
            _ => 1_000_000_000,
        };
        let offset_ns = self.date_ns.unwrap_or(0).saturating_add(self.shift_ns);
        Clock { name: name.to_owned(), frequency_hz, offset_ns, absolute: self.date_ns.is_some() }
    }
}

/// The parser, the unpacking, the turning and the decoding of all pages of any bytes: for fuzzing and its bounded twin.
fn probe(bytes: &[u8]) {
    let mut imported = Imported::default();
    let Ok(file) = file::parse(bytes, &mut imported) else { return };
    let Ok(page) = parse_page_format(&String::from_utf8_lossy(&file.header_page)) else { return };
    let (mut decoder, mut formats) = (Decoder::new(page), Vec::new());
    for (system, text) in file.formats.iter().take(EVENTS_MAX) {
        if let Ok(format) = parse_event(&String::from_utf8_lossy(text)) {
            decoder.add(system, &format, Naming::Lttng, None);
            formats.push(format);
        }
    }
    let swap = Swap::new(page, formats);
    let mut batch = Batch::default();
    for buffer in &file.buffers {
        let Content::Pages(cpus) = &buffer.content else { continue };
        for cpu in cpus {
            let mut chunks = Chunks::new(&file, bytes, cpu);
            while let Some(Ok(pages)) = chunks.next() {
                for page in pages.chunks(buffer.page_bytes) {
                    let turned = file.is_big_endian.then(|| swap.page(page)).flatten();
                    let Ok(mut pending) = decoder.open(turned.as_deref().unwrap_or(page)) else { continue };
                    loop {
                        batch.clear();
                        if decoder.decode(&mut pending, &mut batch) {
                            break;
                        }
                    }
                }
            }
        }
    }
}
