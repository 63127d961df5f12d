//! The source lines of a ledger's stacks.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use ttmon_ledger::layout::{code, stack};
use ttmon_model::Snapshot;
use ttmon_model::stack::{SourceLine, Stack};

use super::bytes::{text_at, u32_at, u64_at};
use super::header::Counters;
use super::{ReadError, Region};

/// Resolves frames of machine code to lines, one list for each frame.
pub type Resolver = fn(&[Arc<SourceLine>]) -> Vec<Arc<[Arc<SourceLine>]>>;

static RESOLVER: OnceLock<Resolver> = OnceLock::new();

/// Sets the function that resolves frames of machine code. The service sets none, because it must not open files that programs name.
pub fn set_resolver(resolver: Resolver) {
    // A second call has no effect.
    let _ = RESOLVER.set(resolver);
}

/// Resolves the frames of machine code in a snapshot from a service.
pub fn resolve_snapshot(snapshot: &mut Snapshot) {
    let Some(resolve) = RESOLVER.get() else { return };
    let mut known: HashMap<*const Stack, Arc<Stack>> = HashMap::new();
    for stack in snapshot.buffers.iter_mut().filter_map(|buffer| buffer.buffer.stack.as_mut()) {
        if !stack.frames.iter().any(|frame| frame.native().is_some()) {
            continue;
        }
        let resolved = known.entry(Arc::as_ptr(stack)).or_insert_with(|| {
            let frames = resolved(std::slice::from_ref(&stack.frames), *resolve).pop().expect("one list per stack");
            Stack::new(stack.number, frames).map_or_else(|| stack.clone(), Arc::new)
        });
        *stack = resolved.clone();
    }
}

fn resolved(stacks: &[Vec<Arc<SourceLine>>], resolve: Resolver) -> Vec<Vec<Arc<SourceLine>>> {
    let is_native = |frame: &&Arc<SourceLine>| frame.native().is_some();
    let native: HashSet<&Arc<SourceLine>> = stacks.iter().flatten().filter(is_native).collect();
    let native: Vec<Arc<SourceLine>> = native.into_iter().cloned().collect();
    let lines: HashMap<&Arc<SourceLine>, Arc<[Arc<SourceLine>]>> = native.iter().zip(resolve(&native)).collect();
    let frames = |stack: &Vec<Arc<SourceLine>>| {
        let each = stack.iter().flat_map(|frame| lines.get(frame).map_or_else(|| vec![frame.clone()], |lines| lines.to_vec()));
        each.collect()
    };
    stacks.iter().map(frames).collect()
}

/// The stacks of one ledger. Equal lines share one allocation.
#[derive(Debug, Default)]
pub struct Lines {
    frames: Vec<Vec<Arc<SourceLine>>>,
    stacks: Vec<Option<Arc<Stack>>>,
}

/// A function of the program.
struct Code {
    /// The file name, as reported by the interpreter. Of a long name, only the end is stored.
    file: Arc<str>,
    /// The qualified name, possibly truncated.
    function: Arc<str>,
    /// Machine code: the file is a program or library, the function is its build id, and lines are addresses in the file.
    is_native: bool,
}

impl Lines {
    /// Reads all stacks: at most some MiB. If there are none, only the header is read.
    pub(super) fn read(region: &Region) -> Result<Self, ReadError> {
        let tables = &region.header.tables;
        // The counts are read first: everything that they count was written before.
        let counters = Counters::read(&region.source, tables)?;
        if counters.stacks_used == 0 {
            return Ok(Self::default());
        }
        let mut texts: HashMap<String, Arc<str>> = HashMap::new();
        let mut codes: Vec<Code> = Vec::new();
        region.source.each(tables.codes, 0, counters.codes_used, |_, record| {
            let mut text = |text: String| texts.entry(text).or_insert_with_key(|text| text.as_str().into()).clone();
            codes.push(Code {
                file: text(text_at(record, code::FILE, code::FILE_BYTES)),
                function: text(text_at(record, code::FUNCTION, code::FUNCTION_BYTES)),
                is_native: u64::from(u32_at(record, code::FLAGS)) & code::NATIVE != 0,
            });
            Ok(())
        })?;
        let frames = region.source.decoded(tables.frames, counters.frames_used, |frame| Some((u32_at(frame, 0), u32_at(frame, 4))))?;
        let stacks = region.source.decoded(tables.stacks, counters.stacks_used, |record| Some(frames_of(u64_at(record, 0))))?;
        Ok(Self::of(&codes, &frames, stacks))
    }

    fn of(codes: &[Code], frames: &[(u32, u32)], stacks: Vec<(usize, usize)>) -> Self {
        let mut known: HashMap<(u32, u32), Arc<SourceLine>> = HashMap::new();
        let mut line = |number: u32, line: u32| {
            let Code { file, function, is_native } = codes.get(usize::try_from(number).ok()?)?;
            let make = || match is_native {
                true => SourceLine::of_native(file, line, function),
                false => SourceLine { file: file.clone(), line, function: function.clone() },
            };
            Some(known.entry((number, line)).or_insert_with(|| Arc::new(make())).clone())
        };
        let mut of_stack =
            |(first, count): (usize, usize)| frames.iter().skip(first).take(count).filter_map(|(code, at)| line(*code, *at)).collect();
        let mut frames: Vec<Vec<Arc<SourceLine>>> = stacks.into_iter().map(&mut of_stack).collect();
        if let Some(resolve) = RESOLVER.get() {
            frames = resolved(&frames, *resolve);
        }
        let stacks = (1..).zip(&frames).map(|(number, frames)| Stack::new(number, frames.clone()).map(Arc::new)).collect();
        Self { frames, stacks }
    }

    /// Returns the frames of a stack, innermost first. Returns none if the number is not a stack.
    pub fn frames(&self, number: u32) -> &[Arc<SourceLine>] {
        index(number).and_then(|at| self.frames.get(at)).map_or(&[], Vec::as_slice)
    }

    /// Returns the line of a stack that is shown to users.
    pub fn line(&self, number: u32) -> Option<&Arc<SourceLine>> {
        self.stack(number).map(|stack| &stack.line)
    }

    /// Returns a stack, if it has a line that is shown to users.
    pub fn stack(&self, number: u32) -> Option<&Arc<Stack>> {
        self.stacks.get(index(number)?)?.as_ref()
    }

    /// Returns the number of stacks.
    pub fn len(&self) -> u32 {
        u32::try_from(self.frames.len()).unwrap_or(u32::MAX)
    }

    /// Returns whether there are no stacks.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }
}

fn index(number: u32) -> Option<usize> {
    usize::try_from(number).ok()?.checked_sub(1)
}

/// Returns the first frame of a stack and the number of its frames.
#[allow(clippy::cast_possible_truncation, reason = "fields of fewer bits")]
fn frames_of(record: u64) -> (usize, usize) {
    let count = (record >> stack::COUNT_SHIFT) as usize & 0xFFFF;
    (record as u32 as usize, count.min(stack::FRAMES_MAX))
}

/// Returns a stack number, or 0 if it is not among the `used` records.
#[inline]
pub(super) fn known(number: u32, used: u32) -> u32 {
    if number <= used || matches!(number, stack::NO_PYTHON | stack::TABLE_FULL) { number } else { 0 }
}
