// All devices at a glance, worst first; below them who uses them and what changed.
import { computed } from "@preact/signals";
import { memo } from "./memo";
import { address, route, set } from "./router";
import { events, fields, past, snapshot } from "./store";
import { clock, lookup, percent, quantity, reason, size, watts } from "./format";
import { Badge, Bar, boardName, condition, describe, eventLevel, heat, isWell, Panel, rank } from "./parts";
import { AlertList, firing } from "./events";
import { ProcessTable } from "./processes";
import { Sparkline } from "./sparkline";
import { Trends } from "./trend";
import { hasSource } from "./device";
import type { Device, FieldRow } from "./types";

const sorted = computed(() => [...(snapshot.value?.devices ?? [])].sort((a, b) => Math.min(rank(a), 5) - Math.min(rank(b), 5) || a.id - b.id));

const sum = (devices: Device[], get: (device: Device) => number | null): number | null => {
  const known = devices.map(get).filter((value) => value !== null);
  return known.length ? known.reduce((all, value) => all + value, 0) : null;
};

export function Overview() {
  const current = snapshot.value;
  if (!current) return null;
  const devices = sorted.value;
  const isFull = route.value.query.get("charts") === "all";
  const density = devices.length <= 8 ? "roomy" : devices.length <= 48 || isFull ? "dense" : "tiny";
  const rows = isFull ? charted.value : null;
  if (rows) past.want(rows.map(({ name }) => name));
  const boards = new Set(devices.map(({ board }) => board));
  const board = boards.size === 1 && density !== "roomy" ? devices[0]!.board : null;
  return (
    <>
      <h1 class="hidden">Overview of {current.host}</h1>
      <Summary devices={devices} />
      {firing.value.length > 0 && (
        <Panel title="Alerts" extra={<a href={address("events")}>All alerts</a>}>
          <AlertList alerts={firing.value} />
        </Panel>
      )}
      <section aria-label="Devices">
        <div class="tiles-head">
          <h2>
            Devices <small>{board && `${devices.length} x ${board}, `}worst first</small>
          </h2>
          <button type="button" aria-pressed={isFull} onClick={() => set("charts", isFull ? null : "all")}>
            All charts
          </button>
        </div>
        <ul class={`tiles ${density}${isFull ? " full" : ""}${board ? " alike" : ""}`}>
          {devices.map((device) => (
            <Tile key={device.id} device={device} density={density} rows={rows} launches={launches.value.get(device.id) ?? null} />
          ))}
        </ul>
        {devices.length === 0 && <p class="empty">No Tenstorrent device was found. Run <code>ttmon doctor</code> on the machine.</p>}
      </section>
      <Trends />
      <div class="columns">
        <Panel title="Processes" extra={<a href={address("processes")}>All {current.processes.length}</a>}>
          <ProcessTable processes={current.processes} limit={8} brief />
        </Panel>
        <Panel title="Recent events" extra={<a href={address("events")}>All events</a>}>
          <RecentEvents />
        </Panel>
      </div>
    </>
  );
}

function Summary({ devices }: { devices: Device[] }) {
  const unhealthy = devices.filter((device) => !isWell(device)).length;
  const used = sum(devices, (device) => device.memory.used);
  const total = sum(devices, (device) => device.memory.total);
  const power = sum(devices, (device) => device.power);
  const limit = sum(devices, (device) => (device.power == null ? null : device.power_limit));
  const hottest = devices.reduce<Device | null>((hot, device) => ((device.temperature ?? -1) > (hot?.temperature ?? -1) ? device : hot), null);
  return (
    <dl class="summary">
      <div class={unhealthy ? "bad" : "good"}>
        <dt>Devices</dt>
        <dd>
          <b class="num">{devices.length}</b> {unhealthy ? <strong>{unhealthy} unhealthy</strong> : devices.length > 0 && <span class="well">✓ all healthy</span>}
        </dd>
      </div>
      <div>
        <dt>DRAM</dt>
        <dd>
          <b class="num">{percent(used, total)}</b> {size(used)} of {size(total)}
        </dd>
      </div>
      <div>
        <dt>Power</dt>
        <dd>
          <b class="num">{watts(power)}</b> {limit ? `of ${watts(limit)}` : ""}
        </dd>
      </div>
      <div>
        <dt>Hottest</dt>
        <dd>
          <b class="num">{hottest?.temperature == null ? "N/A" : `${hottest.temperature.toFixed(0)} °C`}</b>{" "}
          {hottest?.temperature != null && <a href={address("device", hottest.id)}>device {hottest.id}</a>}
        </dd>
      </div>
      <div>
        <dt>Processes</dt>
        <dd>
          <b class="num">{snapshot.value!.processes.length}</b> <a href={address("processes")}>using devices</a>
        </dd>
      </div>
    </dl>
  );
}

/** Programs that the processes of a device start a second, where that is known. A process with several devices counts on each. */
const launches = computed(() => {
  const sums = new Map<number, number>();
  for (const { launches_per_s: rate, devices } of snapshot.value?.processes ?? []) {
    if (typeof rate === "number") for (const { id } of devices) if (id !== null) sums.set(id, (sums.get(id) ?? 0) + rate);
  }
  return sums;
});

interface TileProps {
  device: Device;
  density: string;
  launches: number | null;
  /** The fields to chart; without them the most important ones are. */
  rows: FieldRow[] | null;
}

/** Drawn again only when its device changed. */
const Tile = memo(function Tile({ device, density, rows, launches }: TileProps) {
  const { memory } = device;
  const why = (field: string) => device.missing?.[field];
  const isSilent = device.temperature == null && device.power == null;
  const names = device.processes.map((process) => process.name ?? `pid ${process.pid}`);
  const untracked = memory.untracked_processes ?? 0;
  return (
    <li class={`tile ${condition(device)}`} data-device={device.id}>
      <a class="tile-head" href={address("device", device.id)}>
        <b class="tile-id num">{device.id}</b>
        <span class="tile-board">
          {boardName(device)}
          {device.via != null && <small> via {device.via}</small>}
        </span>
        <Badge device={device} />
      </a>
      {device.health_reasons.length > 0 && <p class="tile-why">{device.health_reasons.join("; ")}</p>}
      <Bar label="DRAM" part={memory.used} whole={memory.total} why={why("memory.used")} />
      <Bar label="L1" part={memory.l1_used} whole={memory.l1_total} why={why("memory.l1_used")} />
      {isSilent ? (
        <p class="tile-silent">No sensors: {why("temperature") === "remote_chip" ? "remote chip" : reason(why("temperature"))}</p>
      ) : (
        <div class="gauges">{rows ? rows.filter((row) => hasSource(device, row.name)).map((row) => <Gauge key={row.name} device={device} field={row.name} label={row.title} unit={row.unit} limit={limitOf(device, row.name)} plain={PLAIN.includes(row.unit)} />) : <MainGauges device={device} density={density} />}</div>
      )}
      {density !== "tiny" && device.state !== "gone" && (
        <p class="tile-users">
          <span class="names" title={names.join(", ")}>
            {names.length === 0 ? <span class="dim">{untracked ? "" : "idle"}</span> : names.slice(0, 2).join(", ") + (names.length > 2 ? ` +${names.length - 2}` : "")}
            {untracked > 0 && <span class="warn-text"> {untracked} untracked</span>}
          </span>
          {launches !== null && device.utilization == null && (
            <span class="launches num" title="Programs started a second by the processes of this device; 0 may be a hang">
              {launches.toFixed(1)}
              <span class="long"> launches</span>/s
            </span>
          )}
        </p>
      )}
    </li>
  );
});

/** What a tile shows unless all charts are asked for. Utilization is known with `--deep`. */
function MainGauges({ device, density }: { device: Device; density: string }) {
  const hasUtilization = device.utilization != null;
  return (
    <>
      <Gauge device={device} field="temperature" label="Temp" unit="C" limit={device.temperature_limit} />
      <Gauge device={device} field="power" label="Power" unit="W" limit={device.power_limit} />
      {hasUtilization && density !== "tiny" && <Gauge device={device} field="utilization" label="Utilization" unit="ratio" limit={1} plain />}
      {density === "roomy" && !hasUtilization && <Gauge device={device} field="pcie_to_device_words_per_s" label="PCIe in" unit="words/s" show={device.pcie_to_device_bytes_per_s} showUnit="B/s" />}
      {(density === "roomy" || (hasUtilization && density === "dense")) && <Gauge device={device} field="aiclk_mhz" label="Clock" unit="MHz" limit={device.aiclk_limit_mhz} plain />}
    </>
  );
}

/** Units of what may reach its limit. */
const PLAIN = ["MHz", "V", "B"];

/** Every field with a unit whose past is kept: those of the charts first. */
const charted = computed<FieldRow[]>(() => {
  const charts = (fields.value?.charts ?? []).map(({ field, title, unit }) => ({ name: field, title, unit }) as FieldRow);
  const others = (fields.value?.device ?? []).filter((row) => row.kept && row.unit !== "" && row.unit !== "count" && !charts.some(({ name }) => name === row.name));
  return [...charts, ...others];
});

function limitOf(device: Device, field: string): number | null {
  const chart = fields.value?.charts.find((one) => one.field === field);
  const name = chart ? chart.limit : `${field}_limit`;
  return name ? ((lookup(device, name) as number | null | undefined) ?? null) : null;
}

interface GaugeProps {
  device: Device;
  field: string;
  label: string;
  unit: string;
  limit?: number | null;
  /** Reaching the limit is nothing to worry about. */
  plain?: boolean;
  show?: number | null;
  showUnit?: string;
}

function Gauge({ device, field, label, unit, limit, plain, show, showUnit }: GaugeProps) {
  const value = (lookup(device, field) ?? null) as number | null;
  const text = show != null ? quantity(show, showUnit!) : quantity(value, unit);
  const share = value != null && limit && !plain ? value / limit : null;
  return (
    <div class="gauge" title={value == null ? `${label}: ${reason(device.missing?.[field])}` : limit ? `${label}: ${text}, limit ${quantity(limit, unit)}` : `${label}: ${text}`}>
      <span class="gauge-label">{label}</span>
      <span class={`num ${share != null ? `text-${heat(share)}` : ""}`}>{text}</span>
      <Sparkline device={device.id} field={field} limit={limit ?? null} label={`${label} of device ${device.id}, last 5 minutes`} />
    </div>
  );
}

export function RecentEvents() {
  const recent = events.value.slice(-8).reverse();
  if (!recent.length) return <p class="empty">No events since the service started.</p>;
  return (
    <ol class="events">
      {recent.map((event) => (
        <li key={event.id}>
          <time class="num" dateTime={event.time}>
            {clock(event.time)}
          </time>
          <span class={`dot ${eventLevel(event)}`} aria-hidden="true" />
          <span>{event.device != null ? <a href={address("device", event.device)}>{describe(event)}</a> : describe(event)}</span>
        </li>
      ))}
    </ol>
  );
}
