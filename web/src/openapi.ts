// Generated from openapi.json by build.mjs. Do not edit.

export type Alerts = {
  "alerts": ({
  "asic_id": string | null;
  "bdf": string | null;
  "board": string | null;
  "device": number;
  "fired": string | null;
  "resolved": string | null;
  "rule": string;
  "severity": "info" | "warning" | "critical";
  "silenced_until": string | null;
  "since": string | null;
  "state": "firing" | "pending" | "resolved";
  "summary": string;
})[];
  "host": string;
  "origin": string;
  "receivers": Record<string, unknown>[];
  "rules": Record<string, unknown>[];
  "samples_dropped": number;
  "schema": 1;
  "silences": Record<string, unknown>[];
  "time": string;
  "version": string;
};

export type Buffers = {
  "buffers": ({
  "address": string;
  "age_s": number | null;
  "allocator": string;
  "devices": number[];
  "kind": string;
  "pid": number;
  "size": number;
  "tag": string | null;
})[];
  "count": number;
  "host": string;
  "origin": string;
  "problems": Record<string, unknown>[];
  "schema": 1;
  "time": string;
  "version": string;
};

export type Device = {
  "aiclk_limit_mhz": number | null;
  "aiclk_mhz": number | null;
  "arc_fw": any;
  "arcclk_mhz": number | null;
  "arch": any;
  "asic_id": any;
  "asic_id_decimal": any;
  "axiclk_mhz": number | null;
  "bdf": any;
  "board": any;
  "board_power": number | null;
  "board_power_limit": number | null;
  "board_temperature": number | null;
  "chip": any;
  "core_efficiency": number | null;
  "current": number | null;
  "current_limit": number | null;
  "deep_age_s": any;
  "eth_fw": any;
  "eth_links": any;
  "eth_links_up": number | null;
  "fan_rpm": number | null;
  "firmware": any;
  "gddr_corrected_errors": number | null;
  "gddr_fw": any;
  "gddr_speed_mts": any;
  "gddr_temperature": number | null;
  "gddr_temperatures": any;
  "gddr_trained": any;
  "gddr_uncorrected_errors": number | null;
  "health": any;
  "health_reasons": any;
  "heartbeat": number | null;
  "heartbeat_alive": any;
  "id": any;
  "input_current": number | null;
  "location": any;
  "m3_bl_fw": any;
  "m3_fw": any;
  "metal_id": any;
  "missing"?: Record<string, string>;
  "name": any;
  "numa_node": any;
  "pcie_degraded": any;
  "pcie_from_device_bytes_per_s": number | null;
  "pcie_from_device_words_per_s": number | null;
  "pcie_gen": any;
  "pcie_gen_max": any;
  "pcie_to_device_bytes_per_s": number | null;
  "pcie_to_device_words_per_s": number | null;
  "pcie_width": any;
  "pcie_width_max": any;
  "power": number | null;
  "power_limit": number | null;
  "processes": DeviceProcess[];
  "programs_per_s": any;
  "queue_utilization": any;
  "queues_waiting": number | null;
  "serial": any;
  "state": any;
  "temperature": number | null;
  "temperature_limit": number | null;
  "tensix_cores": number | null;
  "therm_trip_count": number | null;
  "throttle_reasons": any;
  "throttling": any;
  "tt_flash": any;
  "unique_id": any;
  "utilization": number | null;
  "via": any;
  "voltage": number | null;
  "voltage_limit": number | null;
};

export type DeviceProcess = {
  "kinds": Record<string, MemoryOfProcess>;
  "memory": number | null;
  "metal_ids": number[] | null;
  "missing"?: Record<string, string>;
  "name": string | null;
  "pid": number;
  "source": string | null;
  "status": "tracked" | "connected" | "reported" | "open" | "no_permission" | "dead";
};

export type Devices = {
  "devices": Device[];
  "host": string;
  "origin": string;
  "schema": 1;
  "time": string;
  "version": string;
};

export type Events = {
  "events": ({
  "event": "started" | "appeared" | "left" | "state" | "health" | "clock" | "gap" | "unreadable" | "readable" | "alert" | "receiver";
  "id": number;
  "time": string;
})[];
  "last_id": number;
  "schema": 1;
  "version": string;
};

export type Fields = {
  "charts": ({
  "critical": number | null;
  "field": string;
  "limit": string | null;
  "name": string;
  "title": string;
  "unit": string;
  "unless": string | null;
})[];
  "device": ({
  "help": string;
  "kept": boolean;
  "metric": string | null;
  "name": string;
  "section": string;
  "title": string;
  "unit": string;
})[];
  "device_kind": ({
  "help": string;
  "kept": boolean;
  "metric": string | null;
  "name": string;
  "section": string;
  "title": string;
  "unit": string;
})[];
  "fleet": boolean;
  "process": ({
  "help": string;
  "kept": boolean;
  "metric": string | null;
  "name": string;
  "section": string;
  "title": string;
  "unit": string;
})[];
  "process_kind": ({
  "help": string;
  "kept": boolean;
  "metric": string | null;
  "name": string;
  "section": string;
  "title": string;
  "unit": string;
})[];
  "schema"?: 1;
  "version": string;
};

export type Fleet = {
  "alerts": Record<string, string>[];
  "host_count": number;
  "hosts": ({
  "host": string | null;
  "partition"?: string | null;
  "rack"?: string | null;
  "source"?: string | null;
  "url"?: string | null;
})[];
  "missing": string[];
  "partitions": ({
  "name": string | null;
})[];
  "problems": string[];
  "racks": ({
  "name": string | null;
})[];
  "schema": number;
  "store": {
  "error": string | null;
  "has_rules": boolean;
  "url": string | null;
};
  "time": string;
  "totals": Record<string, number>;
  "version": string;
  "workloads": ({
  "namespace"?: string | null;
  "pod"?: string | null;
  "slurm_job"?: string | null;
})[];
};

export type FleetFind = {
  "hosts": {
  "chips": number;
  "host": string;
  "partition"?: string;
  "rack"?: string;
}[];
  "request": Record<string, unknown>;
  "reserved": false;
  "schema": number;
  "store": string;
};

export type History = {
  "devices": ({
  "fields": Record<string, (number | null)[]>;
  "id": number;
})[];
  "fields": string[];
  "marks": ({
  "event": "started" | "appeared" | "left" | "state" | "health" | "clock" | "gap" | "unreadable" | "readable" | "alert" | "receiver";
  "id": number;
  "time": string;
})[];
  "points": number;
  "schema": 1;
  "start": string;
  "step_s": number;
  "time": string;
  "version": string;
};

export type MemoryOfKind = {
  "allocated": number | null;
  "capacity": number | null;
  "count": number | null;
  "free": number | null;
  "largest_free_per_bank": number | null;
  "missing"?: Record<string, string>;
  "peak": number | null;
  "peak_time": string | null;
  "source": any;
  "total": number | null;
  "used": number | null;
};

export type MemoryOfProcess = {
  "allocated": number | null;
  "count": number | null;
  "missing"?: Record<string, string>;
  "peak": number | null;
  "peak_time": string | null;
  "source": any;
  "used": number | null;
};

export type Mesh = {
  "columns": number;
  "host": string;
  "layout": string;
  "links": {
  "count": number;
  "devices": number[];
}[];
  "origin": string;
  "rows": number;
  "schema": 1;
  "tiles": ({
  "column": number;
  "device": number;
  "row": number;
  "tray": number | null;
})[];
  "time": string;
  "version": string;
};

export type Problem = {
  "detail": string;
  "status": number;
  "title": string;
  "type": string;
};

export type Process = {
  "command": any;
  "container": any;
  "container_name": any;
  "cpu": number | null;
  "job": any;
  "job_name": any;
  "job_step": any;
  "last_launch": string | null;
  "launches": number | null;
  "launches_per_s": any;
  "memory": number | null;
  "missing"?: Record<string, string>;
  "name": any;
  "namespace": any;
  "overlap_bytes": number | null;
  "parent": any;
  "pid": any;
  "pod": any;
  "pod_name": any;
  "rss": number | null;
  "source": any;
  "start_time": string | null;
  "status": any;
  "uid": any;
  "user": any;
};

export type Processes = {
  "host": string;
  "origin": string;
  "processes": Process[];
  "schema": 1;
  "time": string;
  "version": string;
};

export type Recorded = {
  "count": number;
  "events": ({
  "op": "alloc" | "free" | "ref" | "ref" | "free_all" | "oom" | "clash" | "open" | "close" | "mark" | "exit" | "exec" | "overrun";
  "pid": number;
  "time": string | null;
})[];
  "recorders": number;
  "schema": 1;
  "version": string;
};

export type Snapshot = {
  "allocators": Record<string, unknown>[];
  "devices": Device[];
  "host": string;
  "origin": string;
  "problems": Record<string, unknown>[];
  "processes": Process[];
  "processes_age_s": number;
  "schema": 1;
  "time": string;
  "version": string;
};
