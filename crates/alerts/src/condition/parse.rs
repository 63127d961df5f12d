//! Parses conditions.

use std::fmt;
use std::time::Duration;

use ttmon_model::duration;
use ttmon_model::fields::DeviceField;

use super::{Comparison, Function, Measured, Op, Operand};
use crate::limits::{COMPARISONS_MAX, CONDITION_BYTES_MAX, DURATION_MAX};

fn wrong<T>(why: impl Into<String>) -> Result<T, String> {
    Err(why.into())
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

pub(super) fn condition(text: &str) -> Result<Vec<Vec<Comparison>>, String> {
    if text.len() > CONDITION_BYTES_MAX {
        return wrong(format!("longer than {CONDITION_BYTES_MAX} bytes"));
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
            other => return wrong(format!("expected and, or, or the end; found {other}")),
        };
        count += 1;
        if count > COMPARISONS_MAX {
            return wrong(format!("more than {COMPARISONS_MAX} comparisons"));
        }
        any.last_mut().expect("it begins with one list").push(comparison);
    }
    Ok(any)
}

fn tokens(text: &str) -> Result<Vec<Token>, String> {
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
                let Some(end) = rest[1..].find('"') else { return wrong("a text without its closing quote") };
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
                None => return wrong(format!("unexpected character {other:?}")),
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

    fn expect(&mut self, token: &Token) -> Result<(), String> {
        if self.takes(token) { Ok(()) } else { wrong(format!("expected {token}, found {}", self.found())) }
    }

    fn word(&mut self, expected: &str) -> Result<String, String> {
        let found = self.found();
        if let Some(Token::Word(word)) = self.next() { Ok(word) } else { wrong(format!("expected {expected} {found}")) }
    }

    fn found(&self) -> String {
        self.tokens.get(self.at).map_or_else(|| "the end".to_owned(), Token::to_string)
    }

    fn comparison(&mut self) -> Result<Comparison, String> {
        let left = self.measured()?;
        let found = self.found();
        let Some(Token::Op(op)) = self.next() else { return wrong(format!("expected a comparison such as >=, found {found}")) };
        let right = self.operand()?;
        let is_text = matches!(right, Operand::Text(_));
        if is_text && !matches!(op, Op::Equal | Op::Unequal) {
            return wrong(format!("a text is compared with == or !=, not {}", op.name()));
        }
        if is_text && left.over.is_some() {
            return wrong("increase and growth are numbers, not text");
        }
        Ok(Comparison { left, op, right })
    }

    fn measured(&mut self) -> Result<Measured, String> {
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
        let Some(span) = span else { return wrong(format!("expected a duration of 30s to 7d, found {found}")) };
        self.expect(&Token::Close)?;
        Ok(Measured { field: field(&word)?, over: Some((function, span)) })
    }

    fn operand(&mut self) -> Result<Operand, String> {
        let found = self.found();
        match self.next() {
            Some(Token::Text(text)) => Ok(Operand::Text(text)),
            Some(Token::Word(word)) if word == "true" || word == "false" => Ok(Operand::Bool(word == "true")),
            Some(Token::Word(word)) => Ok(Operand::Field(1.0, field(&word)?)),
            Some(Token::Number(text)) => {
                let number = number(&text).ok_or_else(|| format!("{text} is no number, size or percentage"))?;
                if !self.takes(&Token::Times) {
                    return Ok(Operand::Number(number));
                }
                let word = self.word("a field after *, found")?;
                Ok(Operand::Field(number, field(&word)?))
            }
            _ => wrong(format!("expected a number, a text, true, false or a field; found {found}")),
        }
    }
}

fn field(name: &str) -> Result<DeviceField, String> {
    DeviceField::find(name).map_or_else(|| wrong(format!("no field {name} (ttmon --help-fields lists them)")), Ok)
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
