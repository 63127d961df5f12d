//! The cases: which script runs on which mock machine, and how.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Started {
    /// The library is in LD_PRELOAD, as `ttmon env` prints it.
    Preloaded,
    ByRun,
    /// The program is not tracked. This is the control: nothing may be shown, not even zeros.
    Untracked,
    /// The wheel is installed, and the shell sets `export TT_ALLOC_TRACKING_ENABLED=1`. There is no other change.
    ByWheel,
}

pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) script: &'static str,
    pub(super) arguments: &'static [&'static str],
    pub(super) chips: &'static str,
    pub(super) variables: &'static [(&'static str, &'static str)],
    pub(super) started: Started,
    /// The simulated machine on whose rows the chips are expected, with their cluster descriptor.
    pub(super) tree: Option<&'static str>,
    /// The first minor version of ttnn that supports this on mock chips: 77 for 0.77.
    pub(super) since: u32,
}

const fn case(name: &'static str, script: &'static str, chips: &'static str) -> Case {
    Case { name, script, arguments: &[], chips, variables: &[], started: Started::Preloaded, tree: None, since: 0 }
}

const SLOW_DISPATCH: &[(&str, &str)] = &[("TT_METAL_SLOW_DISPATCH_MODE", "1")];
const HYBRID: &[(&str, &str)] = &[("TT_METAL_ALLOCATOR_MODE_HYBRID", "1")];
const NO_REGION: &[(&str, &str)] = &[("TT_METAL_SHM_TRACKING_DISABLED", "1")];

/// Each case takes about a second. Circular buffers need fast dispatch.
pub(super) const CASES: &[Case] = &[
    case("basics", "basics.py", "n150"),
    case("basics-blackhole", "basics.py", "p150"),
    Case { variables: SLOW_DISPATCH, ..case("basics-slow-dispatch", "basics.py", "n150") },
    Case { variables: NO_REGION, ..case("basics-no-region", "basics.py", "n150") },
    Case { started: Started::ByRun, ..case("basics-by-run", "basics.py", "n150") },
    Case { variables: HYBRID, ..case("basics-hybrid", "basics.py", "n150") },
    Case { variables: HYBRID, arguments: &["3"], ..case("random-hybrid", "random_walk.py", "p150") },
    Case { started: Started::Untracked, ..case("basics-untracked", "basics.py", "n150") },
    Case { arguments: &["1"], ..case("random", "random_walk.py", "n150") },
    Case { arguments: &["2"], ..case("random-blackhole", "random_walk.py", "p150") },
    Case { since: 70, ..case("reporter", "reporter.py", "n150") },
    case("ops", "ops.py", "n150"),
    case("ops-blackhole", "ops.py", "p150"),
    case("out-of-memory", "memory_out.py", "n150"),
    Case { started: Started::ByRun, ..case("out-of-memory-by-run", "memory_out.py", "n150") },
    Case { since: 77, started: Started::ByRun, ..case("refusals", "refusals.py", "n150") },
    Case { since: 77, started: Started::ByRun, ..case("lines", "lines.py", "n150") },
    case("threads", "threads.py", "n150"),
    case("mesh-2", "meshes.py", "n300"),
    case("mesh-2-blackhole", "meshes.py", "p300"),
    case("mesh-8", "meshes.py", "t3k"),
    case("mesh-32", "meshes.py", "galaxy"),
    case("submesh-2", "submesh.py", "n300"),
    case("submesh-8", "submesh.py", "t3k"),
    case("capture", "capture.py", "n150"),
    Case { since: 77, ..case("circular", "circular.py", "n150") },
    Case { since: 77, ..case("circular-mesh", "circular.py", "n300") },
    Case { since: 77, started: Started::ByRun, ..case("circular-by-run", "circular.py", "n150") },
    case("closing", "closing.py", "n150"),
    case("free-all", "free_all.py", "n150"),
    case("killed", "killed.py", "n150"),
    Case { variables: &[("TT_VISIBLE_DEVICES", "2")], ..case("visible-shell", "visible.py", "t3k") },
    Case { arguments: &["2"], ..case("visible-inside", "visible.py", "t3k") },
    Case { arguments: &["1,3"], ..case("visible-inside-two", "visible.py", "t3k") },
    Case { tree: Some("t3k"), since: 70, ..case("rows", "rows.py", "t3k") },
    Case { tree: Some("t3k"), since: 70, arguments: &["2"], ..case("rows-visible", "rows.py", "t3k") },
    Case { tree: Some("t3k"), ..case("rows-of-mock", "meshes.py", "t3k") },
    case("fork", "forked.py", "n150"),
    Case { started: Started::ByWheel, ..case("wheel", "basics.py", "n150") },
    Case { started: Started::ByWheel, ..case("wheel-ops", "ops.py", "n150") },
    Case { started: Started::ByWheel, ..case("wheel-out-of-memory", "memory_out.py", "n150") },
    Case { started: Started::ByWheel, ..case("wheel-asks-itself", "asks_itself.py", "n300") },
    case("cycles", "cycles.py", "n150"),
];

pub(super) fn list() -> String {
    CASES.iter().map(|case| format!("  {:<22} {} {} on {}\n", case.name, case.script, case.arguments.join(" "), case.chips)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_what_they_name_is_there() {
        let names: BTreeSet<&str> = CASES.iter().map(|case| case.name).collect();
        assert_eq!(names.len(), CASES.len());
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("ttnn");
        for case in CASES {
            assert!(folder.join("scripts").join(case.script).exists(), "{}", case.script);
            assert!(folder.join("chips").join(format!("{}.yaml", case.chips)).exists(), "{}", case.chips);
        }
        assert!(list().contains("visible-inside"));
    }
}
