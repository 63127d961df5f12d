//! Sizes in the format that users type: `10G`, `512MB`, `1.5GiB`, `4096`, `90%`.

use std::str::FromStr;

/// A limit on memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// A number of bytes.
    Bytes(u64),
    /// A share of the available memory, 0 to 1.
    Share(f64),
}

/// A number of bytes. Multiples are binary, as everywhere in ttmon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

/// Why a text is neither a size nor a share.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the texts document the causes")]
pub enum SizeError {
    #[error("{0:?} is no size: give bytes, or a number with K, M, G or T")]
    Size(String),
    #[error("{0:?} is no share: give 0% to 100%, without a sign")]
    Share(String),
}

const UNITS: [(&str, u32); 6] = [("", 0), ("K", 10), ("M", 20), ("G", 30), ("T", 40), ("P", 50)];

impl FromStr for Size {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        let wrong = || SizeError::Size(text.to_owned());
        let digits = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let unit = unit.trim_start().to_ascii_uppercase();
        let unit = unit.strip_suffix("IB").or(unit.strip_suffix('B')).unwrap_or(&unit);
        let (_, shift) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        let whole = number.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
        if let Some(bytes) = whole {
            return Ok(Self(bytes));
        }
        let bytes = number.parse::<f64>().map_err(|_| wrong())? * 2_f64.powi(i32::try_from(*shift).unwrap_or(0));
        // The limit is larger than any memory. Values below it are exact enough to be compared.
        if !number.contains('.') || bytes >= 2_f64.powi(60) {
            return Err(wrong());
        }
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative, and below 2^60")]
        Ok(Self(bytes as u64))
    }
}

impl FromStr for Limit {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        let Some(share) = text.strip_suffix('%') else { return Ok(Self::Bytes(text.parse::<Size>()?.0)) };
        let share = share.trim_end();
        // A sign would mean a change, which is not supported.
        let is_plain = share.chars().all(|letter| letter.is_ascii_digit() || letter == '.');
        match share.parse::<f64>() {
            Ok(share) if is_plain && share <= 100.0 => Ok(Self::Share(share / 100.0)),
            _ => Err(SizeError::Share(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::*;

    #[test]
    fn sizes_have_binary_units() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("1k", 1024),
            ("10G", 10 << 30),
            ("10GB", 10 << 30),
            ("10 GiB", 10 << 30),
            ("1.5M", 3 << 19),
            ("512B", 512),
            ("2T", 2 << 40),
        ] {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
        for text in ["", "G", "-1", "1X", "1GG", "1.2.3", "99999999999999999999", "9999999P", "1e9", "nan", "inf", "1.5.G"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }

    #[test]
    fn limits_are_sizes_or_shares() {
        assert_eq!("90%".parse(), Ok(Limit::Share(0.9)));
        assert_eq!("1G".parse(), Ok(Limit::Bytes(1 << 30)));
        for text in ["%", ".%", "101%", "-1%", "-0%", "+5%", "1e1%", "nan%", "inf%", "90%%"] {
            assert!(text.parse::<Limit>().is_err(), "{text}");
        }
    }
}
