//! `--query-gpu` and `--query-compute-apps`: nvidia-smi's names, headings and units, for scripts that were written for it.

use std::io::{self, Write};

use ttmon_model::fields::{DeviceField, SamplesNeeded};
use ttmon_model::{Device, Missing, Process, Reading, Snapshot};

use crate::csv::{CsvOptions, write_row};
use crate::quantity::{ABSENT, plain};
use crate::style::Style;

/// A name that no column has, with names of the same group and the flag that lists all.
#[derive(Debug, thiserror::Error)]
#[error("no field {name:?}; {similar}{help} lists all")]
pub struct UnknownColumn {
    name: String,
    similar: String,
    help: &'static str,
}

/// A query of nvidia-smi: its columns, and the flag that lists them.
pub struct Query {
    pub(crate) columns: &'static [Column],
    help: &'static str,
}

/// `--query-gpu`.
pub const GPU: Query = Query { columns: GPU_COLUMNS, help: "--help-query-gpu" };
/// `--query-compute-apps`.
pub const APPS: Query = Query { columns: APP_COLUMNS, help: "--help-query-compute-apps" };

impl Query {
    /// Finds a column by nvidia-smi's name; the error names similar columns.
    pub fn find(&self, name: &str) -> Result<QueryField, UnknownColumn> {
        // Every text has a first part.
        let group = |name: &str| name.split(['.', '_']).next().unwrap_or_default().to_owned();
        let found = self.columns.iter().find(|column| column.names.contains(&name));
        found.map(QueryField).ok_or_else(|| {
            let similar: Vec<&str> = self.names().filter(|known| group(known) == group(name)).collect();
            let similar = if similar.is_empty() { String::new() } else { format!("similar: {}; ", similar.join(", ")) };
            UnknownColumn { name: name.to_owned(), similar, help: self.help }
        })
    }

    /// Returns the names of all columns.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.columns.iter().map(|column| column.names[0])
    }
}

/// A column of a query.
#[derive(Clone, Copy)]
pub struct QueryField(&'static Column);

impl QueryField {
    /// Returns how many samples the column needs.
    pub fn samples(&self) -> SamplesNeeded {
        self.0.field().map_or(SamplesNeeded::One, |field| field.samples)
    }
}

/// Prints one line per device, as nvidia-smi does. The timestamp is the time of the style.
pub fn csv_gpu(snapshot: &Snapshot, fields: &[QueryField], options: CsvOptions, style: &Style<'_>, out: &mut dyn Write) -> io::Result<()> {
    let line = |device| Line {
        snapshot,
        device: Ok(device),
        process: Err(Missing::NoSource),
        used: Err(Missing::NoSource),
        local_time: &style.local_time,
    };
    print(fields, snapshot.devices.iter().map(line), options, style, out)
}

/// Prints one line per process and device. Memory on a chip without a device also has a line, without the chip's id.
pub fn csv_apps(snapshot: &Snapshot, fields: &[QueryField], options: CsvOptions, style: &Style<'_>, out: &mut dyn Write) -> io::Result<()> {
    let lines = snapshot.processes.iter().flat_map(|process| {
        let line = |device, used| Line { snapshot, device, process: Ok(process), used, local_time: &style.local_time };
        let mapped =
            process.devices.iter().map(move |use_of| line(snapshot.device(use_of.device).ok_or(Missing::NoSource), use_of.kinds.dram()));
        mapped.chain(process.unmapped.iter().map(move |unmapped| line(Err(Missing::NoSource), unmapped.kinds.dram())))
    });
    print(fields, lines, options, style, out)
}

fn print<'a>(
    fields: &[QueryField],
    lines: impl Iterator<Item = Line<'a>>,
    options: CsvOptions,
    style: &Style<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    if options.header {
        write_row(fields.iter().map(|field| field.0.title()), out)?;
    }
    for line in lines {
        write_row(fields.iter().map(|field| style.clean(&field.0.show(field.0.value(&line), options))), out)?;
    }
    Ok(())
}

/// nvidia-smi's description of a column: its names, its heading and its unit.
pub(crate) struct Column {
    names: &'static [&'static str],
    heading: &'static str,
    unit: &'static str,
    meaning: &'static str,
    shown: Shown,
}

impl Column {
    fn field(&self) -> Option<DeviceField> {
        DeviceField::find(self.meaning)
    }

    pub(crate) fn help(&self) -> Vec<String> {
        let unit = if self.unit.is_empty() { "-" } else { self.unit };
        let (field, meaning) = match self.field() {
            Some(field) => (self.meaning, field.help),
            None => ("-", self.meaning),
        };
        vec![self.names.join(", "), unit.to_owned(), field.to_owned(), meaning.to_owned()]
    }

    fn value(&self, line: &Line<'_>) -> Reading<String> {
        let field = self.field().ok_or(Missing::NoSource);
        let number = |field: DeviceField| field.number(line.device?);
        match self.shown {
            Shown::Plain => field.and_then(|field| Ok(plain(&field.get(line.device?)?, field.unit))),
            Shown::Decimals(digits) => field.and_then(number).map(|number| format!("{number:.digits$}")),
            Shown::Mebibytes => field.and_then(number).map(|bytes| format!("{:.0}", (bytes / f64::from(1 << 20)).floor())),
            Shown::Percent => field.and_then(number).map(|ratio| format!("{:.0}", ratio * 100.0)),
            Shown::Made(make) => make(line),
            Shown::Nothing => Err(Missing::NoSource),
        }
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

#[derive(Clone, Copy)]
enum Shown {
    Plain,
    Decimals(usize),
    Mebibytes,
    Percent,
    Made(fn(&Line<'_>) -> Reading<String>),
    Nothing,
}

/// The subject of a line: a device, or the memory of a process on a device.
struct Line<'a> {
    snapshot: &'a Snapshot,
    device: Reading<&'a Device>,
    process: Reading<&'a Process>,
    used: Reading<u64>,
    local_time: &'a str,
}

type Names = &'static [&'static str];

const fn column(names: Names, unit: &'static str, meaning: &'static str, shown: Shown) -> Column {
    headed(names, names[0], unit, meaning, shown)
}

/// Creates a column with a heading that differs from its most common name.
const fn headed(names: Names, heading: &'static str, unit: &'static str, meaning: &'static str, shown: Shown) -> Column {
    Column { names, heading, unit, meaning, shown }
}

const NOT_HERE: &str = "Not measured on these devices; N/A.";

/// The columns of `--query-gpu`.
const GPU_COLUMNS: &[Column] = &[
    column(&["timestamp"], "", "Local time of the sample.", Shown::Made(timestamp)),
    column(&["index"], "", "id", Shown::Plain),
    column(&["count"], "", "Number of devices.", Shown::Made(|line| Ok(line.snapshot.devices.len().to_string()))),
    column(&["name", "gpu_name"], "", "name", Shown::Plain),
    column(&["uuid", "gpu_uuid"], "", "asic_id", Shown::Plain),
    column(&["serial", "gpu_serial"], "", "serial", Shown::Plain),
    column(&["pci.bus_id", "gpu_bus_id"], "", "bdf", Shown::Made(bus_id)),
    column(&["driver_version"], "", "Version of the kernel driver.", Shown::Made(|line| line.snapshot.driver.clone())),
    column(&["vbios_version"], "", "firmware", Shown::Plain),
    column(&["pstate"], "", NOT_HERE, Shown::Nothing),
    column(&["temperature.gpu"], "", "temperature", Shown::Decimals(0)),
    column(&["temperature.memory"], "", NOT_HERE, Shown::Nothing),
    column(&["power.draw"], "W", "power", Shown::Decimals(2)),
    column(&["power.draw.instant"], "W", "power", Shown::Decimals(2)),
    column(&["power.limit"], "W", "power_limit", Shown::Decimals(2)),
    column(&["enforced.power.limit"], "W", "power_limit", Shown::Decimals(2)),
    column(&["memory.total"], "MiB", "memory.total", Shown::Mebibytes),
    column(&["memory.used"], "MiB", "memory.used", Shown::Mebibytes),
    column(&["memory.free"], "MiB", "memory.free", Shown::Mebibytes),
    column(&["utilization.gpu"], "%", "utilization", Shown::Percent),
    column(&["utilization.memory"], "%", NOT_HERE, Shown::Nothing),
    column(&["utilization.encoder"], "%", NOT_HERE, Shown::Nothing),
    column(&["utilization.decoder"], "%", NOT_HERE, Shown::Nothing),
    column(&["utilization.jpeg"], "%", NOT_HERE, Shown::Nothing),
    column(&["utilization.ofa"], "%", NOT_HERE, Shown::Nothing),
    headed(&["clocks.sm", "clocks.current.sm"], "clocks.current.sm", "MHz", "aiclk_mhz", Shown::Decimals(0)),
    headed(&["clocks.gr", "clocks.current.graphics"], "clocks.current.graphics", "MHz", "aiclk_mhz", Shown::Decimals(0)),
    headed(&["clocks.mem", "clocks.current.memory"], "clocks.current.memory", "MHz", NOT_HERE, Shown::Nothing),
    column(&["clocks.max.sm"], "MHz", "aiclk_limit_mhz", Shown::Decimals(0)),
    headed(&["clocks.max.gr", "clocks.max.graphics"], "clocks.max.graphics", "MHz", "aiclk_limit_mhz", Shown::Decimals(0)),
    column(&["pcie.link.gen.current"], "", "pcie_gen", Shown::Plain),
    column(&["pcie.link.gen.max"], "", "pcie_gen_max", Shown::Plain),
    column(&["pcie.link.width.current"], "", "pcie_width", Shown::Plain),
    column(&["pcie.link.width.max"], "", "pcie_width_max", Shown::Plain),
    // nvidia-smi shows a percentage of the highest speed, which the driver does not publish.
    column(&["fan.speed"], "%", "Share of the highest speed, which no driver publishes; N/A. See fan_rpm of --fields.", Shown::Nothing),
];

/// The columns of `--query-compute-apps`.
const APP_COLUMNS: &[Column] = &[
    column(&["pid"], "", "Process id on this host.", Shown::Made(|line| Ok(line.process?.key.pid.to_string()))),
    column(&["process_name", "name"], "", "The kernel's short name of the process.", Shown::Made(|line| line.process?.name.clone())),
    headed(
        &["used_memory", "used_gpu_memory"],
        "used_gpu_memory",
        "MiB",
        "DRAM it uses on the device.",
        Shown::Made(|line| Ok((line.used? >> 20).to_string())),
    ),
    column(&["gpu_uuid"], "", "asic_id", Shown::Plain),
    column(&["gpu_name"], "", "name", Shown::Plain),
    column(&["gpu_bus_id"], "", "bdf", Shown::Made(bus_id)),
    column(&["timestamp"], "", "Local time of the sample.", Shown::Made(timestamp)),
];

/// Formats `2026/11/15 08:12:45.120`: the local time, and the milliseconds, which are the same in every time zone.
fn timestamp(line: &Line<'_>) -> Reading<String> {
    let millis = line.snapshot.time.0 / 1_000_000 % 1000;
    Ok(format!("{}.{millis:03}", line.local_time.replace('-', "/")))
}

fn bus_id(line: &Line<'_>) -> Reading<String> {
    line.device?.bdf.map(|bdf| eight_digits(&bdf.to_string()))
}

/// Converts `0000:c1:00.0` to `00000000:C1:00.0`, because nvidia-smi prints eight digits of the domain.
fn eight_digits(bdf: &str) -> String {
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
            assert!(GPU.find(name).is_ok(), "{name}");
        }
        for name in ["pid", "process_name", "used_memory", "gpu_uuid"] {
            assert!(APPS.find(name).is_ok(), "{name}");
        }
        let error = |name: &str| GPU.find(name).err().unwrap().to_string();
        assert_eq!(error("ecc.mode"), "no field \"ecc.mode\"; --help-query-gpu lists all");
        assert_eq!(error("memory"), "no field \"memory\"; similar: memory.total, memory.used, memory.free; --help-query-gpu lists all");
        assert!(APPS.find("").is_err());
    }

    /// A meaning is the name of a field, or a sentence.
    #[test]
    fn meanings_are_fields_or_sentences() {
        for column in GPU_COLUMNS.iter().chain(APP_COLUMNS) {
            assert!(column.field().is_some() || column.meaning.ends_with('.'), "{}: {}", column.names[0], column.meaning);
        }
    }

    #[test]
    fn bus_ids_have_eight_digits() {
        assert_eq!(eight_digits("0000:c1:00.0"), "00000000:C1:00.0");
        assert_eq!(eight_digits("12345678:c1:00.0"), "12345678:C1:00.0");
    }
}
