//! Parses conditions.

use std::fmt;
use std::time::Duration;

use ttmon_model::duration;
use ttmon_model::fields::DeviceField;

use super::{Comparison, Function, Measured, Op, Operand};
use crate::limits::{COMPARISONS_MAX, CONDITION_BYTES_MAX, DURATION_MAX};

/// Why a text is not a condition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the texts document the causes")]
pub enum ConditionError {
    #[error("longer than {CONDITION_BYTES_MAX} bytes")]
    TooLong,
    #[error("more than {COMPARISONS_MAX} comparisons")]
    TooMany,
    #[error("a text without its closing quote")]
    Unclosed,
    #[error("unexpected character {0:?}")]
    Character(char),
    #[error("expected {expected} {found}")]
    Expected { expected: String, found: String },
    #[error("a text is compared with == or !=, not {0}")]
    Order(&'static str),
    #[error("increase and growth are numbers, not text")]
    TextOverTime,
    #[error("{0} is no number, size or percentage")]
    Number(String),
    #[error("no field {0} (ttmon --help-fields lists them)")]
    NoField(String),
}

/// Returns an error. `expected` ends with the words before the found token.
fn expected<T>(expected: &str, found: String) -> Result<T, ConditionError> {
    Err(ConditionError::Expected { expected: expected.to_owned(), found })
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    /// A field, `and`, `or`, `true`, `false`, a function.
    Word(String),
    /// A number with its suffix: `95`, `95%`, `10G`, `5m`.
    Number(String),
    Text(String),
    Op(Op),
    Open,
    Close,
    Comma,
    Times,
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(text) | Self::Number(text) => f.write_str(text),
            Self::Text(text) => write!(f, "\"{text}\""),
            Self::Op(op) => f.write_str(op.name()),
            Self::Open => f.write_str("("),
            Self::Close => f.write_str(")"),
            Self::Comma => f.write_str(","),
            Self::Times => f.write_str("*"),
        }
    }
}

pub(super) fn condition(text: &str) -> Result<Vec<Vec<Comparison>>, ConditionError> {
    if text.len() > CONDITION_BYTES_MAX {
        return Err(ConditionError::TooLong);
    }
    let mut tokens = Tokens { tokens: tokens(text)?, at: 0 };
    let mut any = vec![vec![tokens.comparison()?]];
    let mut count = 1;
    while let Some(token) = tokens.next() {
        let comparison = match token {
            Token::Word(word) if word == "and" || word == "or" => {
                if word == "or" {
                    any.push(Vec::new());
                }
                tokens.comparison()?
            }
            other => return expected("and, or, or the end; found", other.to_string()),
        };
        count += 1;
        if count > COMPARISONS_MAX {
            return Err(ConditionError::TooMany);
        }
        any.last_mut().expect("it begins with one list").push(comparison);
    }
    Ok(any)
}

fn tokens(text: &str) -> Result<Vec<Token>, ConditionError> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let taken = |is: fn(char) -> bool| rest.find(|letter| !is(letter)).unwrap_or(rest.len());
        let length = match first {
            '(' => push(&mut tokens, Token::Open),
            ')' => push(&mut tokens, Token::Close),
            ',' => push(&mut tokens, Token::Comma),
            '*' => push(&mut tokens, Token::Times),
            '"' => {
                let Some(end) = rest[1..].find('"') else { return Err(ConditionError::Unclosed) };
                tokens.push(Token::Text(rest[1..=end].to_owned()));
                end + 2
            }
            '0'..='9' => {
                let length = taken(|letter| letter.is_ascii_alphanumeric() || ".%".contains(letter));
                tokens.push(Token::Number(rest[..length].to_owned()));
                length
            }
            'a'..='z' => {
                let length = taken(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || "_.".contains(letter));
                tokens.push(Token::Word(rest[..length].to_owned()));
                length
            }
            other => match Op::ALL.into_iter().find(|op| rest.starts_with(op.name())) {
                Some(op) => {
                    tokens.push(Token::Op(op));
                    op.name().len()
                }
                None => return Err(ConditionError::Character(other)),
            },
        };
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

fn push(tokens: &mut Vec<Token>, token: Token) -> usize {
    tokens.push(token);
    1
}

struct Tokens {
    tokens: Vec<Token>,
    at: usize,
}

impl Tokens {
    fn next(&mut self) -> Option<Token> {
        self.at += 1;
        self.tokens.get(self.at - 1).cloned()
    }

    fn takes(&mut self, token: &Token) -> bool {
        let is_it = self.tokens.get(self.at) == Some(token);
        self.at += usize::from(is_it);
        is_it
    }

    fn expect(&mut self, token: &Token) -> Result<(), ConditionError> {
        if self.takes(token) { Ok(()) } else { expected(&format!("{token}, found"), self.found()) }
    }

    fn word(&mut self, what: &str) -> Result<String, ConditionError> {
        let found = self.found();
        if let Some(Token::Word(word)) = self.next() { Ok(word) } else { expected(what, found) }
    }

    fn found(&self) -> String {
        self.tokens.get(self.at).map_or_else(|| "the end".to_owned(), Token::to_string)
    }

    fn comparison(&mut self) -> Result<Comparison, ConditionError> {
        let left = self.measured()?;
        let found = self.found();
        let Some(Token::Op(op)) = self.next() else { return expected("a comparison such as >=, found", found) };
        let right = self.operand()?;
        let is_text = matches!(right, Operand::Text(_));
        if is_text && !matches!(op, Op::Equal | Op::Unequal) {
            return Err(ConditionError::Order(op.name()));
        }
        if is_text && left.over.is_some() {
            return Err(ConditionError::TextOverTime);
        }
        Ok(Comparison { left, op, right })
    }

    fn measured(&mut self) -> Result<Measured, ConditionError> {
        let word = self.word("the name of a field, found")?;
        let function = match word.as_str() {
            "increase" => Function::Increase,
            "growth" => Function::Growth,
            _ => return Ok(Measured { field: field(&word)?, over: None }),
        };
        self.expect(&Token::Open)?;
        let word = self.word("the name of a field, found")?;
        self.expect(&Token::Comma)?;
        let found = self.found();
        let span = match self.next() {
            Some(Token::Number(text)) => duration::parse(&text).filter(|span| (Duration::from_secs(30)..=DURATION_MAX).contains(span)),
            _ => None,
        };
        let Some(span) = span else { return expected("a duration of 30s to 7d, found", found) };
        self.expect(&Token::Close)?;
        Ok(Measured { field: field(&word)?, over: Some((function, span)) })
    }

    fn operand(&mut self) -> Result<Operand, ConditionError> {
        let found = self.found();
        match self.next() {
            Some(Token::Text(text)) => Ok(Operand::Text(text)),
            Some(Token::Word(word)) if word == "true" || word == "false" => Ok(Operand::Bool(word == "true")),
            Some(Token::Word(word)) => Ok(Operand::Field(1.0, field(&word)?)),
            Some(Token::Number(text)) => {
                let number = number(&text).ok_or(ConditionError::Number(text))?;
                if !self.takes(&Token::Times) {
                    return Ok(Operand::Number(number));
                }
                let word = self.word("a field after *, found")?;
                Ok(Operand::Field(number, field(&word)?))
            }
            _ => expected("a number, a text, true, false or a field; found", found),
        }
    }
}

fn field(name: &str) -> Result<DeviceField, ConditionError> {
    DeviceField::find(name).ok_or_else(|| ConditionError::NoField(name.to_owned()))
}

/// Parses `95`, `0.5`, `95%`, `512M` or `10G`.
fn number(text: &str) -> Option<f64> {
    let suffixes = [("%", 0.01), ("K", 1024.0), ("M", 1_048_576.0), ("G", 1_073_741_824.0), ("T", 1_099_511_627_776.0)];
    let found = suffixes.into_iter().find_map(|(suffix, factor)| Some((text.strip_suffix(suffix)?, factor)));
    let (digits, factor) = found.unwrap_or((text, 1.0));
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let number: f64 = digits.parse().ok().filter(|_| is_plain)?;
    Some(number * factor).filter(|number| number.is_finite())
}
