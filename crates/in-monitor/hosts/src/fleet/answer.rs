//! Parses an answer of `/api/v1/query`, within limits.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
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
        let answer: Answer<'_> = serde_json::from_str(text).map_err(|error| strange(&error.to_string()))?;
        if answer.status.as_deref() == Some("error") {
            let reason = answer.error.map(|text| text.chars().take(LABEL_BYTES_MAX).collect());
            return Err(StoreError::Query(reason.unwrap_or_else(|| "no reason".to_owned())));
        }
        let data = answer.data.ok_or_else(|| strange("no result"))?;
        if data.result_type.as_deref().is_some_and(|kind| kind != "vector") {
            return Err(strange("no vector"));
        }
        let (Some(_), Some(rows)) = (data.result_type, data.result) else { return Err(strange("no result")) };
        if rows.len() > SERIES_MAX {
            return Err(StoreError::TooLarge);
        }
        let series = rows.into_iter().filter_map(|row| read_series(row.get()).transpose());
        Ok(Self(series.collect::<Result<_, _>>()?))
    }

    /// Whether there are no series.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn strange(why: &str) -> StoreError {
    StoreError::Strange(why.to_owned())
}

/// An answer of the store. Each series is parsed later, on its own.
#[derive(Deserialize)]
struct Answer<'a> {
    status: Option<String>,
    error: Option<String>,
    #[serde(borrow)]
    data: Option<AnswerData<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnswerData<'a> {
    result_type: Option<String>,
    #[serde(borrow, default, deserialize_with = "rows")]
    result: Option<Vec<&'a RawValue>>,
}

/// Keeps one item more than the limit, so that a long list is noticed but takes no memory.
fn rows<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Vec<&'de RawValue>>, D::Error> {
    struct Rows;

    impl<'de> Visitor<'de> for Rows {
        type Value = Vec<&'de RawValue>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut rows = Vec::new();
            while rows.len() <= SERIES_MAX
                && let Some(row) = list.next_element()?
            {
                rows.push(row);
            }
            while list.next_element::<IgnoredAny>()?.is_some() {}
            Ok(rows)
        }
    }

    input.deserialize_seq(Rows).map(Some)
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
