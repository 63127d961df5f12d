// All hosts of a fleet, as the store of `ttmon serve --fleet` knows them. The service asks the store; the page never does.
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { route, set } from "./router";
import { api, fields } from "./store";
import { duration, size } from "./format";
import type { Fields } from "./types";

type Row = Record<string, string | number | null>;

interface FleetDocument {
  time: string;
  store: { url: string | null; error: string | null; has_rules: boolean };
  host_count: number;
  totals: Record<string, number>;
  hosts: Row[];
  missing: string[];
  racks: Row[];
  partitions: Row[];
  workloads: Row[];
  alerts: Record<string, string>[];
}

/** Recording rules are evaluated every 30 s, and hosts scraped every 15 s. */
const REFRESH_MS = 15_000;
const ROWS = 200;

const found = signal<FleetDocument | null>(null);
const problem = signal<string | null>(null);
const asked = signal(0);

/** Whether the service was started with --fleet. */
export function hasFleet(): boolean {
  return (fields.value as (Fields & { fleet?: boolean }) | null)?.fleet === true;
}

async function load(abort: AbortSignal) {
  try {
    found.value = await api<FleetDocument>("/api/v1/fleet", abort);
    problem.value = null;
    asked.value = Date.now();
  } catch (error) {
    if (!abort.aborted) problem.value = error instanceof Error ? error.message : String(error);
  }
}

const number = (value: unknown): string => (typeof value === "number" ? String(Math.round(value)) : "–");
const bytes = (value: unknown): string => (typeof value === "number" ? size(value) : "–");
const share = (row: Row): string => `${bytes(row.dram_used)} / ${bytes(row.dram_total)}`;

const GROUPS = [
  ["", "Hosts"],
  ["racks", "Racks"],
  ["partitions", "Partitions"],
  ["workloads", "Jobs and pods"],
] as const;

function Hosts({ rows, count }: { rows: Row[]; count: number }) {
  return (
    <table>
      <caption class="hidden">Hosts, worst first</caption>
      <thead>
        <tr>
          {["Host", "Rack", "Partition", "Chips", "Held", "Idle", "Unhealthy", "DRAM", "Core-rail power", "Hottest", "Age"].map((title) => (
            <th key={title} scope="col">{title}</th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.slice(0, ROWS).map((row) => (
          <tr key={String(row.host)}>
            <th scope="row">{row.url ? <a href={String(row.url)} rel="noreferrer">{row.host}</a> : row.host}</th>
            <td>{row.rack}</td>
            <td>{row.partition}</td>
            <td>{number(row.chips)}</td>
            <td>{number(row.held)}</td>
            <td>{number(row.idle_held)}</td>
            <td class={Number(row.critical) > 0 ? "bad" : ""}>{number(row.unhealthy)}</td>
            <td>{share(row)}</td>
            <td>{number(row.power)} W</td>
            <td>{number(row.temperature_max)} °C</td>
            <td>{typeof row.age_s === "number" ? duration(Math.round(row.age_s)) : "–"}</td>
          </tr>
        ))}
      </tbody>
      {count > ROWS && <tfoot><tr><td colSpan={11}>{count - ROWS} more hosts: ttmon fleet --limit N</td></tr></tfoot>}
    </table>
  );
}

function Group({ rows, isWorkloads }: { rows: Row[]; isWorkloads: boolean }) {
  if (!rows.length) return <p class="empty">None is known to the store.</p>;
  const name = (row: Row) => (isWorkloads ? (row.slurm_job ? `job ${row.slurm_job}` : `${row.namespace}/${row.pod}`) : String(row.name));
  return (
    <table>
      <thead>
        <tr>
          <th scope="col">Name</th>
          <th scope="col">Chips</th>
          {isWorkloads ? <th scope="col">Chip hours, last hour</th> : <th scope="col">Held</th>}
          <th scope="col">DRAM</th>
          <th scope="col">Core-rail power</th>
        </tr>
      </thead>
      <tbody>
        {rows.slice(0, ROWS).map((row) => (
          <tr key={name(row)}>
            <th scope="row">{name(row)}</th>
            <td>{number(row.chips)}</td>
            <td>{isWorkloads ? (typeof row.held_seconds_1h === "number" ? (row.held_seconds_1h / 3600).toFixed(1) : "–") : number(row.held)}</td>
            <td>{isWorkloads ? bytes(row.dram_used) : share(row)}</td>
            <td>{number(row.power)} W</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

export function Fleet() {
  useEffect(() => {
    const abort = new AbortController();
    void load(abort.signal);
    const timer = setInterval(() => void load(abort.signal), REFRESH_MS);
    return () => {
      abort.abort();
      clearInterval(timer);
    };
  }, []);
  const document = found.value;
  const by = route.value.query.get("by") ?? "";
  if (!document) return <p class="empty">{problem.value ?? "Asking the store …"}</p>;
  const { store, totals } = document;
  const rows = by === "racks" ? document.racks : by === "partitions" ? document.partitions : document.workloads;
  return (
    <section aria-label="Fleet">
      <h1>Fleet</h1>
      {store.error && <p class="bad" role="alert">The store {store.error}.</p>}
      {problem.value && <p class="bad" role="alert">{problem.value}; the data is {duration(Math.round((Date.now() - asked.value) / 1000))} old.</p>}
      <p>
        {document.host_count} hosts, {number(totals.chips)} chips, {number(totals.held)} held, {number(totals.unhealthy)} unhealthy,{" "}
        {bytes(totals.dram_used)} of {bytes(totals.dram_total)} DRAM, {number(totals.power)} W of core rails
        {document.missing.length > 0 && <strong>; no sample of {document.missing.length} hosts that were there an hour ago</strong>}
        {!store.has_rules && !store.error && "; the store has no recording rules, so that every query is slower"}
      </p>
      {document.alerts.length > 0 && (
        <ul>
          {document.alerts.slice(0, 20).map((alert, index) => (
            <li key={index}>{alert.severity}: {alert.alertname}, device {alert.device} of {alert.instance}</li>
          ))}
        </ul>
      )}
      <p role="group" aria-label="Group by">
        {GROUPS.map(([key, title]) => (
          <button key={key} type="button" aria-pressed={by === key} onClick={() => set("by", key || null)}>{title}</button>
        ))}
      </p>
      {by === "" ? <Hosts rows={document.hosts} count={document.host_count} /> : <Group rows={rows} isWorkloads={by === "workloads"} />}
    </section>
  );
}
