//! `ttmon env`: prints the environment changes of `ttmon run` as shell commands.

use std::env;

use crate::failure::Failure;
use crate::run::library;

/// Returns lines of the form `export NAME='value'`, which sh, bash, zsh and fish accept: `eval "$(ttmon env)"`.
pub(crate) fn run(ops: bool, stacks: bool) -> Result<String, Failure> {
    let library = library::find().map_err(Failure::new)?;
    let preload = library::preload(env::var_os(library::PRELOAD).as_deref(), &library);
    let preload = preload.to_str().ok_or_else(|| Failure::new("LD_PRELOAD is not valid UTF-8; unset it first"))?;
    let mut lines = vec![(library::PRELOAD, preload), ("TTMON_TRACKING", "1"), ("TTMON_STACKS", if stacks { "1" } else { "0" })];
    if ops {
        lines.push(("TTMON_OPS", "1"));
    }
    Ok(lines.iter().map(|(name, value)| format!("export {name}={}\n", quoted(value))).collect())
}

/// Quotes a text so that a shell reads it unchanged.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_quoted_text_means_anything() {
        assert_eq!(quoted("/a b/$x`y`\"z\\"), "'/a b/$x`y`\"z\\'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
