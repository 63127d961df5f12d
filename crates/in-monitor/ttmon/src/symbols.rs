//! Resolves addresses of machine code to file, function and line, from the debug information or the symbols of a program or library.
//!
//! A file is opened only if no other user can have prepared it, and used only if its build id is the expected one.

mod demangle;
#[cfg(test)]
mod tests;

use std::cell::LazyCell;
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use addr2line::gimli::{self, EndianSlice, RunTimeEndian, SectionId};
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSection, ObjectSymbol, ReadCache, SymbolKind};
use ttmon_model::stack::{NativeFrame, SourceLine};

/// Maximum debug information of one file that is read into memory. For a larger file only the symbols are used.
const DEBUG_BYTES_MAX: u64 = 512 << 20;
/// Maximum number of cached addresses.
const KNOWN_MAX: usize = 1 << 16;
/// Maximum number of inlined functions at one address.
const INLINED_MAX: usize = 16;

/// A frame and its address.
type Address<'a> = (&'a Arc<SourceLine>, u64);
type Known = HashMap<SourceLine, Arc<[Arc<SourceLine>]>>;

/// Cache of resolved addresses: a screen resolves the same addresses at each refresh.
static KNOWN: Mutex<Option<Known>> = Mutex::new(None);

/// Returns the lines of native frames, inlined functions first. All other frames, and those that cannot be resolved, stay unchanged.
pub(crate) fn resolve(frames: &[Arc<SourceLine>]) -> Vec<Arc<[Arc<SourceLine>]>> {
    let mut guard = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = guard.get_or_insert_with(HashMap::new);
    if known.len() > KNOWN_MAX {
        known.clear();
    }
    // Grouped by file and build id.
    let mut new: HashMap<(&str, &str), Vec<Address<'_>>> = HashMap::new();
    for frame in frames.iter().filter(|frame| !known.contains_key(&***frame)) {
        if let Some(NativeFrame { object, address, build_id }) = frame.native() {
            new.entry((object, build_id)).or_default().push((frame, address));
        }
    }
    for ((object, build_id), addresses) in new {
        // Libraries between the program and its memory are not the user's code, and large.
        let is_skipped = addresses.first().is_some_and(|(frame, _)| frame.is_skipped());
        let lines = if is_skipped { None } else { read(Path::new(object), build_id, &addresses) };
        let lines = lines.unwrap_or_else(|| addresses.iter().map(|_| Vec::new()).collect());
        for ((frame, _), lines) in addresses.into_iter().zip(lines) {
            let lines = if lines.is_empty() { vec![frame.clone()] } else { lines };
            known.insert(SourceLine::clone(frame), lines.into());
        }
    }
    frames.iter().map(|frame| known.get(&**frame).cloned().unwrap_or_else(|| Arc::from([frame.clone()]))).collect()
}

type Lines = Vec<Arc<SourceLine>>;

/// Maximum number of symbols that are tried for an address without a line.
const NESTED_MAX: usize = 64;

/// Reads the lines of a file. Returns `None` if the file is not the one that the program has loaded, or cannot be read: then frames keep
/// their address.
fn read(path: &Path, build_id: &str, addresses: &[Address<'_>]) -> Option<Vec<Lines>> {
    let cache = ReadCache::new(open(path)?);
    let elf: ElfFile64<'_, Endianness, _> = ElfFile64::parse(&cache).ok()?;
    let found: String = elf.build_id().ok()??.iter().map(|byte| format!("{byte:02x}")).collect();
    if build_id.is_empty() || !found.starts_with(build_id) {
        return None;
    }
    let context = debug_information(&elf);
    // Sorted once, because a ledger may have as many addresses as the file has symbols.
    let symbols = LazyCell::new(|| {
        let sized = elf.symbols().chain(elf.dynamic_symbols());
        let sized = sized.filter(|symbol| symbol.size() > 0 && symbol.kind() == SymbolKind::Text);
        let mut symbols: Vec<_> = sized.map(|symbol| (symbol.address(), symbol)).collect();
        symbols.sort_unstable_by_key(|(start, _)| *start);
        symbols
    });
    // The frame with the name of its function, if the file has no line for it.
    let named = |frame: &SourceLine, address: u64| {
        let before = &symbols[..symbols.partition_point(|(start, _)| *start <= address)];
        // Symbols may be nested, so a few before the nearest one are tried too.
        let mut nearest = before.iter().rev().take(NESTED_MAX);
        let (_, symbol) = nearest.find(|(start, symbol)| address - start < symbol.size())?;
        let function = demangle::name(symbol.name().ok()?).into();
        Some(Arc::new(SourceLine { file: frame.file.clone(), line: 0, function }))
    };
    let lines = addresses.iter().map(|(frame, address)| {
        // Without debug information, the symbol is used.
        let lines = context.as_ref().map(|context| lines_at(context, *address)).unwrap_or_default();
        if lines.is_empty() { named(frame, *address).into_iter().collect() } else { lines }
    });
    Some(lines.collect())
}

/// Opens a regular file that no other user can have prepared: not through links of others, and as root only files of root.
fn open(path: &Path) -> Option<File> {
    let file = ttmon_os::open(path).ok().filter(|_| path.is_absolute())?;
    let metadata = file.metadata().ok()?;
    let user = rustix::process::geteuid().as_raw();
    (metadata.is_file() && [0, user].contains(&metadata.uid())).then_some(file)
}

type Context<'a> = addr2line::Context<EndianSlice<'a, RunTimeEndian>>;

fn debug_information<'a>(elf: &ElfFile64<'a, Endianness, &'a ReadCache<File>>) -> Option<Context<'a>> {
    let sections = elf.sections().filter(|section| section.name().is_ok_and(|name| name.starts_with(".debug_")));
    if sections.map(|section| section.size()).fold(0, u64::saturating_add) > DEBUG_BYTES_MAX {
        return None;
    }
    let load = |id: SectionId| -> Result<_, gimli::Error> {
        // A section that is missing or damaged has no lines.
        let data = elf.section_by_name(id.name()).and_then(|section| section.data().ok()).unwrap_or_default();
        Ok(EndianSlice::new(data, RunTimeEndian::Little))
    };
    addr2line::Context::from_dwarf(gimli::Dwarf::load(load).ok()?).ok()
}

fn lines_at(context: &Context<'_>, address: u64) -> Lines {
    let mut lines = Vec::new();
    let Ok(mut frames) = context.find_frames(address).skip_all_loads() else { return lines };
    while let Ok(Some(frame)) = frames.next() {
        let Some((file, line)) = frame.location.and_then(|location| Some((location.file?, location.line?))) else { continue };
        // A frame without a name of its function still has a line.
        let function = frame.function.as_ref().and_then(|function| function.raw_name().ok()).unwrap_or_default();
        lines.push(Arc::new(SourceLine { file: file.into(), line, function: demangle::name(&function).into() }));
        if lines.len() == INLINED_MAX {
            break;
        }
    }
    lines
}
