//! Conversions of the table's members: to and from values, and from a file of the driver.

use crate::attributes::{Format, Raw};
use crate::identity::{Bdf, ChipPosition, DeviceId, UniqueId};
use crate::memory::Source;
use crate::missing::{Missing, Reading};
use crate::product::Arch;
use crate::snapshot::{Health, Location, State, Status};
use crate::units::{Amperes, BytesPerSecond, Celsius, Megahertz, Rpm, Unit, UnixTime, Volts, Watts, WordsPerSecond};

/// A value that every output can print.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Text.
    Text(String),
    /// A whole number.
    Integer(u64),
    /// A number with a fraction.
    Float(f64),
    /// True or false.
    Bool(bool),
    /// Several texts.
    List(Vec<String>),
    /// Several numbers.
    Numbers(Vec<f64>),
    /// A point in time.
    Time(UnixTime),
}

impl Value {
    /// Converts what a file has. The kernel's hwmon files have thousandths, and millionths of a watt.
    pub(crate) fn of_file(raw: &Raw, format: Format, unit: Unit) -> Reading<Self> {
        let number = match raw {
            Raw::Text(text) => return Ok(Self::Text(text.to_string())),
            Raw::Number(id) if format == Format::Hex64 => return Ok(Self::Text(hex16(*id))),
            Raw::Number(number) => *number,
        };
        match unit {
            Unit::Celsius | Unit::Volts | Unit::Amperes => Ok(Self::Float(number as f64 / 1e3)),
            Unit::Watts => Ok(Self::Float(number as f64 / 1e6)),
            // Firmware without fan control reports 0, and newer firmware reports 65535 or more.
            Unit::Rpm if !(1..65_535).contains(&number) => Err(Missing::NoSource),
            _ => Ok(Self::Integer(number)),
        }
    }

    /// Returns the value as a number, for charts, history and metrics. Returns `None` for texts, lists and times.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Integer(number) => Some(*number as f64),
            Self::Float(number) => Some(*number),
            Self::Bool(truth) => Some(f64::from(u8::from(*truth))),
            Self::Text(_) | Self::List(_) | Self::Numbers(_) | Self::Time(_) => None,
        }
    }
}

/// A type that a field may have.
pub trait Typed: Sized {
    /// Converts to the value that every output shows.
    fn to_value(&self) -> Value;
    /// Converts the result of [`Typed::to_value`] or a value of a document. Returns `None` for anything else.
    fn from_value(value: Value) -> Option<Self>;
}

/// A member of a struct that has a row.
pub trait Member {
    /// Returns the value, or the reason why it is missing.
    fn get(&self) -> Reading<Value>;
    /// Replaces the value. An invalid value becomes `unparsable`, or the default for a member that always has a value.
    fn set(&mut self, value: Reading<Value>);
}

impl<T: Typed> Member for Reading<T> {
    fn get(&self) -> Reading<Value> {
        self.as_ref().map(Typed::to_value).map_err(|reason| *reason)
    }

    fn set(&mut self, value: Reading<Value>) {
        *self = value.and_then(|value| T::from_value(value).ok_or(Missing::Unparsable));
    }
}

/// Implements [`Member`] for types that always have a value.
macro_rules! always {
    ($($type:ty: $default:expr;)*) => {$(
        impl Member for $type {
            fn get(&self) -> Reading<Value> {
                Ok(self.to_value())
            }

            fn set(&mut self, value: Reading<Value>) {
                // There is no place for the reason. Documents of another version may lack a member.
                *self = value.ok().and_then(Self::from_value).unwrap_or($default);
            }
        }
    )*};
}

always! {
    DeviceId: DeviceId(0);
    Location: Location::Local;
    State: State::Unknown;
    Health: Health::Unknown;
    Status: Status::Open;
    Vec<String>: Vec::new();
    u64: 0;
}

/// Implements [`Typed`] for types with their own variant of [`Value`].
macro_rules! plain {
    ($($type:ty: $to:expr, $($value:pat => $from:expr),+;)*) => {$(
        impl Typed for $type {
            fn to_value(&self) -> Value {
                let to: fn(&Self) -> Value = $to;
                to(self)
            }

            fn from_value(value: Value) -> Option<Self> {
                match value {
                    $($value => $from,)+
                    _ => None,
                }
            }
        }
    )*};
}

plain! {
    u64: |number| Value::Integer(*number), Value::Integer(number) => Some(number);
    f64: |number| Value::Float(*number), Value::Float(number) => Some(number), Value::Integer(number) => Some(number as f64);
    bool: |truth| Value::Bool(*truth), Value::Bool(truth) => Some(truth);
    String: |text| Value::Text(text.clone()), Value::Text(text) => Some(text);
    Vec<String>: |texts| Value::List(texts.clone()), Value::List(texts) => Some(texts);
    Vec<f64>: |numbers| Value::Numbers(numbers.clone()),
        Value::Numbers(numbers) => Some(numbers), Value::List(texts) => texts.is_empty().then(Vec::new);
    UnixTime: |time| Value::Time(*time), Value::Time(time) => Some(time), Value::Text(text) => UnixTime::parse_rfc3339(&text);
    DeviceId: |id| Value::Integer(u64::from(id.0)), Value::Integer(number) => u32::try_from(number).ok().map(DeviceId);
}

/// Implements [`Typed`] for numbers with their unit in the type.
macro_rules! quantities {
    ($($type:ident)*) => {$(
        impl Typed for $type {
            fn to_value(&self) -> Value {
                self.0.to_value()
            }

            fn from_value(value: Value) -> Option<Self> {
                Typed::from_value(value).map(Self)
            }
        }
    )*};
}

quantities! { Celsius Watts Volts Amperes Megahertz Rpm BytesPerSecond WordsPerSecond }

plain! {
    Bdf: |bdf| Value::Text(bdf.to_string()), Value::Text(text) => text.parse().ok();
    UniqueId: |id| Value::Text(id.to_string()), Value::Text(text) => text.parse().ok().map(UniqueId);
}

/// Implements [`Typed`] for enums with names.
macro_rules! names {
    ($($type:ident)*) => {$(
        impl Typed for $type {
            fn to_value(&self) -> Value {
                Value::Text(self.name().to_owned())
            }

            fn from_value(value: Value) -> Option<Self> {
                if let Value::Text(text) = value { Self::from_name(&text) } else { None }
            }
        }
    )*};
}

names! { Arch ChipPosition Health Location Source State Status }

/// Formats an id like the driver.
pub(crate) fn hex16(id: u64) -> String {
    format!("{id:016X}")
}
