// All hosts of a fleet, as the store of `ttmon serve --fleet` knows them. The service asks the store; the page never does.
import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { route, set } from "./router";
import { api, fields, now } from "./store";
import { duration, number, percent, quantity, size, watts } from "./format";
import { Bar, Panel, Word } from "./parts";
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
/** After an error. */
const RETRY_MS = 3_000;
const ROWS = 200;
const ALERTS = 12;
/** A host whose newest sample is older has stopped answering. */
const OLD_S = 90;

/** The newest document with hosts. It stays while the store is down. */
const found = signal<FleetDocument | null>(null);
const problem = signal<string | null>(null);
const asked = signal(0);

/** Whether the service was started with --fleet. */
export function hasFleet(): boolean {
  return (fields.value as (Fields & { fleet?: boolean }) | null)?.fleet === true;
}

async function load(abort: AbortSignal) {
  try {
    const document = await api<FleetDocument>("/api/v1/fleet", abort);
    problem.value = document.store.error ? `The store ${document.store.error}` : null;
    if (document.store.error && found.value) return;
    found.value = document;
    asked.value = Date.now();
  } catch (error) {
    if (!abort.aborted) problem.value = error instanceof Error ? error.message : String(error);
  }
}

const value = (row: Row, key: string): number | null => (typeof row[key] === "number" ? (row[key] as number) : null);
const count = (row: Row, key: string): string => (value(row, key) === null ? "N/A" : number(Math.round(value(row, key)!)));

/** The word for a host. */
function condition(row: Row): string {
  if (Number(row.critical) > 0) return "critical";
  if (Number(row.unhealthy) > 0) return "warning";
  return Number(row.age_s) > OLD_S ? "stale" : "ok";
}

interface Column {
  title: string;
  isNumber?: boolean;
  isWide?: boolean;
  cell: (row: Row) => ComponentChildren;
}

const DRAM: Column = { title: "DRAM", isWide: true, cell: (row) => <Bar label="" name="DRAM" part={value(row, "dram_used")} whole={value(row, "dram_total")} why={undefined} /> };
const POWER: Column = { title: "Core-rail power", isNumber: true, cell: (row) => watts(value(row, "power")) };
const counted = (title: string, key: string): Column => ({ title, isNumber: true, cell: (row) => count(row, key) });
const text = (title: string, key: string): Column => ({ title, cell: (row) => row[key] });

const HOSTS: Column[] = [
  { title: "Host", cell: (row) => (row.url ? <a href={String(row.url)} rel="noreferrer" title={`The page of ${row.host}`}>{row.host}</a> : row.host) },
  { title: "Health", cell: (row) => <Word word={condition(row)} /> },
  text("Rack", "rack"),
  text("Partition", "partition"),
  counted("Chips", "chips"),
  counted("Held", "held"),
  counted("Held idle", "idle_held"),
  counted("Unhealthy", "unhealthy"),
  DRAM,
  POWER,
  { title: "Hottest", isNumber: true, cell: (row) => quantity(value(row, "temperature_max"), "C") },
  { title: "Age", isNumber: true, cell: (row) => (value(row, "age_s") === null ? "N/A" : duration(value(row, "age_s")!)) },
];

const GROUPED: Column[] = [text("Name", "name"), counted("Hosts", "hosts"), counted("Chips", "chips"), counted("Held", "held"), counted("Unhealthy", "unhealthy"), DRAM, POWER];

const WORKLOADS: Column[] = [
  { title: "Name", cell: workload },
  counted("Chips", "chips"),
  { title: "Chip hours, last hour", isNumber: true, cell: (row) => (value(row, "held_seconds_1h") === null ? "N/A" : (value(row, "held_seconds_1h")! / 3600).toFixed(1)) },
  { title: "DRAM", isNumber: true, cell: (row) => size(value(row, "dram_used")) },
  POWER,
];

const FREE: Column[] = [HOSTS[0]!, text("Rack", "rack"), text("Partition", "partition"), counted("Idle chips", "chips")];

function workload(row: Row): string {
  return row.slurm_job ? `job ${row.slurm_job}` : `${row.namespace}/${row.pod}`;
}

function Table({ name, columns, rows }: { name: string; columns: Column[]; rows: Row[] }) {
  if (!rows.length) return <p class="empty">None is known to the store.</p>;
  const side = (column: Column) => (column.isNumber ? "right" : "");
  return (
    <>
      <div class="scroll" tabIndex={0} role="region" aria-label={`Table of ${name.toLowerCase()}`}>
        <table class="grid">
          <thead>
            <tr>{columns.map((column) => <th key={column.title} scope="col" class={side(column)}>{column.title}</th>)}</tr>
          </thead>
          <tbody>
            {rows.slice(0, ROWS).map((row, index) => (
              <tr key={String(row.host ?? index)}>
                {columns.map((column) => {
                  const cell = column.cell(row);
                  return <td key={column.title} class={`${column.isNumber ? "right num" : ""}${column.isWide ? "wide" : ""}${cell === "N/A" ? " dim" : ""}`}>{cell}</td>;
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {rows.length > ROWS && <p class="more">{rows.length - ROWS} more; search for one, or run <code>ttmon fleet --limit N</code>.</p>}
    </>
  );
}

const free = signal<Row[] | null>(null);
const refusal = signal<string | null>(null);

/** Hosts with idle chips. */
function Free() {
  const { query } = route.value;
  const [chips, board, dram] = [query.get("chips") || "1", query.get("board") ?? "", query.get("free") ?? ""];
  useEffect(() => {
    const abort = new AbortController();
    const wanted = new URLSearchParams({ chips, free_dram: String(Math.round(Number(dram || 0) * 2 ** 30)) });
    if (board) wanted.set("board", board);
    api<{ hosts: Row[] }>(`/api/v1/fleet/find?${wanted}`, abort.signal)
      .then(({ hosts }) => {
        free.value = hosts;
        refusal.value = null;
      })
      .catch((error) => {
        if (!abort.signal.aborted) refusal.value = error.message;
      });
    return () => abort.abort();
  }, [chips, board, dram]);
  const field = (name: string, title: string, kept: string, isNumber = true) => (
    <label>
      {title} <input inputMode={isNumber ? "decimal" : "text"} size={5} value={kept} onChange={(event) => set(name, event.currentTarget.value || null)} />
    </label>
  );
  // The store's names of hosts are those of the other table, with links.
  const links = new Map(found.value?.hosts.map((row) => [row.host, row.url]));
  return (
    <>
      <div class="view-head">
        {field("chips", "Idle chips", chips)}
        {field("board", "Board", board, false)}
        {field("free", "Free DRAM of each, GB", dram)}
      </div>
      {refusal.value && <p class="hint bad" role="alert">{refusal.value}</p>}
      {free.value?.length === 0 && <p class="empty">No host has {chips} idle chips that fit.</p>}
      {free.value && free.value.length > 0 && <Table name="Hosts with idle chips" columns={FREE} rows={free.value.map((row) => ({ ...row, url: links.get(row.host!) ?? null }))} />}
      <p class="more">Nothing is reserved: another job may take these chips. Memory that is not known is not free.</p>
    </>
  );
}

const GROUPS = [
  ["", "Hosts"],
  ["racks", "Racks"],
  ["partitions", "Partitions"],
  ["workloads", "Jobs and pods"],
  ["free", "Free chips"],
] as const;

function Summary({ document }: { document: FleetDocument }) {
  const { totals, alerts } = document;
  const hosts = document.hosts.filter((row) => Number(row.unhealthy) > 0).length;
  const isBad = hosts > 0 || document.missing.length > 0;
  const troubles = [hosts > 0 && `${hosts} unhealthy`, document.missing.length > 0 && `${document.missing.length} missing`].filter(Boolean).join(", ");
  return (
    <dl class="summary">
      <div class={isBad ? "bad" : "good"}>
        <dt>Hosts</dt>
        <dd><b class="num">{number(document.host_count)}</b> {isBad ? <strong>{troubles}</strong> : document.host_count > 0 && <span class="well">✓ all healthy</span>}</dd>
      </div>
      <div>
        <dt>Chips</dt>
        <dd><b class="num">{number(totals.chips)}</b> {number(totals.held)} held</dd>
      </div>
      <div>
        <dt>DRAM</dt>
        <dd><b class="num">{percent(totals.dram_used, totals.dram_total)}</b> {size(totals.dram_used)} of {size(totals.dram_total)}</dd>
      </div>
      <div>
        <dt>Core-rail power</dt>
        <dd><b class="num">{watts(totals.power)}</b></dd>
      </div>
      <div class={alerts.some(({ severity }) => severity === "critical") ? "bad" : ""}>
        <dt>Alerts</dt>
        <dd><b class="num">{alerts.length}</b> firing</dd>
      </div>
    </dl>
  );
}

function Alerts({ alerts }: { alerts: Record<string, string>[] }) {
  return (
    <Panel title="Alerts">
      <ul class="alerts" role="list">
        {alerts.slice(0, ALERTS).map((alert, index) => {
          const level = alert.severity === "critical" ? "bad" : "warn";
          return (
            <li key={index} class={level}>
              <b>{alert.alertname}</b> <span class={`badge ${level}`}>{alert.severity}</span> device {alert.device} of {alert.instance}
            </li>
          );
        })}
      </ul>
      {alerts.length > ALERTS && <p class="more">{alerts.length - ALERTS} more</p>}
    </Panel>
  );
}

export function Fleet() {
  const isFailing = problem.value !== null;
  useEffect(() => {
    const abort = new AbortController();
    void load(abort.signal);
    const timer = setInterval(() => void load(abort.signal), isFailing ? RETRY_MS : REFRESH_MS);
    return () => {
      abort.abort();
      clearInterval(timer);
    };
  }, [isFailing]);
  const document = found.value;
  const by = route.value.query.get("by") ?? "";
  const wanted = (route.value.query.get("q") ?? "").toLowerCase();
  if (!document) return <p class="empty">{problem.value ?? "Asking the store …"}</p>;
  const groups: Record<string, [Column[], Row[]]> = { "": [HOSTS, document.hosts], racks: [GROUPED, document.racks], partitions: [GROUPED, document.partitions], workloads: [WORKLOADS, document.workloads] };
  const [columns, all] = groups[by] ?? groups[""]!;
  const shown = wanted ? all.filter((row) => [row.host, row.rack, row.partition, row.name, workload(row)].some((part) => String(part ?? "").toLowerCase().includes(wanted))) : all;
  const title = GROUPS.find(([key]) => key === by)?.[1] ?? "Hosts";
  return (
    <>
      <div class="view-head">
        <h1>Fleet</h1>
        <span role="group" aria-label="Group by" class="pager">
          {GROUPS.map(([key, name]) => (
            <button key={key} type="button" aria-pressed={by === key} onClick={() => set("by", key || null)}>{name}</button>
          ))}
        </span>
        {by !== "free" && (
          <label class="search">
            <span class="hidden">Search hosts</span>
            <input type="search" placeholder="Search" value={wanted} onInput={(event) => set("q", event.currentTarget.value || null)} />
          </label>
        )}
        {by !== "free" && <span class="count">{shown.length} of {by ? all.length : document.host_count}</span>}
      </div>
      {problem.value && (
        <p class="hint bad" role="alert">
          {problem.value}.{document.host_count > 0 && ` What is shown is ${duration((now.value - asked.value) / 1000)} old.`}
        </p>
      )}
      {!problem.value && !document.store.has_rules && <p class="hint">The store has no recording rules (<code>deploy/rules/ttmon-records.yml</code>): every query takes longer.</p>}
      <div class={`fleet${isFailing ? " old" : ""}`}>
        <Summary document={document} />
        {document.alerts.length > 0 && <Alerts alerts={document.alerts} />}
        {document.missing.length > 0 && <p class="hint bad">No sample now, and one an hour ago: {document.missing.slice(0, ALERTS).join(", ")}{document.missing.length > ALERTS && ` and ${document.missing.length - ALERTS} more`}</p>}
        <Panel title={by === "" ? "Hosts, worst first" : title}>{by === "free" ? <Free /> : <Table name={title} columns={columns} rows={shown} />}</Panel>
      </div>
    </>
  );
}
