// One device: charts, and every field with its value or the reason why there is none.
import { signal } from "@preact/signals";
import { address, route, set } from "./router";
import { api, fields, isReport, snapshot, tick } from "./store";
import { lookup, quantity, reason } from "./format";
import { Badge, Bar, boardName, Panel } from "./parts";
import { Chart } from "./chart";
import { usePolled } from "./poll";
import { ProcessTable } from "./processes";
import { reportHistory } from "./history";
import type { ChartRow, Device as Chip, FieldRow, ServiceEvent, HistoryDocument } from "./types";

const SPANS = [
  { name: "1m", seconds: 60, step: 1, every: 1 },
  { name: "10m", seconds: 600, step: 2, every: 2 },
  { name: "1h", seconds: 3600, step: 10, every: 10 },
  { name: "6h", seconds: 21600, step: 60, every: 60 },
  { name: "24h", seconds: 86400, step: 180, every: 60 },
];

const loaded = signal<{ id: number; span: string; document: HistoryDocument } | null>(null);

/** Asks for the past of this device, now and again as points are added. */
function usePast(id: number, span: (typeof SPANS)[number], charts: ChartRow[]) {
  const names = charts.map(({ field }) => field).join(",");
  const path = isReport || !names ? "" : `/api/v1/history?device=${id}&since=${span.seconds}&step=${span.step}&fields=${names}`;
  usePolled(path, Math.floor(tick.value / span.every), async (signal) => {
    loaded.value = { id, span: span.name, document: await api<HistoryDocument>(path, signal) };
  });
}

export function Device() {
  const devices = snapshot.value!.devices;
  const id = Number(route.value.id ?? devices[0]?.id ?? 0);
  const device = devices.find((one) => one.id === id);
  const span = SPANS.find(({ name }) => name === route.value.query.get("span")) ?? SPANS[1]!;
  const charts = device ? (fields.value?.charts ?? []).filter((chart) => hasSource(device, chart.field)) : [];
  usePast(id, span, charts);
  if (!device) {
    return (
      <div class="waiting">
        <h1>No device {route.value.id}</h1>
        <p>It may have been removed. <a href={address("overview")}>All devices</a></p>
      </div>
    );
  }
  const at = devices.indexOf(device);
  const past = isReport ? reportHistory(id) : loaded.value?.id === id ? loaded.value.document : null;
  const processes = snapshot.value!.processes.filter((process) => process.devices.some((used) => used.id === id));
  return (
    <>
      <div class="view-head">
        <h1>
          Device {id} <small>{boardName(device)}</small>
        </h1>
        <Badge device={device} />
        <span class="pager">
          <Step device={devices[at - 1]} text="‹" label="Previous device" />
          <label>
            <span class="hidden">Device</span>
            <select value={String(id)} onChange={(event) => (location.hash = address("device", event.currentTarget.value, Object.fromEntries(route.value.query)))}>
              {devices.map((one) => (
                <option key={one.id} value={String(one.id)}>{one.id} {boardName(one)}</option>
              ))}
            </select>
          </label>
          <Step device={devices[at + 1]} text="›" label="Next device" />
        </span>
        {!isReport && (
          <div class="spans" role="group" aria-label="Time span">
            {SPANS.map(({ name }) => (
              <button type="button" key={name} aria-pressed={span.name === name} onClick={() => set("span", name)}>
                {name}
              </button>
            ))}
          </div>
        )}
      </div>
      {device.health_reasons.length > 0 && <p class="hint bad">{device.health_reasons.join("; ")}</p>}
      <div class="wide-bars">
        <Bar label="DRAM" part={device.memory.used} whole={device.memory.total} why={device.missing?.["memory.used"]} />
        <Bar label="L1" part={device.memory.l1_used} whole={device.memory.l1_total} why={device.missing?.["memory.l1_used"]} />
      </div>
      <div class="charts">
        {charts.map((chart) => (
          <FieldChart key={chart.name} chart={chart} device={device} past={past} span={isReport ? null : span.seconds} />
        ))}
      </div>
      <Panel title="Processes on this device">
        <ProcessTable processes={processes} />
      </Panel>
      <AllFields device={device} />
    </>
  );
}

function Step({ device, text, label }: { device: Chip | undefined; text: string; label: string }) {
  return device ? (
    <a class="button" href={address("device", device.id, Object.fromEntries(route.value.query))} aria-label={label} title={label}>{text}</a>
  ) : (
    <span class="button dim" aria-hidden="true">{text}</span>
  );
}

/** Reasons that do not end by themselves: a chart would stay empty. */
const NEVER = ["no_source", "remote_chip", "not_on_this_arch", "not_exposed", "not_tracked", "needs_deep"];

export function hasSource(device: Chip, field: string): boolean {
  const unless = fields.value?.charts.find((chart) => chart.field === field)?.unless;
  if (unless && lookup(device, unless) != null) return false;
  const why = device.missing?.[field];
  return !why || !NEVER.includes(why);
}

function FieldChart({ chart, device, past, span }: { chart: ChartRow; device: Chip; past: HistoryDocument | null; span: number | null }) {
  const column = past?.devices.find(({ id }) => id === device.id)?.fields[chart.field] ?? [];
  const start = past ? Date.parse(past.start) / 1000 : 0;
  const times = column.map((_, index) => start + index * (past?.step_s ?? 1));
  const limit = chart.limit ? (lookup(device, chart.limit) as number | null) : null;
  const marks = (past?.marks ?? []).filter((mark: ServiceEvent) => mark.device === device.id || mark.event === "started");
  return <Chart title={chart.title} unit={chart.unit} times={times} span={span} series={[{ label: chart.title, values: column }]} limit={limit} marks={marks} />;
}

function AllFields({ device }: { device: Chip }) {
  const rows = fields.value?.device ?? [];
  const sections = [...new Set(rows.map(({ section }) => section))];
  const kinds = Object.entries(device.memory.kinds);
  return (
    <Panel title="All fields">
      <div class="sections">
        {sections.map((section) => (
          <table key={section} class="fields">
            <caption>{section[0] + section.slice(1).toLowerCase()}</caption>
            <tbody>
              {rows.filter((row) => row.section === section).map((row) => (
                <FieldLine key={row.name} row={row} value={lookup(device, row.name)} why={device.missing?.[row.name]} />
              ))}
            </tbody>
          </table>
        ))}
        {kinds.map(([kind, memory]) => (
          <table key={kind} class="fields">
            <caption>Memory kind {kind}</caption>
            <tbody>
              {(fields.value?.device_kind ?? []).map((row) => (
                <FieldLine key={row.name} row={row} value={lookup(memory, row.name)} why={device.missing?.[`memory.kinds.${kind}.${row.name}`]} />
              ))}
            </tbody>
          </table>
        ))}
      </div>
    </Panel>
  );
}

function FieldLine({ row, value, why }: { row: FieldRow; value: unknown; why: string | undefined }) {
  return (
    <tr title={row.help}>
      <th scope="row">{row.title}</th>
      {value == null ? <td class="dim">N/A <small>{reason(why)}</small></td> : <td class="num">{quantity(value, row.unit)}</td>}
    </tr>
  );
}
