//! The buffers of an earlier `ttmon mem --json --buffers`, parsed as a stream. Only the values that a comparison needs are kept,
//! and each text once. `ttmon_json::Document` is not used here: it needs the whole text in memory, and this file may have
//! hundreds of MB.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::Hash;
use std::io::Read;
use std::rc::Rc;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use ttmon_model::limits::DOCUMENT_PROCESSES_MAX;
use ttmon_model::stack::SourceLine;
use ttmon_model::units::UnixTime;

/// Maximum number of buffers that are compared: as many as the largest file has.
const BUFFERS_MAX: usize = 2 * 1024 * 1024;

#[derive(Debug, Default, PartialEq)]
pub(crate) struct EarlierListing {
    /// Version of the document, if it has one.
    pub(crate) schema: Option<u64>,
    pub(crate) time: Option<UnixTime>,
    pub(crate) host: Option<String>,
    /// Known start times of processes, because a pid may belong to another process now.
    pub(crate) started: HashMap<u32, UnixTime>,
    /// Number of buffers that `--top` left out.
    pub(crate) left_out: u64,
    /// `None` if the listing has no buffers.
    pub(crate) buffers: Option<Vec<Earlier>>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Earlier {
    pub(crate) pid: u32,
    pub(crate) allocator: Rc<str>,
    pub(crate) kind: Rc<str>,
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) devices: Rc<[u32]>,
    pub(crate) tag: Rc<str>,
    /// The line that allocated the buffer, as printed; empty if unknown.
    pub(crate) line: Rc<str>,
    /// Seconds since it was allocated.
    pub(crate) age_s: Option<f64>,
}

/// The parts of a document that a comparison needs.
pub(crate) fn parse(text: impl Read) -> Result<EarlierListing, serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_reader(text);
    let listing = Document(&mut Interned::default()).deserialize(&mut reader)?;
    reader.end()?;
    Ok(listing)
}

/// Texts and device lists that were already read; most buffers share them.
#[derive(Default)]
struct Interned {
    texts: HashSet<Rc<str>>,
    devices: HashSet<Rc<[u32]>>,
}

/// Returns the existing equal value, or adds this one.
fn shared<T: ?Sized + Hash + Eq>(known: &mut HashSet<Rc<T>>, new: &T) -> Rc<T>
where
    Rc<T>: for<'a> From<&'a T>,
{
    if let Some(old) = known.get(new) {
        return Rc::clone(old);
    }
    let new: Rc<T> = new.into();
    known.insert(Rc::clone(&new));
    new
}

struct Document<'k>(&'k mut Interned);

impl<'de> DeserializeSeed<'de> for Document<'_> {
    type Value = EarlierListing;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Document<'_> {
    type Value = EarlierListing;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a document of ttmon mem")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut listing = EarlierListing::default();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "schema" => listing.schema = Some(map.next_value()?),
                "time" => listing.time = map.next_value::<Option<String>>()?.as_deref().and_then(UnixTime::parse_rfc3339),
                "host" => listing.host = map.next_value()?,
                "processes" => listing.started = map.next_value_seed(Processes)?,
                "buffers_left_out" => listing.left_out = map.next_value()?,
                "buffers" => listing.buffers = Some(map.next_value_seed(Buffers(self.0))?),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(listing)
    }
}

/// When each process started.
struct Processes;

impl<'de> DeserializeSeed<'de> for Processes {
    type Value = HashMap<u32, UnixTime>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Processes {
    type Value = HashMap<u32, UnixTime>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of processes")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut started = HashMap::new();
        while let Some(process) = list.next_element_seed(Process)? {
            if started.len() >= DOCUMENT_PROCESSES_MAX {
                return Err(A::Error::custom("it has more processes than any host has"));
            }
            started.extend(process);
        }
        Ok(started)
    }
}

/// The pid and the start time of a process, if both are known.
struct Process;

impl<'de> DeserializeSeed<'de> for Process {
    type Value = Option<(u32, UnixTime)>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Process {
    type Value = Option<(u32, UnixTime)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a process")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut pid, mut start) = (None, None);
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "pid" => pid = Some(map.next_value::<u32>()?),
                "start_time" => start = map.next_value::<Option<String>>()?.as_deref().and_then(UnixTime::parse_rfc3339),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(pid.zip(start))
    }
}

struct Buffers<'k>(&'k mut Interned);

impl<'de> DeserializeSeed<'de> for Buffers<'_> {
    type Value = Vec<Earlier>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Buffers<'_> {
    type Value = Vec<Earlier>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of buffers")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut buffers = Vec::new();
        while let Some(buffer) = list.next_element_seed(Buffer(&mut *self.0))? {
            if buffers.len() >= BUFFERS_MAX {
                return Err(A::Error::custom(format!("it has more than {BUFFERS_MAX} buffers")));
            }
            buffers.push(buffer);
        }
        Ok(buffers)
    }
}

struct Buffer<'k>(&'k mut Interned);

impl<'de> DeserializeSeed<'de> for Buffer<'_> {
    type Value = Earlier;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Buffer<'_> {
    type Value = Earlier;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a buffer")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let known = self.0;
        let (mut pid, mut allocator, mut kind, mut address, mut size, mut devices, mut tag) = (None, None, None, None, None, None, None);
        let (mut line, mut age_s) = (None, None);
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "pid" => pid = Some(map.next_value::<u32>()?),
                "allocator" => allocator = Some(shared(&mut known.texts, map.next_value::<String>()?.as_str())),
                "kind" => kind = Some(shared(&mut known.texts, map.next_value::<String>()?.as_str())),
                "address" => address = hexadecimal(&map.next_value::<String>()?),
                "size" => size = Some(map.next_value::<u64>()?),
                "devices" => devices = Some(shared(&mut known.devices, map.next_value::<Vec<u32>>()?.as_slice())),
                "tag" => tag = map.next_value::<Option<String>>()?.map(|tag| shared(&mut known.texts, tag.as_str())),
                "line" => line = line_text(&map.next_value()?).map(|line| shared(&mut known.texts, line.as_str())),
                "age_s" => age_s = map.next_value::<Option<f64>>()?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        let no = |name: &str| A::Error::custom(format!("this is not a buffer: it has no {name}"));
        Ok(Earlier {
            pid: pid.ok_or_else(|| no("pid"))?,
            allocator: allocator.ok_or_else(|| no("allocator"))?,
            kind: kind.ok_or_else(|| no("kind"))?,
            address: address.ok_or_else(|| no("address such as 0x2000"))?,
            size: size.ok_or_else(|| no("size"))?,
            devices: devices.ok_or_else(|| no("devices"))?,
            // A buffer may have neither.
            tag: tag.unwrap_or_default(),
            line: line.unwrap_or_default(),
            age_s,
        })
    }
}

/// A line of the program's source, as printed.
fn line_text(line: &Value) -> Option<String> {
    let text = |name: &str| line[name].as_str().map(Into::into);
    let number = u32::try_from(line["line"].as_u64()?).ok()?;
    Some(SourceLine { file: text("file")?, line: number, function: text("function")? }.to_string())
}

/// `0x2000`
fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUFFER: &str = r#"{"pid": 7, "allocator": "7.0.1", "kind": "l1", "address": "0x40", "size": 9, "devices": [0, 3], "tag": null, "new": {"a": []}, "age_s": 1.5, "line": {"file": "/m/a.py", "line": 3, "function": "f"}}"#;

    #[test]
    fn buffers_are_read_and_the_rest_is_passed_over() {
        let processes = r#"[{"pid": 7, "name": "a", "start_time": "1970-01-01T00:00:01Z"}, {"pid": 8, "start_time": null}]"#;
        let text = format!(
            r#"{{"schema": 1, "host": "h", "devices": [{{"id": 0}}], "processes": {processes}, "buffers": [{BUFFER}, {BUFFER}], "later": null}}"#
        );
        let listing = parse(text.as_bytes()).unwrap();
        assert_eq!(
            (listing.schema, listing.host.as_deref(), listing.started),
            (Some(1), Some("h"), HashMap::from([(7, UnixTime(1_000_000_000))]))
        );
        let buffers = listing.buffers.unwrap();
        let [first, second] = buffers.as_slice() else { panic!("{buffers:?}") };
        assert_eq!((first.pid, &*first.allocator, &*first.kind, first.address, first.size), (7, "7.0.1", "l1", 0x40, 9));
        assert_eq!((&*first.devices, &*first.tag), (&[0, 3][..], ""));
        assert_eq!((&*first.line, first.age_s), ("/m/a.py:3 f", Some(1.5)));
        assert!(Rc::ptr_eq(&first.allocator, &second.allocator) && Rc::ptr_eq(&first.devices, &second.devices));
        assert_eq!(parse(&b"{}"[..]).unwrap(), EarlierListing::default());
    }

    #[test]
    fn other_documents_are_refused() {
        for (text, why) in [
            ("[]", "a document of ttmon mem"),
            (r#"{"buffers": 3}"#, "a list of buffers"),
            (r#"{"buffers": [3]}"#, "a buffer"),
            (r#"{"buffers": [{"pid": 7}]}"#, "not a buffer: it has no allocator"),
            (&format!(r#"{{"buffers": [{}]}}"#, BUFFER.replace("0x40", "40")), "no address such as"),
            (&format!(r#"{{"buffers": [{}]}}"#, BUFFER.replace('9', "-9")), "-9"),
        ] {
            let error = parse(text.as_bytes()).unwrap_err();
            assert!(error.is_data() && error.to_string().contains(why), "{text}: {error}");
        }
        for text in ["", "{", "{} x", r#"{"buffers": ["#] {
            assert!(!parse(text.as_bytes()).unwrap_err().is_data(), "{text}");
        }
    }
}
