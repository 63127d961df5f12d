// Who uses the devices: a table to search and sort.
import { useComputed } from "@preact/signals";
import { address, route, set } from "./router";
import { snapshot } from "./store";
import { number, percent, ranges, reason, size } from "./format";
import { TokenHint } from "./token";
import type { Process } from "./types";

interface Column {
  key: string;
  title: string;
  help: string;
  isNumber?: boolean;
  /** Left out of the short table. */
  more?: boolean;
  value(process: Process): string | number | null;
  text?(process: Process): string;
}

const used = (process: Process, kind: string): number | null => process.kinds[kind]?.used ?? null;
const bytes = (value: string | number | null): string => size(value as number | null);

const COLUMNS: Column[] = [
  { key: "pid", title: "PID", help: "Process id", isNumber: true, value: (process) => process.pid, text: (process) => String(process.pid) },
  { key: "user", title: "User", help: "Owner", value: (process) => process.user },
  { key: "name", title: "Name", help: "Program", value: (process) => process.name },
  { key: "devices", title: "Dev", help: "Devices in use", value: (process) => process.devices[0]?.id ?? null, text: (process) => ranges(process.devices.map((device) => device.id)) },
  { key: "dram", title: "DRAM", help: "DRAM in use, trace included", isNumber: true, value: (process) => process.memory as number | null },
  { key: "l1", title: "L1", help: "L1 buffers", isNumber: true, value: (process) => used(process, "l1") },
  { key: "cb", title: "CB", help: "Circular buffers", isNumber: true, more: true, value: (process) => used(process, "cb") },
  { key: "cpu", title: "CPU", help: "Processor time; 100% is one core", isNumber: true, more: true, value: (process) => process.cpu as number | null, text: (process) => percent(process.cpu as number | null, 1) },
  { key: "rss", title: "Host RSS", help: "Host memory", isNumber: true, more: true, value: (process) => process.rss as number | null },
  { key: "launches", title: "Launches/s", help: "Programs started on devices per second; 0 may be a hang", isNumber: true, more: true, value: (process) => process.launches_per_s as number | null, text: (process) => number(Math.round((process.launches_per_s as number) * 10) / 10) },
  { key: "where", title: "Container / job", help: "Pod, container or Slurm job", more: true, value: (process) => where(process) },
  { key: "status", title: "Status", help: "How its memory is known", value: (process) => process.status },
  { key: "command", title: "Command", help: "Command line", more: true, value: (process) => process.command },
];

function where(process: Process): string | null {
  const names = process as Process & { pod_name?: string | null; container_name?: string | null };
  const job = process.job ? `job ${process.job}` : null;
  return names.pod_name ?? names.container_name ?? process.pod ?? process.container?.slice(0, 12) ?? job;
}

const FIELD: Record<string, string> = { dram: "memory", l1: "kinds.l1.used", cb: "kinds.cb.used", launches: "launches_per_s", where: "container" };

interface Props {
  processes: Process[];
  limit?: number;
  brief?: boolean;
  sort?: string;
  reverse?: boolean;
  onSort?: (key: string) => void;
}

export function ProcessTable({ processes, limit, brief, sort = "dram", reverse = false, onSort }: Props) {
  const columns = COLUMNS.filter((column) => !brief || !column.more);
  const by = COLUMNS.find((column) => column.key === sort) ?? COLUMNS[4]!;
  const rows = [...processes].sort((a, b) => compare(by, a, b) * (reverse ? -1 : 1) || a.pid - b.pid);
  const shown = limit ? rows.slice(0, limit) : rows;
  if (!rows.length) return <p class="empty">No process uses a device.</p>;
  return (
    <>
      <div class="scroll" tabIndex={0} role="region" aria-label="Process table">
        <table class="grid">
          <thead>
            <tr>
              {columns.map((column) => (
                <th key={column.key} scope="col" class={column.isNumber ? "right" : ""} aria-sort={column === by && onSort ? (isDescending(by, reverse) ? "descending" : "ascending") : undefined} title={column.help}>
                  {onSort ? (
                    <button type="button" class="plain" onClick={() => onSort(column.key)}>
                      {column.title}
                      {column === by ? (isDescending(by, reverse) ? " ▼" : " ▲") : ""}
                    </button>
                  ) : (
                    column.title
                  )}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {shown.map((process) => (
              <tr key={process.pid}>
                {columns.map((column) => (
                  <Cell key={column.key} column={column} process={process} />
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {shown.length < rows.length && (
        <p class="more">
          <a href={address("processes")}>{rows.length - shown.length} more</a>
        </p>
      )}
    </>
  );
}

const isDescending = (column: Column, reverse: boolean): boolean => !!column.isNumber !== reverse;

function compare(column: Column, a: Process, b: Process): number {
  const [left, right] = [column.value(a), column.value(b)];
  if (left === null || right === null) return left === right ? 0 : left === null ? 1 : -1;
  const order = typeof left === "number" && typeof right === "number" ? left - right : String(left).localeCompare(String(right));
  return column.isNumber ? -order : order;
}

function Cell({ column, process }: { column: Column; process: Process }) {
  const value = column.value(process);
  const text = value === null ? "N/A" : column.text ? column.text(process) : column.isNumber ? bytes(value) : String(value);
  const missing = value === null ? reason(process.missing?.[FIELD[column.key] ?? column.key]) : null;
  const className = `${column.isNumber ? "right num" : `cell-${column.key}`}${value === null ? " dim" : ""}`;
  if (column.key === "where" && value === null) return <td class="cell-where" />;
  return (
    <td class={className} title={missing ?? (column.isNumber ? undefined : text)}>
      {column.key === "devices" && value !== null ? <a href={address("device", value)}>{text}</a> : text}
    </td>
  );
}

export function Processes() {
  const all = snapshot.value?.processes ?? [];
  const query = useComputed(() => route.value.query.get("q") ?? "");
  const words = query.value.toLowerCase().split(/\s+/).filter(Boolean);
  const found = all.filter((process) => {
    const text = COLUMNS.map((column) => (column.text ? column.text(process) : column.value(process)) ?? "").join(" ").toLowerCase();
    return words.every((word) => text.includes(word));
  });
  const sort = route.value.query.get("sort") ?? "dram";
  const reverse = route.value.query.get("reverse") === "1";
  const hidden = all.some((process) => process.missing?.["command"] === "no_permission");
  return (
    <>
      <div class="view-head">
        <h1>Processes</h1>
        <label class="search">
          <span class="hidden">Search processes</span>
          <input type="search" placeholder="Search: name, user, pid, pod …" value={query.value} onInput={(event) => set("q", event.currentTarget.value)} />
        </label>
        <span class="count" role="status">
          {found.length} of {all.length}
        </span>
      </div>
      {hidden && <TokenHint what="Command lines, processor time and host memory" />}
      <section class="panel" aria-label="Processes">
        <ProcessTable
          processes={found}
          sort={sort}
          reverse={reverse}
          onSort={(key) => {
            set("reverse", key === sort && !reverse ? "1" : null);
            set("sort", key);
          }}
        />
      </section>
    </>
  );
}
