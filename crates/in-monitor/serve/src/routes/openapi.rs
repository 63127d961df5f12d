//! The description of the paths in OpenAPI 3.1, web/openapi.json, made from the tables of paths and of fields.

mod paths;

use serde_json::{Map, Value, json};
use ttmon_alerts::Severity;
use ttmon_model::event::Op;
use ttmon_model::fields::{DEVICE, DEVICE_KIND, DeviceField, Field, PROCESS, PROCESS_KIND};
use ttmon_model::snapshot::Status;
use ttmon_model::units::Unit;

use paths::{DESCRIPTIONS, PathDescription};

use super::{OPENAPI_VERSION, ROUTES, ResponseKind, openapi_document};
use crate::limits::HEADER_BYTES_MAX;
use crate::service_events::EventKind;

#[test]
fn generated_description_is_up_to_date() {
    ttmon_testing::generated("web/openapi.json", &document("0"));
}

#[test]
fn the_version_of_the_program_is_in_the_description() {
    assert_eq!(openapi_document("0").matches(OPENAPI_VERSION).count(), 1);
    for version in ["0.1.0", "0.2.0 \"beta\""] {
        let document: Value = serde_json::from_str(&openapi_document(version)).expect("JSON");
        assert_eq!(document["info"]["version"], version);
    }
}

fn document(version: &str) -> String {
    let described = ROUTES.iter().zip(DESCRIPTIONS);
    let paths: Map<String, Value> =
        described.map(|(route, description)| (route.path.to_owned(), json!({"get": operation(route.response, description)}))).collect();
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
                "Snapshot": document_of(&[
                    ("devices", list("Device")),
                    ("processes", list("Process")),
                    ("allocators", anything()),
                    ("processes_age_s", json!({"type": "number", "minimum": 0})),
                    ("problems", anything()),
                ]),
                "Devices": document_of(&[("devices", list("Device"))]),
                "Processes": document_of(&[("processes", list("Process"))]),
                "Buffers": document_of(&[("count", whole()), ("buffers", array(buffer())), ("problems", anything())]),
                "History": history(),
                "Events": events(),
                "Fields": fields(),
                "Mesh": mesh(),
                "Recorded": recorded(),
                "Fleet": fleet(),
                "FleetFind": fleet_find(),
                "Alerts": document_of(&[
                    ("alerts", array(alert())),
                    ("rules", anything()),
                    ("silences", anything()),
                    ("receivers", anything()),
                    ("samples_dropped", whole()),
                ]),
            },
        },
    });
    format!("{document}\n")
}

fn operation(response: ResponseKind, description: &PathDescription) -> Value {
    let parameters: Vec<Value> = description
        .parameters
        .iter()
        .map(|parameter| {
            let mut schema: Value = serde_json::from_str(parameter.schema).expect("a schema");
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
    let mut responses = json!({"200": {"description": "Yes.", "content": content(response)}});
    for (status, meaning) in statuses(response) {
        responses[status] = json!({"description": meaning, "content": {"application/problem+json": {"schema": reference("Problem")}}});
    }
    responses["431"] = json!({"description": format!("The header of the request is longer than {} KiB.", HEADER_BYTES_MAX / 1024)});
    let mut operation =
        json!({"operationId": description.id, "summary": description.summary, "parameters": parameters, "responses": responses});
    // Without a token, most paths return less data. This path returns none.
    operation["security"] = if matches!(response, ResponseKind::Buffers | ResponseKind::Recorders) {
        json!([{"token": []}])
    } else {
        json!([{}, {"token": []}])
    };
    operation
}

fn statuses(response: ResponseKind) -> Vec<(&'static str, &'static str)> {
    let mut statuses = vec![
        ("400", "A parameter cannot be used."),
        ("401", "The token is wrong or needed."),
        ("403", "A page of another site asks."),
        ("421", "Called by a name that is not its own."),
    ];
    if matches!(response, ResponseKind::Fleet | ResponseKind::FleetFind) {
        statuses.push(("404", "There is no store: --fleet names one."));
    }
    if response == ResponseKind::History {
        statuses.push(("503", "Too many large answers are under way."));
    } else if !matches!(response, ResponseKind::Healthz | ResponseKind::Fields | ResponseKind::OpenApi | ResponseKind::Metrics) {
        statuses.push(("503", "There is nothing fresh to show, or too much is asked for at once."));
    }
    statuses
}

fn content(response: ResponseKind) -> Value {
    let json = |name: &str| json!({"application/json": {"schema": reference(name)}});
    let text = json!({"schema": of("string")});
    match response {
        ResponseKind::Snapshot => json("Snapshot"),
        ResponseKind::Devices => json("Devices"),
        ResponseKind::Processes => json("Processes"),
        ResponseKind::Buffers => json("Buffers"),
        ResponseKind::Memory => json("Snapshot"),
        ResponseKind::Recorders => json!({"text/event-stream": text, "application/json": {"schema": reference("Recorded")}}),
        ResponseKind::History => json("History"),
        ResponseKind::Events => json!({"text/event-stream": text, "application/json": {"schema": reference("Events")}}),
        ResponseKind::Alerts => json("Alerts"),
        ResponseKind::Mesh => json("Mesh"),
        ResponseKind::Fields => json("Fields"),
        ResponseKind::Fleet => json("Fleet"),
        ResponseKind::FleetFind => json("FleetFind"),
        ResponseKind::OpenApi => json!({"application/json": {"schema": of("object")}}),
        ResponseKind::Metrics => json!({"application/openmetrics-text": text, "text/plain": text}),
        ResponseKind::Healthz | ResponseKind::Readyz => json!({"text/plain": text}),
    }
}

/// Schema of totals over hosts or chips. Unknown values have no key.
fn fleet() -> Value {
    let rows = |names: &[&str], required: &[&str]| {
        let properties: Map<String, Value> = names.iter().map(|name| ((*name).to_owned(), optional("string"))).collect();
        array(json!({"type": "object", "properties": properties, "required": required, "additionalProperties": true}))
    };
    record(&[
        ("schema", of("integer")),
        ("version", of("string")),
        ("time", time()),
        ("store", record(&[("url", optional("string")), ("error", optional("string")), ("has_rules", of("boolean"))])),
        ("host_count", whole()),
        ("totals", json!({"type": "object", "additionalProperties": of("number")})),
        ("hosts", rows(&["host", "rack", "partition", "source", "url"], &["host", "age_s"])),
        ("missing", array(of("string"))),
        ("racks", rows(&["name"], &["name", "hosts"])),
        ("partitions", rows(&["name"], &["name", "hosts"])),
        ("workloads", rows(&["slurm_job", "namespace", "pod"], &[])),
        ("alerts", array(json!({"type": "object", "additionalProperties": of("string")}))),
        ("problems", array(of("string"))),
    ])
}

fn fleet_find() -> Value {
    let host = json!({"host": of("string"), "rack": of("string"), "partition": of("string"), "chips": of("integer")});
    record(&[
        ("schema", of("integer")),
        ("store", of("string")),
        ("request", of("object")),
        ("reserved", json!({"const": false})),
        ("hosts", array(json!({"type": "object", "required": ["host", "chips"], "properties": host}))),
    ])
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

fn list(name: &str) -> Value {
    array(reference(name))
}

fn anything() -> Value {
    array(of("object"))
}

fn array(items: Value) -> Value {
    Value::from_iter([("type", json!("array")), ("items", items)])
}

fn of(name: &str) -> Value {
    json!({"type": name})
}

fn optional(name: &str) -> Value {
    json!({"type": [name, "null"]})
}

fn whole() -> Value {
    json!({"type": "integer", "minimum": 0})
}

fn time() -> Value {
    json!({"type": "string", "format": "date-time"})
}

fn schema() -> Value {
    json!({"const": ttmon_json::SCHEMA})
}

/// Returns the schema of an object that always has these members.
fn record(members: &[(&str, Value)]) -> Value {
    let properties: Map<String, Value> = members.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect();
    let required: Vec<&str> = members.iter().map(|(name, _)| *name).collect();
    json!({"type": "object", "properties": properties, "required": required})
}

/// Returns the schema of a field. The type follows from its unit; a field without a unit is described in words.
fn property<T>(field: &Field<T>) -> (String, Value) {
    let mut schema = match field.unit {
        Unit::None => json!({}),
        Unit::Time => json!({"type": ["string", "null"], "format": "date-time"}),
        Unit::Bytes | Unit::Count | Unit::Megahertz | Unit::Rpm => json!({"type": ["integer", "null"], "minimum": 0}),
        _ => optional("number"),
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

fn device_process() -> Value {
    let numbers = "TT-Metal's numbers of the device inside the process.";
    let metal_ids = json!({"type": ["array", "null"], "items": whole(), "description": numbers});
    let properties = [
        ("pid", json!({"type": "integer", "minimum": 1, "description": "The rest of the process is in the document's processes, by pid."})),
        ("name", optional("string")),
        ("memory", json!({"type": ["integer", "null"], "minimum": 0, "description": "DRAM it uses here, in bytes."})),
        ("status", json!({"enum": Status::ALL.map(Status::name)})),
        ("source", optional("string")),
        ("metal_ids", metal_ids),
        ("kinds", json!({"type": "object", "additionalProperties": reference("MemoryOfProcess")})),
    ];
    object(properties.into_iter().map(|(name, schema)| (name.to_owned(), schema)))
}

/// Returns the schema of a document: its header and its parts.
fn document_of(parts: &[(&str, Value)]) -> Value {
    let header = [("schema", schema()), ("version", of("string")), ("host", of("string")), ("time", time()), ("origin", of("string"))];
    record(&[&header, parts].concat())
}

fn buffer() -> Value {
    record(&[
        ("pid", of("integer")),
        ("allocator", of("string")),
        ("kind", of("string")),
        ("address", json!({"type": "string", "pattern": "^0x[0-9a-f]+$"})),
        ("size", whole()),
        ("devices", array(of("integer"))),
        ("age_s", json!({"type": ["number", "null"], "minimum": 0})),
        ("tag", optional("string")),
    ])
}

fn mesh() -> Value {
    let tray = json!({"type": ["integer", "null"], "minimum": 0});
    let ends = json!({"type": "array", "items": whole(), "minItems": 2, "maxItems": 2});
    document_of(&[
        ("layout", json!({"type": "string", "description": "What the places come from, in words."})),
        ("rows", whole()),
        ("columns", whole()),
        ("tiles", array(record(&[("column", whole()), ("device", whole()), ("row", whole()), ("tray", tray)]))),
        ("links", array(record(&[("count", whole()), ("devices", ends)]))),
    ])
}

fn alert() -> Value {
    let time = || json!({"type": ["string", "null"], "format": "date-time"});
    record(&[
        ("asic_id", optional("string")),
        ("bdf", optional("string")),
        ("board", optional("string")),
        ("device", whole()),
        ("fired", time()),
        ("resolved", time()),
        ("rule", of("string")),
        ("severity", json!({"enum": Severity::ALL.map(Severity::name)})),
        ("silenced_until", time()),
        ("since", time()),
        ("state", json!({"enum": ["firing", "pending", "resolved"]})),
        ("summary", of("string")),
    ])
}

fn history() -> Value {
    let columns = json!({"type": "object", "additionalProperties": array(optional("number"))});
    record(&[
        ("schema", schema()),
        ("version", of("string")),
        ("time", time()),
        ("start", json!({"type": "string", "format": "date-time", "description": "Time of the first point, by the present clock."})),
        ("step_s", json!({"type": "number", "exclusiveMinimum": 0})),
        ("points", whole()),
        ("fields", array(of("string"))),
        ("devices", array(record(&[("id", whole()), ("fields", columns)]))),
        ("marks", array(event())),
    ])
}

fn event() -> Value {
    record(&[("id", json!({"type": "integer", "minimum": 1})), ("time", time()), ("event", json!({"enum": EventKind::NAMES}))])
}

fn events() -> Value {
    record(&[("schema", schema()), ("version", of("string")), ("last_id", whole()), ("events", array(event()))])
}

fn fields() -> Value {
    let field = record(&[
        ("help", of("string")),
        ("kept", of("boolean")),
        ("metric", optional("string")),
        ("name", of("string")),
        ("section", of("string")),
        ("title", of("string")),
        ("unit", of("string")),
    ]);
    let chart = record(&[
        ("critical", optional("number")),
        ("field", of("string")),
        ("limit", optional("string")),
        ("name", of("string")),
        ("title", of("string")),
        ("unit", of("string")),
        ("unless", optional("string")),
    ]);
    let rows = || array(field.clone());
    let mut document = record(&[
        ("charts", array(chart)),
        ("device", rows()),
        ("device_kind", rows()),
        ("fleet", of("boolean")),
        ("process", rows()),
        ("process_kind", rows()),
        ("version", of("string")),
    ]);
    document["properties"]["schema"] = schema();
    document
}

fn recorded() -> Value {
    let event = record(&[
        ("time", json!({"type": ["string", "null"], "format": "date-time"})),
        ("pid", json!({"type": "integer", "minimum": 1})),
        ("op", json!({"enum": Op::ALL.map(Op::name)})),
    ]);
    record(&[("schema", schema()), ("version", of("string")), ("recorders", whole()), ("count", whole()), ("events", array(event))])
}

fn problem() -> Value {
    let mut problem = record(&[("type", of("string")), ("title", of("string")), ("status", of("integer")), ("detail", of("string"))]);
    problem["description"] = json!("RFC 9457.");
    problem
}
