//! Reads the rules and receivers from the configuration files.

use std::io;
use std::path::{Path, PathBuf};

use ttmon_alerts::Config;
use ttmon_model::limits::SETTINGS_BYTES_MAX;

use crate::failure::Failure;
use crate::invocation::variable;
use crate::top::config_directory;

const SYSTEM: &str = "/etc/ttmon/config.toml";

/// Reads the named file. Without a named file, reads the file of the system and then the file of the user. If `is_for_real` is false, only
/// a named file is read, so that a simulated machine never sends to the receivers of the real one.
pub(crate) fn read(named: Option<&Path>, is_for_real: bool) -> Result<Config, Failure> {
    let mut config = Config::default();
    match named.map(Path::to_owned).or_else(|| variable("TTMON_CONFIG").map(PathBuf::from)) {
        Some(path) => add(&mut config, &path, true)?,
        None if is_for_real => {
            let own = config_directory().map(|directory| directory.join("config.toml"));
            for path in [PathBuf::from(SYSTEM)].iter().chain(&own) {
                add(&mut config, path, false)?;
            }
        }
        None => {}
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
