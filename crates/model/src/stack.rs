//! Source lines of a program that requested memory.

use std::fmt;
use std::sync::Arc;

/// A line of a program's source. The program controls the texts: sanitise them before printing.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceLine {
    /// The file name from the interpreter, or the end of a long one.
    pub file: Arc<str>,
    /// The line; 0 is unknown.
    pub line: u32,
    /// The function.
    pub function: Arc<str>,
}

impl SourceLine {
    /// Whether it belongs to ttnn, torch, ttmon, the standard library or the interpreter, so that a user does not need it.
    pub fn is_of_library(&self) -> bool {
        is_of_library(&self.file)
    }

    /// The file with its folder: `models/decoder.py`.
    pub fn short_file(&self) -> &str {
        let mut slashes = self.file.rmatch_indices('/').map(|(at, _)| at + 1);
        let at = slashes.nth(1).unwrap_or(0);
        self.file.get(at..).filter(|_| at > 1).unwrap_or(&self.file)
    }
}

/// `models/decoder.py:42 Decoder.forward`
impl fmt::Display for SourceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.short_file(), self.line)?;
        if self.function.is_empty() || &*self.function == "<module>" { Ok(()) } else { write!(f, " {}", self.function) }
    }
}

/// Packages between a user's line and the allocation.
const PACKAGES: [&str; 3] = ["ttnn", "torch", "ttmon"];
/// Folders that packages are installed into.
const INSTALLED: [&str; 2] = ["site-packages", "dist-packages"];

fn is_of_library(file: &str) -> bool {
    if file.starts_with("<frozen") || file.is_empty() {
        return true;
    }
    let parts: Vec<&str> = file.split('/').collect();
    if let Some(at) = parts.iter().rposition(|part| INSTALLED.contains(part)) {
        let package = parts.get(at + 1).map_or("", |part| part.strip_suffix(".py").unwrap_or(part));
        return PACKAGES.contains(&package);
    }
    // A checkout of TT-Metal has its package in ttnn/ttnn; the standard library is in lib/python3.N.
    let mut pairs = parts.windows(2).map(|pair| (pair[0], pair[1]));
    pairs.any(|(folder, inner)| (folder, inner) == ("ttnn", "ttnn") || is_lib(folder) && inner.starts_with("python3."))
}

fn is_lib(folder: &str) -> bool {
    matches!(folder, "lib" | "lib64")
}

/// The line of a stack for the user: the innermost outside libraries, else the outermost outside the interpreter.
pub fn user_line<'a>(frames: impl Iterator<Item = &'a Arc<SourceLine>>) -> Option<&'a Arc<SourceLine>> {
    let mut last = None;
    for frame in frames {
        if !frame.is_of_library() {
            return Some(frame);
        }
        if !frame.file.starts_with('<') && !frame.file.is_empty() {
            last = Some(frame);
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(file: &str) -> Arc<SourceLine> {
        Arc::new(SourceLine { file: file.into(), line: 7, function: "f".into() })
    }

    #[test]
    fn lines_of_libraries_are_not_a_users() {
        for file in [
            "/venv/lib/python3.12/site-packages/ttnn/decorators.py",
            "/venv/lib/python3.12/site-packages/torch/nn/modules/module.py",
            "/usr/lib/python3/dist-packages/ttmon.py",
            "/home/me/tt-metal/ttnn/ttnn/decorators.py",
            "/usr/lib/python3.11/threading.py",
            "<frozen runpy>",
            "",
        ] {
            assert!(line(file).is_of_library(), "{file}");
        }
        for file in [
            "/home/me/model.py",
            "/home/me/ttnn/test.py",
            "/venv/lib/python3.12/site-packages/transformers/modeling.py",
            "/venv/lib/python3.12/site-packages/ttnn_models/a.py",
            "model.py",
            "<string>",
        ] {
            assert!(!line(file).is_of_library(), "{file}");
        }
    }

    #[test]
    fn the_line_is_the_innermost_of_the_user() {
        let [inner, user, outer] = ["/x/site-packages/ttnn/a.py", "/me/model.py", "/me/main.py"].map(line);
        assert_eq!(user_line([&inner, &user, &outer].into_iter()), Some(&user));
        let example = line("/x/site-packages/ttnn/examples/b.py");
        assert_eq!(user_line([&inner, &example, &line("<frozen runpy>")].into_iter()), Some(&example), "a program of ttnn's own");
        assert_eq!(user_line(std::iter::empty()), None);
    }

    #[test]
    fn a_line_in_words() {
        let words = |file: &str, function: &str| SourceLine { file: file.into(), line: 42, function: function.into() }.to_string();
        assert_eq!(words("/home/me/models/decoder.py", "Decoder.forward"), "models/decoder.py:42 Decoder.forward");
        assert_eq!(words("/a.py", "<module>"), "/a.py:42");
        assert_eq!(words("a.py", ""), "a.py:42");
        assert_eq!(words("b/a.py", "f"), "b/a.py:42 f");
    }
}
