//! The field tables as text: `--help-fields`, `--help-query-gpu`, `--help-query-compute-apps`.

#[cfg(test)]
mod page;

use std::io::{self, Write};

use ttmon_model::Kind;
use ttmon_model::fields::{DEVICE, DEVICE_KIND, Field, SamplesNeeded};
use ttmon_model::units::Unit;

use crate::nvidia;
use crate::style::Style;
use crate::text::print_aligned;

const KIND_PREFIX: &str = "memory.kinds.KIND.";

/// Prints the fields that `--fields` accepts, with their units and descriptions.
pub fn help_fields(style: &Style<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut rows = vec![["FIELD", "UNIT", "SAMPLES", "MEANING"].map(str::to_owned).to_vec()];
    rows.extend(DEVICE.iter().map(|field| help_row("", field)));
    rows.extend(DEVICE_KIND.iter().map(|field| help_row(KIND_PREFIX, field)));
    print_aligned(&rows, style, out)?;
    writeln!(out, "\nKIND is one of {}.\nNaming a field that needs 2 samples makes ttmon wait for the second.", kinds())
}

/// Prints the fields that `--query-gpu` accepts.
pub fn help_query_gpu(style: &Style<'_>, out: &mut dyn Write) -> io::Result<()> {
    columns(&nvidia::GPU, style, out)
}

/// Prints the fields that `--query-compute-apps` accepts.
pub fn help_query_compute_apps(style: &Style<'_>, out: &mut dyn Write) -> io::Result<()> {
    columns(&nvidia::APPS, style, out)
}

fn columns(query: &nvidia::Query, style: &Style<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut rows = vec![["NAME", "UNIT", "TTMON FIELD", "MEANING"].map(str::to_owned).to_vec()];
    rows.extend(query.columns.iter().map(nvidia::Column::help));
    print_aligned(&rows, style, out)
}

fn help_row<T>(prefix: &str, field: &Field<T>) -> Vec<String> {
    vec![format!("{prefix}{}", field.name), unit(field.unit).to_owned(), samples(field.samples).to_owned(), field.help.to_owned()]
}

fn kinds() -> String {
    Kind::ALL.map(Kind::name).join(", ")
}

fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::None => "-",
        Unit::Time => "time",
        unit => unit.symbol(),
    }
}

fn samples(samples: SamplesNeeded) -> &'static str {
    match samples {
        SamplesNeeded::One => "1",
        SamplesNeeded::Two => "2",
        SamplesNeeded::TwoSlow => "2, 1 s apart",
    }
}
