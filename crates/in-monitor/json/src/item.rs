//! An object of the document: its values, and the reasons of its nulls.

use serde_json::{Map, Value};
use ttmon_model::fields::{Field, Value as FieldValue};
use ttmon_model::limits::{DOCUMENT_DEVICES_MAX, DOCUMENT_TEXTS_MAX};
use ttmon_model::units::UnixTime;
use ttmon_model::{DeviceId, Missing, Reading};

use crate::device::{MEMORY, part_of_memory};

/// Maximum number of named members of a part. The coverage of the hook has 20.
const PARTS_MAX: usize = 64;

/// An object, or a part of an object. The reasons of a part are in its outer object.
#[derive(Clone)]
pub(crate) struct Item<'a> {
    values: &'a Map<String, Value>,
    reasons: Option<&'a Map<String, Value>>,
    /// The path below the object that has the reasons: `memory.kinds.dram.`
    path: String,
}

impl<'a> Item<'a> {
    pub(crate) fn new(value: &'a Value) -> Option<Self> {
        let values = value.as_object()?;
        Some(Self { values, reasons: values.get("missing").and_then(Value::as_object), path: String::new() })
    }

    pub(crate) fn part(&self, name: &str) -> Option<Self> {
        let values = self.values.get(name)?.as_object()?;
        Some(Self { values, reasons: self.reasons, path: format!("{}{name}.", self.path) })
    }

    pub(crate) fn list(&self, name: &str) -> Option<Vec<Self>> {
        self.values.get(name)?.as_array()?.iter().map(Self::new).collect()
    }

    /// Returns a value, or the reason why it is null. If it is absent, the writer did not support it.
    fn get(&self, name: &str) -> Reading<&'a Value> {
        match self.values.get(name) {
            Some(Value::Null) => Err(self.reason(name).unwrap_or(Missing::NoSource)),
            Some(value) => Ok(value),
            None => Err(Missing::NotExposed),
        }
    }

    fn reason(&self, name: &str) -> Option<Missing> {
        let path = format!("{}{name}", self.path);
        Missing::from_name(self.reasons?.get(&path)?.as_str()?)
    }

    pub(crate) fn whole(&self, name: &str) -> Reading<u64> {
        self.get(name)?.as_u64().ok_or(Missing::Unparsable)
    }

    /// Returns a number of 32 bits, if there is one.
    pub(crate) fn small(&self, name: &str) -> Option<u32> {
        u32::try_from(self.whole(name).ok()?).ok()
    }

    pub(crate) fn float(&self, name: &str) -> Reading<f64> {
        self.get(name)?.as_f64().ok_or(Missing::Unparsable)
    }

    pub(crate) fn truth(&self, name: &str) -> Reading<bool> {
        self.get(name)?.as_bool().ok_or(Missing::Unparsable)
    }

    pub(crate) fn text(&self, name: &str) -> Reading<String> {
        self.get(name)?.as_str().map(str::to_owned).ok_or(Missing::Unparsable)
    }

    /// Returns a value for a field of any type.
    fn value(&self, name: &str) -> Reading<FieldValue> {
        match self.get(name)? {
            Value::String(text) => Ok(FieldValue::Text(text.clone())),
            Value::Bool(truth) => Ok(FieldValue::Bool(*truth)),
            Value::Number(number) => {
                number.as_u64().map(FieldValue::Integer).or_else(|| number.as_f64().map(FieldValue::Float)).ok_or(Missing::Unparsable)
            }
            Value::Array(list) if list.first().is_some_and(Value::is_number) => {
                Ok(FieldValue::Numbers(list.iter().take(DOCUMENT_TEXTS_MAX).filter_map(Value::as_f64).collect()))
            }
            Value::Array(_) => Ok(FieldValue::List(self.texts(name))),
            Value::Null | Value::Object(_) => Err(Missing::Unparsable),
        }
    }

    /// Reads the fields of a table.
    pub(crate) fn fields<T>(&self, table: &[Field<T>], item: &mut T) {
        let memory = self.part(MEMORY);
        for field in table {
            let value = match part_of_memory(field.name) {
                Some(name) => memory.as_ref().map_or(Err(Missing::NotExposed), |memory| memory.value(name)),
                None => self.value(field.name),
            };
            (field.set)(item, value);
        }
    }

    /// Returns the meaning of a text that is one of a set of names.
    pub(crate) fn meaning<T>(&self, name: &str, parse: impl FnOnce(&str) -> Option<T>) -> Reading<T> {
        self.get(name)?.as_str().and_then(parse).ok_or(Missing::Unparsable)
    }

    pub(crate) fn time(&self, name: &str) -> Reading<UnixTime> {
        self.meaning(name, UnixTime::parse_rfc3339)
    }

    /// Returns an address that is written in hexadecimal digits.
    pub(crate) fn address(&self, name: &str) -> Reading<u64> {
        self.meaning(name, |text| u64::from_str_radix(text.strip_prefix("0x")?, 16).ok())
    }

    pub(crate) fn wholes(&self, name: &str) -> Reading<Vec<u64>> {
        let list = self.get(name)?.as_array().ok_or(Missing::Unparsable)?;
        list.iter().map(|number| number.as_u64().ok_or(Missing::Unparsable)).collect()
    }

    /// Returns the ids of devices in a list. An earlier version may lack the list, and a later one may have other elements.
    pub(crate) fn ids(&self, name: &str) -> Vec<DeviceId> {
        let list = self.get(name).ok().and_then(Value::as_array);
        list.into_iter().flatten().take(DOCUMENT_DEVICES_MAX).filter_map(|id| u32::try_from(id.as_u64()?).ok().map(DeviceId)).collect()
    }

    /// Returns the members of a part, by name.
    pub(crate) fn parts(&self, name: &str) -> Reading<Vec<(String, Self)>> {
        let parts = self.get(name)?.as_object().ok_or(Missing::Unparsable)?;
        Ok(parts.iter().take(PARTS_MAX).filter_map(|(name, value)| Some((name.clone(), Self::new(value)?))).collect())
    }

    /// Returns the texts in a list, as [`Self::ids`] does.
    pub(crate) fn texts(&self, name: &str) -> Vec<String> {
        let list = self.get(name).ok().and_then(Value::as_array);
        list.into_iter().flatten().take(DOCUMENT_TEXTS_MAX).filter_map(|text| text.as_str().map(str::to_owned)).collect()
    }
}
