//! The source lines of a ledger's stacks.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use ttmon_ledger_reader::{Code, ReadError, Region, Stacks};
use ttmon_model::Snapshot;
use ttmon_model::stack::{SourceLine, Stack};

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
    for stack in snapshot.buffers.iter_mut().filter_map(|buffer| buffer.entry.stack.as_mut()) {
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

impl Lines {
    /// Reads the stacks of a ledger. If it has no stacks, only its header is read.
    pub fn read(region: &Region) -> Result<Self, ReadError> {
        Ok(Self::of(&region.stacks()?))
    }

    fn of(stacks: &Stacks) -> Self {
        let mut known: HashMap<(*const Code, u32), Arc<SourceLine>> = HashMap::new();
        let mut texts: HashMap<&str, Arc<str>> = HashMap::new();
        let mut found = Self::default();
        for number in 1..=stacks.len() {
            let frames = stacks.frames(number).map(|(code, line)| {
                let make = || {
                    if code.is_native {
                        return Arc::new(SourceLine::of_native(&code.file, line, &code.function));
                    }
                    let [file, function] =
                        [&code.file, &code.function].map(|text| texts.entry(text).or_insert_with(|| text.as_str().into()).clone());
                    Arc::new(SourceLine { file, line, function })
                };
                known.entry((std::ptr::from_ref(code), line)).or_insert_with(make).clone()
            });
            let frames: Vec<Arc<SourceLine>> = frames.collect();
            found.frames.push(frames);
        }
        if let Some(resolve) = RESOLVER.get() {
            found.frames = resolved(&found.frames, *resolve);
        }
        let stacks = (1..).zip(&found.frames).map(|(number, frames)| Stack::new(number, frames.clone()).map(Arc::new));
        found.stacks = stacks.collect();
        found
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
