//! The field tables as a document, so that the page needs no names, units or help texts of its own.

use serde_json::{Value, json};
use ttmon_json::SCHEMA;
use ttmon_model::fields::{DEVICE, DEVICE_KIND, DeviceField, Field, FieldInfo, PROCESS, PROCESS_KIND};

use super::line;

pub(super) fn document(version: &str, has_fleet: bool) -> String {
    let mut charts: Vec<_> = DeviceField::all().filter_map(|field| Some((field, field.chart()?))).collect();
    charts.sort_by_key(|(_, (chart, _))| chart.order);
    let charts: Vec<Value> = charts
        .iter()
        .map(|(field, (chart, title))| {
            json!({
                "name": chart.name, "field": field.name(), "title": title, "unit": field.unit.symbol(),
                "limit": chart.limit, "critical": chart.critical, "unless": chart.unless,
            })
        })
        .collect();
    let document = json!({
        "schema": SCHEMA,
        "version": version,
        "device": table(DEVICE),
        "device_kind": table(DEVICE_KIND),
        "process": table(PROCESS),
        "process_kind": table(PROCESS_KIND),
        "charts": charts,
        "fleet": has_fleet,
    });
    line(&document)
}

fn table<T>(fields: &[Field<T>]) -> Vec<Value> {
    fields.iter().map(|field| row(field)).collect()
}

fn row(field: &FieldInfo) -> Value {
    json!({
        "name": field.name,
        "title": field.title,
        "section": field.section.name(),
        "unit": field.unit.symbol(),
        "metric": field.metric.map(|metric| metric.name),
        "kept": field.is_kept,
        "help": field.help,
    })
}
