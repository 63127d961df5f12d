//! The cases: which script runs on which mock machine, how, and when.

use Tier::{Ci, Nightly};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Started {
    /// The library is in LD_PRELOAD, as `ttmon env` prints it.
    Preloaded,
    ByRun,
    /// The program is not tracked. This is the control: nothing may be shown, not even zeros.
    Untracked,
    /// The wheel is installed, and the shell sets `export TT_ALLOC_TRACKING_ENABLED=1`. There is no other change.
    ByWheel,
}

/// When a case runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tier {
    /// Always. These cases meet each mechanism of the hook once.
    Ci,
    /// With `--include-ignored`.
    Nightly,
}

pub(crate) struct Case {
    pub(crate) tier: Tier,
    pub(crate) name: &'static str,
    pub(crate) script: &'static str,
    pub(crate) arguments: &'static [&'static str],
    pub(crate) chips: &'static str,
    pub(crate) variables: &'static [(&'static str, &'static str)],
    pub(crate) started: Started,
    /// The simulated machine on whose rows the chips are, by their cluster descriptor.
    pub(crate) rows: Option<&'static str>,
    /// The first minor version of ttnn that supports this on mock chips: 77 for 0.77.
    pub(crate) since: u32,
}

const fn case(tier: Tier, name: &'static str, script: &'static str, chips: &'static str) -> Case {
    Case { tier, name, script, arguments: &[], chips, variables: &[], started: Started::Preloaded, rows: None, since: 0 }
}

const SLOW_DISPATCH: &[(&str, &str)] = &[("TT_METAL_SLOW_DISPATCH_MODE", "1")];
const HYBRID: &[(&str, &str)] = &[("TT_METAL_ALLOCATOR_MODE_HYBRID", "1")];
const NO_REGION: &[(&str, &str)] = &[("TT_METAL_SHM_TRACKING_DISABLED", "1")];

/// Circular buffers need fast dispatch.
pub(crate) const CASES: &[Case] = &[
    case(Ci, "basics", "basics.py", "n150"),
    case(Nightly, "basics-blackhole", "basics.py", "p150"),
    Case { variables: SLOW_DISPATCH, ..case(Nightly, "basics-slow-dispatch", "basics.py", "n150") },
    Case { variables: NO_REGION, ..case(Nightly, "basics-no-region", "basics.py", "n150") },
    Case { started: Started::ByRun, ..case(Nightly, "basics-by-run", "basics.py", "n150") },
    Case { variables: HYBRID, ..case(Ci, "basics-hybrid", "basics.py", "n150") },
    Case { variables: HYBRID, arguments: &["3"], ..case(Nightly, "random-hybrid", "random_walk.py", "p150") },
    Case { started: Started::Untracked, ..case(Ci, "basics-untracked", "basics.py", "n150") },
    Case { arguments: &["1"], ..case(Nightly, "random", "random_walk.py", "n150") },
    Case { arguments: &["2"], ..case(Ci, "random-blackhole", "random_walk.py", "p150") },
    Case { since: 70, ..case(Ci, "reporter", "reporter.py", "n150") },
    case(Ci, "ops", "ops.py", "n150"),
    case(Nightly, "ops-blackhole", "ops.py", "p150"),
    case(Nightly, "out-of-memory", "memory_out.py", "n150"),
    Case { started: Started::ByRun, ..case(Nightly, "out-of-memory-by-run", "memory_out.py", "n150") },
    Case { since: 77, started: Started::ByRun, ..case(Ci, "refusals", "refusals.py", "n150") },
    Case { since: 77, started: Started::ByRun, ..case(Ci, "lines", "lines.py", "n150") },
    case(Ci, "threads", "threads.py", "n150"),
    case(Ci, "mesh-2", "meshes.py", "n300"),
    case(Nightly, "mesh-2-blackhole", "meshes.py", "p300"),
    case(Nightly, "mesh-8", "meshes.py", "t3k"),
    case(Nightly, "mesh-32", "meshes.py", "galaxy"),
    case(Ci, "submesh-2", "submesh.py", "n300"),
    case(Nightly, "submesh-8", "submesh.py", "t3k"),
    case(Ci, "capture", "capture.py", "n150"),
    Case { since: 77, ..case(Nightly, "circular", "circular.py", "n150") },
    Case { since: 77, ..case(Nightly, "circular-mesh", "circular.py", "n300") },
    Case { since: 77, started: Started::ByRun, ..case(Ci, "circular-by-run", "circular.py", "n150") },
    case(Ci, "closing", "closing.py", "n150"),
    case(Ci, "free-all", "free_all.py", "n150"),
    case(Ci, "killed", "killed.py", "n150"),
    Case { variables: &[("TT_VISIBLE_DEVICES", "2")], ..case(Nightly, "visible-shell", "visible.py", "t3k") },
    Case { arguments: &["2"], ..case(Nightly, "visible-inside", "visible.py", "t3k") },
    Case { arguments: &["1,3"], ..case(Ci, "visible-inside-two", "visible.py", "t3k") },
    Case { rows: Some("t3k"), since: 70, ..case(Ci, "rows", "rows.py", "t3k") },
    Case { rows: Some("t3k"), since: 70, arguments: &["2"], ..case(Nightly, "rows-visible", "rows.py", "t3k") },
    Case { rows: Some("t3k"), ..case(Nightly, "rows-of-mock", "meshes.py", "t3k") },
    case(Ci, "fork", "forked.py", "n150"),
    Case { started: Started::ByWheel, ..case(Nightly, "wheel", "basics.py", "n150") },
    Case { started: Started::ByWheel, ..case(Nightly, "wheel-ops", "ops.py", "n150") },
    Case { started: Started::ByWheel, ..case(Nightly, "wheel-out-of-memory", "memory_out.py", "n150") },
    Case { started: Started::ByWheel, ..case(Nightly, "wheel-asks-itself", "asks_itself.py", "n300") },
    case(Nightly, "cycles", "cycles.py", "n150"),
];
