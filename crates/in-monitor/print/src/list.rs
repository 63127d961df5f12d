//! `-L`: one line per device.

use std::io::{self, Write};

use ttmon_model::{Device, Reading, Snapshot};

use crate::quantity::ABSENT;
use crate::snapshot::origin_mark;
use crate::style::Style;

/// Prints each device with its ids.
pub fn list(snapshot: &Snapshot, style: &Style<'_>, out: &mut dyn Write) -> io::Result<()> {
    for device in &snapshot.devices {
        let line = format!("Device {}: {} {}", device.id, ids(device), origin_mark(snapshot));
        writeln!(out, "{}", style.clean(&line).trim_end())?;
    }
    Ok(())
}

fn ids(device: &Device) -> String {
    let chip = device.arch.map_or("unknown chip", |arch| arch.chip_name());
    let place = match device.via {
        Ok(via) => format!("via {via}"),
        Err(_) => format!("bdf {}", device.bdf.map_or_else(|_| ABSENT.to_owned(), |bdf| bdf.to_string())),
    };
    let or_absent = |id: &Reading<String>| id.clone().unwrap_or_else(|_| ABSENT.to_owned());
    format!("{} ({chip}) {place} asic_id {} serial {}", device.label(), or_absent(&device.asic_id), or_absent(&device.serial))
}
