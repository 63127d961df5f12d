//! `-q`: all values of each device as `key: value`, with the reason of each missing one. The format is easy to grep.

use std::io::{self, Write};

use ttmon_model::fields::{DeviceField, PROCESS, PROCESS_KIND, Section, Value};
use ttmon_model::snapshot::{DeviceUse, State};
use ttmon_model::units::{Unit, Version};
use ttmon_model::{Attr, Device, Missing, Process, Reading, Snapshot};

use crate::quantity::{absence, with_unit};
use crate::style::Style;

/// Prints the machine, then the requested sections of each device (none means all).
pub fn query(snapshot: &Snapshot, sections: &[Section], style: &Style<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut page = Page { style, out };
    page.row("", "host", &snapshot.host)?;
    page.row("", "time", &snapshot.time.rfc3339())?;
    page.row("", "driver", &shown(snapshot.driver.clone().map(Value::Text), Unit::None))?;
    page.row("", "origin", snapshot.origin.name())?;
    for problem in &snapshot.problems {
        page.row("", "problem", &format!("{} ({}: {})", problem.part, problem.reason, problem.detail))?;
    }
    for device in &snapshot.devices {
        writeln!(page.out, "\ndevice {}:", device.id)?;
        let requested = Section::ALL.iter().filter(|section| sections.is_empty() || sections.contains(section));
        for section in requested {
            page.section(snapshot, device, *section)?;
        }
    }
    Ok(())
}

struct Page<'a> {
    style: &'a Style<'a>,
    out: &'a mut dyn Write,
}

impl Page<'_> {
    fn row(&mut self, indent: &str, key: &str, value: &str) -> io::Result<()> {
        writeln!(self.out, "{indent}{}", self.style.clean(&format!("{key}: {value}")).trim_end())
    }

    fn section(&mut self, snapshot: &Snapshot, device: &Device, section: Section) -> io::Result<()> {
        for field in DeviceField::all().filter(|field| field.section == section) {
            let value = match field.get(device) {
                Ok(value) => with_unit(&value, field.unit),
                Err(reason) => absence(reason, &explanation(reason, &field, snapshot, device)),
            };
            self.row("  ", &field.name(), &value)?;
        }
        if section == Section::Pids {
            for (process, use_of) in snapshot.processes_on(device.id) {
                self.process(process, use_of)?;
            }
        }
        Ok(())
    }

    fn process(&mut self, process: &Process, use_of: &DeviceUse) -> io::Result<()> {
        writeln!(self.out, "  process {}:", process.key.pid)?;
        for field in PROCESS {
            // These two rows are for this device only, as in a device's `processes` in JSON.
            let value = match field.name {
                "memory" => use_of.kinds.dram().map(Value::Integer),
                "source" => use_of.source().map(|source| Value::Text(source.name().to_owned())),
                _ => (field.get)(process),
            };
            self.row("    ", field.name, &shown(value, field.unit))?;
        }
        for (kind, figure) in use_of.kinds.iter() {
            for field in PROCESS_KIND {
                let value = shown((field.get)(figure), field.unit);
                self.row("    ", &format!("kinds.{}.{}", kind.name(), field.name), &value)?;
            }
        }
        Ok(())
    }
}

fn shown(value: Reading<Value>, unit: Unit) -> String {
    match value {
        Ok(value) => with_unit(&value, unit),
        Err(reason) => absence(reason, reason.explanation()),
    }
}

/// Returns the reason in words. For a value of newer drivers, it includes the first driver that has the value.
fn explanation(reason: Missing, field: &DeviceField, snapshot: &Snapshot, device: &Device) -> String {
    let attr = field.attr();
    if device.state == State::Starting && reason == Missing::NoSource && attr.is_some_and(|attr| attr.attribute().is_from_firmware()) {
        return "the firmware does not answer yet".to_owned();
    }
    let newer = attr.filter(|_| reason == Missing::NotExposed).and_then(|attr| newer_driver(attr, snapshot, device));
    newer.unwrap_or_else(|| reason.explanation().to_owned())
}

fn newer_driver(attr: Attr, snapshot: &Snapshot, device: &Device) -> Option<String> {
    let needed = attr.attribute().since_on(device.arch.ok()?)?;
    let here = Version::parse(snapshot.driver.as_deref().ok()?)?;
    (needed > here).then(|| format!("needs driver {needed} or newer, this is {here}"))
}
