//! A device: its members, the driver's files, and all values that are shown. A new field is one row here.

use super::table::{files, members, table};
use super::value::FromFile;
use super::{Chart, Member, Samples};
use crate::attributes::*;
use crate::identity::{Bdf, ChipPosition, DeviceId, UniqueId};
use crate::memory::Memory;
use crate::missing::{Missing, Reading};
use crate::product::Arch;
use crate::snapshot::{Health, Location, State};
use crate::units::{Amperes, BytesPerSecond, Celsius, Megahertz, Rpm, Volts, Watts, WordsPerSecond};

/// The files of a device. The state and the architecture of the device affect each reading.
pub(crate) trait Files {
    /// Returns the reading of a file.
    fn read<T: FromFile>(&self, attr: Attr) -> Reading<T>;
}

// Names never change. Rows may be added, but not renamed.
macro_rules! rows {
    ($make:ident) => {
        $make! {
            Device DEVICE {
                /// The memory, with the rows below and those of `DEVICE_KIND`.
                memory: Memory = Memory::missing(Missing::NotTracked);
            }
            let id: DeviceId = is(DeviceId(0)),
                "Id", Identity, None, "Row of the chip: N of /dev/tenstorrent/N, or a number after the highest of those for a remote chip.";
            let metal_id: Reading<u64> = or(NoSource),
                "Metal id", Identity, None, "TT-Metal's logical id: local chips in the order of their PCI addresses, then remote ones.";
            let name: Reading<String> = or(NoSource),
                "Name", Identity, None, "Name of the chip as TT-Metal spells it.";
            let arch: Reading<Arch> = or(NoSource),
                "Architecture", Identity, None, "wormhole, blackhole or grayskull." .from(Attr::PciDevice);
            let board: Reading<String> = or(NoSource),
                "Board", Identity, None, "Card type as the driver prints it." .from(Attr::CardType);
            let chip: Reading<ChipPosition> = or(NoSource),
                "Chip", Identity, None, "Position on the board: L or R on an n300.";
            let location: Location = is(Location::Local),
                "Location", Identity, None, "local (on PCIe) or remote (reached over Ethernet).";
            let via: Reading<DeviceId> = or(NoSource),
                "Via", Identity, None, "The local chip a remote one is reached through.";
            let bdf: Reading<Bdf> = or(RemoteChip),
                "PCI address", Identity, None, "PCI address.";
            let asic_id: Reading<String> = file(AsicId Class "tt_asic_id" Hex64 Static ANY_BUT_ONES, false, [v(2, 3), v(2, 1), None]),
                "ASIC id", Identity, None, "The chip's own id, 16 hexadecimal digits.";
            made "asic_id_decimal" = |d| d.asic_id_decimal(),
                "ASIC id, decimal", Identity, None, "The same as a decimal number, as UMD and Kubernetes resources spell ids.";
            let unique_id: Reading<UniqueId> = or(NoSource),
                "Unique id", Identity, None, "The id under which UMD and TT-Metal's statistics know the chip, decimal; known from a cluster descriptor or once seen in use.";
            let serial: Reading<String> = file(Serial Class "tt_serial" Hex64 Static ANY_BUT_ONES, false, CLASS_1_28),
                "Serial", Identity, None, "The board's serial number, 16 hexadecimal digits; chips of one board share it.";
            let numa_node: Reading<u64> = file(NumaNode Pci "numa_node" DecimalOrNone Static 0..=65_535, false, KERNEL),
                "NUMA node", Identity, None, "NUMA node of the slot.";
            let state: State = is(State::Unknown),
                "State", Performance, None, "ok, starting, resetting, gone, unreadable or unknown.";
            let health: Health = is(Health::Unknown),
                "Health", Performance, None, "ok, warning or critical against the limits the device publishes; unknown without limits.";
            let health_reasons: Vec<String> = is(Vec::new()),
                "Health reasons", Performance, None, "Why state or health is not ok.";
            let temperature: Reading<Celsius> = file(Temperature Hwmon "temp1_input" Decimal Dynamic 0..=150_000, true, HWMON),
                "Temperature", Temperature, Celsius, "Temperature of the chip." .metric("ttmon_device_temperature_celsius").kept().short("temp").charts(&[Chart::new(4, "temperature").of("temperature_limit").critical(1.0)]);
            let temperature_limit: Reading<Celsius> = file(TemperatureMax Hwmon "temp1_max" Decimal Static 1_000..=150_000, false, HWMON_MAX),
                "Temperature limit", Temperature, Celsius, "Temperature from which the chip throttles." .metric("ttmon_device_temperature_limit_celsius");
            let board_temperature: Reading<Celsius> = or(NeedsDeep),
                "Board temperature", Temperature, Celsius, "Temperature of the board, where its firmware measures one." .deep().metric("ttmon_device_board_temperature_celsius").full_only();
            let gddr_temperature: Reading<Celsius> = or(NeedsDeep),
                "GDDR temperature", Temperature, Celsius, "Temperature of the hottest GDDR chip." .deep().metric("ttmon_device_gddr_temperature_celsius").kept().charts(&[Chart::new(12, "gddr")]);
            let gddr_temperatures: Reading<Vec<f64>> = or(NeedsDeep),
                "GDDR temperatures", Temperature, None, "Bottom and top of each GDDR channel that is not harvested, in the order of channels, in degrees Celsius." .deep();
            let fan_rpm: Reading<Rpm> = file(Fan Hwmon "fan1_input" Decimal Dynamic 0..=u64::MAX, false, [None, v(2, 0), None]),
                "Fan speed", Temperature, Rpm, "Speed of the fan, on Blackhole boards that control one." .metric("ttmon_device_fan_rpm").full_only().kept().short("fan");
            let power: Reading<Watts> = file(Power Hwmon "power1_input" Decimal Dynamic 0..=1_000_000_000, true, HWMON),
                "Power", Power, Watts, "Power of the chip's core rail, not of the board." .metric("ttmon_device_power_watts").kept().short("power").charts(&[Chart::new(2, "power").of("power_limit")]);
            let power_limit: Reading<Watts> = file(PowerMax Hwmon "power1_max" Decimal Static 1_000_000..=1_000_000_000, false, HWMON_MAX),
                "Power limit", Power, Watts, "Limit of the core rail's power." .metric("ttmon_device_power_limit_watts").full_only();
            let board_power: Reading<Watts> = or(NeedsDeep),
                "Board power", Power, Watts, "Input power of the whole board." .deep().metric("ttmon_device_board_power_watts").kept().charts(&[Chart::new(13, "board_power").of("board_power_limit")]);
            let board_power_limit: Reading<Watts> = or(NeedsDeep),
                "Board power limit", Power, Watts, "Limit of the board's input power." .deep().metric("ttmon_device_board_power_limit_watts").full_only();
            let input_current: Reading<Amperes> = or(NeedsDeep),
                "Input current", Power, Amperes, "Input current of the board." .deep().metric("ttmon_device_input_current_amperes").full_only();
            let throttle_reasons: Reading<Vec<String>> = or(NeedsDeep),
                "Throttle reasons", Power, None, "What holds the AI clock below its maximum, by the firmware: power, current, temperature and others; empty for nothing." .deep();
            let voltage: Reading<Volts> = file(Voltage Hwmon "in0_input" Decimal Dynamic 0..=2_000, true, HWMON),
                "Voltage", Power, Volts, "Voltage of the core rail." .metric("ttmon_device_voltage_volts").full_only().kept().short("volt");
            let voltage_limit: Reading<Volts> = file(VoltageMax Hwmon "in0_max" Decimal Static 100..=2_000, false, HWMON_MAX),
                "Voltage limit", Power, Volts, "Highest voltage of the core rail." .metric("ttmon_device_voltage_limit_volts").full_only();
            let current: Reading<Amperes> = file(Current Hwmon "curr1_input" Decimal Dynamic 0..=1_000_000, true, HWMON),
                "Current", Power, Amperes, "Current of the core rail." .metric("ttmon_device_current_amperes").kept().short("curr");
            let current_limit: Reading<Amperes> = file(CurrentMax Hwmon "curr1_max" Decimal Static 1_000..=2_000_000, false, HWMON_MAX),
                "Current limit", Power, Amperes, "Limit of the core rail's current." .metric("ttmon_device_current_limit_amperes");
            let aiclk_mhz: Reading<Megahertz> = file(Aiclk Class "tt_aiclk" Decimal Dynamic CLOCK, true, CLASS_1_28),
                "AI clock", Clock, Megahertz, "Clock of the compute cores." .metric("ttmon_device_aiclk_hertz").kept().short("aiclk").charts(&[Chart::new(5, "aiclk").of("aiclk_limit_mhz")]);
            let axiclk_mhz: Reading<Megahertz> = file(Axiclk Class "tt_axiclk" Decimal Dynamic CLOCK, true, CLASS_1_28),
                "AXI clock", Clock, Megahertz, "Clock of the chip's buses." .metric("ttmon_device_axiclk_hertz").full_only();
            let arcclk_mhz: Reading<Megahertz> = file(Arcclk Class "tt_arcclk" Decimal Dynamic CLOCK, true, CLASS_1_28),
                "ARC clock", Clock, Megahertz, "Clock of the management cores." .metric("ttmon_device_arcclk_hertz").full_only();
            let aiclk_limit_mhz: Reading<Megahertz> = or(NoSource),
                "AI clock limit", Clock, Megahertz, "Nominal highest AI clock, from the product table." .metric("ttmon_device_aiclk_limit_hertz").full_only().fixed();
            let utilization: Reading<f64> = or(NeedsDeep),
                "Utilization", Utilization, Ratio, "Share of time with a program at work, as TT-Metal's dispatch firmware counts it: that of the busiest command queue. 0 where no process holds the chip." .deep().rate(Samples::Two).metric("ttmon_device_utilization_ratio").kept().charts(&[Chart::new(14, "utilization")]);
            let queue_utilization: Reading<Vec<f64>> = or(NeedsDeep),
                "Queue utilization", Utilization, None, "The utilization of each command queue." .deep().rate(Samples::Two);
            let core_efficiency: Reading<f64> = or(NeedsDeep),
                "Core efficiency", Utilization, Ratio, "Work of all cores as a share of what they could do in the time." .deep().rate(Samples::Two).metric("ttmon_device_core_efficiency_ratio").full_only();
            let programs_per_s: Reading<f64> = or(NeedsDeep),
                "Programs/s", Utilization, None, "Programs that the chip has finished a second." .deep().rate(Samples::Two).metric("ttmon_device_programs_per_second").full_only();
            let queues_waiting: Reading<u64> = or(NeedsDeep),
                "Queues waiting", Utilization, Count, "Command queues that wait for the host." .deep().metric("ttmon_device_queues_waiting").full_only();
            let deep_age_s: Reading<f64> = or(NeedsDeep),
                "Deep age", Utilization, None, "Seconds since the chip itself was read: an idle chip is read every 30 s." .deep();
            let heartbeat: Reading<u64> = file(Heartbeat Class "tt_heartbeat" Decimal Dynamic U32_VALID, true, [v(2, 7), v(2, 7), None]),
                "Heartbeat", Performance, Count, "Counter of the firmware; compare for change only.";
            let heartbeat_alive: Reading<bool> = or(RemoteChip),
                "Heartbeat alive", Performance, None, "Whether the heartbeat moved within a second or more." .from(Attr::Heartbeat).rate(Samples::TwoSlow).metric("ttmon_device_heartbeat_alive").kept().short("beat");
            let therm_trip_count: Reading<u64> = file(ThermTrips Class "tt_therm_trip_count" Decimal Dynamic U32_VALID, true, [None, v(2, 7), None]),
                "Thermal trips", Performance, Count, "Shutdowns by over-temperature since power-on." .counter("ttmon_device_therm_trips_total").kept().short("trips");
            made "throttling" = |d| Member::get(&d.throttling()),
                "Throttling", Performance, None, "Whether the AI clock of a chip in use is held down at its temperature or power limit." .metric("ttmon_device_throttling");
            let tensix_cores: Reading<u64> = or(NeedsDeep),
                "Tensix cores", Identity, Count, "Tensix cores that are not harvested. Where it is known, the L1 total is exact, else nominal." .deep().metric("ttmon_device_tensix_cores").full_only();
            let eth_links: Reading<Vec<String>> = or(NeedsDeep),
                "Ethernet links", Performance, None, "Each Ethernet channel that is not harvested, and whether its link is up." .deep();
            let eth_links_up: Reading<u64> = or(NeedsDeep),
                "Ethernet links up", Performance, Count, "Ethernet links that are up." .deep().metric("ttmon_device_eth_links_up");
            let gddr_trained: Reading<bool> = or(NeedsDeep),
                "GDDR trained", Performance, None, "Whether the training of every GDDR channel succeeded." .deep().metric("ttmon_device_gddr_trained").full_only();
            let gddr_speed_mts: Reading<u64> = or(NeedsDeep),
                "GDDR speed", Performance, None, "Speed of the GDDR in MT/s." .deep();
            let gddr_corrected_errors: Reading<u64> = or(NeedsDeep),
                "GDDR corrected errors", Performance, Count, "Corrected errors of reads and writes; each of the chip's counters stops at 255." .deep().metric("ttmon_device_gddr_corrected_errors").full_only();
            let gddr_uncorrected_errors: Reading<u64> = or(NeedsDeep),
                "GDDR uncorrected errors", Performance, Count, "Directions of channels (read, write) that had an error that was not corrected." .deep().metric("ttmon_device_gddr_uncorrected_errors");
            let pcie_gen: Reading<u64> = file(LinkSpeed Pci "current_link_speed" LinkSpeed Slow GENERATION, false, KERNEL),
                "PCIe generation", Pcie, None, "Generation of the link now; low while idle may be deliberate." .metric("ttmon_device_pcie_gen").full_only();
            let pcie_width: Reading<u64> = file(LinkWidth Pci "current_link_width" Decimal Slow LANES, false, KERNEL),
                "PCIe width", Pcie, None, "Lanes of the link now." .metric("ttmon_device_pcie_width").full_only();
            let pcie_gen_max: Reading<u64> = file(LinkSpeedMax Pci "max_link_speed" LinkSpeed Static GENERATION, false, KERNEL),
                "PCIe generation max", Pcie, None, "Highest generation of the chip." .metric("ttmon_device_pcie_gen_max").full_only();
            let pcie_width_max: Reading<u64> = file(LinkWidthMax Pci "max_link_width" Decimal Static LANES, false, KERNEL),
                "PCIe width max", Pcie, None, "Most lanes of the chip." .metric("ttmon_device_pcie_width_max").full_only();
            let pcie_degraded: Reading<bool> = or(RemoteChip),
                "PCIe degraded", Pcie, None, "Whether the link has fewer lanes than the chip and its slot allow." .from(Attr::LinkWidth).metric("ttmon_device_pcie_degraded");
            let pcie_to_device_bytes_per_s: Reading<BytesPerSecond> = or(RemoteChip),
                "PCIe to device", Pcie, BytesPerSecond, "Data moved to the chip; not on Blackhole, where the size of a word is disputed." .from(Attr::HostPosted0).rate(Samples::Two).metric("ttmon_device_pcie_to_device_bytes_per_second").kept().short("to").charts(&[Chart::new(6, "pcie_to")]);
            let pcie_from_device_bytes_per_s: Reading<BytesPerSecond> = or(RemoteChip),
                "PCIe from device", Pcie, BytesPerSecond, "Data moved from the chip; not on Blackhole, where the size of a word is disputed." .from(Attr::ChipPosted0).rate(Samples::Two).metric("ttmon_device_pcie_from_device_bytes_per_second").kept().short("from").charts(&[Chart::new(7, "pcie_from")]);
            let pcie_to_device_words_per_s: Reading<WordsPerSecond> = or(RemoteChip),
                "PCIe words to device", Pcie, WordsPerSecond, "Words of the chip's network moved to it." .from(Attr::HostPosted0).rate(Samples::Two).metric("ttmon_device_pcie_to_device_words_per_second").full_only().kept().short("to_words").charts(&[Chart::new(8, "pcie_words_to").unless("pcie_to_device_bytes_per_s")]);
            let pcie_from_device_words_per_s: Reading<WordsPerSecond> = or(RemoteChip),
                "PCIe words from device", Pcie, WordsPerSecond, "Words of the chip's network moved from it." .from(Attr::ChipPosted0).rate(Samples::Two).metric("ttmon_device_pcie_from_device_words_per_second").full_only().kept().short("from_words").charts(&[Chart::new(9, "pcie_words_from").unless("pcie_from_device_bytes_per_s")]);
            let firmware: Reading<String> = file(FirmwareBundle Class "tt_fw_bundle_ver" FirmwareVersion Static ANY_BUT_ONES, false, [v(1, 29), v(1, 32), v(1, 29)]),
                "Firmware bundle", Firmware, None, "Version of the firmware bundle; 80.x is older than 18.x.";
            let m3_fw: Reading<String> = file(FirmwareM3App Class "tt_m3app_fw_ver" FirmwareVersion Static ANY_BUT_ONES, false, [v(1, 28), v(1, 32), None]),
                "M3 firmware", Firmware, None, "Board controller's application.";
            let m3_bl_fw: Reading<String> = file(FirmwareM3Boot Class "tt_m3bl_fw_ver" FirmwareVersion Static ANY_BUT_ONES, false, [v(1, 28), None, None]),
                "M3 boot loader", Firmware, None, "Board controller's boot loader.";
            let arc_fw: Reading<String> = file(FirmwareArc Class "tt_arc_fw_ver" FirmwareVersion Static ANY_BUT_ONES, false, WORMHOLE_GRAYSKULL),
                "ARC firmware", Firmware, None, "Management cores' firmware.";
            let eth_fw: Reading<String> = file(FirmwareEth Class "tt_eth_fw_ver" FirmwareVersion Static ANY_BUT_ONES, false, [v(1, 28), None, None]),
                "Ethernet firmware", Firmware, None, "Ethernet cores' firmware.";
            let gddr_fw: Reading<String> = or(NeedsDeep),
                "GDDR firmware", Firmware, None, "Firmware of the GDDR controllers." .deep();
            let tt_flash: Reading<String> = file(TtFlash Class "tt_ttflash_ver" FirmwareVersion Static ANY_BUT_ONES, false, WORMHOLE_GRAYSKULL),
                "tt-flash", Firmware, None, "Version of the tool that flashed it.";
            part "memory.total" (memory.dram.total),
                "DRAM total", Memory, Bytes, "DRAM of the chip that TT-Metal can allocate: banks of the product table times the bytes of one (1 GiB; Blackhole 4,278,190,080)." .metric("ttmon_device_memory_total_bytes").fixed();
            part "memory.used" (memory.dram.used),
                "DRAM used", Memory, Bytes, "DRAM bar: dram + trace, as asked for by programs; a lower bound where untracked_processes is not 0." .metric("ttmon_device_memory_used_bytes").kept().short("dram").charts(&[Chart::new(1, "dram").of("memory.total").critical(0.99)]);
            made "memory.free" = |d| Member::get(&d.memory.dram.free()),
                "DRAM free", Memory, Bytes, "Total less used." .metric("ttmon_device_memory_free_bytes");
            part "memory.l1_total" (memory.l1.total),
                "L1 total", Memory, Bytes, "L1 of the chip: its cores times the bytes of one. Nominal cores of the product table, or with --deep the exact number (tensix_cores)." .metric("ttmon_device_memory_l1_total_bytes").full_only().fixed();
            part "memory.l1_used" (memory.l1.used),
                "L1 used", Memory, Bytes, "L1 bar: l1 + l1_small + circular buffers; a lower bound where untracked_processes is not 0." .metric("ttmon_device_memory_l1_used_bytes").full_only().kept().short("l1").charts(&[Chart::new(3, "l1").of("memory.l1_total")]);
            made "memory.l1_free" = |d| Member::get(&d.memory.l1.free()),
                "L1 free", Memory, Bytes, "Total less used." .metric("ttmon_device_memory_l1_free_bytes").full_only();
            part "memory.untracked_processes" (memory.untracked_processes),
                "Untracked processes", Memory, Count, "Processes that hold the chip and do not report their memory." .metric("ttmon_device_memory_untracked_processes").kept().short("untracked");
            part "memory.holders" (memory.holders),
                "Holders", Memory, Count, "Processes that have the chip open, those that cannot be named included; of a remote chip, those of the chip it is reached through." .metric("ttmon_device_memory_holders");
            part "memory.hidden_processes" (memory.hidden_processes),
                "Hidden processes", Memory, Count, "Open files of processes in other pid namespaces, which cannot be named." .metric("ttmon_device_memory_hidden_processes").full_only();
            part "memory.stale_bytes" (memory.stale_bytes),
                "Stale bytes", Memory, Bytes, "Bytes that dead processes left in TT-Metal's statistics; in no other figure." .metric("ttmon_device_memory_stale_bytes");
            part "memory.stale_processes" (memory.stale_processes),
                "Stale processes", Memory, Count, "Processes that have exited while their device file is still open." .metric("ttmon_device_memory_stale_processes");
            part "memory.refusals" (memory.refusals),
                "Refused allocations", Memory, Count, "Allocations that tracked programs were refused; from the service: since it started." .counter("ttmon_device_memory_refusals_total");
            files {
                CardType Class "tt_card_type" Word Static ANY_BUT_ONES, false, CLASS_1_28;
                HwmonName Hwmon "name" Word Static ANY_BUT_ONES, false, HWMON;
                PciDevice Pci "device" PrefixedHex Static ANY_BUT_ONES, false, KERNEL;
                SubsystemDevice Pci "subsystem_device" PrefixedHex Static ANY_BUT_ONES, false, KERNEL;
                BridgeWidthMax Bridge "max_link_width" Decimal Static LANES, false, KERNEL;
                HostPosted0 Counters "mst_posted_wr_data_word_sent0" Decimal Dynamic U32_VALID, false, COUNTERS;
                HostPosted1 Counters "mst_posted_wr_data_word_sent1" Decimal Dynamic U32_VALID, false, COUNTERS;
                HostNonposted0 Counters "mst_nonposted_wr_data_word_sent0" Decimal Dynamic U32_VALID, false, COUNTERS;
                HostNonposted1 Counters "mst_nonposted_wr_data_word_sent1" Decimal Dynamic U32_VALID, false, COUNTERS;
                HostRead0 Counters "mst_rd_data_word_received0" Decimal Dynamic U32_VALID, false, COUNTERS;
                HostRead1 Counters "mst_rd_data_word_received1" Decimal Dynamic U32_VALID, false, COUNTERS;
                ChipPosted0 Counters "slv_posted_wr_data_word_received0" Decimal Dynamic U32_VALID, false, COUNTERS;
                ChipPosted1 Counters "slv_posted_wr_data_word_received1" Decimal Dynamic U32_VALID, false, COUNTERS;
                ChipNonposted0 Counters "slv_nonposted_wr_data_word_received0" Decimal Dynamic U32_VALID, false, COUNTERS;
                ChipNonposted1 Counters "slv_nonposted_wr_data_word_received1" Decimal Dynamic U32_VALID, false, COUNTERS;
                ChipRead0 Counters "slv_rd_data_word_sent0" Decimal Dynamic U32_VALID, false, COUNTERS;
                ChipRead1 Counters "slv_rd_data_word_sent1" Decimal Dynamic U32_VALID, false, COUNTERS;
            }
        }
    };
}

rows!(members);
rows!(table);
rows!(files);
