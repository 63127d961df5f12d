// Sums of all devices over the last five minutes.
import { isReport, past, snapshot, tick } from "./store";
import { Chart } from "./chart";
import type { Device } from "./types";

/** Adds the devices up, newest last. A second without any value is a gap. */
function total(devices: Device[], field: string): (number | null)[] {
  const columns = devices.map(({ id }) => past.of(id, field));
  const length = Math.max(0, ...columns.map((column) => column.length));
  const sums: (number | null)[] = new Array(length).fill(null);
  for (const column of columns) {
    const offset = length - column.length;
    column.forEach((value, index) => {
      if (value !== null) sums[offset + index] = (sums[offset + index] ?? 0) + value;
    });
  }
  return sums;
}

const CHARTS = [
  { field: "memory.used", title: "DRAM used, all devices", unit: "B" },
  { field: "power", title: "Power, all devices", unit: "W" },
];

export function Trends() {
  void tick.value;
  const current = snapshot.value!;
  const end = Date.parse(current.time) / 1000;
  return (
    <div class="columns">
      {CHARTS.map(({ field, title, unit }) => {
        const values = total(current.devices, field);
        if (values.every((value) => value === null)) return null;
        return <Chart key={field} title={title} unit={unit} span={isReport ? null : past.seconds} times={values.map((_, index) => end - values.length + 1 + index)} series={[{ label: title, values }]} />;
      })}
    </div>
  );
}
