//! The table of all C++ symbols that the hook replaces or calls.
//!
//! Names follow the Itanium ABI; docs/ttnn-versions.md lists the versions of ttnn. A missing symbol is 0 in a
//! [`Library`](crate::library::Library)'s table, and features that need it are turned off.
use std::ffi::CStr;

macro_rules! symbols {
    ($($name:ident = $text:literal;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub(crate) enum Symbol { $($name),* }

        /// In the order of [`Symbol`].
        pub(crate) const NAMES: &[&CStr] = &[$($text),*];
    };
}

symbols! {
    // Called at every event. They come first, so that they share a cache line.
    BufferAddress = c"_ZNK2tt8tt_metal6Buffer7addressEv";
    BufferSize = c"_ZNK2tt8tt_metal6Buffer4sizeEv";
    BufferType = c"_ZNK2tt8tt_metal6Buffer11buffer_typeEv";
    BufferLayout = c"_ZNK2tt8tt_metal6Buffer13buffer_layoutEv";
    BufferPerBank = c"_ZNK2tt8tt_metal6Buffer21aligned_size_per_bankEv";
    BufferPageSize = c"_ZNK2tt8tt_metal6Buffer9page_sizeEv";
    BufferCores = c"_ZNK2tt8tt_metal6Buffer9num_coresEv";
    // Replaced by the hook.
    Allocate = c"_ZN2tt8tt_metal13AllocatorImpl15allocate_bufferEPNS0_6BufferE";
    Deallocate = c"_ZN2tt8tt_metal13AllocatorImpl17deallocate_bufferEPNS0_6BufferE";
    DeallocateAll = c"_ZN2tt8tt_metal13AllocatorImpl18deallocate_buffersEv";
    Clear = c"_ZN2tt8tt_metal13AllocatorImpl5clearEv";
    AllocatorD1 = c"_ZN2tt8tt_metal13AllocatorImplD1Ev";
    AllocatorD2 = c"_ZN2tt8tt_metal13AllocatorImplD2Ev";
    Shrink = c"_ZN2tt8tt_metal13AllocatorImpl21shrink_allocator_sizeERKNS0_10BufferTypeEmb";
    ResetSize = c"_ZN2tt8tt_metal13AllocatorImpl20reset_allocator_sizeERKNS0_10BufferTypeE";
    OverrideState = c"_ZN2tt8tt_metal13AllocatorImpl14override_stateERKNS0_14AllocatorStateE";
    OpenMesh = c"_ZN2tt8tt_metal11distributed14MeshDeviceImpl15initialize_implEPNS1_10MeshDeviceEhmmmSt4spanIKjLm18446744073709551615EEb";
    StatsProvider = c"_ZN2tt8tt_metal25SharedMemoryStatsProviderC1Emibb";
    LoadBinaries = c"_ZN2tt8tt_metal11distributed16MeshWorkloadImpl13load_binariesERNS1_16MeshCommandQueueE";
    TrackProgram = c"_ZN2tt8tt_metal12GraphTracker13track_programEPNS0_7ProgramEPKNS0_7IDeviceE";
    TrackCircular = c"_ZN2tt8tt_metal12GraphTracker17track_allocate_cbERKNS0_12CoreRangeSetEmmbPKNS0_7IDeviceE";
    AllocateCirculars = c"_ZN2tt8tt_metal6detail11ProgramImpl25allocate_circular_buffersEPKNS0_7IDeviceE";
    AllocateDataflow = c"_ZN2tt8tt_metal6detail11ProgramImpl25allocate_dataflow_buffersEPKNS0_7IDeviceE";
    MarkAddress = c"_ZN2tt8tt_metal6detail11ProgramImpl23CircularBufferAllocator12mark_addressEmmm";
    DeallocateCirculars = c"_ZN2tt8tt_metal6detail11ProgramImpl27deallocate_circular_buffersEv";
    InvalidateCirculars = c"_ZN2tt8tt_metal6detail11ProgramImpl37invalidate_circular_buffer_allocationEv";
    InvalidateDataflow = c"_ZN2tt8tt_metal6detail11ProgramImpl37invalidate_dataflow_buffer_allocationEv";
    ProgramD1 = c"_ZN2tt8tt_metal6detail11ProgramImplD1Ev";
    ValidateCirculars = c"_ZN2tt8tt_metal6detail11ProgramImpl31validate_circular_buffer_regionEPKNS0_7IDeviceE";
    ValidateDataflow = c"_ZN2tt8tt_metal6detail11ProgramImpl31validate_dataflow_buffer_regionEPKNS0_7IDeviceE";
    BeginTrace = c"_ZN2tt8tt_metal11distributed14MeshDeviceImpl16begin_mesh_traceEhRKN4ttsl10StrongTypeIjNS1_14MeshTraceIdTagEEE";
    EndTrace = c"_ZN2tt8tt_metal11distributed14MeshDeviceImpl14end_mesh_traceEhRKN4ttsl10StrongTypeIjNS1_14MeshTraceIdTagEEE";
    ReplayTrace = c"_ZN2tt8tt_metal11distributed14MeshDeviceImpl17replay_mesh_traceEhRKN4ttsl10StrongTypeIjNS1_14MeshTraceIdTagEEEb";
    ReleaseTrace = c"_ZN2tt8tt_metal11distributed14MeshDeviceImpl18release_mesh_traceERKN4ttsl10StrongTypeIjNS1_14MeshTraceIdTagEEE";
    // Called by the hook.
    BufferDevice = c"_ZNK2tt8tt_metal6Buffer6deviceEv";
    BufferAlignedPage = c"_ZNK2tt8tt_metal6Buffer17aligned_page_sizeEv";
    BufferPages = c"_ZNK2tt8tt_metal6Buffer9num_pagesEv";
    IsPerCore = c"_ZN2tt8tt_metal12experimental19per_core_allocation22is_per_core_allocationERKNS0_6BufferE";
    Banks = c"_ZNK2tt8tt_metal13AllocatorImpl13get_num_banksERKNS0_10BufferTypeE";
    BankSize = c"_ZNK2tt8tt_metal13AllocatorImpl13get_bank_sizeERKNS0_10BufferTypeE";
    Base = c"_ZNK2tt8tt_metal13AllocatorImpl23get_base_allocator_addrERKNS0_10HalMemTypeE";
    Alignment = c"_ZNK2tt8tt_metal13AllocatorImpl13get_alignmentENS0_10BufferTypeE";
    Statistics = c"_ZNK2tt8tt_metal13AllocatorImpl14get_statisticsERKNS0_10BufferTypeE";
    AllocatorTable = c"_ZTVN2tt8tt_metal13AllocatorImplE";
    MeshAllocator = c"_ZNK2tt8tt_metal11distributed10MeshDevice14allocator_implEv";
    MeshId = c"_ZNK2tt8tt_metal11distributed10MeshDevice2idEv";
    MeshChips = c"_ZNK2tt8tt_metal11distributed10MeshDevice14get_device_idsEv";
    MeshRows = c"_ZNK2tt8tt_metal11distributed10MeshDevice8num_rowsEv";
    MeshColumns = c"_ZNK2tt8tt_metal11distributed10MeshDevice8num_colsEv";
    MeshTable = c"_ZTVN2tt8tt_metal11distributed10MeshDeviceE";
    DeviceTable = c"_ZTVN2tt8tt_metal6DeviceE";
    CoreRanges = c"_ZNK2tt8tt_metal12CoreRangeSet6rangesEv";
    ProgramId = c"_ZNK2tt8tt_metal6detail11ProgramImpl6get_idEv";
    // Functions of the C++ runtime.
    Delete = c"_ZdlPv";
    BeginCatch = c"__cxa_begin_catch";
    EndCatch = c"__cxa_end_catch";
    RuntimeErrorWhat = c"_ZNKSt13runtime_error4whatEv";
}

pub(crate) const COUNT: usize = NAMES.len();

/// The symbols that the hook replaces.
#[cfg(test)]
const REPLACED: std::ops::RangeInclusive<usize> = Symbol::Allocate as usize..=Symbol::ReleaseTrace as usize;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Every quoted linker symbol in `text`.
    fn names_in(text: &str) -> BTreeSet<&str> {
        text.split('"').filter(|word| (word.starts_with("_ZN") || word.starts_with("ttmon_")) && !word.contains([' ', '\n'])).collect()
    }

    #[test]
    fn the_stub_has_a_jump_for_all_that_we_export_and_nothing_else() {
        let replaced: Vec<&str> = NAMES[REPLACED].iter().filter_map(|name| name.to_str().ok()).collect();
        let header = include_str!("../../client/include/ttmon.h");
        let declared = header.lines().filter_map(|line| line.strip_prefix("int32_t ")?.split('(').next());
        let wanted: BTreeSet<&str> = replaced.into_iter().chain(declared).collect();
        let stub = include_str!("../../stub/src/lib.rs");
        let table = stub.split_once("\njumps! {").and_then(|(_, rest)| rest.split_once("\n}")).expect("the table of jumps").0;
        assert_eq!(names_in(table), wanted);
    }

    #[test]
    fn each_replaced_function_is_exported() {
        let sources = [include_str!("allocator.rs"), include_str!("opening.rs"), include_str!("program.rs"), include_str!("trace.rs")];
        // A backslash continues a literal on the next line.
        let sources: String = sources.concat().split("\\\n").map(str::trim_start).collect();
        let exported = names_in(&sources);
        let wanted: BTreeSet<&str> = NAMES[REPLACED].iter().filter_map(|name| name.to_str().ok()).collect();
        assert_eq!(exported, wanted);
    }
}
