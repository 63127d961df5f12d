//! The buffers of an earlier `ttmon mem --json --buffers`, parsed as a stream. Only the values that a comparison needs are kept,
//! and each text once. `ttmon_json::Document` is not used here: it needs the whole text in memory, and this file may have
//! hundreds of MB.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::Hash;
use std::io::Read;
use std::marker::PhantomData;
use std::rc::Rc;

use serde::Deserialize;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use serde_json::Value;
use ttmon_model::limits::DOCUMENT_PROCESSES_MAX;
use ttmon_model::stack::SourceLine;
use ttmon_model::units::UnixTime;

/// Maximum number of buffers that are compared: as many as the largest file has.
const BUFFERS_MAX: usize = 2 * 1024 * 1024;

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(expecting = "a document of ttmon mem")]
pub(crate) struct EarlierListing {
    /// Version of the document, if it has one.
    pub(crate) schema: Option<u64>,
    #[serde(default, deserialize_with = "time")]
    pub(crate) time: Option<UnixTime>,
    pub(crate) host: Option<String>,
    /// Known start times of processes, because a pid may belong to another process now.
    #[serde(default, rename = "processes", deserialize_with = "start_times")]
    pub(crate) started: HashMap<u32, UnixTime>,
    /// Number of buffers that `--top` left out.
    #[serde(default, rename = "buffers_left_out")]
    pub(crate) left_out: u64,
    /// `None` if the listing has no buffers.
    #[serde(default, deserialize_with = "buffers")]
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

/// Parses a document.
pub(crate) fn parse(text: impl Read) -> Result<EarlierListing, serde_json::Error> {
    serde_json::from_reader(text)
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

/// A process of the document.
#[derive(Deserialize)]
#[serde(expecting = "a process")]
struct ProcessEntry {
    pid: Option<u32>,
    #[serde(default, deserialize_with = "time")]
    start_time: Option<UnixTime>,
}

/// A buffer of the document. Members that a buffer must have are checked together, so that the error says what is missing.
#[derive(Deserialize)]
#[serde(expecting = "a buffer")]
struct BufferEntry {
    pid: Option<u32>,
    allocator: Option<String>,
    kind: Option<String>,
    address: Option<String>,
    size: Option<u64>,
    devices: Option<Vec<u32>>,
    tag: Option<String>,
    line: Option<Value>,
    age_s: Option<f64>,
}

impl BufferEntry {
    fn interned(self, known: &mut Interned) -> Result<Earlier, String> {
        let no = |name: &str| format!("this is not a buffer: it has no {name}");
        Ok(Earlier {
            pid: self.pid.ok_or_else(|| no("pid"))?,
            allocator: shared(&mut known.texts, &*self.allocator.ok_or_else(|| no("allocator"))?),
            kind: shared(&mut known.texts, &*self.kind.ok_or_else(|| no("kind"))?),
            address: self.address.as_deref().and_then(hexadecimal).ok_or_else(|| no("address such as 0x2000"))?,
            size: self.size.ok_or_else(|| no("size"))?,
            devices: shared(&mut known.devices, &*self.devices.ok_or_else(|| no("devices"))?),
            // A buffer may have neither.
            tag: self.tag.map(|tag| shared(&mut known.texts, &*tag)).unwrap_or_default(),
            line: self.line.and_then(|line| line_text(&line)).map(|line| shared(&mut known.texts, &*line)).unwrap_or_default(),
            age_s: self.age_s,
        })
    }
}

fn time<'de, D: Deserializer<'de>>(input: D) -> Result<Option<UnixTime>, D::Error> {
    Ok(Option::<String>::deserialize(input)?.as_deref().and_then(UnixTime::parse_rfc3339))
}

fn start_times<'de, D: Deserializer<'de>>(input: D) -> Result<HashMap<u32, UnixTime>, D::Error> {
    let (mut started, mut count) = (HashMap::new(), 0);
    each(input, "a list of processes", |process: ProcessEntry| {
        count += 1;
        started.extend(process.pid.zip(process.start_time));
        if count > DOCUMENT_PROCESSES_MAX { Err("it has more processes than any host has".to_owned()) } else { Ok(()) }
    })?;
    Ok(started)
}

fn buffers<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Vec<Earlier>>, D::Error> {
    let (mut buffers, mut known) = (Vec::new(), Interned::default());
    each(input, "a list of buffers", |buffer: BufferEntry| {
        if buffers.len() >= BUFFERS_MAX {
            return Err(format!("it has more than {BUFFERS_MAX} buffers"));
        }
        buffers.push(buffer.interned(&mut known)?);
        Ok(())
    })?;
    Ok(Some(buffers))
}

/// Visits the items of a list one after another, so that they are not in memory together.
fn each<'de, T, D, F>(input: D, expected: &'static str, visit: F) -> Result<(), D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
    F: FnMut(T) -> Result<(), String>,
{
    input.deserialize_seq(Each { expected, visit, items: PhantomData })
}

struct Each<T, F> {
    expected: &'static str,
    visit: F,
    items: PhantomData<T>,
}

impl<'de, T: Deserialize<'de>, F: FnMut(T) -> Result<(), String>> Visitor<'de> for Each<T, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        while let Some(item) = list.next_element()? {
            (self.visit)(item).map_err(A::Error::custom)?;
        }
        Ok(())
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

    const BUFFER: &str = r#"{"pid": 7, "allocator": "7.0.1", "kind": "l1", "address": "0x40", "size": 9, "devices": [0, 3],
        "tag": null, "new": {"a": []}, "age_s": 1.5, "line": {"file": "/m/a.py", "line": 3, "function": "f"}}"#;

    #[test]
    fn buffers_are_read_and_the_rest_is_passed_over() {
        let processes = r#"[{"pid": 7, "name": "a", "start_time": "1970-01-01T00:00:01Z"}, {"pid": 8, "start_time": null}]"#;
        let text = format!(
            r#"{{"schema": 1, "host": "h", "devices": [{{"id": 0}}], "processes": {processes},
                "buffers": [{BUFFER}, {BUFFER}], "later": null}}"#
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
