"""umd.py DEVICE: prints every telemetry tag of a device as tt-umd reads it, as JSON."""
import json
import sys

import tt_umd

device = tt_umd.TTDevice.create(int(sys.argv[1]))
device.init_tt_device()
reader = device.get_arc_telemetry_reader()
print("tags " + json.dumps({tag: reader.read_entry(tag) for tag in range(1, 100) if reader.is_entry_available(tag)}))
