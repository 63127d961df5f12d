//! A device: its members, and the row of each value that is shown.
//!
//! A new value takes these steps. Without step 2 it does not compile; without step 3 the test `every_member_has_a_row` fails.
//!
//! 1. Add the member to [`Device`].
//! 2. Give its reason in [`Device::absent`].
//! 3. Add its row to [`DEVICE`], where users shall see it. Names never change.
//! 4. A driver file: add `.file(Attr::X)` to the row, X to `attributes/table.rs`, its text to `sim/src/files.rs` (there, `unmodelled` shows
//!    0), and real examples to `sim/tests/driver-real.tsv`. Any other value: set it in `derive/device.rs`.

use super::{Chart, Field, Member, SamplesNeeded, Section, field};
use crate::attributes::Attr;
use crate::identity::{Bdf, ChipPosition, DeviceId, UniqueId};
use crate::memory::Memory;
use crate::missing::{Missing, Reading};
use crate::product::Arch;
use crate::snapshot::{Health, Location, State};
use crate::units::{Amperes, BytesPerSecond, Celsius, Megahertz, Rpm, Unit, Volts, Watts, WordsPerSecond};

/// One device: a member for each row of [`DEVICE`], and the memory, which has rows of its own.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the help in the row of a member says what it is")]
pub struct Device {
    pub id: DeviceId,
    pub metal_id: Reading<u64>,
    pub name: Reading<String>,
    pub arch: Reading<Arch>,
    pub board: Reading<String>,
    pub chip: Reading<ChipPosition>,
    pub location: Location,
    pub via: Reading<DeviceId>,
    pub bdf: Reading<Bdf>,
    pub asic_id: Reading<String>,
    pub unique_id: Reading<UniqueId>,
    pub serial: Reading<String>,
    pub numa_node: Reading<u64>,
    pub state: State,
    pub health: Health,
    pub health_reasons: Vec<String>,
    pub temperature: Reading<Celsius>,
    pub temperature_limit: Reading<Celsius>,
    pub board_temperature: Reading<Celsius>,
    pub gddr_temperature: Reading<Celsius>,
    pub gddr_temperatures: Reading<Vec<f64>>,
    pub fan_rpm: Reading<Rpm>,
    pub power: Reading<Watts>,
    pub power_limit: Reading<Watts>,
    pub board_power: Reading<Watts>,
    pub board_power_limit: Reading<Watts>,
    pub input_current: Reading<Amperes>,
    pub throttle_reasons: Reading<Vec<String>>,
    pub voltage: Reading<Volts>,
    pub voltage_limit: Reading<Volts>,
    pub current: Reading<Amperes>,
    pub current_limit: Reading<Amperes>,
    pub aiclk_mhz: Reading<Megahertz>,
    pub axiclk_mhz: Reading<Megahertz>,
    pub arcclk_mhz: Reading<Megahertz>,
    pub aiclk_limit_mhz: Reading<Megahertz>,
    pub utilization: Reading<f64>,
    pub queue_utilization: Reading<Vec<f64>>,
    pub core_efficiency: Reading<f64>,
    pub programs_per_s: Reading<f64>,
    pub queues_waiting: Reading<u64>,
    pub deep_age_s: Reading<f64>,
    pub heartbeat: Reading<u64>,
    pub heartbeat_alive: Reading<bool>,
    pub therm_trip_count: Reading<u64>,
    pub tensix_cores: Reading<u64>,
    pub eth_links: Reading<Vec<String>>,
    pub eth_links_up: Reading<u64>,
    pub gddr_trained: Reading<bool>,
    pub gddr_speed_mts: Reading<u64>,
    pub gddr_corrected_errors: Reading<u64>,
    pub gddr_uncorrected_errors: Reading<u64>,
    pub pcie_gen: Reading<u64>,
    pub pcie_width: Reading<u64>,
    pub pcie_gen_max: Reading<u64>,
    pub pcie_width_max: Reading<u64>,
    pub pcie_degraded: Reading<bool>,
    pub pcie_to_device_bytes_per_s: Reading<BytesPerSecond>,
    pub pcie_from_device_bytes_per_s: Reading<BytesPerSecond>,
    pub pcie_to_device_words_per_s: Reading<WordsPerSecond>,
    pub pcie_from_device_words_per_s: Reading<WordsPerSecond>,
    pub firmware: Reading<String>,
    pub m3_fw: Reading<String>,
    pub m3_bl_fw: Reading<String>,
    pub arc_fw: Reading<String>,
    pub eth_fw: Reading<String>,
    pub gddr_fw: Reading<String>,
    pub tt_flash: Reading<String>,
    pub memory: Memory,
}

impl Device {
    /// Returns a device without any reading.
    pub fn absent() -> Self {
        Self {
            id: DeviceId(0),
            location: Location::Local,
            state: State::Unknown,
            health: Health::Unknown,
            health_reasons: Vec::new(),
            memory: Memory::missing(Missing::NotTracked),
            // Computed for every chip, or unknown.
            metal_id: Err(Missing::NoSource),
            name: Err(Missing::NoSource),
            arch: Err(Missing::NoSource),
            board: Err(Missing::NoSource),
            chip: Err(Missing::NoSource),
            via: Err(Missing::NoSource),
            unique_id: Err(Missing::NoSource),
            aiclk_limit_mhz: Err(Missing::NoSource),
            // Read from files, which a chip behind another one does not have, or computed from them.
            bdf: Err(Missing::RemoteChip),
            asic_id: Err(Missing::RemoteChip),
            serial: Err(Missing::RemoteChip),
            numa_node: Err(Missing::RemoteChip),
            temperature: Err(Missing::RemoteChip),
            temperature_limit: Err(Missing::RemoteChip),
            fan_rpm: Err(Missing::RemoteChip),
            power: Err(Missing::RemoteChip),
            power_limit: Err(Missing::RemoteChip),
            voltage: Err(Missing::RemoteChip),
            voltage_limit: Err(Missing::RemoteChip),
            current: Err(Missing::RemoteChip),
            current_limit: Err(Missing::RemoteChip),
            aiclk_mhz: Err(Missing::RemoteChip),
            axiclk_mhz: Err(Missing::RemoteChip),
            arcclk_mhz: Err(Missing::RemoteChip),
            heartbeat: Err(Missing::RemoteChip),
            heartbeat_alive: Err(Missing::RemoteChip),
            therm_trip_count: Err(Missing::RemoteChip),
            pcie_gen: Err(Missing::RemoteChip),
            pcie_width: Err(Missing::RemoteChip),
            pcie_gen_max: Err(Missing::RemoteChip),
            pcie_width_max: Err(Missing::RemoteChip),
            pcie_degraded: Err(Missing::RemoteChip),
            pcie_to_device_bytes_per_s: Err(Missing::RemoteChip),
            pcie_from_device_bytes_per_s: Err(Missing::RemoteChip),
            pcie_to_device_words_per_s: Err(Missing::RemoteChip),
            pcie_from_device_words_per_s: Err(Missing::RemoteChip),
            firmware: Err(Missing::RemoteChip),
            m3_fw: Err(Missing::RemoteChip),
            m3_bl_fw: Err(Missing::RemoteChip),
            arc_fw: Err(Missing::RemoteChip),
            eth_fw: Err(Missing::RemoteChip),
            tt_flash: Err(Missing::RemoteChip),
            // Read from the chip itself.
            board_temperature: Err(Missing::NeedsDeep),
            gddr_temperature: Err(Missing::NeedsDeep),
            gddr_temperatures: Err(Missing::NeedsDeep),
            board_power: Err(Missing::NeedsDeep),
            board_power_limit: Err(Missing::NeedsDeep),
            input_current: Err(Missing::NeedsDeep),
            throttle_reasons: Err(Missing::NeedsDeep),
            utilization: Err(Missing::NeedsDeep),
            queue_utilization: Err(Missing::NeedsDeep),
            core_efficiency: Err(Missing::NeedsDeep),
            programs_per_s: Err(Missing::NeedsDeep),
            queues_waiting: Err(Missing::NeedsDeep),
            deep_age_s: Err(Missing::NeedsDeep),
            tensix_cores: Err(Missing::NeedsDeep),
            eth_links: Err(Missing::NeedsDeep),
            eth_links_up: Err(Missing::NeedsDeep),
            gddr_trained: Err(Missing::NeedsDeep),
            gddr_speed_mts: Err(Missing::NeedsDeep),
            gddr_corrected_errors: Err(Missing::NeedsDeep),
            gddr_uncorrected_errors: Err(Missing::NeedsDeep),
            gddr_fw: Err(Missing::NeedsDeep),
        }
    }
}

/// The rows of [`Device`], in the order of every output.
pub const DEVICE: &[Field<Device>] = &[
    field!(Device.id, "Id", Section::Identity, Unit::None)
        .help("Row of the chip: N of /dev/tenstorrent/N, or a number after the highest of those for a remote chip."),
    field!(Device.metal_id, "Metal id", Section::Identity, Unit::None)
        .help("TT-Metal's logical id: local chips in the order of their PCI addresses, then remote ones."),
    field!(Device.name, "Name", Section::Identity, Unit::None).help("Name of the chip as TT-Metal spells it."),
    field!(Device.arch, "Architecture", Section::Identity, Unit::None).help("wormhole, blackhole or grayskull.").from(Attr::PciDevice),
    field!(Device.board, "Board", Section::Identity, Unit::None).help("Card type as the driver prints it.").from(Attr::CardType),
    field!(Device.chip, "Chip", Section::Identity, Unit::None).help("Position on the board: L or R on an n300."),
    field!(Device.location, "Location", Section::Identity, Unit::None).help("local (on PCIe) or remote (reached over Ethernet)."),
    field!(Device.via, "Via", Section::Identity, Unit::None).help("The local chip a remote one is reached through."),
    field!(Device.bdf, "PCI address", Section::Identity, Unit::None).help("PCI address."),
    field!(Device.asic_id, "ASIC id", Section::Identity, Unit::None).help("The chip's own id, 16 hexadecimal digits.").file(Attr::AsicId),
    Field::computed("asic_id_decimal", "ASIC id, decimal", Section::Identity, Unit::None, |d: &Device| d.asic_id_decimal())
        .help("The same as a decimal number, as UMD and Kubernetes resources spell ids."),
    field!(Device.unique_id, "Unique id", Section::Identity, Unit::None).help(
        "The id under which UMD and TT-Metal's statistics know the chip, decimal; known from a cluster descriptor or once \
            seen in use.",
    ),
    field!(Device.serial, "Serial", Section::Identity, Unit::None)
        .help("The board's serial number, 16 hexadecimal digits; chips of one board share it.")
        .file(Attr::Serial),
    field!(Device.numa_node, "NUMA node", Section::Identity, Unit::None).help("NUMA node of the slot.").file(Attr::NumaNode),
    field!(Device.state, "State", Section::Performance, Unit::None).help("ok, starting, resetting, gone, unreadable or unknown."),
    field!(Device.health, "Health", Section::Performance, Unit::None)
        .help("ok, warning or critical against the limits the device publishes; unknown without limits."),
    field!(Device.health_reasons, "Health reasons", Section::Performance, Unit::None).help("Why state or health is not ok."),
    field!(Device.temperature, "Temperature", Section::Temperature, Unit::Celsius)
        .help("Temperature of the chip.")
        .file(Attr::Temperature)
        .metric("ttmon_device_temperature_celsius")
        .kept("temp")
        .charts(&[Chart::new(4, "temperature").limit("temperature_limit").critical(1.0)]),
    field!(Device.temperature_limit, "Temperature limit", Section::Temperature, Unit::Celsius)
        .help("Temperature from which the chip throttles.")
        .file(Attr::TemperatureMax)
        .metric("ttmon_device_temperature_limit_celsius"),
    field!(Device.board_temperature, "Board temperature", Section::Temperature, Unit::Celsius)
        .help("Temperature of the board, where its firmware measures one.")
        .deep()
        .full_metric("ttmon_device_board_temperature_celsius"),
    field!(Device.gddr_temperature, "GDDR temperature", Section::Temperature, Unit::Celsius)
        .help("Temperature of the hottest GDDR chip.")
        .deep()
        .metric("ttmon_device_gddr_temperature_celsius")
        .kept("gddr_temperature")
        .charts(&[Chart::new(12, "gddr")]),
    field!(Device.gddr_temperatures, "GDDR temperatures", Section::Temperature, Unit::None)
        .help("Bottom and top of each GDDR channel that is not harvested, in the order of channels, in degrees Celsius.")
        .deep(),
    field!(Device.fan_rpm, "Fan speed", Section::Temperature, Unit::Rpm)
        .help("Speed of the fan, on Blackhole boards that control one.")
        .file(Attr::Fan)
        .full_metric("ttmon_device_fan_rpm")
        .kept("fan"),
    field!(Device.power, "Power", Section::Power, Unit::Watts)
        .help("Power of the chip's core rail, not of the board.")
        .file(Attr::Power)
        .metric("ttmon_device_power_watts")
        .kept("power")
        .charts(&[Chart::new(2, "power").limit("power_limit")]),
    field!(Device.power_limit, "Power limit", Section::Power, Unit::Watts)
        .help("Limit of the core rail's power.")
        .file(Attr::PowerMax)
        .full_metric("ttmon_device_power_limit_watts"),
    field!(Device.board_power, "Board power", Section::Power, Unit::Watts)
        .help("Input power of the whole board.")
        .deep()
        .metric("ttmon_device_board_power_watts")
        .kept("board_power")
        .charts(&[Chart::new(13, "board_power").limit("board_power_limit")]),
    field!(Device.board_power_limit, "Board power limit", Section::Power, Unit::Watts)
        .help("Limit of the board's input power.")
        .deep()
        .full_metric("ttmon_device_board_power_limit_watts"),
    field!(Device.input_current, "Input current", Section::Power, Unit::Amperes)
        .help("Input current of the board.")
        .deep()
        .full_metric("ttmon_device_input_current_amperes"),
    field!(Device.throttle_reasons, "Throttle reasons", Section::Power, Unit::None)
        .help("What holds the AI clock below its maximum, by the firmware: power, current, temperature and others; empty for nothing.")
        .deep(),
    field!(Device.voltage, "Voltage", Section::Power, Unit::Volts)
        .help("Voltage of the core rail.")
        .file(Attr::Voltage)
        .full_metric("ttmon_device_voltage_volts")
        .kept("volt"),
    field!(Device.voltage_limit, "Voltage limit", Section::Power, Unit::Volts)
        .help("Highest voltage of the core rail.")
        .file(Attr::VoltageMax)
        .full_metric("ttmon_device_voltage_limit_volts"),
    field!(Device.current, "Current", Section::Power, Unit::Amperes)
        .help("Current of the core rail.")
        .file(Attr::Current)
        .metric("ttmon_device_current_amperes")
        .kept("curr"),
    field!(Device.current_limit, "Current limit", Section::Power, Unit::Amperes)
        .help("Limit of the core rail's current.")
        .file(Attr::CurrentMax)
        .metric("ttmon_device_current_limit_amperes"),
    field!(Device.aiclk_mhz, "AI clock", Section::Clock, Unit::Megahertz)
        .help("Clock of the compute cores.")
        .file(Attr::Aiclk)
        .metric("ttmon_device_aiclk_hertz")
        .kept("aiclk")
        .charts(&[Chart::new(5, "aiclk").limit("aiclk_limit_mhz")]),
    field!(Device.axiclk_mhz, "AXI clock", Section::Clock, Unit::Megahertz)
        .help("Clock of the chip's buses.")
        .file(Attr::Axiclk)
        .full_metric("ttmon_device_axiclk_hertz"),
    field!(Device.arcclk_mhz, "ARC clock", Section::Clock, Unit::Megahertz)
        .help("Clock of the management cores.")
        .file(Attr::Arcclk)
        .full_metric("ttmon_device_arcclk_hertz"),
    field!(Device.aiclk_limit_mhz, "AI clock limit", Section::Clock, Unit::Megahertz)
        .help("Nominal highest AI clock, from the product table.")
        .full_metric("ttmon_device_aiclk_limit_hertz")
        .fixed(),
    field!(Device.utilization, "Utilization", Section::Utilization, Unit::Ratio)
        .help(
            "Share of time with a program at work, as TT-Metal's dispatch firmware counts it: that of the busiest command \
            queue. 0 where no process holds the chip.",
        )
        .deep()
        .rate(SamplesNeeded::Two)
        .metric("ttmon_device_utilization_ratio")
        .kept("utilization")
        .charts(&[Chart::new(14, "utilization")]),
    field!(Device.queue_utilization, "Queue utilization", Section::Utilization, Unit::None)
        .help("The utilization of each command queue.")
        .deep()
        .rate(SamplesNeeded::Two),
    field!(Device.core_efficiency, "Core efficiency", Section::Utilization, Unit::Ratio)
        .help("Work of all cores as a share of what they could do in the time.")
        .deep()
        .rate(SamplesNeeded::Two)
        .full_metric("ttmon_device_core_efficiency_ratio"),
    field!(Device.programs_per_s, "Programs/s", Section::Utilization, Unit::None)
        .help("Programs that the chip has finished a second.")
        .deep()
        .rate(SamplesNeeded::Two)
        .full_metric("ttmon_device_programs_per_second"),
    field!(Device.queues_waiting, "Queues waiting", Section::Utilization, Unit::Count)
        .help("Command queues that wait for the host.")
        .deep()
        .full_metric("ttmon_device_queues_waiting"),
    field!(Device.deep_age_s, "Deep age", Section::Utilization, Unit::None)
        .help("Seconds since the chip itself was read: an idle chip is read every 30 s.")
        .deep(),
    field!(Device.heartbeat, "Heartbeat", Section::Performance, Unit::Count)
        .help("Counter of the firmware; compare for change only.")
        .file(Attr::Heartbeat),
    field!(Device.heartbeat_alive, "Heartbeat alive", Section::Performance, Unit::None)
        .help("Whether the heartbeat moved within a second or more.")
        .from(Attr::Heartbeat)
        .rate(SamplesNeeded::TwoSlow)
        .metric("ttmon_device_heartbeat_alive")
        .kept("beat"),
    field!(Device.therm_trip_count, "Thermal trips", Section::Performance, Unit::Count)
        .help("Shutdowns by over-temperature since power-on.")
        .file(Attr::ThermTrips)
        .counter("ttmon_device_therm_trips_total")
        .kept("trips"),
    Field::computed("throttling", "Throttling", Section::Performance, Unit::None, |d: &Device| Member::get(&d.throttling()))
        .help("Whether the AI clock of a chip in use is held down at its temperature or power limit.")
        .metric("ttmon_device_throttling"),
    field!(Device.tensix_cores, "Tensix cores", Section::Identity, Unit::Count)
        .help("Tensix cores that are not harvested. Where it is known, the L1 total is exact, else nominal.")
        .deep()
        .full_metric("ttmon_device_tensix_cores"),
    field!(Device.eth_links, "Ethernet links", Section::Performance, Unit::None)
        .help("Each Ethernet channel that is not harvested, and whether its link is up.")
        .deep(),
    field!(Device.eth_links_up, "Ethernet links up", Section::Performance, Unit::Count)
        .help("Ethernet links that are up.")
        .deep()
        .metric("ttmon_device_eth_links_up"),
    field!(Device.gddr_trained, "GDDR trained", Section::Performance, Unit::None)
        .help("Whether the training of every GDDR channel succeeded.")
        .deep()
        .full_metric("ttmon_device_gddr_trained"),
    field!(Device.gddr_speed_mts, "GDDR speed", Section::Performance, Unit::None).help("Speed of the GDDR in MT/s.").deep(),
    field!(Device.gddr_corrected_errors, "GDDR corrected errors", Section::Performance, Unit::Count)
        .help("Corrected errors of reads and writes; each of the chip's counters stops at 255.")
        .deep()
        .full_metric("ttmon_device_gddr_corrected_errors"),
    field!(Device.gddr_uncorrected_errors, "GDDR uncorrected errors", Section::Performance, Unit::Count)
        .help("Directions of channels (read, write) that had an error that was not corrected.")
        .deep()
        .metric("ttmon_device_gddr_uncorrected_errors"),
    field!(Device.pcie_gen, "PCIe generation", Section::Pcie, Unit::None)
        .help("Generation of the link now; low while idle may be deliberate.")
        .file(Attr::LinkSpeed)
        .full_metric("ttmon_device_pcie_gen"),
    field!(Device.pcie_width, "PCIe width", Section::Pcie, Unit::None)
        .help("Lanes of the link now.")
        .file(Attr::LinkWidth)
        .full_metric("ttmon_device_pcie_width"),
    field!(Device.pcie_gen_max, "PCIe generation max", Section::Pcie, Unit::None)
        .help("Highest generation of the chip.")
        .file(Attr::LinkSpeedMax)
        .full_metric("ttmon_device_pcie_gen_max"),
    field!(Device.pcie_width_max, "PCIe width max", Section::Pcie, Unit::None)
        .help("Most lanes of the chip.")
        .file(Attr::LinkWidthMax)
        .full_metric("ttmon_device_pcie_width_max"),
    field!(Device.pcie_degraded, "PCIe degraded", Section::Pcie, Unit::None)
        .help("Whether the link has fewer lanes than the chip and its slot allow.")
        .from(Attr::LinkWidth)
        .metric("ttmon_device_pcie_degraded"),
    field!(Device.pcie_to_device_bytes_per_s, "PCIe to device", Section::Pcie, Unit::BytesPerSecond)
        .help("Data moved to the chip; not on Blackhole, where the size of a word is disputed.")
        .from(Attr::HostPosted0)
        .rate(SamplesNeeded::Two)
        .metric("ttmon_device_pcie_to_device_bytes_per_second")
        .kept("to")
        .charts(&[Chart::new(6, "pcie_to")]),
    field!(Device.pcie_from_device_bytes_per_s, "PCIe from device", Section::Pcie, Unit::BytesPerSecond)
        .help("Data moved from the chip; not on Blackhole, where the size of a word is disputed.")
        .from(Attr::ChipPosted0)
        .rate(SamplesNeeded::Two)
        .metric("ttmon_device_pcie_from_device_bytes_per_second")
        .kept("from")
        .charts(&[Chart::new(7, "pcie_from")]),
    field!(Device.pcie_to_device_words_per_s, "PCIe words to device", Section::Pcie, Unit::WordsPerSecond)
        .help("Words of the chip's network moved to it.")
        .from(Attr::HostPosted0)
        .rate(SamplesNeeded::Two)
        .full_metric("ttmon_device_pcie_to_device_words_per_second")
        .kept("to_words")
        .charts(&[Chart::new(8, "pcie_words_to").unless("pcie_to_device_bytes_per_s")]),
    field!(Device.pcie_from_device_words_per_s, "PCIe words from device", Section::Pcie, Unit::WordsPerSecond)
        .help("Words of the chip's network moved from it.")
        .from(Attr::ChipPosted0)
        .rate(SamplesNeeded::Two)
        .full_metric("ttmon_device_pcie_from_device_words_per_second")
        .kept("from_words")
        .charts(&[Chart::new(9, "pcie_words_from").unless("pcie_from_device_bytes_per_s")]),
    field!(Device.firmware, "Firmware bundle", Section::Firmware, Unit::None)
        .help("Version of the firmware bundle; 80.x is older than 18.x.")
        .file(Attr::FirmwareBundle),
    field!(Device.m3_fw, "M3 firmware", Section::Firmware, Unit::None).help("Board controller's application.").file(Attr::FirmwareM3App),
    field!(Device.m3_bl_fw, "M3 boot loader", Section::Firmware, Unit::None)
        .help("Board controller's boot loader.")
        .file(Attr::FirmwareM3Boot),
    field!(Device.arc_fw, "ARC firmware", Section::Firmware, Unit::None).help("Management cores' firmware.").file(Attr::FirmwareArc),
    field!(Device.eth_fw, "Ethernet firmware", Section::Firmware, Unit::None).help("Ethernet cores' firmware.").file(Attr::FirmwareEth),
    field!(Device.gddr_fw, "GDDR firmware", Section::Firmware, Unit::None).help("Firmware of the GDDR controllers.").deep(),
    field!(Device.tt_flash, "tt-flash", Section::Firmware, Unit::None).help("Version of the tool that flashed it.").file(Attr::TtFlash),
    field!(Device.memory.dram.total = "memory.total", "DRAM total", Section::Memory, Unit::Bytes)
        .help(
            "DRAM of the chip that TT-Metal can allocate: banks of the product table times the bytes of one (1 GiB; Blackhole \
            4,278,190,080).",
        )
        .metric("ttmon_device_memory_total_bytes")
        .fixed(),
    field!(Device.memory.dram.used = "memory.used", "DRAM used", Section::Memory, Unit::Bytes)
        .help("DRAM bar: dram + trace, as asked for by programs; a lower bound where untracked_processes is not 0.")
        .metric("ttmon_device_memory_used_bytes")
        .kept("dram")
        .charts(&[Chart::new(1, "dram").limit("memory.total").critical(0.99)]),
    Field::computed("memory.free", "DRAM free", Section::Memory, Unit::Bytes, |d: &Device| Member::get(&d.memory.dram.free()))
        .help("Total less used.")
        .metric("ttmon_device_memory_free_bytes"),
    field!(Device.memory.l1.total = "memory.l1_total", "L1 total", Section::Memory, Unit::Bytes)
        .help(
            "L1 of the chip: its cores times the bytes of one. Nominal cores of the product table, or with --deep the exact \
            number (tensix_cores).",
        )
        .full_metric("ttmon_device_memory_l1_total_bytes")
        .fixed(),
    field!(Device.memory.l1.used = "memory.l1_used", "L1 used", Section::Memory, Unit::Bytes)
        .help("L1 bar: l1 + l1_small + circular buffers; a lower bound where untracked_processes is not 0.")
        .full_metric("ttmon_device_memory_l1_used_bytes")
        .kept("l1")
        .charts(&[Chart::new(3, "l1").limit("memory.l1_total")]),
    Field::computed("memory.l1_free", "L1 free", Section::Memory, Unit::Bytes, |d: &Device| Member::get(&d.memory.l1.free()))
        .help("Total less used.")
        .full_metric("ttmon_device_memory_l1_free_bytes"),
    field!(Device.memory.untracked_processes, "Untracked processes", Section::Memory, Unit::Count)
        .help("Processes that hold the chip and do not report their memory.")
        .metric("ttmon_device_memory_untracked_processes")
        .kept("untracked"),
    field!(Device.memory.holders, "Holders", Section::Memory, Unit::Count)
        .help(
            "Processes that have the chip open, those that cannot be named included; of a remote chip, those of the chip it is \
            reached through.",
        )
        .metric("ttmon_device_memory_holders"),
    field!(Device.memory.hidden_processes, "Hidden processes", Section::Memory, Unit::Count)
        .help("Open files of processes in other pid namespaces, which cannot be named.")
        .full_metric("ttmon_device_memory_hidden_processes"),
    field!(Device.memory.stale_bytes, "Stale bytes", Section::Memory, Unit::Bytes)
        .help("Bytes that dead processes left in TT-Metal's statistics; in no other figure.")
        .metric("ttmon_device_memory_stale_bytes"),
    field!(Device.memory.stale_processes, "Stale processes", Section::Memory, Unit::Count)
        .help("Processes that have exited while their device file is still open.")
        .metric("ttmon_device_memory_stale_processes"),
    field!(Device.memory.refusals, "Refused allocations", Section::Memory, Unit::Count)
        .help("Allocations that tracked programs were refused; from the service: since it started.")
        .counter("ttmon_device_memory_refusals_total"),
];
