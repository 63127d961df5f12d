// A run report or a recording that is part of this file: the same components, no service.
import { events, fields, past, snapshot } from "./store";
import { clock, duration, number, percent, ranges, size } from "./format";
import { keepHistory } from "./history";
import { keepMesh } from "./mesh";
import { Bar, Panel } from "./parts";
import type { Buffer, Fields, ServiceEvent, HistoryDocument, MeshDocument, Snapshot } from "./types";

interface RunKind {
  peak: number | null;
  peak_time_s: number | null;
  peak_is_at_least?: boolean;
  capacity: number | null;
  at_end: number | null;
}

interface RunDevice {
  id?: number;
  unmapped?: string;
  kinds: Record<string, RunKind>;
  leaked: { count: number; bytes: number };
}

interface Group {
  device: number | string;
  kind: string;
  tag?: string | null;
  op?: string | null;
  bytes: number;
  count: number;
}

interface Refusal {
  time_s: number | null;
  kind?: string;
  asked?: number | null;
  banks?: number | null;
  per_bank?: number | null;
  free_per_bank?: number | null;
  largest_free_per_bank?: number | null;
  fits_without_fragmentation?: boolean | null;
  verdict?: string;
}

interface Line {
  file?: string;
  line?: number;
  function?: string;
}

interface RunDocument {
  version: string;
  command: string[] | string;
  start_time: string;
  exit: number | null;
  signal: number | null;
  signal_name?: string | null;
  duration_s: number;
  allocations: number | null;
  exact: boolean;
  overhead_ratio: number | null;
  devices: RunDevice[];
  peak_set: Group[];
  leaks: Buffer[];
  leaked: { count: number; bytes: number };
  growth_bytes: number | null;
  oom: Refusal[];
  clashes: Refusal[];
  by_line?: (Group & { line?: Line | null })[];
  phases?: { name: string; count: number; duration_s: number | null }[];
}

type Stored =
  | { kind: "run"; document: RunDocument }
  | { kind: "recording"; snapshot: Snapshot; fields: Fields; history: HistoryDocument; mesh: MeshDocument; marks: ServiceEvent[]; frames: number; is_cut: boolean };

/** Reads the data of this file into the state of the page. */
export function loadReport(): Stored {
  const stored = JSON.parse(document.getElementById("data")!.textContent ?? "") as Stored;
  if (stored.kind === "recording") {
    fields.value = stored.fields;
    snapshot.value = stored.snapshot;
    events.value = stored.marks;
    past.fill(stored.history);
    past.isFilled = true;
    keepMesh(stored.mesh);
    keepHistory({ ...stored.history, marks: stored.marks });
  }
  return stored;
}

/** What a recording is of, above every view. */
export function RecordingNote({ stored }: { stored: Stored }) {
  if (stored.kind !== "recording") return null;
  const { history, frames, is_cut } = stored;
  const end = Date.parse(history.start) + history.step_s * 1000 * Math.max(0, history.points - 1);
  return (
    <p class="hint">
      Recording of {history.start.slice(0, 10)}, {clock(history.start)} to {clock(end)}: {number(frames)} frames{is_cut ? "; its end was cut off" : ""}. Tables show its last frame.
    </p>
  );
}

const commandOf = (run: RunDocument): string => (Array.isArray(run.command) ? run.command.join(" ") : run.command);
const nameOf = (device: RunDevice): string => (device.id != null ? `Device ${device.id}` : `Chip ${device.unmapped} (not on this host)`);

export function Report({ report: run }: { report: RunDocument }) {
  const isGood = run.exit === 0;
  const ending = run.signal != null ? `ended by ${run.signal_name ?? `signal ${run.signal}`}` : `exit ${run.exit}`;
  return (
    <>
      <header class="top">
        <span class="brand">ttmon</span>
        <span class="host">run report <small>{run.start_time.slice(0, 19).replace("T", " ")} UTC, ttmon {run.version}</small></span>
      </header>
      <main id="main">
        <h1 class="command"><code>{commandOf(run)}</code></h1>
        <dl class="summary">
          <div class={isGood ? "good" : "bad"}><dt>Result</dt><dd><b>{ending}</b></dd></div>
          <div><dt>Duration</dt><dd><b class="num">{duration(run.duration_s)}</b></dd></div>
          <div><dt>Allocations</dt><dd><b class="num">{number(run.allocations)}</b> {run.exact ? "" : "not exact"}</dd></div>
          <div class={run.leaked.bytes ? "bad" : ""}><dt>Never freed</dt><dd><b class="num">{size(run.leaked.bytes)}</b> {run.leaked.count} buffers</dd></div>
          <div><dt>Growth since the last mark</dt><dd><b class="num">{run.growth_bytes == null ? "N/A" : size(run.growth_bytes)}</b></dd></div>
          <div><dt>Time in tracking</dt><dd><b class="num">{run.overhead_ratio == null ? "N/A" : `${(run.overhead_ratio * 100).toFixed(1)}%`}</b></dd></div>
        </dl>
        <Refusals title="Out of memory" refusals={run.oom} />
        <Refusals title="Clashes of circular buffers" refusals={run.clashes} />
        <Panel title="Peaks">
          {run.devices.length === 0 && <p class="empty">Nothing was tracked.</p>}
          <div class="memory-grid">
            {run.devices.map((device) => (
              <DevicePeaks key={nameOf(device)} device={device} />
            ))}
          </div>
        </Panel>
        <Groups title="What was there at the peaks" groups={run.peak_set} name={(group) => group.tag ?? group.op ?? "no tag"} />
        {run.by_line && <Groups title="By line" groups={run.by_line} name={(group) => lineOf((group as { line?: Line | null }).line)} />}
        {run.phases && run.phases.length > 0 && (
          <Panel title="Phases">
            <ul class="groups">
              {run.phases.map((phase) => (
                <li key={phase.name}><span class="group-name">{phase.name}</span><span class="num">{number(phase.count)}</span><span class="num">{phase.duration_s == null ? "" : duration(phase.duration_s)}</span></li>
              ))}
            </ul>
          </Panel>
        )}
        {run.leaks.length > 0 && <Leaks leaks={run.leaks} />}
      </main>
    </>
  );
}

const lineOf = (line: Line | null | undefined): string => (line ? `${line.file}:${line.line}` : "unknown line");

function DevicePeaks({ device }: { device: RunDevice }) {
  return (
    <section aria-label={nameOf(device)}>
      <h3>{nameOf(device)}</h3>
      {Object.entries(device.kinds).filter(([, kind]) => kind.peak).map(([name, kind]) => (
        <div key={name} class="peak">
          <Bar label={name} part={kind.peak} whole={kind.capacity ?? kind.peak} />
          <small class="dim">
            {kind.peak_is_at_least ? "at least, " : ""}
            {kind.peak_time_s == null ? "" : `peak after ${duration(kind.peak_time_s)}, `}
            {kind.at_end ? `${size(kind.at_end)} at the end` : "all freed at the end"}
          </small>
        </div>
      ))}
    </section>
  );
}

function Groups({ title, groups, name }: { title: string; groups: Group[]; name: (group: Group) => string }) {
  const rows = [...groups].sort((a, b) => b.bytes - a.bytes);
  const top = rows[0]?.bytes ?? 1;
  if (!rows.length) return null;
  return (
    <Panel title={title}>
      <ul class="groups">
        {rows.slice(0, 40).map((group, index) => (
          <li key={index}>
            <span class="group-name" title={name(group)}>{name(group)}</span>
            <span class="group-kind">{group.kind} {group.device}</span>
            <span class="track" aria-hidden="true"><span class="fill plain" style={{ width: `${(group.bytes / top) * 100}%` }} /></span>
            <span class="num">{size(group.bytes)}</span>
            <span class="num dim">{number(group.count)}</span>
          </li>
        ))}
      </ul>
      {rows.length > 40 && <p class="more">{rows.length - 40} smaller groups</p>}
    </Panel>
  );
}

function Refusals({ title, refusals }: { title: string; refusals: Refusal[] }) {
  if (!refusals.length) return null;
  return (
    <Panel title={title}>
      <ul class="alerts" role="list">
        {refusals.map((refusal, index) => (
          <li key={index} class="bad">
            <b>{size(refusal.asked)} {refusal.kind}</b> refused{refusal.time_s == null ? "" : ` after ${duration(refusal.time_s)}`}: {size(refusal.per_bank)} in each of {number(refusal.banks)} banks;{" "}
            {size(refusal.free_per_bank)} free per bank, largest block {size(refusal.largest_free_per_bank)}
            {refusal.fits_without_fragmentation ? ": would fit if not fragmented" : ""} {refusal.verdict ? `(${refusal.verdict.replaceAll("_", " ")})` : ""}
          </li>
        ))}
      </ul>
    </Panel>
  );
}

function Leaks({ leaks }: { leaks: Buffer[] }) {
  const total = leaks.reduce((sum, buffer) => sum + buffer.size, 0);
  return (
    <Panel title="Never freed" extra={<span class="count">{leaks.length} listed</span>}>
      <div class="scroll tall" tabIndex={0} role="region" aria-label="Table of buffers never freed">
        <table class="grid small">
          <thead>
            <tr><th scope="col">Address</th><th scope="col" class="right">Size</th><th scope="col" class="right">Share</th><th scope="col">Kind</th><th scope="col">Dev</th><th scope="col" class="right">Age</th><th scope="col">Tag or operation</th></tr>
          </thead>
          <tbody>
            {leaks.slice(0, 200).map((buffer, index) => (
              <tr key={index}>
                <td class="num">{buffer.address}</td>
                <td class="right num">{size(buffer.size)}</td>
                <td class="right num">{percent(buffer.size, total)}</td>
                <td>{buffer.kind}</td>
                <td class="num">{ranges(buffer.devices)}</td>
                <td class="right num">{buffer.age_s == null ? "N/A" : duration(buffer.age_s)}</td>
                <td class="tag" title={buffer.tag ?? buffer.op ?? undefined}>{buffer.tag ?? buffer.op ?? ""}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Panel>
  );
}
