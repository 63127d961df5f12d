//! `ttmon report`: writes a run report or a recording as one HTML file that opens from disk. It is the page of `ttmon serve` with embedded
//! data.

use std::io::{BufReader, Read, Seek};
use std::path::Path;

use serde_json::{Map, Value, json};
use ttmon_json::Document;
use ttmon_json::recording::{Error, Reader};
use ttmon_model::fields::DeviceField;
use ttmon_model::limits::{DOCUMENT_BYTES_MAX, DOCUMENT_DEVICES_MAX};
use ttmon_model::units::UnixTime;

use crate::failure::Failure;

/// Fields whose changes are marked.
const WORDS: [&str; 2] = ["state", "health"];
/// Maximum number of points of a chart. More points than columns of a screen would not be visible.
const POINTS_MAX: usize = 600;

pub(crate) fn run(input: &Path, output: &Path) -> Result<(), Failure> {
    let failed = |why: &dyn std::fmt::Display| Failure::new(format!("{}: {why}", input.display()));
    let data = data(input).map_err(|why| failed(&why))?;
    let page = ttmon_serve::report_page(&data);
    ttmon_os::write(output, page.as_bytes()).map_err(|error| Failure::new(format!("{}: {error}", output.display())))
}

/// Returns the data of the page as JSON text.
fn data(input: &Path) -> Result<String, String> {
    let file = ttmon_os::open(input).map_err(|error| error.to_string())?;
    match Reader::new(BufReader::new(file)) {
        Ok(reader) => recording(reader),
        Err(Error::NotOurs | Error::Empty) => {
            let text = ttmon_os::read_text(input, DOCUMENT_BYTES_MAX).map_err(|error| error.to_string())?;
            run_report(&text)
        }
        Err(error) => Err(error.to_string()),
    }
}

fn run_report(text: &str) -> Result<String, String> {
    let neither = || "neither a report of `ttmon run --report` nor a recording of `ttmon record`".to_owned();
    let document = Document::read(text, None).map_err(|_| neither())?;
    let is_report = ["command", "devices", "peak_set", "leaks", "oom"].iter().all(|list| document.has_list(list));
    if is_report { Ok(format!("{{\"kind\":\"run\",\"document\":{}}}", text.trim())) } else { Err(neither()) }
}

/// The values of one frame that charts and marks need.
struct Frame {
    time: UnixTime,
    devices: Vec<DeviceSeries>,
}

struct DeviceSeries {
    id: u64,
    /// In the order of [`WORDS`].
    words: [String; 2],
    values: Vec<Option<f64>>,
}

fn recording(mut reader: Reader<impl Read + Seek>) -> Result<String, String> {
    let fields: Vec<DeviceField> = DeviceField::all().filter(|field| field.chart().is_some()).collect();
    let names: Vec<String> = fields.iter().map(DeviceField::name).collect();
    let count = reader.len();
    let points = count.min(POINTS_MAX);
    let numbers = (0..points).map(|point| if points > 1 { point * (count - 1) / (points - 1) } else { 0 });
    // A damaged frame becomes a gap.
    let frames: Vec<Frame> = numbers.filter_map(|number| frame(reader.line(number).ok()?, &names)).collect();
    let (is_cut, last) =
        (reader.is_cut(), (0..count).rev().find(|number| reader.line(*number).is_ok_and(|line| ttmon_json::read(line).is_ok())));
    let last = reader.line(last.ok_or("no frame can be read")?).map_err(|error| error.to_string())?;
    let snapshot = ttmon_json::read(last).map_err(|error| error.to_string())?;
    let marks = marks(&frames);
    let head = json!({
        "kind": "recording",
        "frames": count,
        "is_cut": is_cut,
        "history": history(&frames, &names, points),
        "marks": marks,
        "mesh": ttmon_serve::mesh(&snapshot),
    });
    let head = head.to_string();
    let head = head.strip_suffix('}').expect("it is an object");
    Ok(format!("{head},\"fields\":{},\"snapshot\":{}}}", ttmon_serve::fields().trim(), last.trim()))
}

/// Returns the charts' values of a frame, or `None` if it is damaged.
fn frame(line: &str, names: &[String]) -> Option<Frame> {
    let document = Document::read(line, None).ok()?;
    let time = UnixTime::parse_rfc3339(document.head["time"].as_str()?)?;
    let mut devices = Vec::new();
    let taken = document.each("devices", DOCUMENT_DEVICES_MAX, |device| {
        // Without a word, the page draws no state.
        let text = |name: &str| device[name].as_str().unwrap_or_default().to_owned();
        let value = |name: &String| name.split('.').fold(device, |value, part| &value[part]).as_f64();
        let values = names.iter().map(value).collect();
        let id = device["id"].as_u64().ok_or(ttmon_json::ReadError::Shape("the id of a device"))?;
        devices.push(DeviceSeries { id, words: WORDS.map(text), values });
        Ok(())
    });
    taken.is_ok().then_some(Frame { time, devices })
}

/// Returns the history on an even time grid, in the format of `/api/v1/history`.
fn history(frames: &[Frame], names: &[String], points: usize) -> Value {
    let (first, last) = (frames.first().map_or(0, |frame| frame.time.0), frames.last().map_or(0, |frame| frame.time.0));
    let step = (last.saturating_sub(first) / points.saturating_sub(1).max(1) as u64).max(1_000_000);
    let mut columns: Map<String, Value> = Map::new();
    let mut devices: Vec<u64> = frames.iter().flat_map(|frame| frame.devices.iter().map(|device| device.id)).collect();
    devices.sort_unstable();
    devices.dedup();
    let devices: Vec<Value> = devices
        .iter()
        .map(|id| {
            columns.clear();
            for (index, name) in names.iter().enumerate() {
                let mut column = vec![None; points];
                for frame in frames {
                    let at = usize::try_from((frame.time.0.saturating_sub(first) + step / 2) / step).unwrap_or(points);
                    let value = frame.devices.iter().find(|device| device.id == *id).and_then(|device| device.values[index]);
                    if let (Some(point), Some(value)) = (column.get_mut(at), value) {
                        *point = Some(value);
                    }
                }
                columns.insert(name.clone(), json!(column));
            }
            json!({"id": id, "fields": columns})
        })
        .collect();
    json!({
        "start": UnixTime(first).rfc3339(),
        "time": UnixTime(last).rfc3339(),
        "step_s": step as f64 / 1e9,
        "points": points,
        "fields": names,
        "devices": devices,
        "marks": [],
    })
}

/// Returns changes of state and health between frames, in the format of `/api/v1/events`.
fn marks(frames: &[Frame]) -> Vec<Value> {
    let mut marks = Vec::new();
    for pair in frames.windows(2) {
        let [before, after] = pair else { continue };
        for device in &after.devices {
            let Some(old) = before.devices.iter().find(|other| other.id == device.id) else { continue };
            for ((event, from), to) in WORDS.iter().zip(&old.words).zip(&device.words) {
                if from != to {
                    let (id, time) = (marks.len() + 1, after.time.rfc3339());
                    marks.push(json!({"id": id, "time": time, "event": event, "device": device.id, "from": from, "to": to}));
                }
            }
        }
    }
    marks
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use ttmon_json::recording::Writer;

    use super::*;

    fn second(second: u64) -> UnixTime {
        UnixTime((1_700_000_000 + second) * 1_000_000_000)
    }

    fn recorded(lines: impl Iterator<Item = (u64, String)>) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes, "0", second(0)).unwrap();
        for (at, line) in lines {
            writer.push(&line, second(at)).unwrap();
        }
        writer.flush().unwrap();
        drop(writer);
        bytes
    }

    fn line(at: u64, power: &str, state: &str) -> String {
        let time = second(at).rfc3339();
        let device = format!(r#"{{"id":7,"state":"{state}","health":"ok","power":{power}}}"#);
        let head = format!(r#""schema":1,"version":"0","host":"h","time":"{time}","driver":null,"origin":"local""#);
        format!(r#"{{{head},"devices":[{device}],"processes":[],"problems":[],"missing":{{}}}}"#)
    }

    #[test]
    fn recording_becomes_a_past_with_gaps_and_marks() {
        let seconds = (0..2000).filter(|at| !(500..1000).contains(at));
        let lines = seconds.map(|at| (at, line(at, if at < 1500 { "20.5" } else { "null" }, if at < 1500 { "ok" } else { "gone" })));
        let text = recording(Reader::new(Cursor::new(recorded(lines))).unwrap()).unwrap();
        let data: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((data["frames"].as_u64(), data["snapshot"]["devices"][0]["id"].as_u64()), (Some(1500), Some(7)));
        let power = data["history"]["devices"][0]["fields"]["power"].as_array().unwrap();
        let at = |second: usize| &power[second * POINTS_MAX / 2000];
        assert_eq!(power.len(), POINTS_MAX);
        assert_eq!((at(750), at(1900)), (&Value::Null, &Value::Null));
        assert!(power.iter().filter(|value| value.as_f64() == Some(20.5)).count() > 200);
        assert_eq!((&data["marks"][0]["from"], &data["marks"][0]["to"]), (&json!("ok"), &json!("gone")));
        assert_eq!((&data["mesh"]["tiles"][0]["device"], &data["mesh"]["columns"]), (&json!(7), &json!(1)));
        assert!(data["fields"]["charts"].as_array().is_some_and(|charts| !charts.is_empty()));
    }

    #[test]
    fn a_device_without_an_id_makes_its_frame_a_gap() {
        let names = ["power".to_owned()];
        assert_eq!(frame(&line(0, "1", "ok"), &names).unwrap().devices[0].id, 7);
        assert!(frame(&line(0, "1", "ok").replace("\"id\":7,", ""), &names).is_none());
    }

    #[test]
    fn other_files_are_refused() {
        for text in ["", "{}", "[]", "no json", r#"{"command": [], "devices": {}}"#, r#"{"devices": [], "processes": []}"#] {
            assert!(run_report(text).is_err(), "{text}");
        }
        let report = r#"{"command": ["</script>"], "devices": [], "peak_set": [], "leaks": [], "oom": []}"#;
        let data = run_report(report).unwrap();
        let page = ttmon_serve::report_page(&data);
        // Text in the data must not close the script element.
        assert_eq!(page.matches("</script>").count(), 2);
        assert!(page.len() - data.len() < 400_000, "{} bytes beside the data", page.len() - data.len());
    }
}
