//! Names of addresses [spec/exchange.md 5]: of the kernel by `.kallsyms` beside the trace, of programs by the modules
//! that they told of
//! and the symbol tables of these files.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use kymo_ctf::read::{Record, Trace, Value};
use kymo_export::export::stacks::{Naming, Space};
use object::{Object as _, ObjectSymbol as _};

/// Largest file whose symbols are read, bytes.
const FILE_MAX: u64 = 1 << 30;

/// Modules of a process at most.
const MODULES_MAX: usize = 4096;

/// All that is known.
#[derive(Default)]
pub struct Symbols {
    kernel: Table,
    modules: HashMap<(usize, u32), Vec<Module>>,
    files: HashMap<PathBuf, Table>,
}

/// A file in a process.
struct Module {
    base: u64,
    path: PathBuf,
}

/// Functions by address.
#[derive(Default)]
struct Table(Vec<Function>);

struct Function {
    address: u64,
    /// 0 where it is not known: up to the next one.
    bytes: u64,
    name: String,
}

impl Symbols {
    /// What lies beside the traces.
    pub fn of(traces: &[Trace]) -> Symbols {
        let texts = traces.iter().map(|trace| std::fs::read(Path::new(&trace.label).join(".kallsyms")));
        let kernel = texts.flatten().next().map(|text| Table::of_kernel(&String::from_utf8_lossy(&text)));
        Symbols { kernel: kernel.unwrap_or_default(), ..Symbols::default() }
    }
}

impl Naming for Symbols {
    fn learn(&mut self, record: &Record<'_>) {
        if record.event.name != "function:module" {
            return;
        }
        let (Some(Value::Int(base, _)), Some(Value::Text(path))) =
            (record.payload.get("base"), record.payload.get("path"))
        else {
            return;
        };
        let modules = self.modules.entry((record.trace, record.vpid.unwrap_or(0))).or_default();
        let base = i128::from(base) as u64;
        if modules.len() < MODULES_MAX && !modules.iter().any(|module| module.base == base) {
            modules.push(Module { base, path: PathBuf::from(path.as_ref()) });
            modules.sort_by_key(|module| module.base);
        }
    }

    fn name(&mut self, space: Space, address: u64) -> Option<String> {
        let Space::Process(trace, pid) = space else { return self.kernel.name(address) };
        let modules = self.modules.get(&(trace, pid))?;
        // A base may be the one of an executable that is not moved: 0.
        let module = modules[..modules.partition_point(|module| module.base <= address)].last()?;
        let table = self.files.entry(module.path.clone()).or_insert_with(|| Table::of_file(&module.path));
        table.name(address - module.base)
    }
}

impl Table {
    /// `ADDRESS TYPE NAME [MODULE]`, a line each.
    fn of_kernel(text: &str) -> Table {
        let function = |line: &str| {
            let mut words = line.split_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            let is_code = matches!(words.next()?, "t" | "T" | "w" | "W");
            let name = words.next()?.to_owned();
            is_code.then_some(Function { address, bytes: 0, name })
        };
        Table::new(text.lines().filter_map(function).collect())
    }

    /// The symbol tables of an ELF file; empty where it cannot be read.
    fn of_file(path: &Path) -> Table {
        let is_small = std::fs::metadata(path).is_ok_and(|metadata| metadata.len() <= FILE_MAX && metadata.is_file());
        let Some(bytes) = std::fs::read(path).ok().filter(|_| is_small) else { return Table::default() };
        let Ok(file) = object::File::parse(&*bytes) else { return Table::default() };
        let symbols = file.symbols().chain(file.dynamic_symbols());
        let code = symbols.filter(|symbol| symbol.kind() == object::SymbolKind::Text && symbol.is_definition());
        let function = |symbol: object::Symbol<'_, '_>| {
            Some(Function { address: symbol.address(), bytes: symbol.size(), name: demangled(symbol.name().ok()?) })
        };
        Table::new(code.filter_map(function).collect())
    }

    fn new(mut functions: Vec<Function>) -> Table {
        functions.sort_by(|one, other| (one.address, &one.name).cmp(&(other.address, &other.name)));
        functions.dedup_by_key(|function| function.address);
        Table(functions)
    }

    fn name(&self, address: u64) -> Option<String> {
        let function = self.0[..self.0.partition_point(|function| function.address <= address)].last()?;
        let offset = address - function.address;
        if function.bytes > 0 && offset >= function.bytes {
            return None;
        }
        Some(if offset == 0 { function.name.clone() } else { format!("{}+{offset:#x}", function.name) })
    }
}

/// A name as it was written in C++; others as they are.
fn demangled(name: &str) -> String {
    let symbol = name.starts_with("_Z").then(|| cpp_demangle::Symbol::new(name).ok()).flatten();
    symbol.and_then(|symbol| symbol.demangle().ok()).unwrap_or_else(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn kernel_addresses_have_names() {
        let table = Table::of_kernel("ffff0010 T b\nffff0000 t a [mod]\nffff0008 d data\nbad line\n");
        let name = |address| table.name(address);
        assert_eq!(name(0xffff_0000).as_deref(), Some("a"));
        assert_eq!(name(0xffff_0009).as_deref(), Some("a+0x9"));
        assert_eq!(name(0xffff_0010).as_deref(), Some("b"));
        assert_eq!(name(1), None);
    }
}
