//! CSV: its format, and `--fields` with the names and units of JSON.

use std::io::{self, Write};

use ttmon_model::Snapshot;
use ttmon_model::fields::DeviceField;

use crate::quantity::{ABSENT, plain};
use crate::style::Style;

/// The options of `--format=csv[,noheader][,nounits]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CsvOptions {
    /// Whether the first line names the columns.
    pub header: bool,
    /// Whether units are shown.
    pub units: bool,
}

/// Prints the requested fields, one line per device: plain numbers in the units of JSON.
pub fn csv_fields(
    snapshot: &Snapshot,
    fields: &[DeviceField],
    options: CsvOptions,
    style: &Style<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let title = |field: &DeviceField| match field.unit.symbol() {
        unit if options.units && !unit.is_empty() => format!("{} [{unit}]", field.name()),
        _ => field.name(),
    };
    if options.header {
        write_row(fields.iter().map(title), out)?;
    }
    for device in &snapshot.devices {
        let value =
            |field: &DeviceField| field.get(device).map_or_else(|_| ABSENT.to_owned(), |value| style.clean(&plain(&value, field.unit)));
        write_row(fields.iter().map(value), out)?;
    }
    Ok(())
}

/// Writes one line with nvidia-smi's separator and RFC 4180's quotes.
pub(crate) fn write_row(cells: impl Iterator<Item = String>, out: &mut dyn Write) -> io::Result<()> {
    let quoted: Vec<String> = cells.map(quoted).collect();
    writeln!(out, "{}", quoted.join(", "))
}

fn quoted(text: String) -> String {
    // A leading or trailing space would be read as part of the separator.
    let is_risky = text.contains([',', '"', '\n', '\r']) || text.starts_with(' ') || text.ends_with(' ');
    if is_risky { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{machine, printed};
    use proptest::prelude::*;

    /// Parses one line that `write_row` wrote.
    fn read_row(line: &str) -> Vec<String> {
        let mut cells = vec![String::new()];
        let mut characters = line.strip_suffix('\n').unwrap().chars().peekable();
        let mut is_quoted = false;
        while let Some(character) = characters.next() {
            let cell = cells.last_mut().unwrap();
            match character {
                '"' if is_quoted && characters.next_if_eq(&'"').is_some() => cell.push('"'),
                '"' => is_quoted = !is_quoted,
                ',' if !is_quoted => {
                    assert_eq!(characters.next(), Some(' '));
                    cells.push(String::new());
                }
                _ => cell.push(character),
            }
        }
        cells
    }

    #[test]
    fn every_field_of_every_machine_is_read_back() {
        let fields: Vec<_> = DeviceField::all().collect();
        for (_, snapshot) in machine::all() {
            let text =
                printed(|out| csv_fields(&snapshot, &fields, CsvOptions { header: true, units: false }, &Style::plain("0.1.0"), out));
            let mut lines = text.split_inclusive('\n').map(read_row);
            assert_eq!(lines.next(), Some(fields.iter().map(DeviceField::name).collect()));
            for device in &snapshot.devices {
                let expected =
                    fields.iter().map(|field| field.get(device).map_or_else(|_| ABSENT.to_owned(), |value| plain(&value, field.unit)));
                assert_eq!(lines.next(), Some(expected.collect()));
            }
            assert_eq!(lines.next(), None);
        }
    }

    proptest! {
        #[test]
        fn cells_are_read_back_as_written(cells in prop::collection::vec("[a-z, \"\n\r]{0,6}|\\PC{0,9}", 1..5)) {
            let mut line = Vec::new();
            write_row(cells.iter().cloned(), &mut line).unwrap();
            prop_assert_eq!(read_row(&String::from_utf8(line).unwrap()), cells);
        }
    }
}
