//! `--query-gpu` and `--query-compute-apps`: nvidia-smi's names, headings and units, for scripts that were written for it.

use std::fmt;
use std::io::{self, Write};

use ttmon_model::fields::{DeviceField, Samples};
use ttmon_model::{Device, Missing, Process, Reading, Snapshot};

use crate::csv::{CsvOptions, write_row};
use crate::quantity::{ABSENT, plain};
use crate::style::Style;

/// A column of `--query-gpu`.
#[derive(Clone, Copy)]
pub struct GpuField(&'static GpuColumn);

impl GpuField {
    /// Finds a column by nvidia-smi's name.
    pub fn parse(name: &str) -> Result<Self, UnknownColumn> {
        let found = GPU.iter().find(|row| row.column.names.contains(&name));
        found.map(Self).ok_or_else(|| unknown(name, GPU.iter().map(|row| &row.column), "--help-query-gpu"))
    }

    /// Returns the names of all columns.
    pub fn names() -> impl Iterator<Item = &'static str> {
        GPU.iter().map(|row| row.column.names[0])
    }

    /// Returns how many samples the column needs.
    pub fn samples(&self) -> Samples {
        self.0.column.field().map_or(Samples::One, |field| field.samples)
    }
}

/// A column of `--query-compute-apps`.
#[derive(Clone, Copy)]
pub struct AppField(&'static AppColumn);

impl AppField {
    /// Finds a column by nvidia-smi's name; the error lists the columns.
    pub fn parse(name: &str) -> Result<Self, UnknownColumn> {
        let found = APPS.iter().find(|row| row.column.names.contains(&name));
        found.map(Self).ok_or_else(|| unknown(name, APPS.iter().map(|row| &row.column), "--help-query-compute-apps"))
    }

    /// Returns the names of all columns.
    pub fn names() -> impl Iterator<Item = &'static str> {
        APPS.iter().map(|row| row.column.names[0])
    }
}

/// An unknown column of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownColumn {
    name: String,
    /// Names of the same group, such as `memory`.
    similar: Vec<&'static str>,
    /// The flag that lists all names.
    help: &'static str,
}

impl fmt::Display for UnknownColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let similar = if self.similar.is_empty() { String::new() } else { format!("similar: {}; ", self.similar.join(", ")) };
        write!(f, "no field {:?}; {similar}{} lists all", self.name, self.help)
    }
}

impl std::error::Error for UnknownColumn {}

fn unknown(name: &str, known: impl Iterator<Item = &'static Column>, help: &'static str) -> UnknownColumn {
    let group = |name: &str| name.split(['.', '_']).next().unwrap_or_default().to_owned();
    let similar = known.map(|column| column.names[0]).filter(|known| group(known) == group(name)).collect();
    UnknownColumn { name: name.to_owned(), similar, help }
}

/// Prints one line per device, as nvidia-smi does. The timestamp is the time of the style.
pub fn csv_gpu(snapshot: &Snapshot, fields: &[GpuField], options: CsvOptions, style: &Style<'_>, out: &mut dyn Write) -> io::Result<()> {
    if options.header {
        write_row(fields.iter().map(|field| field.0.column.title()), out)?;
    }
    for device in &snapshot.devices {
        let gpu = Gpu { snapshot, device, local_time: &style.local_time };
        write_row(fields.iter().map(|field| style.clean(&field.0.column.show(field.0.value(&gpu), options))), out)?;
    }
    Ok(())
}

/// Prints one line per process and device. Memory on a chip without a device also has a line, without the chip's id.
pub fn csv_apps(snapshot: &Snapshot, fields: &[AppField], options: CsvOptions, style: &Style<'_>, out: &mut dyn Write) -> io::Result<()> {
    if options.header {
        write_row(fields.iter().map(|field| field.0.column.title()), out)?;
    }
    let time = timestamp(snapshot, &style.local_time);
    for process in &snapshot.processes {
        let app = |device, used| App { process, device, used, time: time.clone() };
        let mapped = process.devices.iter().map(|use_of| app(snapshot.device(use_of.device), use_of.kinds.dram()));
        let unmapped = process.unmapped.iter().map(|unmapped| app(None, unmapped.kinds.dram()));
        for app in mapped.chain(unmapped) {
            write_row(fields.iter().map(|field| style.clean(&field.0.column.show((field.0.get)(&app), options))), out)?;
        }
    }
    Ok(())
}

/// nvidia-smi's description of a column: its names, its heading and its unit.
pub(crate) struct Column {
    names: &'static [&'static str],
    heading: &'static str,
    unit: &'static str,
    /// The field that it shows, or an explanation if there is no equal field.
    meaning: &'static str,
}

impl Column {
    /// The field that it shows.
    fn field(&self) -> Option<DeviceField> {
        DeviceField::find(self.meaning)
    }

    /// Returns its line in the help: names, unit, field, meaning.
    pub(crate) fn help(&self) -> Vec<String> {
        let unit = if self.unit.is_empty() { "-" } else { self.unit };
        let (field, meaning) = match self.field() {
            Some(field) => (self.meaning, field.help),
            None => ("-", self.meaning),
        };
        vec![self.names.join(", "), unit.to_owned(), field.to_owned(), meaning.to_owned()]
    }

    fn title(&self) -> String {
        if self.unit.is_empty() { self.heading.to_owned() } else { format!("{} [{}]", self.heading, self.unit) }
    }

    /// With `nounits` a value has no unit, but its heading does.
    fn show(&self, value: Reading<String>, options: CsvOptions) -> String {
        match value {
            Ok(value) if options.units && !self.unit.is_empty() => format!("{value} {}", self.unit),
            Ok(value) => value,
            Err(_) => ABSENT.to_owned(),
        }
    }
}

struct GpuColumn {
    column: Column,
    shown: Shown,
}

/// How a column formats its field.
#[derive(Clone, Copy)]
enum Shown {
    /// Unchanged.
    Plain,
    /// With this many decimals.
    Decimals(usize),
    /// In MiB.
    Mebibytes,
    /// A ratio in per cent.
    Percent,
    /// A value that is not a field.
    Made(fn(&Gpu<'_>) -> Reading<String>),
    /// A value that is never available.
    Nothing,
}

impl GpuColumn {
    fn value(&self, gpu: &Gpu<'_>) -> Reading<String> {
        let field = self.column.field().ok_or(Missing::NoSource);
        let number = |field: DeviceField| field.number(gpu.device);
        match self.shown {
            Shown::Plain => field.and_then(|field| Ok(plain(&field.get(gpu.device)?, field.unit))),
            Shown::Decimals(digits) => field.and_then(number).map(|number| format!("{number:.digits$}")),
            Shown::Mebibytes => field.and_then(number).map(|bytes| format!("{:.0}", (bytes / f64::from(1 << 20)).floor())),
            Shown::Percent => field.and_then(number).map(|ratio| format!("{:.0}", ratio * 100.0)),
            Shown::Made(make) => make(gpu),
            Shown::Nothing => Err(Missing::NoSource),
        }
    }
}

struct Gpu<'a> {
    snapshot: &'a Snapshot,
    device: &'a Device,
    local_time: &'a str,
}

struct AppColumn {
    column: Column,
    get: fn(&App<'_>) -> Reading<String>,
}

struct App<'a> {
    process: &'a Process,
    device: Option<&'a Device>,
    used: Reading<u64>,
    time: String,
}

type Names = &'static [&'static str];

const fn gpu(names: Names, unit: &'static str, meaning: &'static str, shown: Shown) -> GpuColumn {
    headed(names, names[0], unit, meaning, shown)
}

/// Creates a column with a heading that differs from its most common name.
const fn headed(names: Names, heading: &'static str, unit: &'static str, meaning: &'static str, shown: Shown) -> GpuColumn {
    GpuColumn { column: Column { names, heading, unit, meaning }, shown }
}

const fn app(names: Names, unit: &'static str, meaning: &'static str, get: fn(&App<'_>) -> Reading<String>) -> AppColumn {
    AppColumn { column: Column { names, heading: names[0], unit, meaning }, get }
}

/// The columns of `--query-gpu`.
pub(crate) fn gpu_columns() -> impl Iterator<Item = &'static Column> {
    GPU.iter().map(|row| &row.column)
}

/// The columns of `--query-compute-apps`.
pub(crate) fn app_columns() -> impl Iterator<Item = &'static Column> {
    APPS.iter().map(|row| &row.column)
}

const NOT_HERE: &str = "Not measured on these devices; N/A.";

#[rustfmt::skip] // one row per line
const GPU: &[GpuColumn] = &[
    gpu(&["timestamp"], "", "Local time of the sample.", Shown::Made(|gpu| Ok(timestamp(gpu.snapshot, gpu.local_time)))),
    gpu(&["index"], "", "id", Shown::Plain),
    gpu(&["count"], "", "Number of devices.", Shown::Made(|gpu| Ok(gpu.snapshot.devices.len().to_string()))),
    gpu(&["name", "gpu_name"], "", "name", Shown::Plain),
    gpu(&["uuid", "gpu_uuid"], "", "asic_id", Shown::Plain),
    gpu(&["serial", "gpu_serial"], "", "serial", Shown::Plain),
    gpu(&["pci.bus_id", "gpu_bus_id"], "", "bdf", Shown::Made(|gpu| gpu.device.bdf.map(|bdf| bus_id(&bdf.to_string())))),
    gpu(&["driver_version"], "", "Version of the kernel driver.", Shown::Made(|gpu| gpu.snapshot.driver.clone())),
    gpu(&["vbios_version"], "", "firmware", Shown::Plain),
    gpu(&["pstate"], "", NOT_HERE, Shown::Nothing),
    gpu(&["temperature.gpu"], "", "temperature", Shown::Decimals(0)),
    gpu(&["temperature.memory"], "", NOT_HERE, Shown::Nothing),
    gpu(&["power.draw"], "W", "power", Shown::Decimals(2)),
    gpu(&["power.draw.instant"], "W", "power", Shown::Decimals(2)),
    gpu(&["power.limit"], "W", "power_limit", Shown::Decimals(2)),
    gpu(&["enforced.power.limit"], "W", "power_limit", Shown::Decimals(2)),
    gpu(&["memory.total"], "MiB", "memory.total", Shown::Mebibytes),
    gpu(&["memory.used"], "MiB", "memory.used", Shown::Mebibytes),
    gpu(&["memory.free"], "MiB", "memory.free", Shown::Mebibytes),
    gpu(&["utilization.gpu"], "%", "utilization", Shown::Percent),
    gpu(&["utilization.memory"], "%", NOT_HERE, Shown::Nothing),
    gpu(&["utilization.encoder"], "%", NOT_HERE, Shown::Nothing),
    gpu(&["utilization.decoder"], "%", NOT_HERE, Shown::Nothing),
    gpu(&["utilization.jpeg"], "%", NOT_HERE, Shown::Nothing),
    gpu(&["utilization.ofa"], "%", NOT_HERE, Shown::Nothing),
    headed(&["clocks.sm", "clocks.current.sm"], "clocks.current.sm", "MHz", "aiclk_mhz", Shown::Decimals(0)),
    headed(&["clocks.gr", "clocks.current.graphics"], "clocks.current.graphics", "MHz", "aiclk_mhz", Shown::Decimals(0)),
    headed(&["clocks.mem", "clocks.current.memory"], "clocks.current.memory", "MHz", NOT_HERE, Shown::Nothing),
    gpu(&["clocks.max.sm"], "MHz", "aiclk_limit_mhz", Shown::Decimals(0)),
    headed(&["clocks.max.gr", "clocks.max.graphics"], "clocks.max.graphics", "MHz", "aiclk_limit_mhz", Shown::Decimals(0)),
    gpu(&["pcie.link.gen.current"], "", "pcie_gen", Shown::Plain),
    gpu(&["pcie.link.gen.max"], "", "pcie_gen_max", Shown::Plain),
    gpu(&["pcie.link.width.current"], "", "pcie_width", Shown::Plain),
    gpu(&["pcie.link.width.max"], "", "pcie_width_max", Shown::Plain),
    // nvidia-smi shows a percentage of the highest speed, which the driver does not publish.
    gpu(&["fan.speed"], "%", "Share of the highest speed, which no driver publishes; N/A. See fan_rpm of --fields.", Shown::Nothing),
];

#[rustfmt::skip] // one row per line
const APPS: &[AppColumn] = &[
    app(&["pid"], "", "Process id on this host.", |app| Ok(app.process.key.pid.to_string())),
    app(&["process_name", "name"], "", "The kernel's short name of the process.", |app| app.process.name.clone()),
    AppColumn { column: Column { names: &["used_memory", "used_gpu_memory"], heading: "used_gpu_memory", unit: "MiB", meaning: "DRAM it uses on the device." }, get: |app| mebibytes(app.used) },
    app(&["gpu_uuid"], "", "asic_id", |app| app.device.map_or(Err(Missing::NoSource), |device| device.asic_id.clone())),
    app(&["gpu_name"], "", "name", |app| app.device.map_or(Err(Missing::NoSource), |device| device.name.clone())),
    app(&["gpu_bus_id"], "", "bdf", |app| app.device.map_or(Err(Missing::NoSource), |device| device.bdf.map(|bdf| bus_id(&bdf.to_string())))),
    app(&["timestamp"], "", "Local time of the sample.", |app| Ok(app.time.clone())),
];

fn mebibytes(bytes: Reading<u64>) -> Reading<String> {
    bytes.map(|bytes| (bytes >> 20).to_string())
}

/// Formats `2026/11/15 08:12:45.120`: the local time, and the milliseconds, which are the same in every time zone.
fn timestamp(snapshot: &Snapshot, local_time: &str) -> String {
    let millis = snapshot.time.0 / 1_000_000 % 1000;
    format!("{}.{millis:03}", local_time.replace('-', "/"))
}

/// Converts `0000:c1:00.0` to `00000000:C1:00.0`, because nvidia-smi prints eight digits of the domain.
fn bus_id(bdf: &str) -> String {
    format!("{bdf:0>16}").to_uppercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_contract_are_known() {
        let names = "index,name,uuid,serial,pci.bus_id,driver_version,timestamp,count,temperature.gpu,power.draw,power.limit,\
            memory.total,memory.used,memory.free,utilization.gpu,clocks.sm,clocks.gr,clocks.max.sm,pcie.link.gen.current,\
            pcie.link.gen.max,pcie.link.width.current,pcie.link.width.max,fan.speed";
        for name in names.split(',') {
            assert!(GpuField::parse(name).is_ok(), "{name}");
        }
        for name in ["pid", "process_name", "used_memory", "gpu_uuid"] {
            assert!(AppField::parse(name).is_ok(), "{name}");
        }
        let error = |name: &str| GpuField::parse(name).err().unwrap().to_string();
        assert_eq!(error("ecc.mode"), "no field \"ecc.mode\"; --help-query-gpu lists all");
        assert_eq!(error("memory"), "no field \"memory\"; similar: memory.total, memory.used, memory.free; --help-query-gpu lists all");
        assert!(AppField::parse("").is_err());
    }

    /// A meaning is the name of a field, or a sentence.
    #[test]
    fn meanings_are_fields_or_sentences() {
        for column in gpu_columns().chain(app_columns()) {
            assert!(column.field().is_some() || column.meaning.ends_with('.'), "{}: {}", column.names[0], column.meaning);
        }
    }

    #[test]
    fn bus_ids_have_eight_digits() {
        assert_eq!(bus_id("0000:c1:00.0"), "00000000:C1:00.0");
        assert_eq!(bus_id("12345678:c1:00.0"), "12345678:C1:00.0");
    }
}
