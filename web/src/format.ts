// Numbers as the terminal prints them.

const SIZES = ["B", "KB", "MB", "GB", "TB", "PB"];
const NONE = "N/A";

/** Bytes in the unit of their size: `2.4GB`. */
export function size(bytes: number | null | undefined): string {
  if (bytes == null) return NONE;
  let value = bytes;
  let unit = 0;
  while (value >= 1023.95 && unit + 1 < SIZES.length) {
    value /= 1024;
    unit += 1;
  }
  return unit === 0 ? `${Math.round(value)}B` : `${value.toFixed(1)}${SIZES[unit]}`;
}

export function percent(part: number | null | undefined, whole: number | null | undefined): string {
  if (part == null || !whole) return NONE;
  const share = (part / whole) * 100;
  return share > 0 && share < 0.5 ? "<1%" : `${Math.round(share)}%`;
}

/** A number with the unit that the field table gives. */
export function quantity(value: unknown, unit: string): string {
  if (value == null) return NONE;
  if (Array.isArray(value)) return value.length ? value.join(", ") : "none";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value !== "number") return String(value);
  switch (unit) {
    case "B":
      return size(value);
    case "B/s":
      return `${size(value)}/s`;
    case "C":
      return `${value.toFixed(value < 100 ? 1 : 0)} °C`;
    case "W":
      return `${value.toFixed(value < 10 ? 1 : 0)} W`;
    case "V":
      return `${value.toFixed(3)} V`;
    case "A":
      return `${value.toFixed(0)} A`;
    case "ratio":
      return `${(value * 100).toFixed(0)}%`;
    case "words/s":
      return `${short(value)} words/s`;
    case "MHz":
    case "rpm":
      return `${Math.round(value)} ${unit}`;
    default:
      return unit === "count" || unit === "" ? number(value) : `${short(value)} ${unit}`;
  }
}

/** A sum of power, in one piece: `152 W`, `11.0 kW`. */
export function watts(value: number | null | undefined): string {
  if (value == null) return NONE;
  return value >= 10_000 ? `${(value / 1000).toFixed(1)}\u00a0kW` : `${Math.round(value)}\u00a0W`;
}

/** 12,345 or 3.25. */
export function number(value: number | null | undefined): string {
  if (value == null) return NONE;
  return Number.isInteger(value) ? value.toLocaleString("en-US") : value.toFixed(value < 10 ? 2 : 1);
}

/** 1.2 M. */
export function short(value: number): string {
  for (const [limit, letter] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]] as const) {
    if (Math.abs(value) >= limit) return `${(value / limit).toFixed(1)} ${letter}`;
  }
  return number(Math.round(value * 100) / 100);
}

/** 41s, 3m02s, 5h10m, 2d4h. */
export function duration(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  const two = (value: number) => String(value).padStart(2, "0");
  if (whole < 60) return `${whole}s`;
  if (whole < 3600) return `${Math.floor(whole / 60)}m${two(whole % 60)}s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)}h${two(Math.floor((whole % 3600) / 60))}m`;
  return `${Math.floor(whole / 86400)}d${Math.floor((whole % 86400) / 3600)}h`;
}

/** The time of day. */
export function clock(time: string | number | null | undefined): string {
  if (time == null) return NONE;
  const date = new Date(time);
  return date.toLocaleTimeString("en-GB", { hour12: false });
}

/** 0-3, 7. */
export function ranges(ids: (number | null)[]): string {
  const sorted = ids.filter((id): id is number => id != null).sort((a, b) => a - b);
  const parts: string[] = [];
  for (let i = 0; i < sorted.length; ) {
    let end = i;
    while (end + 1 < sorted.length && sorted[end + 1] === sorted[end]! + 1) end += 1;
    parts.push(end > i + 1 ? `${sorted[i]}-${sorted[end]}` : sorted.slice(i, end + 1).join(","));
    i = end + 1;
  }
  return parts.join(",") || "none";
}

const REASONS: Record<string, string> = {
  no_source: "nothing publishes it",
  not_tracked: "not tracked; start the program with ttmon run",
  not_on_this_arch: "not on this architecture",
  remote_chip: "remote chip: the host cannot read its sensors",
  no_permission: "hidden without the token",
  driver_too_old: "the driver is too old",
  timeout: "the read timed out",
  gone: "the device is missing",
  resetting: "the device is resetting",
  needs_deep: "needs ttmon serve --deep",
  first_sample: "a rate needs two samples",
  not_exposed: "the driver does not publish it",
  not_held: "no process uses the device",
  slow_dispatch: "not counted in slow dispatch",
  out_of_range: "the value read is not plausible",
  io_error: "the read failed",
};

/** Why a value is missing, for people. */
export function reason(code: string | undefined): string {
  return code ? (REASONS[code] ?? code.replaceAll("_", " ")) : "not available";
}

/** The value of a dotted name. */
export function lookup(item: unknown, path: string): unknown {
  return path.split(".").reduce<unknown>((value, name) => (value as Record<string, unknown> | null | undefined)?.[name], item);
}
