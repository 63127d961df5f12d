//! The field table: each thing that is shown, once. Tables, `-q`, JSON, CSV, help and docs are loops over it.

use crate::attributes::Attr;
use crate::memory::{Figure, Kind, KindMemory};
use crate::missing::{Missing, Reading};
use crate::snapshot::{AllocatorKind, Banks, Device, Location, Process};
use crate::units::{Unit, UnixTime};

/// A value ready to be printed by any face.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Text.
    Text(String),
    /// A whole number.
    Integer(u64),
    /// A number with a fraction.
    Float(f64),
    /// True or false.
    Bool(bool),
    /// Several texts.
    List(Vec<String>),
    /// A moment.
    Time(UnixTime),
}

/// nvidia-smi's sections, which `-q -d` takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// What it is.
    Identity,
    /// State and health.
    Performance,
    /// Temperatures and fan.
    Temperature,
    /// Power, voltage, current.
    Power,
    /// Clocks.
    Clock,
    /// Link and traffic.
    Pcie,
    /// Versions.
    Firmware,
    /// Memory.
    Memory,
    /// Processes.
    Pids,
    /// What is computed.
    Utilization,
}

impl Section {
    /// Every section, in the order of `-q`.
    pub const ALL: [Self; 10] = [
        Self::Identity,
        Self::Performance,
        Self::Temperature,
        Self::Power,
        Self::Clock,
        Self::Utilization,
        Self::Pcie,
        Self::Firmware,
        Self::Memory,
        Self::Pids,
    ];

    /// The word for `-q -d`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Identity => "IDENTITY",
            Self::Performance => "PERFORMANCE",
            Self::Temperature => "TEMPERATURE",
            Self::Power => "POWER",
            Self::Clock => "CLOCK",
            Self::Pcie => "PCIE",
            Self::Firmware => "FIRMWARE",
            Self::Memory => "MEMORY",
            Self::Pids => "PIDS",
            Self::Utilization => "UTILIZATION",
        }
    }
}

/// How many samples a value needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Samples {
    /// One is enough.
    One,
    /// A rate.
    Two,
    /// Two that are at least a second apart.
    TwoSlow,
}

/// How a value behaves over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// It goes up and down.
    Gauge,
    /// It only goes up, until it begins again.
    Counter,
}

/// A field among the service's metrics, in the base unit that [`Unit::base`] gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its whole name. Names are a promise: dashboards and alerts are built on them.
    pub name: &'static str,
    /// How it behaves.
    pub kind: MetricKind,
}

/// One row of the table: a field of `T`.
pub struct Field<T> {
    /// Its name in JSON, CSV and docs. A dot leads into an object.
    pub name: &'static str,
    /// Its heading for people.
    pub title: &'static str,
    /// Where `-q` lists it.
    pub section: Section,
    /// Its unit.
    pub unit: Unit,
    /// How many samples it needs.
    pub samples: Samples,
    /// The driver's file behind it, which knows since when it exists.
    pub attr: Option<Attr>,
    /// Its name among the service's metrics; what has none is an identity, or stands in another form there.
    pub metric: Option<Metric>,
    /// Whether the service keeps its past.
    pub is_kept: bool,
    /// What it means, in one sentence.
    pub help: &'static str,
    /// Its value.
    pub get: fn(&T) -> Reading<Value>,
}

impl<T> Field<T> {
    const fn new(
        name: &'static str,
        title: &'static str,
        section: Section,
        unit: Unit,
        help: &'static str,
        get: fn(&T) -> Reading<Value>,
    ) -> Self {
        Self { name, title, section, unit, samples: Samples::One, attr: None, metric: None, is_kept: false, help, get }
    }

    const fn from(mut self, attr: Attr) -> Self {
        self.attr = Some(attr);
        self
    }

    const fn rate(mut self, samples: Samples) -> Self {
        self.samples = samples;
        self
    }

    const fn metric(mut self, name: &'static str) -> Self {
        self.metric = Some(Metric { name, kind: MetricKind::Gauge });
        self
    }

    const fn counter(mut self, name: &'static str) -> Self {
        self.metric = Some(Metric { name, kind: MetricKind::Counter });
        self
    }

    const fn kept(mut self) -> Self {
        self.is_kept = true;
        self
    }
}

fn of_banks(kind: &AllocatorKind, get: fn(&Banks) -> Reading<u64>) -> Reading<Value> {
    kind.banks.as_ref().map_err(|reason| *reason).and_then(get).map(Value::Integer)
}

fn text(value: &str) -> Reading<Value> {
    Ok(Value::Text(value.to_owned()))
}

fn owned(reading: &Reading<String>) -> Reading<Value> {
    reading.clone().map(Value::Text)
}

fn whole(reading: Reading<u64>) -> Reading<Value> {
    reading.map(Value::Integer)
}

fn option(value: Option<&String>) -> Reading<Value> {
    value.map(|text| Value::Text(text.clone())).ok_or(Missing::NoSource)
}

use Section as S;
use Unit as U;

type D = Field<Device>;
type K = Field<KindMemory>;
type F = Field<Figure>;
type P = Field<Process>;
type A = Field<AllocatorKind>;

/// Fields of a device. Names are the contract's: rows may be added, never renamed.
#[rustfmt::skip] // one row a line
pub const DEVICE: &[Field<Device>] = &[
    D::new("id", "Id", S::Identity, U::None, "Row of the chip: N of /dev/tenstorrent/N, or a number after the highest of those for a remote chip.", |d| Ok(Value::Integer(u64::from(d.id.0)))),
    D::new("metal_id", "Metal id", S::Identity, U::None, "TT-Metal's logical id: local chips in the order of their PCI addresses, then remote ones.", |d| whole(d.metal_id)),
    D::new("name", "Name", S::Identity, U::None, "Name of the chip as TT-Metal spells it.", |d| d.arch.map(|arch| Value::Text(arch.chip_name().to_owned()))),
    D::new("arch", "Architecture", S::Identity, U::None, "wormhole, blackhole or grayskull.", |d| d.arch.map(|arch| Value::Text(arch.name().to_owned()))).from(Attr::PciDevice),
    D::new("board", "Board", S::Identity, U::None, "Card type as the driver prints it.", |d| owned(&d.board)).from(Attr::CardType),
    D::new("chip", "Chip", S::Identity, U::None, "Position on the board: L or R on an n300.", |d| d.chip.map(|chip| Value::Text(chip.letter().to_owned()))),
    D::new("location", "Location", S::Identity, U::None, "local (on PCIe) or remote (reached over Ethernet).", |d| { text(match d.location { Location::Local => "local", Location::Remote => "remote", }) }),
    D::new("via", "Via", S::Identity, U::None, "The local chip a remote one is reached through.", |d| d.via.map(|id| Value::Integer(u64::from(id.0)))),
    D::new("bdf", "PCI address", S::Identity, U::None, "PCI address.", |d| d.bdf.map(|bdf| Value::Text(bdf.to_string()))),
    D::new("asic_id", "ASIC id", S::Identity, U::None, "The chip's own id, 16 hexadecimal digits.", |d| owned(&d.asic_id)).from(Attr::AsicId),
    D::new("unique_id", "Unique id", S::Identity, U::None, "The id under which UMD and TT-Metal's statistics know the chip, decimal; known from a cluster descriptor or once seen in use.", |d| d.unique_id.map(|id| Value::Text(id.to_string()))),
    D::new("serial", "Serial", S::Identity, U::None, "The board's serial number, 16 hexadecimal digits; chips of one board share it.", |d| owned(&d.serial)).from(Attr::Serial),
    D::new("numa_node", "NUMA node", S::Identity, U::None, "NUMA node of the slot.", |d| whole(d.numa_node)).from(Attr::NumaNode),
    D::new("state", "State", S::Performance, U::None, "ok, starting, resetting, gone, unreadable or unknown.", |d| text(d.state.name())),
    D::new("health", "Health", S::Performance, U::None, "ok, warning or critical against the limits the device publishes; unknown without limits.", |d| text(d.health.name())),
    D::new("health_reasons", "Health reasons", S::Performance, U::None, "Why state or health is not ok.", |d| Ok(Value::List(d.health_reasons.clone()))),
    D::new("temperature", "Temperature", S::Temperature, U::Celsius, "Temperature of the chip.", |d| d.temperature.map(|v| Value::Float(v.0))).from(Attr::Temperature).metric("ttmon_device_temperature_celsius").kept(),
    D::new("temperature_limit", "Temperature limit", S::Temperature, U::Celsius, "Temperature from which the chip throttles.", |d| d.temperature_limit.map(|v| Value::Float(v.0))).from(Attr::TemperatureMax).metric("ttmon_device_temperature_limit_celsius"),
    D::new("board_temperature", "Board temperature", S::Temperature, U::Celsius, "Temperature of the board; nothing publishes it without opening the device.", |_| Err(Missing::NoSource)).metric("ttmon_device_board_temperature_celsius"),
    D::new("fan_rpm", "Fan speed", S::Temperature, U::Rpm, "Speed of the fan, on Blackhole boards that control one.", |d| d.fan.map(|v| Value::Integer(v.0))).from(Attr::Fan).metric("ttmon_device_fan_rpm").kept(),
    D::new("power", "Power", S::Power, U::Watts, "Power of the chip's core rail, not of the board.", |d| d.power.map(|v| Value::Float(v.0))).from(Attr::Power).metric("ttmon_device_power_watts").kept(),
    D::new("power_limit", "Power limit", S::Power, U::Watts, "Limit of the core rail's power.", |d| d.power_limit.map(|v| Value::Float(v.0))).from(Attr::PowerMax).metric("ttmon_device_power_limit_watts"),
    D::new("board_power", "Board power", S::Power, U::Watts, "Power of the whole board; nothing publishes it without opening the device.", |_| Err(Missing::NoSource)).metric("ttmon_device_board_power_watts"),
    D::new("voltage", "Voltage", S::Power, U::Volts, "Voltage of the core rail.", |d| d.voltage.map(|v| Value::Float(v.0))).from(Attr::Voltage).metric("ttmon_device_voltage_volts").kept(),
    D::new("voltage_limit", "Voltage limit", S::Power, U::Volts, "Highest voltage of the core rail.", |d| d.voltage_limit.map(|v| Value::Float(v.0))).from(Attr::VoltageMax).metric("ttmon_device_voltage_limit_volts"),
    D::new("current", "Current", S::Power, U::Amperes, "Current of the core rail.", |d| d.current.map(|v| Value::Float(v.0))).from(Attr::Current).metric("ttmon_device_current_amperes").kept(),
    D::new("current_limit", "Current limit", S::Power, U::Amperes, "Limit of the core rail's current.", |d| d.current_limit.map(|v| Value::Float(v.0))).from(Attr::CurrentMax).metric("ttmon_device_current_limit_amperes"),
    D::new("aiclk_mhz", "AI clock", S::Clock, U::Megahertz, "Clock of the compute cores.", |d| d.aiclk.map(|v| Value::Integer(v.0))).from(Attr::Aiclk).metric("ttmon_device_aiclk_hertz").kept(),
    D::new("axiclk_mhz", "AXI clock", S::Clock, U::Megahertz, "Clock of the chip's buses.", |d| d.axiclk.map(|v| Value::Integer(v.0))).from(Attr::Axiclk).metric("ttmon_device_axiclk_hertz"),
    D::new("arcclk_mhz", "ARC clock", S::Clock, U::Megahertz, "Clock of the management cores.", |d| d.arcclk.map(|v| Value::Integer(v.0))).from(Attr::Arcclk).metric("ttmon_device_arcclk_hertz"),
    D::new("aiclk_limit_mhz", "AI clock limit", S::Clock, U::Megahertz, "Nominal highest AI clock, from the product table.", |d| d.aiclk_limit.map(|v| Value::Integer(v.0))).metric("ttmon_device_aiclk_limit_hertz"),
    D::new("utilization", "Utilization", S::Utilization, U::Ratio, "Share of time the compute cores work; nothing measures it, and it is never guessed.", |_| Err(Missing::NoSource)).metric("ttmon_device_utilization_ratio"),
    D::new("heartbeat", "Heartbeat", S::Performance, U::Count, "Counter of the firmware; compare for change only.", |d| whole(d.heartbeat)).from(Attr::Heartbeat),
    D::new("heartbeat_alive", "Heartbeat alive", S::Performance, U::None, "Whether the heartbeat moved within a second or more.", |d| d.heartbeat_alive.map(Value::Bool)).from(Attr::Heartbeat).rate(Samples::TwoSlow).metric("ttmon_device_heartbeat_alive").kept(),
    D::new("therm_trip_count", "Thermal trips", S::Performance, U::Count, "Shutdowns by over-temperature since power-on.", |d| whole(d.therm_trip_count)).from(Attr::ThermTrips).counter("ttmon_device_therm_trips_total").kept(),
    D::new("pcie_gen", "PCIe generation", S::Pcie, U::None, "Generation of the link now; low while idle may be deliberate.", |d| whole(d.pcie.gen_now)).from(Attr::LinkSpeed).metric("ttmon_device_pcie_gen"),
    D::new("pcie_width", "PCIe width", S::Pcie, U::None, "Lanes of the link now.", |d| whole(d.pcie.width)).from(Attr::LinkWidth).metric("ttmon_device_pcie_width"),
    D::new("pcie_gen_max", "PCIe generation max", S::Pcie, U::None, "Highest generation of the chip.", |d| whole(d.pcie.gen_max)).from(Attr::LinkSpeedMax).metric("ttmon_device_pcie_gen_max"),
    D::new("pcie_width_max", "PCIe width max", S::Pcie, U::None, "Most lanes of the chip.", |d| whole(d.pcie.width_max)).from(Attr::LinkWidthMax).metric("ttmon_device_pcie_width_max"),
    D::new("pcie_to_device_bytes_per_s", "PCIe to device", S::Pcie, U::BytesPerSecond, "Data moved to the chip; not on Blackhole, where the size of a word is disputed.", |d| d.pcie.to_device.map(|v| Value::Float(v.0))).from(Attr::HostPosted0).rate(Samples::Two).metric("ttmon_device_pcie_to_device_bytes_per_second").kept(),
    D::new("pcie_from_device_bytes_per_s", "PCIe from device", S::Pcie, U::BytesPerSecond, "Data moved from the chip; not on Blackhole, where the size of a word is disputed.", |d| d.pcie.from_device.map(|v| Value::Float(v.0))).from(Attr::ChipPosted0).rate(Samples::Two).metric("ttmon_device_pcie_from_device_bytes_per_second").kept(),
    D::new("pcie_to_device_words_per_s", "PCIe words to device", S::Pcie, U::WordsPerSecond, "Words of the chip's network moved to it.", |d| d.pcie.to_device_words.map(|v| Value::Float(v.0))).from(Attr::HostPosted0).rate(Samples::Two).metric("ttmon_device_pcie_to_device_words_per_second").kept(),
    D::new("pcie_from_device_words_per_s", "PCIe words from device", S::Pcie, U::WordsPerSecond, "Words of the chip's network moved from it.", |d| d.pcie.from_device_words.map(|v| Value::Float(v.0))).from(Attr::ChipPosted0).rate(Samples::Two).metric("ttmon_device_pcie_from_device_words_per_second").kept(),
    D::new("firmware", "Firmware bundle", S::Firmware, U::None, "Version of the firmware bundle; 80.x is older than 18.x.", |d| owned(&d.firmware.bundle)).from(Attr::FirmwareBundle),
    D::new("m3_fw", "M3 firmware", S::Firmware, U::None, "Board controller's application.", |d| owned(&d.firmware.m3_app)).from(Attr::FirmwareM3App),
    D::new("m3_bl_fw", "M3 boot loader", S::Firmware, U::None, "Board controller's boot loader.", |d| owned(&d.firmware.m3_boot)).from(Attr::FirmwareM3Boot),
    D::new("arc_fw", "ARC firmware", S::Firmware, U::None, "Management cores' firmware.", |d| owned(&d.firmware.arc)).from(Attr::FirmwareArc),
    D::new("eth_fw", "Ethernet firmware", S::Firmware, U::None, "Ethernet cores' firmware.", |d| owned(&d.firmware.eth)).from(Attr::FirmwareEth),
    D::new("tt_flash", "tt-flash", S::Firmware, U::None, "Version of the tool that flashed it.", |d| owned(&d.firmware.tt_flash)).from(Attr::TtFlash),
    D::new("memory.total", "DRAM total", S::Memory, U::Bytes, "DRAM of the chip that TT-Metal can allocate: banks of the product table times the bytes of one (1 GiB; Blackhole 4,278,190,080).", |d| whole(d.memory.dram.total)).metric("ttmon_device_memory_total_bytes"),
    D::new("memory.used", "DRAM used", S::Memory, U::Bytes, "DRAM bar: dram + trace, as asked for by programs; a lower bound where untracked_processes is not 0.", |d| whole(d.memory.dram.used)).metric("ttmon_device_memory_used_bytes").kept(),
    D::new("memory.free", "DRAM free", S::Memory, U::Bytes, "Total less used.", |d| whole(d.memory.dram.free)).metric("ttmon_device_memory_free_bytes"),
    D::new("memory.l1_total", "L1 total", S::Memory, U::Bytes, "L1 of the chip: nominal cores of the product table times the bytes of one.", |d| whole(d.memory.l1.total)).metric("ttmon_device_memory_l1_total_bytes"),
    D::new("memory.l1_used", "L1 used", S::Memory, U::Bytes, "L1 bar: l1 + l1_small + circular buffers; a lower bound where untracked_processes is not 0.", |d| whole(d.memory.l1.used)).metric("ttmon_device_memory_l1_used_bytes").kept(),
    D::new("memory.l1_free", "L1 free", S::Memory, U::Bytes, "Total less used.", |d| whole(d.memory.l1.free)).metric("ttmon_device_memory_l1_free_bytes"),
    D::new("memory.untracked_processes", "Untracked processes", S::Memory, U::Count, "Processes that hold the chip and tell nobody what they use.", |d| Ok(Value::Integer(d.memory.untracked_processes))).metric("ttmon_device_memory_untracked_processes").kept(),
    D::new("memory.holders", "Holders", S::Memory, U::Count, "Processes that have the chip open, those that cannot be named included; of a remote chip, those of the chip it is reached through.", |d| whole(d.memory.holders)),
    D::new("memory.hidden_processes", "Hidden processes", S::Memory, U::Count, "Open files of processes in other pid namespaces, which cannot be named.", |d| Ok(Value::Integer(d.memory.hidden_processes))).metric("ttmon_device_memory_hidden_processes"),
    D::new("memory.stale_bytes", "Stale bytes", S::Memory, U::Bytes, "Bytes that dead processes left in TT-Metal's statistics; in no other figure.", |d| Ok(Value::Integer(d.memory.stale_bytes))).metric("ttmon_device_memory_stale_bytes"),
];

/// Fields of one kind of memory of a device: `memory.kinds.KIND.NAME`.
#[rustfmt::skip] // one row a line
pub const DEVICE_KIND: &[Field<KindMemory>] = &[
    K::new("total", "total", S::Memory, U::Bytes, "What the chip has.", |k| whole(k.total)).metric("ttmon_memory_total_bytes"),
    K::new("capacity", "capacity", S::Memory, U::Bytes, "The allocator's own limit.", |k| whole(k.capacity)).metric("ttmon_memory_capacity_bytes"),
    K::new("used", "used", S::Memory, U::Bytes, "Live buffers as asked for by programs.", |k| whole(k.figure.used)).metric("ttmon_memory_used_bytes").kept(),
    K::new("allocated", "allocated", S::Memory, U::Bytes, "What the allocators took, padding included.", |k| whole(k.figure.allocated)).metric("ttmon_memory_allocated_bytes").kept(),
    K::new("free", "free", S::Memory, U::Bytes, "Capacity less allocated, else total less used.", |k| whole(k.free)).metric("ttmon_memory_free_bytes"),
    K::new("peak", "peak", S::Memory, U::Bytes, "Highest used.", |k| whole(k.figure.peak)).metric("ttmon_memory_peak_bytes"),
    K::new("peak_time", "peak time", S::Memory, U::Time, "When that was.", |k| k.figure.peak_time.map(Value::Time)),
    K::new("count", "count", S::Memory, U::Count, "Live buffers.", |k| whole(k.figure.count)).metric("ttmon_memory_buffers"),
    K::new("source", "source", S::Memory, U::None, "Where the figures come from.", |k| k.figure.source.map(|source| Value::Text(source.name().to_owned()))),
];

/// Fields of one kind of memory of a process on a device.
#[rustfmt::skip] // one row a line
pub const PROCESS_KIND: &[Field<Figure>] = &[
    F::new("used", "used", S::Memory, U::Bytes, "Live buffers as asked for by the program.", |k| whole(k.used)),
    F::new("allocated", "allocated", S::Memory, U::Bytes, "What the allocator took, padding included.", |k| whole(k.allocated)),
    F::new("peak", "peak", S::Memory, U::Bytes, "Highest used since tracking began.", |k| whole(k.peak)),
    F::new("peak_time", "peak time", S::Memory, U::Time, "When that was.", |k| k.peak_time.map(Value::Time)),
    F::new("count", "count", S::Memory, U::Count, "Live buffers.", |k| whole(k.count)),
    F::new("source", "source", S::Memory, U::None, "Where the figures come from.", |k| k.source.map(|source| Value::Text(source.name().to_owned()))),
];

/// Fields of one kind of memory of an allocator; per chip.
#[rustfmt::skip] // one row a line
pub const ALLOCATOR_KIND: &[Field<AllocatorKind>] = &[
    A::new("used", "used", S::Memory, U::Bytes, "Live buffers as asked for by the program.", |k| whole(k.figure.used)),
    A::new("allocated", "allocated", S::Memory, U::Bytes, "What the allocator took, padding included.", |k| whole(k.figure.allocated)),
    A::new("free", "free", S::Memory, U::Bytes, "What can still be had, where the allocator's limit is known.", |k| whole(k.free)),
    A::new("count", "count", S::Memory, U::Count, "Live buffers.", |k| whole(k.figure.count)),
    A::new("peak", "peak", S::Memory, U::Bytes, "Highest used since tracking began.", |k| whole(k.figure.peak)),
    A::new("peak_time", "peak time", S::Memory, U::Time, "When that was.", |k| k.figure.peak_time.map(Value::Time)),
];

/// Fields of one kind of memory of an allocator, as its banks have it.
#[rustfmt::skip] // one row a line
pub const ALLOCATOR_BANKS: &[Field<AllocatorKind>] = &[
    A::new("banks", "banks", S::Memory, U::Count, "Banks; a buffer takes as many bytes of each.", |k| of_banks(k, |b| Ok(b.banks))),
    A::new("bank_bytes", "bank", S::Memory, U::Bytes, "Bytes of a bank that can be handed out.", |k| of_banks(k, |b| Ok(b.bank_bytes))),
    A::new("allocated_per_bank", "allocated", S::Memory, U::Bytes, "Bytes of a bank that are.", |k| of_banks(k, |b| b.allocated_per_bank)),
    A::new("free_per_bank", "free", S::Memory, U::Bytes, "Bytes of a bank that are not.", |k| of_banks(k, |b| b.free_per_bank)),
    A::new("largest_free_per_bank", "largest", S::Memory, U::Bytes, "The largest block of those.", |k| of_banks(k, |b| b.largest_free_per_bank)),
    A::new("fragmentation", "frag", S::Memory, U::Ratio, "How much of the free bytes is not in that block: 1 - largest / free.", |k| k.banks.as_ref().map_err(|reason| *reason).and_then(|b| b.fragmentation).map(Value::Float)),
    A::new("blocks", "blocks", S::Memory, U::Count, "Blocks, used and free, as TT-Metal counts them.", |k| of_banks(k, |b| b.blocks)),
];

/// Fields of a process.
#[rustfmt::skip] // one row a line
pub const PROCESS: &[Field<Process>] = &[
    P::new("pid", "PID", S::Pids, U::None, "Process id on this host.", |p| Ok(Value::Integer(u64::from(p.key.pid)))),
    P::new("name", "Name", S::Pids, U::None, "The kernel's short name of the process.", |p| owned(&p.name)),
    P::new("user", "User", S::Pids, U::None, "Owner; the number where the user database has no name.", |p| owned(&p.user)),
    P::new("uid", "Uid", S::Pids, U::None, "Owner's number.", |p| whole(p.uid)),
    P::new("command", "Command", S::Pids, U::None, "Full command line.", |p| owned(&p.command)),
    P::new("parent", "Parent", S::Pids, U::None, "Process id of the process that started it, or took it over.", |p| whole(p.parent)),
    P::new("start_time", "Started", S::Pids, U::Time, "When it started.", |p| p.start_time.map(Value::Time)),
    P::new("cpu", "CPU", S::Pids, U::Ratio, "Host CPU: 1 is one core.", |p| p.cpu.map(Value::Float)).rate(Samples::Two),
    P::new("rss", "Host memory", S::Pids, U::Bytes, "Resident host memory.", |p| whole(p.rss)),
    P::new("container", "Container", S::Pids, U::None, "First 12 digits of its container's id.", |p| option(p.workload.container.as_ref())),
    P::new("pod", "Pod", S::Pids, U::None, "Uid of its Kubernetes pod.", |p| option(p.workload.pod.as_ref())),
    P::new("job", "Job", S::Pids, U::None, "Its Slurm job.", |p| option(p.workload.job.as_ref())),
    P::new("status", "Status", S::Pids, U::None, "What is known of its memory: tracked, connected, reported, open, no_permission or dead.", |p| text(p.status.name())),
    P::new("source", "Source", S::Pids, U::None, "Where its figures come from.", |p| p.source().map(|source| Value::Text(source.name().to_owned()))),
    P::new("memory", "DRAM used", S::Pids, U::Bytes, "DRAM (dram + trace) it uses on all its chips.", |p| whole(p.total_of(&Kind::DRAM_BAR))),
    P::new("overlap_bytes", "Overlap", S::Pids, U::Bytes, "Bytes on which two of its live buffers lie: corruption.", |p| whole(p.overlap_bytes)),
    P::new("launches", "Launches", S::Pids, U::Count, "Programs it started on its chips; on a mesh each chip counts.", |p| whole(p.launches)),
    P::new("launches_per_s", "Launches/s", S::Pids, U::None, "Programs it starts a second.", |p| p.launches_per_s.map(Value::Float)).rate(Samples::Two),
    P::new("last_launch", "Last launch", S::Pids, U::Time, "When it last started one: busy or hung.", |p| p.last_launch.map(Value::Time)),
];

/// A device's field asked for by name: a row of [`DEVICE`], or one of a kind of memory.
#[derive(Clone, Copy)]
pub enum DeviceField {
    /// A row of the device table.
    Plain(&'static Field<Device>),
    /// A row of the kind table, for one kind.
    OfKind(Kind, &'static Field<KindMemory>),
}

impl std::fmt::Debug for DeviceField {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name())
    }
}

impl DeviceField {
    /// Finds a field by its contract name.
    pub fn find(name: &str) -> Option<Self> {
        if let Some(field) = DEVICE.iter().find(|field| field.name == name) {
            return Some(Self::Plain(field));
        }
        let (kind, rest) = name.strip_prefix("memory.kinds.")?.split_once('.')?;
        let kind = Kind::from_name(kind)?;
        DEVICE_KIND.iter().find(|field| field.name == rest).map(|field| Self::OfKind(kind, field))
    }

    /// Every field there is.
    pub fn all() -> impl Iterator<Item = Self> {
        let kinds = Kind::ALL.into_iter().flat_map(|kind| DEVICE_KIND.iter().map(move |field| Self::OfKind(kind, field)));
        DEVICE.iter().map(Self::Plain).chain(kinds)
    }

    /// Its contract name.
    pub fn name(&self) -> String {
        match self {
            Self::Plain(field) => field.name.to_owned(),
            Self::OfKind(kind, field) => format!("memory.kinds.{}.{}", kind.name(), field.name),
        }
    }

    /// Its unit.
    pub fn unit(&self) -> Unit {
        match self {
            Self::Plain(field) => field.unit,
            Self::OfKind(_, field) => field.unit,
        }
    }

    /// How many samples it needs.
    pub fn samples(&self) -> Samples {
        match self {
            Self::Plain(field) => field.samples,
            Self::OfKind(_, field) => field.samples,
        }
    }

    /// Whether the service keeps its past.
    pub fn is_kept(&self) -> bool {
        match self {
            Self::Plain(field) => field.is_kept,
            Self::OfKind(_, field) => field.is_kept,
        }
    }

    /// What it means.
    pub fn help(&self) -> &'static str {
        match self {
            Self::Plain(field) => field.help,
            Self::OfKind(_, field) => field.help,
        }
    }

    /// Its value.
    pub fn get(&self, device: &Device) -> Reading<Value> {
        match self {
            Self::Plain(field) => (field.get)(device),
            Self::OfKind(kind, field) => (field.get)(&device.memory.kinds[*kind]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T>(table: &[Field<T>]) {
        for (index, field) in table.iter().enumerate() {
            let is_plain = field.name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_.".contains(&byte));
            assert!(is_plain && !field.name.is_empty(), "{}", field.name);
            assert!(field.help.ends_with('.') && !field.title.is_empty(), "{}", field.name);
            assert!(table[..index].iter().all(|other| other.name != field.name), "{} twice", field.name);
        }
    }

    #[test]
    fn tables_are_sound() {
        check(DEVICE);
        check(DEVICE_KIND);
        check(PROCESS_KIND);
        check(PROCESS);
        check(ALLOCATOR_KIND);
        check(ALLOCATOR_BANKS);
    }

    /// Names of metrics end with the base unit, or with `_total` if they count, and none is given twice.
    #[test]
    fn metrics_are_named_by_the_rules() {
        let device = DEVICE.iter().filter_map(|field| Some((field.metric?, field.unit)));
        let kinds = DEVICE_KIND.iter().filter_map(|field| Some((field.metric?, field.unit)));
        let mut seen = Vec::new();
        for (metric, unit) in device.chain(kinds) {
            let name = metric.name;
            assert!(name.starts_with("ttmon_device_") || name.starts_with("ttmon_memory_"), "{name}");
            assert_eq!(name.ends_with("_total"), metric.kind == MetricKind::Counter, "{name}");
            let base = unit.base().name;
            assert!(base.is_empty() || name.ends_with(&format!("_{base}")), "{name} is in {base}");
            assert!(!seen.contains(&name), "{name} twice");
            seen.push(name);
        }
    }

    #[test]
    fn every_field_is_found_by_its_name() {
        for field in DeviceField::all() {
            assert_eq!(DeviceField::find(&field.name()).map(|found| found.name()), Some(field.name()));
        }
        assert!(DeviceField::find("memory.kinds.dram.nonsense").is_none());
        assert!(DeviceField::find("memory.kinds.gddr.used").is_none());
    }
}
