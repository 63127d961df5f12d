//! Tests the hook with a replacement for libtt_metal.so (programs/metal.cpp). It does what the real library cannot be made to do: missing
//! functions, unknown layouts, frees that throw, two copies in one process. `cargo xtask ttnn` tests the real ttnn.
//!
//! A program (programs/program.cpp) executes commands line by line. After each line the test reads its ledger from outside.

mod buffers;
mod native;
mod python;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::num::NonZeroU32;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;

use tempfile::TempDir;
use ttmon_ledger::layout::{CIRCULARS, Lost, Op, circular, kind};
use ttmon_ledger_reader::{LedgerDetail, Region, buffer_kind};
use ttmon_model::Kind;
use ttmon_model::event::Refused;
use ttmon_model::ledger::{BufferKind, BufferLayout, FeatureState, Ledger, LedgerCircular, LedgerRefusal, VisibleDevices};

/// Files that are compiled once for all tests.
struct Workshop {
    folder: TempDir,
    hook: PathBuf,
}

impl Workshop {
    /// Prints a message and returns `None` if there is no compiler.
    fn open() -> Option<&'static Self> {
        static WORKSHOP: OnceLock<Option<Workshop>> = OnceLock::new();
        WORKSHOP.get_or_init(Self::build).as_ref()
    }

    fn build() -> Option<Self> {
        if Command::new("c++").arg("--version").output().is_err() {
            eprintln!("SKIPPED: no c++ on this machine, so the hook was not tried on the stand-in");
            return None;
        }
        // The CI gate runs these tests again with the stub, which loads the hook.
        let hook = std::env::var_os("TTMON_TEST_PRELOAD").map_or_else(
            || {
                let test = std::env::current_exe().expect("a test has a path");
                test.parent().expect("and a folder").join("libttmon_hook.so")
            },
            PathBuf::from,
        );
        assert!(hook.exists(), "no {}", hook.display());
        let this = Self { folder: tempfile::tempdir().expect("a folder"), hook };
        let shapes: [(&str, &[&str]); 4] = [("new", &[]), ("old", &["-DOLD"]), ("shifted", &["-DOLD", "-DSHIFTED"]), ("poor", &["-DPOOR"])];
        for (shape, defines) in shapes {
            let shared = ["-shared", "-fPIC", "-pthread", "-Wl,-soname,libtt_metal.so"];
            this.compile("metal.cpp", &this.library(shape), &[&shared, defines].concat());
        }
        fs::copy(this.library("new"), this.library("copy")).expect("copied");
        let operations: [(&str, &[&str]); 2] = [("relu", &["-DNAME=relu"]), ("gelu", &["-DNAME=gelu", "-DMORE"])];
        for (name, defines) in operations {
            this.compile("operation.cpp", &this.operation(name), &[&["-shared", "-fPIC"], defines].concat());
        }
        this.compile("program.cpp", &this.folder.path().join("program"), &["-pthread", "-ldl", "-g", "-Wl,--build-id=sha1"]);
        Some(this)
    }

    fn library(&self, shape: &str) -> PathBuf {
        let folder = self.folder.path().join(shape);
        fs::create_dir_all(&folder).expect("made");
        folder.join("libtt_metal.so")
    }

    fn operation(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("lib{name}.so"))
    }

    fn compile(&self, source: &str, into: &Path, more: &[&str]) {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
        let mut compiler = Command::new("c++");
        compiler.args(["-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-o"]).arg(into).arg(source).args(more);
        let output = compiler.output().expect("the compiler starts");
        assert!(output.status.success(), "{compiler:?}\n{}", String::from_utf8_lossy(&output.stderr));
    }

    fn start(&self, is_tracked: bool) -> Program {
        self.start_with(is_tracked, &[])
    }

    fn start_with(&self, is_tracked: bool, variables: &[(&str, &str)]) -> Program {
        self.spawn(Command::new(self.folder.path().join("program")), is_tracked, variables)
    }

    fn spawn(&self, mut command: Command, is_tracked: bool, variables: &[(&str, &str)]) -> Program {
        let own = ["TT_ALLOC_TRACKING_ENABLED", "TTMON_TRACKING", "TTMON_HANDOVER", "TTMON_HANDOVER_OUTER"];
        for variable in own.into_iter().chain(["TTMON_OPS", "TTMON_STACKS", "XDG_RUNTIME_DIR"]) {
            command.env_remove(variable);
        }
        if is_tracked {
            command.env("TTMON_TRACKING", "1");
        }
        command.envs(variables.iter().copied());
        command.env("LD_PRELOAD", &self.hook).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let (to, from) = (child.stdin.take().expect("piped"), BufReader::new(child.stdout.take().expect("piped")));
        Program { child, to, from }
    }

    /// Starts a program with one library of this shape and one mesh of `chips` chips, as object 0.
    fn on_mesh(&self, shape: &str, chips: u32) -> Program {
        let mut program = self.start(true);
        program.load(&self.library(shape));
        assert_eq!(program.send(&format!("open 0 {chips}")), "0");
        program
    }
}

/// A program that waits for its next command.
struct Program {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Program {
    fn line(&mut self, line: &str) -> String {
        writeln!(self.to, "{line}").expect("it listens");
        let mut answer = String::new();
        self.from.read_line(&mut answer).expect("it answers");
        assert!(!answer.is_empty(), "it ended at: {line}");
        answer.trim_end_matches('\n').to_owned()
    }

    #[track_caller]
    fn send(&mut self, line: &str) -> String {
        let answer = self.line(line);
        answer.strip_prefix("ok ").unwrap_or_else(|| panic!("{line}: {answer}")).to_owned()
    }

    /// Returns the text of the exception that a command throws, with bars for line ends.
    #[track_caller]
    fn throws(&mut self, line: &str) -> String {
        let answer = self.line(line);
        answer.strip_prefix("threw ").unwrap_or_else(|| panic!("{line}: {answer}")).to_owned()
    }

    fn load(&mut self, library: &Path) {
        self.send(&format!("load {}", library.display()));
    }

    /// Allocates a buffer and returns its number.
    #[track_caller]
    fn allocate(&mut self, what: &str) -> String {
        let answer = self.send(&format!("allocate {what}"));
        answer.split(' ').next().expect("a number").to_owned()
    }

    fn file(&self) -> Option<fs::File> {
        let folder = format!("/proc/{}/fd", self.child.id());
        let mut files = fs::read_dir(folder).expect("it lives").map(|file| file.expect("listed").path());
        let path = files.find(|path| fs::read_link(path).is_ok_and(|to| to.to_string_lossy().contains("ttmon-ledger")))?;
        Some(fs::File::open(path).expect("opened"))
    }

    fn region(&self) -> Option<Region> {
        Some(Region::open(self.file()?).expect("a ledger"))
    }

    fn ledger(&self) -> Ledger {
        let region = self.region().expect("it has a ledger");
        let ledger = region.ledger(|_| LedgerDetail::Buffers, || region.lines().expect("readable"), &mut |_, _| true);
        ledger.expect("readable").expect("no limits")
    }

    fn refusals(&self) -> Vec<LedgerRefusal> {
        let region = self.region().expect("it has a ledger");
        region.refusals(&region.lines().expect("readable")).expect("readable")
    }

    /// Live bytes, occupied bytes and buffers of a kind, of all open allocators.
    fn figures(&self, kind: u8) -> (u64, u64, u64) {
        let ledger = self.ledger();
        let rows = ledger.allocators.iter().filter(|allocator| allocator.is_open()).flat_map(|allocator| &allocator.rows);
        let rows = rows.filter(|row| row.kind == buffer_kind(kind));
        rows.fold((0, 0, 0), |sum, row| (sum.0 + row.used, sum.1 + row.allocated.unwrap_or(row.used), sum.2 + row.count))
    }

    fn lost(&self, why: Lost) -> u64 {
        self.ledger().lost[why as usize]
    }

    fn feature(&self, name: &str) -> (FeatureState, u64, String) {
        let ledger = self.ledger();
        let feature = ledger.coverage.iter().find(|feature| feature.name == name).unwrap_or_else(|| panic!("no feature {name}"));
        (feature.state, feature.hits, feature.reason.clone().unwrap_or_default())
    }
}

/// Returns the addresses of the dataflow buffers that are in the ledger. The reader does not tell them apart.
fn dataflow_buffers(program: &Program) -> BTreeSet<u64> {
    let file = program.file().expect("a ledger");
    let records = (0..64).map(|slot| {
        let mut record = [0; 32];
        file.read_exact_at(&mut record, CIRCULARS.offset + slot * u64::from(CIRCULARS.stride)).expect("readable");
        record
    });
    let at = |offset: u64| usize::try_from(offset).expect("within a record");
    let flagged = records.filter(|record| record[at(circular::FLAGS)] & circular::FLAG_DATAFLOW != 0);
    let address = |record: [u8; 32]| *record[at(circular::ADDRESS)..].first_chunk().expect("within a record");
    flagged.map(|record| u32::from_le_bytes(address(record)).into()).collect()
}

#[test]
fn programs_have_their_circular_buffers_by_core_range() {
    let Some(workshop) = Workshop::open() else { return };
    let mut program = workshop.on_mesh("new", 2);
    let all = program.send("program 0 7 0 0");
    program.send(&format!("run {all} 0"));
    let circulars = |program: &Program| program.ledger().circulars;
    let dataflow = dataflow_buffers(&program);
    let is_dataflow = |it: &LedgerCircular| dataflow.contains(&it.address);
    let found: Vec<_> =
        circulars(&program).iter().map(|it| (it.program, it.chip, it.address, it.size, it.cores, is_dataflow(it), it.is_global)).collect();
    let (wide, single) = ([0, 0, 3, 1], [5, 5, 5, 5]);
    let expected = [
        (7, None, 0x2000, 256, wide, false, false),
        (7, None, 0x2000, 256, single, false, false),
        (7, None, 0x2100, 256, wide, false, true),
        (7, None, 0x2100, 256, single, false, true),
        (7, None, 0x3000, 512, [0, 0, 1, 1], true, false),
        (7, None, 0x3200, 128, [0, 0, 1, 1], true, false),
    ];
    assert_eq!(found, expected);

    let some = program.send("program 0 8 0 1");
    program.send(&format!("run {some} 0"));
    let of_second: Vec<_> = circulars(&program).iter().filter(|it| it.program == 8 && !is_dataflow(it)).map(|it| it.chip).collect();
    assert_eq!(of_second, [Some(0); 4], "a chip without it has no record");

    program.send(&format!("call fake_drop {all}"));
    assert!(circulars(&program).iter().all(|it| it.program == 8));
    program.send(&format!("call fake_drop {some}"));
    assert_eq!(circulars(&program), []);
    let launches: Vec<_> = program.ledger().launches.iter().map(|it| (it.metal_id, it.programs)).collect();
    assert_eq!(launches, [(0, 2), (1, 2)]);
}

#[test]
fn a_clash_has_tt_metals_message() {
    let Some(workshop) = Workshop::open() else { return };
    let mut program = workshop.on_mesh("new", 1);
    let clashing = program.send("program 0 1 1 0");
    assert!(program.throws(&format!("run {clashing} 0")).contains("circular buffers clash"));
    let refusals = program.refusals();
    assert_eq!(refusals.len(), 1);
    let refusal = &refusals[0].refusal;
    assert_eq!((refusal.what, refusal.message.as_str()), (Refused::Clash, "Statically allocated circular buffers clash"));
}

#[test]
fn binaries_of_cached_programs_are_marked() {
    let Some(workshop) = Workshop::open() else { return };
    let mut program = workshop.on_mesh("new", 1);
    program.send("binaries 0 0 1024 256");
    program.allocate("0 0 1024 256");
    let mut cached: Vec<_> = program.ledger().buffers.iter().map(|buffer| buffer.is_cached).collect();
    cached.sort_unstable();
    assert_eq!(cached, [false, true]);
}

#[test]
fn figures_that_differ_from_the_allocators_own_are_inexact() {
    let Some(workshop) = Workshop::open() else { return };
    let mut program = workshop.on_mesh("new", 1);
    let check = |program: &Program| program.ledger().allocators[0].self_check;
    for _ in 0..20 {
        program.allocate("0 0 64 64");
    }
    assert_eq!((check(&program).checks, check(&program).differences), (1, 0));
    program.send("call fake_lie 0 32");
    for _ in 0..60 {
        program.allocate("0 0 64 64");
    }
    assert_eq!((check(&program).differences, check(&program).is_inexact), (1, false), "one difference is none");
    program.send("call fake_free_all 0");
    assert_eq!((check(&program).differences, check(&program).is_inexact), (2, true));
}

#[test]
fn other_sizes_and_restored_states_are_reported() {
    let Some(workshop) = Workshop::open() else { return };
    let mut program = workshop.on_mesh("new", 1);
    let check = |program: &Program| program.ledger().allocators[0].self_check;
    program.send("call fake_shrink 0 4096");
    assert_eq!(check(&program).l1_lower_end, Some(0x1000 + 4096));
    program.send("call fake_shrink 0 0");
    assert_eq!(check(&program).l1_lower_end, None);
    program.allocate("0 0 1024 256");
    program.send("call fake_override 0");
    assert!(check(&program).is_restored);
    assert_eq!(program.figures(kind::DRAM).2, 0);
    for _ in 0..200 {
        program.allocate("0 0 64 64");
    }
    assert_eq!(check(&program).differences, 0, "what cannot be equal is not compared");
}

#[test]
fn threads_are_counted_exactly() {
    let Some(workshop) = Workshop::open() else { return };
    let mut program = workshop.on_mesh("new", 1);
    program.send("threads 0 1000");
    // 1024 bytes in 4 pages over 12 banks: 256 bytes of each bank.
    assert_eq!(program.figures(kind::DRAM), (400 * 1024, 400 * 256 * 12, 400));
    let ledger = program.ledger();
    assert_eq!((ledger.is_exact, ledger.lost), (true, [0; 8]));
    let check = ledger.allocators[0].self_check;
    assert_eq!((check.differences, check.is_inexact), (0, false));
}

/// Calls are counted one by one at first, then 64 at a time. The count never exceeds the calls.
#[test]
fn calls_are_counted_and_not_more_than_there_were() {
    let Some(workshop) = Workshop::open() else { return };
    let mut program = workshop.on_mesh("new", 1);
    let mut hits = Vec::new();
    for number in 1..=200 {
        let buffer = program.allocate("0 0 1024 256");
        program.send(&format!("free {buffer}"));
        if [63, 64, 127, 128, 200].contains(&number) {
            hits.push((program.feature("allocations").1, program.feature("frees").1));
        }
    }
    assert_eq!(hits, [63, 64, 64, 128, 192].map(|hits| (hits, hits)));
}

/// One of 251 calls is measured, allocations and frees in turn. Measurements that were interrupted do not count.
#[test]
fn the_cost_of_recording_is_measured() {
    let Some(workshop) = Workshop::open() else { return };
    let mut program = workshop.on_mesh("new", 1);
    program.send("bench 0 5020");
    let (measured, nanoseconds) = program.ledger().cost;
    assert!((20..=40).contains(&measured) && nanoseconds > 10 * measured && nanoseconds < 100_000 * measured, "{measured} {nanoseconds}");
}

#[test]
fn a_forked_child_leaves_its_parents_ledger_alone() {
    let Some(workshop) = Workshop::open() else { return };
    let mut program = workshop.on_mesh("new", 1);
    let buffer = program.allocate("0 0 1024 256");
    let before = program.ledger().events;
    assert_eq!(program.send(&format!("fork 0 {buffer}")), "0");
    assert_eq!(program.ledger().events, before);
    assert_eq!(program.figures(kind::DRAM).2, 1);
}

#[test]
fn an_unknown_layout_is_left_aside_and_said() {
    let Some(workshop) = Workshop::open() else { return };
    let mut program = workshop.on_mesh("shifted", 1);
    let buffer = program.allocate("0 0 1024 256");
    program.send(&format!("free {buffer}"));
    let (state, hits, reason) = program.feature("allocations");
    assert_eq!((state, hits, reason.as_str()), (FeatureState::SteppedAside, 1, "a Buffer that is not laid out as known"));
    assert_eq!(program.figures(kind::DRAM), (0, 0, 0));
    assert!(!program.ledger().is_exact);
    let metal = program.send("program 0 7 0 0");
    program.send(&format!("run {metal} 0"));
    let (state, hits, reason) = program.feature("dataflow buffers");
    assert_eq!((state, hits, reason.as_str()), (FeatureState::SteppedAside, 2, "a CircularBufferAllocator that is not laid out as known"));
}

/// After a library was unloaded, its names are not used for another library at the same address.
#[test]
fn a_library_at_the_address_of_another_has_its_own_operations() {
    let Some(workshop) = Workshop::open() else { return };
    let mut program = workshop.start_with(true, &[("TTMON_OPS", "1")]);
    program.load(&workshop.library("new"));
    program.send("open 0 1");
    let places = ["relu", "gelu", "relu"].map(|name| program.send(&format!("operate {} 0", workshop.operation(name).display())));
    let mut buffers = program.ledger().buffers;
    buffers.sort_by_key(|buffer| buffer.address);
    let names: Vec<&str> = buffers.iter().filter_map(|buffer| Some(buffer.operation.as_ref()?.as_str())).collect();
    assert_eq!(names, ["ttnn::relu", "ttnn::gelu", "ttnn::relu"], "{places:?}");
}

#[test]
fn missing_functions_turn_off_what_needs_them_alone() {
    let Some(workshop) = Workshop::open() else { return };
    let mut program = workshop.on_mesh("poor", 2);
    for _ in 0..40 {
        program.allocate("0 0 1024 256");
    }
    assert_eq!(program.figures(kind::DRAM).2, 40);
    for name in ["device open", "unique ids", "program cache", "launches", "circular buffers", "dataflow buffers", "self-check"] {
        let (state, hits, reason) = program.feature(name);
        assert_eq!((state, hits, reason.as_str()), (FeatureState::Missing, 0, "this version of TT-Metal does not export it"), "{name}");
    }
    assert_eq!(program.feature("allocations").0, FeatureState::Found);
    let ledger = program.ledger();
    assert_eq!((ledger.allocators[0].self_check.checks, ledger.allocators[0].chips.len()), (0, 2));
}

#[test]
fn tags_and_questions_reach_what_the_hook_sees() {
    let Some(workshop) = Workshop::open() else { return };
    let mut program = workshop.start(true);
    // Before any part of TT-Metal is loaded.
    assert_eq!(program.send("tag layer-7"), "0");
    program.load(&workshop.library("new"));
    program.send("open 0 2");
    program.allocate("0 0 1024 256");
    let ledger = program.ledger();
    let [buffer] = &ledger.buffers[..] else { panic!("one buffer") };
    assert_eq!(buffer.tag.as_ref().map(|tag| tag.as_str()), Some("layer-7"));
    assert_eq!((program.send("memory 0 0"), program.send("memory 1 0")), ("0 1024".to_owned(), "0 1024".to_owned()));
    assert_eq!((program.send("memory 0 1"), program.send("memory 5 0")), ("0 0".to_owned(), "0 0".to_owned()));
}

#[test]
fn the_environment_is_what_it_was_when_the_device_opened() {
    let Some(workshop) = Workshop::open() else { return };
    let mut program = workshop.start(true);
    // Creates the ledger.
    program.send("tag early");
    program.send("setenv TT_VISIBLE_DEVICES 2,3");
    program.send("setenv TT_METAL_SIMULATOR /somewhere");
    let seen = |program: &Program| {
        let ledger = program.ledger();
        (ledger.visible_devices, ledger.is_mock)
    };
    assert_eq!(seen(&program), (VisibleDevices::All, false));
    program.load(&workshop.library("new"));
    program.send("open 0 1");
    let at_first = (VisibleDevices::Only("2,3".to_owned()), true);
    assert_eq!(seen(&program), at_first);
    // This change is for a child process: the open chips do not change, and neither do those of a submesh.
    program.send("setenv TT_VISIBLE_DEVICES 0");
    program.send("open 0 1");
    assert_eq!(seen(&program), at_first);
}

#[test]
fn without_the_variable_nothing_is_recorded() {
    let Some(workshop) = Workshop::open() else { return };
    let mut program = workshop.start(false);
    program.load(&workshop.library("new"));
    program.send("open 0 1");
    let buffer = program.allocate("0 0 1024 256");
    program.throws("allocate 0 0 99999744 256");
    program.send(&format!("free {buffer}"));
    let run = program.send("program 0 1 0 0");
    program.send(&format!("run {run} 0"));
    program.send("call fake_close 0");
    assert_eq!((program.send("tag nothing"), program.send("memory 0 0")), ("1".to_owned(), "1 0".to_owned()));
    assert!(program.region().is_none());
}

#[test]
fn traces_are_noted_with_the_allocator_of_their_mesh() {
    let Some(workshop) = Workshop::open() else { return };
    let mut program = workshop.on_mesh("new", 1);
    // The real functions receive their arguments.
    for (step, arrived) in [(1, "1"), (2, "12"), (3, "123"), (3, "1233"), (4, "12334")] {
        assert_eq!(program.send(&format!("trace 0 {step}")), arrived);
    }
    let events = program.region().expect("it has a ledger").events(0).expect("readable").events;
    let is_trace = |op: Op| matches!(op, Op::TraceBegin | Op::TraceEnd | Op::TraceReplay | Op::TraceRelease);
    let traces: Vec<(Op, u64, u16)> =
        events.iter().filter(|event| is_trace(event.op)).map(|event| (event.op, event.address, event.allocator)).collect();
    let steps = [Op::TraceBegin, Op::TraceEnd, Op::TraceReplay, Op::TraceReplay, Op::TraceRelease];
    assert_eq!(traces, steps.map(|op| (op, 3, 0)));
}
