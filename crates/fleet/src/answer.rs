//! An answer of `/api/v1/query`, within bounds.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use crate::limits::{ANSWER_BYTES_MAX, LABEL_BYTES_MAX, SERIES_MAX};

/// Labels of a series, without its name.
pub type Labels = BTreeMap<String, String>;

/// What a query answers: series and their values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Vector(pub Vec<(Labels, f64)>);

/// Why an answer is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerError {
    /// It is not what a store answers with.
    Strange(String),
    /// The store says no, and why.
    Refused(String),
    /// It is more than is read.
    TooLarge,
}

impl fmt::Display for AnswerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Strange(why) => write!(f, "answers in another way than Prometheus's HTTP API ({why})"),
            Self::Refused(why) => write!(f, "refuses the query ({why})"),
            Self::TooLarge => write!(f, "answers with more than {SERIES_MAX} series; load the recording rules of deploy/, or ask for less"),
        }
    }
}

impl std::error::Error for AnswerError {}

impl Vector {
    /// Reads an answer. Values that are no finite number are left out.
    pub fn parse(text: &str) -> Result<Self, AnswerError> {
        if text.len() > ANSWER_BYTES_MAX {
            return Err(AnswerError::TooLarge);
        }
        let strange = |why: &str| AnswerError::Strange(why.to_owned());
        let document: Value = serde_json::from_str(text).map_err(|error| AnswerError::Strange(error.to_string()))?;
        if document["status"] == "error" {
            let why: String = document["error"].as_str().unwrap_or("no reason").chars().take(LABEL_BYTES_MAX).collect();
            return Err(AnswerError::Refused(why));
        }
        let data = &document["data"];
        let rows = match (data["resultType"].as_str(), data["result"].as_array()) {
            (Some("vector"), Some(rows)) => rows,
            (Some(other), _) if other != "vector" => return Err(strange("no vector")),
            _ => return Err(strange("no result")),
        };
        if rows.len() > SERIES_MAX {
            return Err(AnswerError::TooLarge);
        }
        let mut series = Vec::with_capacity(rows.len());
        for row in rows {
            let value = row["value"][1].as_str().and_then(|text| text.parse::<f64>().ok()).ok_or_else(|| strange("no value"))?;
            let metric = row["metric"].as_object().ok_or_else(|| strange("no labels"))?;
            let text = |value: &Value| value.as_str().filter(|text| text.len() <= LABEL_BYTES_MAX).map(str::to_owned);
            let labels: Option<Labels> = metric.iter().map(|(name, value)| Some((name.clone(), text(value)?))).collect();
            if value.is_finite() {
                series.push((labels.ok_or_else(|| strange("a label that is no short text"))?, value));
            }
        }
        Ok(Self(series))
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A label, or nothing.
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
        let many = format!(r#"{{"data":{{"resultType":"vector","result":[{}1]}}}}"#, "1,".repeat(SERIES_MAX));
        for (text, is_refusal) in [
            ("", false),
            ("[]", false),
            ("{}", false),
            (r#"{"status":"error","error":"bad query"}"#, true),
            (r#"{"data":{"resultType":"matrix","result":[]}}"#, false),
            (r#"{"data":{"resultType":"vector","result":[{"metric":{},"value":[1,2]}]}}"#, false),
            (r#"{"data":{"resultType":"vector","result":[{"metric":{"a":1},"value":[1,"2"]}]}}"#, false),
            (&long, false),
        ] {
            let error = Vector::parse(text).expect_err(text);
            assert_eq!(matches!(error, AnswerError::Refused(_)), is_refusal, "{error}");
        }
        assert_eq!(Vector::parse(&many), Err(AnswerError::TooLarge));
    }
}
