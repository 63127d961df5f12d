//! The description of the paths in OpenAPI 3.1, generated from the table of paths and the tables of fields.

use serde_json::{Map, Value, json};
use ttmon_alerts::Severity;
use ttmon_model::event::Op;
use ttmon_model::fields::{DEVICE, DEVICE_KIND, DeviceField, Field, PROCESS, PROCESS_KIND};
use ttmon_model::snapshot::Status;
use ttmon_model::units::Unit;

use super::{Answer, ROUTES, Route};
use crate::limits::HEADER_BYTES_MAX;

/// Returns the whole document.
pub(super) fn document(version: &str) -> String {
    let paths: Map<String, Value> = ROUTES.iter().map(|route| (route.path.to_owned(), json!({"get": operation(route)}))).collect();
    let document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "ttmon",
            "version": version,
            "description": "What one host's ttmon sees. Fields may be added; none is renamed or removed.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {
                "Problem": problem(),
                "Device": device(),
                "DeviceProcess": device_process(),
                "MemoryOfKind": object(DEVICE_KIND.iter().map(property)),
                "MemoryOfProcess": object(PROCESS_KIND.iter().map(property)),
                "Process": object(PROCESS.iter().map(property)),
                "Snapshot": document_of(&[("devices", list("Device")), ("processes", list("Process")), ("allocators", anything()), ("processes_age_s", json!({"type": "number", "minimum": 0})), ("problems", anything())]),
                "Devices": document_of(&[("devices", list("Device"))]),
                "Processes": document_of(&[("processes", list("Process"))]),
                "Buffers": document_of(&[("count", json!({"type": "integer", "minimum": 0})), ("buffers", json!({"type": "array", "items": buffer()})), ("problems", anything())]),
                "History": history(),
                "Events": events(),
                "Fields": fields(),
                "Mesh": mesh(),
                "Recorded": recorded(),
                "Fleet": fleet(),
                "FleetFind": fleet_find(),
                "Alerts": document_of(&[("alerts", json!({"type": "array", "items": alert()})), ("rules", anything()), ("silences", anything()), ("receivers", anything()), ("samples_dropped", json!({"type": "integer", "minimum": 0}))]),
            },
        },
    });
    format!("{document}\n")
}

fn operation(route: &Route) -> Value {
    let parameters: Vec<Value> = route
        .parameters
        .iter()
        .map(|parameter| {
            let mut schema: Value = serde_json::from_str(parameter.schema).unwrap_or_default();
            if parameter.name == "fields" {
                schema["items"]["enum"] = DeviceField::all().filter(|field| field.is_kept).map(|field| field.name()).collect();
            }
            let mut described =
                json!({"name": parameter.name, "in": "query", "required": false, "description": parameter.help, "schema": schema});
            if schema["type"] == "array" {
                (described["style"], described["explode"]) = (json!("form"), json!(false));
            }
            described
        })
        .collect();
    let mut responses = json!({"200": {"description": "Yes.", "content": content(route.answer)}});
    for (status, meaning) in statuses(route) {
        responses[status] = json!({"description": meaning, "content": {"application/problem+json": {"schema": reference("Problem")}}});
    }
    responses["431"] = json!({"description": format!("The header of the request is longer than {} KiB.", HEADER_BYTES_MAX / 1024)});
    let mut operation = json!({"operationId": route.id, "summary": route.summary, "parameters": parameters, "responses": responses});
    // Without a token, most paths return less data. This path returns none.
    operation["security"] =
        if matches!(route.answer, Answer::Buffers | Answer::Recorders) { json!([{"token": []}]) } else { json!([{}, {"token": []}]) };
    operation
}

fn statuses(route: &Route) -> Vec<(&'static str, &'static str)> {
    let mut statuses = vec![
        ("400", "A parameter cannot be used."),
        ("401", "The token is wrong or needed."),
        ("403", "A page of another site asks."),
        ("421", "Called by a name that is not its own."),
    ];
    if matches!(route.answer, Answer::Fleet | Answer::FleetFind) {
        statuses.push(("404", "There is no store: --fleet names one."));
    }
    if route.answer == Answer::History {
        statuses.push(("503", "Too many large answers are under way."));
    } else if !matches!(route.answer, Answer::Healthz | Answer::Fields | Answer::OpenApi | Answer::Metrics) {
        statuses.push(("503", "There is nothing fresh to show, or too much is asked for at once."));
    }
    statuses
}

fn content(answer: Answer) -> Value {
    let json = |name: &str| json!({"application/json": {"schema": reference(name)}});
    let text = json!({"schema": {"type": "string"}});
    match answer {
        Answer::Snapshot => json("Snapshot"),
        Answer::Devices => json("Devices"),
        Answer::Processes => json("Processes"),
        Answer::Buffers => json("Buffers"),
        Answer::Memory => json("Snapshot"),
        Answer::Recorders => json!({"text/event-stream": text, "application/json": {"schema": reference("Recorded")}}),
        Answer::History => json("History"),
        Answer::Events => json!({"text/event-stream": text, "application/json": {"schema": reference("Events")}}),
        Answer::Alerts => json("Alerts"),
        Answer::Mesh => json("Mesh"),
        Answer::Fields => json("Fields"),
        Answer::Fleet => json("Fleet"),
        Answer::FleetFind => json("FleetFind"),
        Answer::OpenApi => json!({"application/json": {"schema": {"type": "object"}}}),
        Answer::Metrics => json!({"application/openmetrics-text": text, "text/plain": text}),
        Answer::Healthz | Answer::Readyz => json!({"text/plain": text}),
    }
}

/// Schema of totals over hosts or chips. Unknown values have no key.
fn fleet() -> Value {
    let strings =
        |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), json!({"type": ["string", "null"]}))).collect::<Map<_, _>>();
    let rows = |names: &[&str], required: &[&str]| json!({"type": "array", "items": {"type": "object", "properties": strings(names), "required": required, "additionalProperties": true}});
    json!({
        "type": "object",
        "required": ["schema", "version", "time", "store", "host_count", "totals", "hosts", "missing", "racks", "partitions", "workloads", "alerts", "problems"],
        "properties": {
            "schema": {"type": "integer"},
            "version": {"type": "string"},
            "time": {"type": "string", "format": "date-time"},
            "store": {"type": "object", "required": ["url", "error", "has_rules"], "properties": {"url": {"type": ["string", "null"]}, "error": {"type": ["string", "null"]}, "has_rules": {"type": "boolean"}}},
            "host_count": {"type": "integer", "minimum": 0},
            "totals": {"type": "object", "additionalProperties": {"type": "number"}},
            "hosts": rows(&["host", "rack", "partition", "source", "url"], &["host", "age_s"]),
            "missing": {"type": "array", "items": {"type": "string"}},
            "racks": rows(&["name"], &["name", "hosts"]),
            "partitions": rows(&["name"], &["name", "hosts"]),
            "workloads": rows(&["slurm_job", "namespace", "pod"], &[]),
            "alerts": {"type": "array", "items": {"type": "object", "additionalProperties": {"type": "string"}}},
            "problems": {"type": "array", "items": {"type": "string"}},
        },
    })
}

fn fleet_find() -> Value {
    json!({
        "type": "object",
        "required": ["schema", "store", "request", "reserved", "hosts"],
        "properties": {
            "schema": {"type": "integer"},
            "store": {"type": "string"},
            "request": {"type": "object"},
            "reserved": {"const": false},
            "hosts": {"type": "array", "items": {"type": "object", "required": ["host", "chips"], "properties": {"host": {"type": "string"}, "rack": {"type": "string"}, "partition": {"type": "string"}, "chips": {"type": "integer"}}}},
        },
    })
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

fn list(name: &str) -> Value {
    json!({"type": "array", "items": reference(name)})
}

fn anything() -> Value {
    json!({"type": "array", "items": {"type": "object"}})
}

/// Returns the schema of a field. The type follows from its unit; a field without a unit is described in words.
fn property<T>(field: &Field<T>) -> (String, Value) {
    let mut schema = match field.unit {
        Unit::None => json!({}),
        Unit::Time => json!({"type": ["string", "null"], "format": "date-time"}),
        Unit::Bytes | Unit::Count | Unit::Megahertz | Unit::Rpm => json!({"type": ["integer", "null"], "minimum": 0}),
        _ => json!({"type": ["number", "null"]}),
    };
    schema["description"] = json!(field.help);
    (field.name.to_owned(), schema)
}

/// Returns the schema of a list element: the values of a table, and the reasons of null values.
fn object(properties: impl Iterator<Item = (String, Value)>) -> Value {
    let mut properties: Map<String, Value> = properties.collect();
    let required: Vec<String> = properties.keys().cloned().collect();
    properties.insert("missing".to_owned(), json!({"type": "object", "additionalProperties": {"type": "string"}}));
    json!({"type": "object", "properties": properties, "required": required})
}

fn device() -> Value {
    let fields = DEVICE.iter().filter(|field| !field.name.contains('.')).map(property);
    object(fields.chain([("processes".to_owned(), list("DeviceProcess"))]))
}

/// Returns the schema of a process on a device.
fn device_process() -> Value {
    let properties = [
        ("pid", json!({"type": "integer", "minimum": 1, "description": "The rest of the process is in the document's processes, by pid."})),
        ("name", json!({"type": ["string", "null"]})),
        ("memory", json!({"type": ["integer", "null"], "minimum": 0, "description": "DRAM it uses here, in bytes."})),
        ("status", json!({"enum": Status::ALL.map(Status::name)})),
        ("source", json!({"type": ["string", "null"]})),
        (
            "metal_ids",
            json!({
                "type": ["array", "null"],
                "items": {"type": "integer", "minimum": 0},
                "description": "TT-Metal's numbers of the device inside the process.",
            }),
        ),
        ("kinds", json!({"type": "object", "additionalProperties": reference("MemoryOfProcess")})),
    ];
    object(properties.into_iter().map(|(name, schema)| (name.to_owned(), schema)))
}

/// Returns the schema of a document: its header and its parts.
fn document_of(parts: &[(&str, Value)]) -> Value {
    let mut properties = json!({
        "schema": {"const": ttmon_wire::SCHEMA},
        "version": {"type": "string"},
        "host": {"type": "string"},
        "time": {"type": "string", "format": "date-time"},
        "origin": {"type": "string"},
    });
    let mut required = vec!["schema", "version", "host", "time", "origin"];
    for (name, schema) in parts {
        properties[*name] = schema.clone();
        required.push(name);
    }
    json!({"type": "object", "properties": properties, "required": required})
}

fn buffer() -> Value {
    json!({
        "type": "object",
        "properties": {
            "pid": {"type": "integer"},
            "allocator": {"type": "string"},
            "kind": {"type": "string"},
            "address": {"type": "string", "pattern": "^0x[0-9a-f]+$"},
            "size": {"type": "integer", "minimum": 0},
            "devices": {"type": "array", "items": {"type": "integer"}},
            "age_s": {"type": ["number", "null"], "minimum": 0},
            "tag": {"type": ["string", "null"]},
        },
        "required": ["pid", "allocator", "kind", "address", "size", "devices", "age_s", "tag"],
    })
}

fn mesh() -> Value {
    let whole = || json!({"type": "integer", "minimum": 0});
    let object = |properties: Value| {
        let required: Vec<String> = properties.as_object().into_iter().flat_map(Map::keys).cloned().collect();
        json!({"type": "array", "items": {"type": "object", "properties": properties, "required": required}})
    };
    document_of(&[
        ("layout", json!({"type": "string", "description": "What the places come from, in words."})),
        ("rows", whole()),
        ("columns", whole()),
        (
            "tiles",
            object(json!({"device": whole(), "row": whole(), "column": whole(), "tray": {"type": ["integer", "null"], "minimum": 0}})),
        ),
        ("links", object(json!({"devices": {"type": "array", "items": whole(), "minItems": 2, "maxItems": 2}, "count": whole()}))),
    ])
}

fn alert() -> Value {
    let time = || json!({"type": ["string", "null"], "format": "date-time"});
    let text = || json!({"type": ["string", "null"]});
    let mut properties = json!({
        "rule": {"type": "string"},
        "severity": {"enum": Severity::ALL.map(Severity::name)},
        "state": {"enum": ["firing", "pending", "resolved"]},
        "device": {"type": "integer", "minimum": 0},
        "summary": {"type": "string"},
    });
    for name in ["since", "fired", "resolved", "silenced_until"] {
        properties[name] = time();
    }
    for name in ["board", "bdf", "asic_id"] {
        properties[name] = text();
    }
    let required: Vec<String> = properties.as_object().into_iter().flat_map(Map::keys).cloned().collect();
    json!({"type": "object", "properties": properties, "required": required})
}

fn history() -> Value {
    let column = json!({"type": "array", "items": {"type": ["number", "null"]}});
    json!({
        "type": "object",
        "properties": {
            "schema": {"const": ttmon_wire::SCHEMA},
            "version": {"type": "string"},
            "time": {"type": "string", "format": "date-time"},
            "start": {"type": "string", "format": "date-time", "description": "Time of the first point, by the present clock."},
            "step_s": {"type": "number", "exclusiveMinimum": 0},
            "points": {"type": "integer", "minimum": 0},
            "fields": {"type": "array", "items": {"type": "string"}},
            "devices": {"type": "array", "items": {
                "type": "object",
                "properties": {"id": {"type": "integer", "minimum": 0}, "fields": {"type": "object", "additionalProperties": column}},
                "required": ["id", "fields"],
            }},
            "marks": {"type": "array", "items": event()},
        },
        "required": ["schema", "version", "time", "start", "step_s", "points", "fields", "devices", "marks"],
    })
}

fn event() -> Value {
    json!({
        "type": "object",
        "properties": {
            "id": {"type": "integer", "minimum": 1},
            "time": {"type": "string", "format": "date-time"},
            "event": {"enum": ["started", "appeared", "left", "state", "health", "clock", "gap", "unreadable", "readable"]},
        },
        "required": ["id", "time", "event"],
    })
}

fn events() -> Value {
    json!({
        "type": "object",
        "properties": {
            "schema": {"const": ttmon_wire::SCHEMA},
            "version": {"type": "string"},
            "last_id": {"type": "integer", "minimum": 0},
            "events": {"type": "array", "items": event()},
        },
        "required": ["schema", "version", "last_id", "events"],
    })
}

fn fields() -> Value {
    let text = || json!({"type": "string"});
    let optional = |of: &str| json!({"type": [of, "null"]});
    let entry = |properties: Value| {
        let required: Vec<String> = properties.as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
        json!({"type": "object", "properties": properties, "required": required})
    };
    let field = entry(json!({
        "name": text(), "title": text(), "section": text(), "unit": text(), "metric": optional("string"),
        "kept": {"type": "boolean"}, "help": text(),
    }));
    let chart = entry(json!({
        "name": text(), "field": text(), "title": text(), "unit": text(), "limit": optional("string"),
        "critical": optional("number"), "unless": optional("string"),
    }));
    let rows = json!({"type": "array", "items": field});
    let mut document = entry(json!({
        "version": text(), "device": rows.clone(), "device_kind": rows.clone(), "process": rows.clone(), "process_kind": rows,
        "charts": {"type": "array", "items": chart}, "fleet": {"type": "boolean"},
    }));
    document["properties"]["schema"] = json!({"const": ttmon_wire::SCHEMA});
    document
}

fn recorded() -> Value {
    json!({
        "type": "object",
        "properties": {
            "schema": {"const": ttmon_wire::SCHEMA},
            "version": {"type": "string"},
            "recorders": {"type": "integer", "minimum": 0},
            "count": {"type": "integer", "minimum": 0},
            "events": {"type": "array", "items": {
                "type": "object",
                "properties": {
                    "time": {"type": ["string", "null"], "format": "date-time"},
                    "pid": {"type": "integer", "minimum": 1},
                    "op": {"enum": Op::ALL.map(Op::name)},
                },
                "required": ["time", "pid", "op"],
            }},
        },
        "required": ["schema", "version", "recorders", "count", "events"],
    })
}

fn problem() -> Value {
    json!({
        "type": "object",
        "description": "RFC 9457.",
        "properties": {
            "type": {"type": "string"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {"type": "string"},
        },
        "required": ["type", "title", "status", "detail"],
    })
}
