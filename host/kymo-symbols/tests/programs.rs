// SPDX-License-Identifier: MIT OR Apache-2.0
//! Small programs, compiled here: with debug information, stripped beside a debug file, position independent, inlined.
//! Skipped, visibly, where there is no compiler.

use std::path::{Path, PathBuf};
use std::process::Command;

use kymo_symbols::{Files, Frame, Mapping, Missing, Symbols, build_id_of};
use kymo_testing::{Random, skip_this};

const SOURCE: &str = "\
static volatile int sink;
static inline __attribute__((always_inline)) void inner(int by)
{
\tsink += by; /* line 4 */
}
__attribute__((noinline)) void outer(int by)
{
\tinner(by); /* line 8 */
\tsink++;
}
int main(void)
{
\touter(1);
\treturn 0;
}
";

/// Files of a folder, as if it were the machine's root.
struct Below(PathBuf);

impl Files for Below {
    fn read(&self, path: &Path) -> Option<Vec<u8>> {
        std::fs::read(self.0.join(path.strip_prefix("/").ok()?)).ok()
    }
}

fn run(command: &mut Command) -> Option<()> {
    let status = command.status().ok()?;
    assert!(status.success(), "{command:?}");
    Some(())
}

struct Built {
    dir: tempfile::TempDir,
}

impl Built {
    fn new(options: &[&str]) -> Option<Built> {
        let dir = tempfile::tempdir().expect("a folder");
        let (source, program) = (dir.path().join("step.c"), dir.path().join("step"));
        std::fs::write(&source, SOURCE).expect("writes");
        let mut cc = Command::new("cc");
        cc.args(options).arg("-O1").arg("-o").arg(&program).arg(&source);
        if run(&mut cc).is_none() {
            skip_this("no C compiler (cc)");
            return None;
        }
        Some(Built { dir })
    }

    fn program(&self) -> PathBuf {
        self.dir.path().join("step")
    }

    fn bytes(&self) -> Vec<u8> {
        std::fs::read(self.program()).expect("the program")
    }

    /// As the kernel maps its code, and the address of a function there.
    fn mapped(&self, function: &str) -> (Mapping, u64) {
        use object::{Object as _, ObjectSection as _, ObjectSymbol as _};
        let bytes = self.bytes();
        let file = object::File::parse(&*bytes).expect("an ELF file");
        let section = file.section_by_name(".text").expect("code");
        let (place, _) = section.file_range().expect("in the file");
        let offset = place & !4095;
        let symbol = file.symbols().find(|symbol| symbol.name() == Ok(function)).expect("a symbol");
        let start = 0x5555_0000_0000;
        let mapping =
            Mapping { start, end: start + 0x10_0000, offset, path: "/step".into(), build_id: build_id_of(&bytes) };
        (mapping, start + symbol.address() - section.address() + place - offset)
    }

    fn symbols(&self) -> Symbols<Below> {
        Symbols::new(Below(self.dir.path().to_owned()))
    }
}

fn names(frames: &[Frame]) -> Vec<&str> {
    frames.iter().map(|frame| frame.function.as_str()).collect()
}

#[test]
fn inlined_functions_and_lines() {
    for options in [
        &["-g", "-Wl,--build-id", "-fPIE", "-pie"][..],
        &["-g", "-Wl,--build-id", "-no-pie"],
        &["-g", "-gz=zlib", "-Wl,--build-id"],
    ] {
        let Some(built) = Built::new(options) else { return };
        let (mapping, address) = built.mapped("outer");
        // Somewhere in the function the inlined one stands.
        let frames = (0..32).filter_map(|at| built.symbols().find(&mapping, address + at, false).ok());
        let inlined = frames.into_iter().find(|frames| frames.len() == 2).unwrap_or_else(|| panic!("{options:?}"));
        assert_eq!(names(&inlined), ["inner", "outer"], "{options:?}");
        assert_eq!((inlined[0].line, inlined[1].line), (Some(4), Some(8)), "{inlined:?}");
        assert!(inlined[0].to_string().ends_with("inner at step.c:4"), "{}", inlined[0]);
    }
}

#[test]
fn a_stripped_program_beside_its_debug_file() {
    let Some(built) = Built::new(&["-g", "-Wl,--build-id"]) else { return };
    let (mapping, address) = built.mapped("outer");
    let id: String = mapping.build_id.iter().map(|byte| format!("{byte:02x}")).collect();
    let folder = built.dir.path().join("usr/lib/debug/.build-id").join(&id[..2]);
    std::fs::create_dir_all(&folder).expect("a folder");
    let debug = folder.join(format!("{}.debug", &id[2..]));
    let program = built.program();
    run(Command::new("objcopy").arg("--only-keep-debug").arg(&program).arg(&debug)).expect("objcopy");
    run(Command::new("strip").arg(&program)).expect("strip");
    let frames = built.symbols().find(&mapping, address, false).expect("lines");
    assert_eq!(frames.last().map(|frame| frame.function.as_str()), Some("outer"));
    assert!(frames.iter().all(|frame| frame.file.ends_with("step.c")), "{frames:?}");
    // The program itself may be gone: its debug file is enough.
    std::fs::remove_file(&program).expect("removes");
    assert_eq!(built.symbols().find(&mapping, address, false).expect("lines"), frames);
    // Neither: it says so.
    std::fs::remove_file(&debug).expect("removes");
    let missing = built.symbols().find(&mapping, address, false).unwrap_err();
    assert_eq!(missing, Missing::NoFile { path: "/step".into() });
}

#[test]
fn a_debug_file_by_the_name_in_the_program() {
    let Some(built) = Built::new(&["-g", "-Wl,--build-id=none"]) else { return };
    let (mapping, address) = built.mapped("outer");
    assert!(mapping.build_id.is_empty());
    let program = built.program();
    let debug = built.dir.path().join("step.dbg");
    run(Command::new("objcopy").arg("--only-keep-debug").arg(&program).arg(&debug)).expect("objcopy");
    run(Command::new("objcopy")
        .arg("--strip-all")
        .arg(format!("--add-gnu-debuglink={}", debug.display()))
        .arg(&program))
    .expect("objcopy");
    let frames = built.symbols().find(&mapping, address, false).expect("lines");
    assert_eq!(frames.last().map(|frame| frame.function.as_str()), Some("outer"));
    // Another file of that name is no debug file of this program.
    let mut bytes = std::fs::read(&debug).expect("the file");
    bytes.push(0);
    std::fs::write(&debug, bytes).expect("writes");
    assert_eq!(built.symbols().find(&mapping, address, false).unwrap_err(), Missing::NoSymbol { path: "/step".into() });
}

#[test]
fn another_build_is_refused() {
    let Some(built) = Built::new(&["-g", "-Wl,--build-id"]) else { return };
    let (mut mapping, address) = built.mapped("outer");
    mapping.build_id[0] ^= 1;
    let missing = built.symbols().find(&mapping, address, false).unwrap_err();
    assert!(matches!(&missing, Missing::OtherBuild { path, .. } if path == "/step"), "{missing}");
    assert!(missing.to_string().contains("another build"), "{missing}");
    let Some(without) = Built::new(&["-g", "-Wl,--build-id=none"]) else { return };
    let missing = without.symbols().find(&mapping, address, false).unwrap_err();
    assert!(matches!(missing, Missing::NoBuildId { .. }), "{missing}");
}

#[test]
fn a_deleted_file_is_found_by_its_build_id_only() {
    let Some(built) = Built::new(&["-g", "-Wl,--build-id"]) else { return };
    let (mut mapping, address) = built.mapped("outer");
    mapping.path = "/step (deleted)".into();
    // The same build is there again.
    assert!(built.symbols().find(&mapping, address, false).is_ok());
    mapping.build_id.clear();
    let missing = built.symbols().find(&mapping, address, false).unwrap_err();
    assert_eq!(missing, Missing::Deleted { path: "/step".into() });
}

#[test]
fn symbols_without_debug_information() {
    let Some(built) = Built::new(&["-g0", "-Wl,--build-id"]) else { return };
    let (mapping, address) = built.mapped("outer");
    let frames = built.symbols().find(&mapping, address + 3, false).expect("a symbol");
    assert_eq!(frames, [Frame { function: "outer".into(), offset: Some(3), ..Frame::default() }]);
    assert_eq!(frames[0].to_string(), "outer+0x3");
    // The first byte of a function is not where the call before it returns to.
    let before = built.symbols().find(&mapping, address, true);
    assert!(before.map_or(true, |frames| frames[0].function != "outer"));
    assert_eq!(built.symbols().find(&mapping, mapping.end, false), Err(Missing::NotMapped));
    run(Command::new("strip").arg(built.program())).expect("strip");
    let missing = built.symbols().find(&mapping, address, false).unwrap_err();
    assert_eq!(missing, Missing::NoSymbol { path: "/step".into() });
}

/// Any bytes, as a file: whatever is found, nothing panics.
struct Bytes(Vec<u8>);

impl Files for Bytes {
    fn read(&self, path: &Path) -> Option<Vec<u8>> {
        (path == Path::new("/step")).then(|| self.0.clone())
    }
}

#[test]
fn mutated_files() {
    let Some(built) = Built::new(&["-g", "-Wl,--build-id"]) else { return };
    let (mut mapping, address) = built.mapped("outer");
    mapping.build_id.clear();
    let whole = built.bytes();
    let mut random = Random(1);
    let (mut good, mut bad) = (0, 0);
    for _ in 0..400 {
        let mut bytes = whole.clone();
        for _ in 0..=random.below(24) {
            let at = random.below(bytes.len());
            bytes[at] = random.below(256) as u8;
        }
        if random.below(4) == 0 {
            bytes.truncate(random.below(whole.len()));
        }
        match Symbols::new(Bytes(bytes)).find(&mapping, address, false) {
            Ok(_) => good += 1,
            Err(_) => bad += 1,
        }
    }
    assert!(good > 50 && bad > 20, "{good} found, {bad} refused");
}
