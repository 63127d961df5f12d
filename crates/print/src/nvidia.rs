//! `--query-gpu` and `--query-compute-apps`: nvidia-smi's names, headings and units, for scripts that were written for it.

use std::fmt;
use std::io::{self, Write};

use ttmon_model::{Device, Missing, Process, Reading, Snapshot};

use crate::csv::{CsvOptions, write_row};
use crate::quantity::ABSENT;
use crate::style::Style;

/// A column of `--query-gpu`.
#[derive(Clone, Copy)]
pub struct GpuField(&'static GpuColumn);

impl GpuField {
    /// Finds a column by nvidia-smi's name; the error says which there are.
    pub fn parse(name: &str) -> Result<Self, UnknownColumn> {
        let found = GPU.iter().find(|row| row.column.names.contains(&name));
        found.map(Self).ok_or_else(|| unknown(name, GPU.iter().map(|row| &row.column)))
    }
}

/// A column of `--query-compute-apps`.
#[derive(Clone, Copy)]
pub struct AppField(&'static AppColumn);

impl AppField {
    /// Finds a column by nvidia-smi's name; the error says which there are.
    pub fn parse(name: &str) -> Result<Self, UnknownColumn> {
        let found = APPS.iter().find(|row| row.column.names.contains(&name));
        found.map(Self).ok_or_else(|| unknown(name, APPS.iter().map(|row| &row.column)))
    }
}

/// A name that is no column of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownColumn {
    name: String,
    known: Vec<&'static str>,
}

impl fmt::Display for UnknownColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a field of this query; there are {}", self.name, self.known.join(", "))
    }
}

impl std::error::Error for UnknownColumn {}

fn unknown(name: &str, known: impl Iterator<Item = &'static Column>) -> UnknownColumn {
    UnknownColumn { name: name.to_owned(), known: known.map(|column| column.names[0]).collect() }
}

/// Prints a line a device, as nvidia-smi would. Where the time is asked for, it is the style's.
pub fn csv_gpu(snapshot: &Snapshot, fields: &[GpuField], options: CsvOptions, style: &Style<'_>, out: &mut dyn Write) -> io::Result<()> {
    if options.header {
        write_row(fields.iter().map(|field| field.0.column.title()), out)?;
    }
    for device in &snapshot.devices {
        let gpu = Gpu { snapshot, device, local_time: &style.local_time };
        write_row(fields.iter().map(|field| style.clean(&field.0.column.show((field.0.get)(&gpu), options))), out)?;
    }
    Ok(())
}

/// Prints a line a process and device. Memory on a chip that no device matches has a line too, without the chip's id.
pub fn csv_apps(snapshot: &Snapshot, fields: &[AppField], options: CsvOptions, style: &Style<'_>, out: &mut dyn Write) -> io::Result<()> {
    if options.header {
        write_row(fields.iter().map(|field| field.0.column.title()), out)?;
    }
    for process in &snapshot.processes {
        let mapped = process.devices.iter().map(|use_of| App { process, device: snapshot.device(use_of.device), used: use_of.dram() });
        let unmapped = process.unmapped.iter().map(|unmapped| App { process, device: None, used: unmapped.kinds.dram() });
        for app in mapped.chain(unmapped) {
            write_row(fields.iter().map(|field| style.clean(&field.0.column.show((field.0.get)(&app), options))), out)?;
        }
    }
    Ok(())
}

/// What nvidia-smi knows of a column: the names it is asked for by, what it prints above it, and the unit.
struct Column {
    names: &'static [&'static str],
    heading: &'static str,
    unit: &'static str,
}

impl Column {
    fn title(&self) -> String {
        if self.unit.is_empty() { self.heading.to_owned() } else { format!("{} [{}]", self.heading, self.unit) }
    }

    /// Unlike its heading, a value loses its unit with `nounits`.
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
    get: fn(&Gpu<'_>) -> Reading<String>,
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
}

const fn gpu(names: &'static [&'static str], heading: &'static str, unit: &'static str, get: fn(&Gpu<'_>) -> Reading<String>) -> GpuColumn {
    GpuColumn { column: Column { names, heading, unit }, get }
}

const fn app(names: &'static [&'static str], heading: &'static str, unit: &'static str, get: fn(&App<'_>) -> Reading<String>) -> AppColumn {
    AppColumn { column: Column { names, heading, unit }, get }
}

#[rustfmt::skip] // one row a line
const GPU: &[GpuColumn] = &[
    gpu(&["timestamp"], "timestamp", "", |gpu| Ok(timestamp(gpu))),
    gpu(&["index"], "index", "", |gpu| Ok(gpu.device.id.to_string())),
    gpu(&["count"], "count", "", |gpu| Ok(gpu.snapshot.devices.len().to_string())),
    gpu(&["name", "gpu_name"], "name", "", |gpu| gpu.device.name.clone()),
    gpu(&["uuid", "gpu_uuid"], "uuid", "", |gpu| gpu.device.asic_id.clone()),
    gpu(&["serial", "gpu_serial"], "serial", "", |gpu| gpu.device.serial.clone()),
    gpu(&["pci.bus_id", "gpu_bus_id"], "pci.bus_id", "", |gpu| gpu.device.bdf.map(|bdf| bus_id(&bdf.to_string()))),
    gpu(&["driver_version"], "driver_version", "", |gpu| gpu.snapshot.driver.clone()),
    gpu(&["temperature.gpu"], "temperature.gpu", "", |gpu| gpu.device.temperature.map(|value| format!("{:.0}", value.0))),
    gpu(&["power.draw"], "power.draw", "W", |gpu| gpu.device.power.map(|value| format!("{:.2}", value.0))),
    gpu(&["power.limit"], "power.limit", "W", |gpu| gpu.device.power_limit.map(|value| format!("{:.2}", value.0))),
    gpu(&["memory.total"], "memory.total", "MiB", |gpu| mebibytes(gpu.device.memory.dram.total)),
    gpu(&["memory.used"], "memory.used", "MiB", |gpu| mebibytes(gpu.device.memory.dram.used)),
    gpu(&["memory.free"], "memory.free", "MiB", |gpu| mebibytes(gpu.device.memory.dram.free())),
    gpu(&["utilization.gpu"], "utilization.gpu", "%", |_| Err(Missing::NoSource)),
    gpu(&["clocks.sm", "clocks.current.sm"], "clocks.current.sm", "MHz", |gpu| gpu.device.aiclk_mhz.map(|clock| clock.0.to_string())),
    gpu(&["clocks.gr", "clocks.current.graphics"], "clocks.current.graphics", "MHz", |gpu| gpu.device.aiclk_mhz.map(|clock| clock.0.to_string())),
    gpu(&["clocks.max.sm"], "clocks.max.sm", "MHz", |gpu| gpu.device.aiclk_limit_mhz.map(|clock| clock.0.to_string())),
    gpu(&["pcie.link.gen.current"], "pcie.link.gen.current", "", |gpu| gpu.device.pcie_gen.map(|value| value.to_string())),
    gpu(&["pcie.link.gen.max"], "pcie.link.gen.max", "", |gpu| gpu.device.pcie_gen_max.map(|value| value.to_string())),
    gpu(&["pcie.link.width.current"], "pcie.link.width.current", "", |gpu| gpu.device.pcie_width.map(|value| value.to_string())),
    gpu(&["pcie.link.width.max"], "pcie.link.width.max", "", |gpu| gpu.device.pcie_width_max.map(|value| value.to_string())),
    // nvidia-smi's is a share of the highest speed, which no driver of ours publishes.
    gpu(&["fan.speed"], "fan.speed", "%", |_| Err(Missing::NoSource)),
];

#[rustfmt::skip] // one row a line
const APPS: &[AppColumn] = &[
    app(&["pid"], "pid", "", |app| Ok(app.process.key.pid.to_string())),
    app(&["process_name", "name"], "process_name", "", |app| app.process.name.clone()),
    app(&["used_memory", "used_gpu_memory"], "used_gpu_memory", "MiB", |app| mebibytes(app.used)),
    app(&["gpu_uuid"], "gpu_uuid", "", |app| app.device.map_or(Err(Missing::NoSource), |device| device.asic_id.clone())),
];

fn mebibytes(bytes: Reading<u64>) -> Reading<String> {
    bytes.map(|bytes| (bytes >> 20).to_string())
}

/// `2026/11/15 08:12:45.120`: the local time, and the milliseconds, which are the same in every time zone.
fn timestamp(gpu: &Gpu<'_>) -> String {
    let millis = gpu.snapshot.time.0 / 1_000_000 % 1000;
    format!("{}.{millis:03}", gpu.local_time.replace('-', "/"))
}

/// `00000000:C1:00.0` for `0000:c1:00.0`: nvidia-smi prints eight digits of the domain.
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
        let error = GpuField::parse("ecc.mode").err().unwrap().to_string();
        assert!(error.starts_with("\"ecc.mode\" is not") && error.contains("memory.used, memory.free"), "{error}");
        assert!(AppField::parse("").is_err());
    }

    #[test]
    fn bus_ids_have_eight_digits() {
        assert_eq!(bus_id("0000:c1:00.0"), "00000000:C1:00.0");
        assert_eq!(bus_id("12345678:c1:00.0"), "12345678:C1:00.0");
    }
}
