//! Parses an answer of `/api/v1/query`, within limits.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::fleet::limits::{ANSWER_BYTES_MAX, LABEL_BYTES_MAX, LABELS_MAX, SERIES_BYTES_MAX, SERIES_MAX};
use crate::fleet::store::StoreError;

/// Labels of a series, without its name.
pub type Labels = BTreeMap<String, String>;

/// The result of a query: series and their values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Vector(pub Vec<(Labels, f64)>);

impl Vector {
    /// Parses an answer. Values that are not finite numbers are left out.
    pub fn parse(text: &str) -> Result<Self, StoreError> {
        if text.len() > ANSWER_BYTES_MAX {
            return Err(StoreError::TooLarge);
        }
        let mut found = Found::default();
        let mut input = serde_json::Deserializer::from_str(text);
        let read = Level { found: &mut found, is_data: false }.deserialize(&mut input).and_then(|()| input.end());
        if let Some(error) = found.error {
            return Err(error);
        }
        read.map_err(|error| strange(&error.to_string()))?;
        if found.status.as_deref() == Some("error") {
            return Err(StoreError::Query(found.refusal.unwrap_or_else(|| "no reason".to_owned())));
        }
        match (found.kind.as_deref(), found.series) {
            (Some("vector"), Some(series)) => Ok(Self(series)),
            (Some(other), _) if other != "vector" => Err(strange("no vector")),
            _ => Err(strange("no result")),
        }
    }

    /// Whether there are no series.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn strange(why: &str) -> StoreError {
    StoreError::Strange(why.to_owned())
}

/// The values that were parsed so far. Series are parsed one at a time; other keys are skipped.
#[derive(Default)]
struct Found {
    status: Option<String>,
    refusal: Option<String>,
    kind: Option<String>,
    series: Option<Vec<(Labels, f64)>>,
    error: Option<StoreError>,
}

/// The top level of the answer, or its `data`.
struct Level<'f> {
    found: &'f mut Found,
    is_data: bool,
}

impl<'de> DeserializeSeed<'de> for Level<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<(), D::Error> {
        input.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Level<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { found, is_data } = self;
        while let Some(key) = map.next_key::<String>()? {
            match (is_data, key.as_str()) {
                (false, "status") => found.status = short(map.next_value()?),
                (false, "error") => found.refusal = short(map.next_value()?),
                (false, "data") => map.next_value_seed(Level { found, is_data: true })?,
                (true, "resultType") => found.kind = short(map.next_value()?),
                (true, "result") => map.next_value_seed(Rows(found))?,
                _ => _ = map.next_value::<IgnoredAny>()?,
            }
        }
        Ok(())
    }
}

/// Returns the beginning of a text, or `None` for another value, which no answer of Prometheus has there.
fn short(value: &RawValue) -> Option<String> {
    let text: String = serde_json::from_str(value.get()).ok()?;
    Some(text.chars().take(LABEL_BYTES_MAX).collect())
}

/// The list of series.
struct Rows<'f>(&'f mut Found);

impl<'de> DeserializeSeed<'de> for Rows<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<(), D::Error> {
        input.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Rows<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut rows: A) -> Result<(), A::Error> {
        let (mut series, mut count) = (Vec::new(), 0);
        while let Some(row) = rows.next_element::<&RawValue>()? {
            count += 1;
            let read = if count > SERIES_MAX { Err(StoreError::TooLarge) } else { read_series(row.get()) };
            match read {
                Ok(one) => series.extend(one),
                Err(error) => {
                    self.0.error = Some(error);
                    return Err(A::Error::custom("refused"));
                }
            }
        }
        self.0.series = Some(series);
        Ok(())
    }
}

/// Parses one series. Returns `None` if its value is not a finite number.
fn read_series(text: &str) -> Result<Option<(Labels, f64)>, StoreError> {
    if text.len() > SERIES_BYTES_MAX {
        return Err(strange("a long series"));
    }
    let row: Value = serde_json::from_str(text).map_err(|error| strange(&error.to_string()))?;
    let value = row["value"][1].as_str().and_then(|text| text.parse::<f64>().ok()).ok_or_else(|| strange("no value"))?;
    let metric = row["metric"].as_object().ok_or_else(|| strange("no labels"))?;
    if metric.len() > LABELS_MAX {
        return Err(strange("many labels"));
    }
    let text = |value: &Value| value.as_str().filter(|text| text.len() <= LABEL_BYTES_MAX).map(str::to_owned);
    let labels: Option<Labels> = metric.iter().map(|(name, value)| Some((name.clone(), text(value)?))).collect();
    let labels = labels.ok_or_else(|| strange("a label that is no short text"))?;
    Ok(value.is_finite().then_some((labels, value)))
}

/// Returns a label, or an empty text.
pub(crate) fn label(labels: &Labels, name: &str) -> String {
    labels.get(name).cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_read() {
        let text = r#"{"status":"success","data":{"resultType":"vector","result":[
            {"metric":{"instance":"a"},"value":[1.5,"2.5"]},{"metric":{},"value":[1,"NaN"]}]}}"#;
        let vector = Vector::parse(text).expect("a vector");
        assert_eq!(vector.0, [(Labels::from([("instance".to_owned(), "a".to_owned())]), 2.5)]);
    }

    #[test]
    fn hostile_answers_are_refused() {
        let long = format!(
            r#"{{"status":"success","data":{{"resultType":"vector","result":[{{"metric":{{"a":"{}"}},"value":[1,"1"]}}]}}}}"#,
            "x".repeat(2000)
        );
        let series = r#"{"metric":{},"value":[1,"1"]},"#;
        let many = format!(r#"{{"data":{{"resultType":"vector","result":[{}1]}}}}"#, series.repeat(SERIES_MAX));
        let labels: String = (0..40).map(|number| format!(r#""l{number}":"","#)).collect();
        let labels = format!(r#"{{"data":{{"resultType":"vector","result":[{{"metric":{{{labels}"a":""}},"value":[1,"1"]}}]}}}}"#);
        for (text, is_refusal) in [
            ("", false),
            ("[]", false),
            ("{}", false),
            (r#"{"status":"error","error":"bad query"}"#, true),
            (r#"{"data":{"resultType":"matrix","result":[]}}"#, false),
            (r#"{"data":{"resultType":"vector","result":[{"metric":{},"value":[1,2]}]}}"#, false),
            (r#"{"data":{"resultType":"vector","result":[{"metric":{"a":1},"value":[1,"2"]}]}}"#, false),
            (&long, false),
            (&labels, false),
            (r#"{"data":{"resultType":"vector","result":[]}} {}"#, false),
        ] {
            let error = Vector::parse(text).expect_err(text);
            assert_eq!(matches!(error, StoreError::Query(_)), is_refusal, "{error}");
        }
        assert!(matches!(Vector::parse(&many), Err(StoreError::TooLarge)));
    }
}
