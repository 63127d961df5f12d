//! Demangles simple C++ function names: no templates, no operators.

/// Returns `app::Model::forward` for `_ZN3app5Model7forwardEi`. A name that is not simple stays unchanged.
pub(crate) fn name(mangled: &str) -> String {
    plain(mangled).unwrap_or_else(|| mangled.to_owned())
}

fn plain(mangled: &str) -> Option<String> {
    let rest = mangled.strip_prefix("_Z")?;
    let Some(rest) = rest.strip_prefix('N') else {
        return Some(identifier(rest)?.0.to_owned());
    };
    // The prefix of a const member function.
    let mut rest = rest.strip_prefix('K').unwrap_or(rest);
    let mut parts: Vec<&str> = Vec::new();
    loop {
        if let Some(after) = rest.strip_prefix("C1").or(rest.strip_prefix("C2")) {
            parts.push(parts.last()?);
            rest = after;
        } else {
            let (part, after) = identifier(rest)?;
            // An unnamed namespace.
            parts.push(if part.starts_with("_GLOBAL__N_") { "(anonymous)" } else { part });
            rest = after;
        }
        if rest.starts_with('E') {
            return Some(parts.join("::"));
        }
    }
}

/// Splits off an identifier: its length in digits, then its bytes.
fn identifier(text: &str) -> Option<(&str, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let length: usize = text.get(..digits)?.parse().ok()?;
    text.get(digits..)?.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use super::name;

    #[test]
    fn plain_names_are_read_and_others_kept() {
        for (mangled, expected) in [
            ("_ZN3app5Model7forwardEi", "app::Model::forward"),
            ("_ZNK3app5Model4sizeEv", "app::Model::size"),
            ("_Z3runPKc", "run"),
            ("_ZN3app5ModelC2Ev", "app::Model::Model"),
            ("_ZN12_GLOBAL__N_14loadEv", "(anonymous)::load"),
            ("main", "main"),
            ("_ZSt4swapIiEvRT_S1_", "_ZSt4swapIiEvRT_S1_"),
            ("_ZN3appIiE3runEv", "_ZN3appIiE3runEv"),
            ("_ZN9999999999999999999999a", "_ZN9999999999999999999999a"),
            ("_ZN2é", "_ZN2é"),
            ("_Z", "_Z"),
            ("", ""),
        ] {
            assert_eq!(name(mangled), expected);
        }
    }
}
