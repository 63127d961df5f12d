//! What a member of a struct is to the tables: a value that can be read, written, and taken from a file of the driver.

use crate::attributes::Raw;
use crate::identity::{Bdf, ChipPosition, DeviceId, UniqueId};
use crate::memory::Source;
use crate::missing::{Missing, Reading};
use crate::product::Arch;
use crate::snapshot::{Health, Location, State, Status};
use crate::units::{Amperes, BytesPerSecond, Celsius, Megahertz, Rpm, UnixTime, Volts, Watts, WordsPerSecond};

/// A value ready to be printed by any face.
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
    /// A point in time.
    Time(UnixTime),
}

impl Value {
    /// The value as a number, for charts, history and metrics. A text is none.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Integer(number) => Some(*number as f64),
            Self::Float(number) => Some(*number),
            Self::Bool(truth) => Some(f64::from(u8::from(*truth))),
            Self::Text(_) | Self::List(_) | Self::Time(_) => None,
        }
    }
}

/// A type that a field may have.
pub trait Typed: Sized {
    /// The value as every face shows it.
    fn to_value(&self) -> Value;
    /// Reads what [`Typed::to_value`] or a document gives. `None` for anything else.
    fn from_value(value: Value) -> Option<Self>;
}

/// A type that a file of the driver may have.
pub(crate) trait FromFile: Sized {
    /// Reads a number or a text that the file's row allows.
    fn from_file(raw: &Raw) -> Reading<Self>;
}

/// A member of a struct that has a row.
pub trait Member {
    /// Its value, or why there is none.
    fn get(&self) -> Reading<Value>;
    /// Replaces it. What cannot be read is `unparsable`; a member that always has a value gets its default.
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

/// Members that always have a value.
macro_rules! always {
    ($($type:ty: $default:expr;)*) => {$(
        impl Member for $type {
            fn get(&self) -> Reading<Value> {
                Ok(self.to_value())
            }

            fn set(&mut self, value: Reading<Value>) {
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

impl Typed for u64 {
    fn to_value(&self) -> Value {
        Value::Integer(*self)
    }

    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked: a whole number that is not negative; `as` saturates"
    )]
    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Integer(number) => Some(number),
            Value::Float(number) if number >= 0.0 && number.fract() == 0.0 => Some(number as u64),
            _ => None,
        }
    }
}

impl Typed for f64 {
    fn to_value(&self) -> Value {
        Value::Float(*self)
    }

    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Float(number) => Some(number),
            Value::Integer(number) => Some(number as f64),
            _ => None,
        }
    }
}

impl Typed for bool {
    fn to_value(&self) -> Value {
        Value::Bool(*self)
    }

    fn from_value(value: Value) -> Option<Self> {
        if let Value::Bool(truth) = value { Some(truth) } else { None }
    }
}

impl Typed for String {
    fn to_value(&self) -> Value {
        Value::Text(self.clone())
    }

    fn from_value(value: Value) -> Option<Self> {
        if let Value::Text(text) = value { Some(text) } else { None }
    }
}

impl Typed for Vec<String> {
    fn to_value(&self) -> Value {
        Value::List(self.clone())
    }

    fn from_value(value: Value) -> Option<Self> {
        if let Value::List(texts) = value { Some(texts) } else { None }
    }
}

impl Typed for UnixTime {
    fn to_value(&self) -> Value {
        Value::Time(*self)
    }

    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Time(time) => Some(time),
            Value::Text(text) => Self::parse_rfc3339(&text),
            _ => None,
        }
    }
}

impl Typed for DeviceId {
    fn to_value(&self) -> Value {
        Value::Integer(u64::from(self.0))
    }

    fn from_value(value: Value) -> Option<Self> {
        u64::from_value(value).and_then(|number| u32::try_from(number).ok()).map(Self)
    }
}

/// Numbers with their unit in the type.
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

/// What is one of several words, or a text with a shape of its own.
macro_rules! texts {
    ($($type:ident: $to:expr, $from:expr;)*) => {$(
        impl Typed for $type {
            fn to_value(&self) -> Value {
                let text: fn(&Self) -> String = $to;
                Value::Text(text(self))
            }

            fn from_value(value: Value) -> Option<Self> {
                let from: fn(&str) -> Option<Self> = $from;
                if let Value::Text(text) = value { from(&text) } else { None }
            }
        }
    )*};
}

texts! {
    Arch: |arch| arch.name().to_owned(), Arch::from_name;
    Bdf: Bdf::to_string, |text| text.parse().ok();
    ChipPosition: |chip| chip.letter().to_owned(), ChipPosition::from_letter;
    Health: |health| health.name().to_owned(), Health::from_name;
    Location: |location| location.name().to_owned(), Location::from_name;
    Source: |source| source.name().to_owned(), Source::from_name;
    State: |state| state.name().to_owned(), State::from_name;
    Status: |status| status.name().to_owned(), Status::from_name;
    UniqueId: UniqueId::to_string, |text| text.parse().ok().map(UniqueId);
}

impl FromFile for u64 {
    fn from_file(raw: &Raw) -> Reading<Self> {
        raw.number().ok_or(Missing::Unparsable)
    }
}

/// Texts as they are; ids as the driver prints them.
impl FromFile for String {
    fn from_file(raw: &Raw) -> Reading<Self> {
        Ok(match raw {
            Raw::Text(text) => text.to_string(),
            Raw::Number(id) => hex16(*id),
        })
    }
}

/// An id as the driver prints it.
pub(crate) fn hex16(id: u64) -> String {
    format!("{id:016X}")
}

/// Units of the kernel's hwmon files: thousandths, but millionths of a watt.
macro_rules! sensors {
    ($($type:ident / $unit:literal)*) => {$(
        impl FromFile for $type {
            fn from_file(raw: &Raw) -> Reading<Self> {
                u64::from_file(raw).map(|number| Self(number as f64 / $unit))
            }
        }
    )*};
}

sensors! { Celsius / 1e3 Watts / 1e6 Volts / 1e3 Amperes / 1e3 }

impl FromFile for Megahertz {
    fn from_file(raw: &Raw) -> Reading<Self> {
        u64::from_file(raw).map(Self)
    }
}

/// 0 is what firmware without fan control says, 65535 and above what newer firmware says.
impl FromFile for Rpm {
    fn from_file(raw: &Raw) -> Reading<Self> {
        u64::from_file(raw).and_then(|rpm| if (1..65_535).contains(&rpm) { Ok(Self(rpm)) } else { Err(Missing::NoSource) })
    }
}
