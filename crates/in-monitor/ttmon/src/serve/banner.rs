//! Formats the first lines of the service: the devices and the sockets.

use std::fmt::Write as _;
use std::path::Path;

use ttmon_model::snapshot::Location;
use ttmon_model::{Kind, Snapshot};

/// Uses the format of allocation_server_poc. The device number is TT-Metal's, because programs send that number on the socket.
pub(super) fn text(snapshot: Option<&Snapshot>, sockets: &[&Path], state: &Path, handover: Option<&Path>) -> String {
    let mut text = String::from("🔍 Device detection (sysfs and product table; no device is opened):\n");
    let devices = snapshot.map_or(&[][..], |snapshot| &snapshot.devices);
    for device in devices {
        let number = device.metal_id.map_or_else(|_| format!("? (id {})", device.id), |number| number.to_string());
        let arch = device.arch.map_or("unknown", |arch| arch.chip_name());
        let whole =
            |kind: Kind, shift: u32| device.memory.kinds[kind].total.map_or_else(|_| "?".to_owned(), |bytes| (bytes >> shift).to_string());
        let place = if device.location == Location::Local { "Local" } else { "Remote" };
        let _ = writeln!(text, "   Device {number}: {arch} ({}GB DRAM, {}MB L1) [{place}]", whole(Kind::Dram, 30), whole(Kind::L1, 20));
    }
    if devices.is_empty() {
        text.push_str("   No devices detected\n   Server will track allocations anyway\n");
    } else {
        let _ = writeln!(text, "   Total: {} device(s) detected", devices.len());
        if devices.iter().any(|device| device.metal_id.is_err()) {
            text.push_str(
                "   Devices with ? have no number yet: it comes from a program that uses them, or from a cluster descriptor (--cluster)\n",
            );
        }
    }
    text.push_str("🚀 Allocation Server started\n");
    for socket in sockets {
        let _ = writeln!(text, "   Listening on: {}", socket.display());
    }
    let _ = writeln!(text, "   State: {}", state.display());
    if let Some(handover) = handover {
        let _ = writeln!(text, "   Ledgers handed over at: {}", handover.display());
    }
    text.push_str("   Ends of processes are noticed at once\n   Press Ctrl+C to stop\n");
    text
}
