//! The version of the kernel driver.

use ttmon_model::limits::ATTRIBUTE_BYTES_MAX;
use ttmon_model::units::Version;
use ttmon_model::{Missing, Reading};

use crate::root::Root;
use ttmon_reads::{Pace, Reply, Request, Want};

/// Returns the request for the file with the driver's version.
pub(super) fn driver_request(root: &Root, pace: Pace) -> Request {
    Request { path: root.sys.join("module/tenstorrent/version"), want: Want::Whole, bytes_max: ATTRIBUTE_BYTES_MAX, pace }
}

/// Parses the contents of that file.
pub(super) fn driver_version(reply: &Reply) -> Reading<String> {
    match reply {
        Ok(bytes) => {
            let text = String::from_utf8_lossy(bytes.trim_ascii()).into_owned();
            if Version::parse(&text).is_some() && text.len() <= 32 { Ok(text) } else { Err(Missing::Unparsable) }
        }
        Err(_) => Err(Missing::NoSource),
    }
}
