//! The configuration files: settings of `ttmon top`, and rules and receivers of alerts.

use std::io;
use std::path::{Path, PathBuf};

use ttmon_alerts::Config;
use ttmon_model::limits::SETTINGS_BYTES_MAX;

use crate::failure::Failure;
use crate::invocation::variable;

const SYSTEM: &str = "/etc/ttmon/config.toml";

/// The file that a flag or TTMON_CONFIG names, or else the file of the system and that of the user.
pub(crate) struct ConfigFiles {
    system: Option<PathBuf>,
    /// The named file or that of the user.
    pub(crate) own: Option<PathBuf>,
    is_named: bool,
}

impl ConfigFiles {
    pub(crate) fn new(named: Option<&Path>) -> Self {
        match named.map(Path::to_owned).or_else(|| variable("TTMON_CONFIG").map(PathBuf::from)) {
            Some(path) => Self { system: None, own: Some(path), is_named: true },
            None => Self {
                system: Some(PathBuf::from(SYSTEM)),
                own: directory().map(|directory| directory.join("config.toml")),
                is_named: false,
            },
        }
    }

    /// Returns the files in the order in which they are read.
    pub(crate) fn all(&self) -> impl Iterator<Item = &PathBuf> {
        self.system.iter().chain(&self.own)
    }
}

/// Returns `$XDG_CONFIG_HOME/ttmon`, or the same below `~/.config` if the variable is not set.
pub(crate) fn directory() -> Option<PathBuf> {
    let set = |name| variable(name).map(PathBuf::from);
    let directory = set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config")))?;
    Some(directory.join("ttmon"))
}

/// Reads the rules and receivers of alerts. If `is_for_real` is false, only a named file is read, so that a simulated machine never
/// sends to the receivers of the real one.
pub(crate) fn alerts(named: Option<&Path>, is_for_real: bool) -> Result<Config, Failure> {
    let mut config = Config::default();
    let files = ConfigFiles::new(named);
    if files.is_named || is_for_real {
        for path in files.all() {
            add(&mut config, path, files.is_named)?;
        }
    }
    Ok(config)
}

/// Adds the alerts of one file. Alerts start programs, so a file with alerts that other users can write is refused. A file without alerts
/// has only settings of `ttmon top` and is ignored.
fn add(config: &mut Config, path: &Path, is_named: bool) -> Result<(), Failure> {
    let failed = |why: &dyn std::fmt::Display| Failure::new(format!("{}: {why}", path.display()));
    let text = match ttmon_os::read_text(path, SETTINGS_BYTES_MAX) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound && !is_named => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !is_named => return Ok(()),
        Err(error) => return Err(failed(&error)),
    };
    if !text.contains("alerts") {
        return Ok(());
    }
    let trusted = ttmon_os::read_trusted(path, SETTINGS_BYTES_MAX);
    let bytes = trusted.map_err(|error| {
        failed(&format!("{error}; it has alerts, so it must belong to you or to root, and only the owner may write it (chmod go-w)"))
    })?;
    let text = String::from_utf8(bytes).map_err(|_| failed(&"it is not UTF-8 text"))?;
    config.read(&text).map_err(|why| failed(&why))
}
