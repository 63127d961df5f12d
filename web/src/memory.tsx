// Memory: how full each device is by kind and process, what takes it, and where it lies.
import { signal } from "@preact/signals";
import { address, route, set } from "./router";
import { api, isReport, snapshot, tick, token } from "./store";
import { number, percent, reason, size } from "./format";
import { Bar, boardName, Panel } from "./parts";
import { Groups, Largest, Maps, Recorded, Refused } from "./buffers";
import { usePolled } from "./poll";
import { HttpError } from "./stream";
import { TokenHint } from "./token";
import type { Device, MemoryDocument, Process, RecordedEvent } from "./types";

const KINDS = ["dram", "trace", "l1", "l1_small", "cb", "kernel"];
/** More devices are a table, a row each. */
const PANELS_MAX = 8;
/** Details are read from the programs' ledgers: not every second. */
const EVERY_S = 4;

type Details = { document: MemoryDocument | null; recorded: RecordedEvent[]; error: string | null };
const details = signal<Details>({ document: null, recorded: [], error: null });

function useDetails() {
  const key = isReport ? "" : (token.value ?? "");
  usePolled(key, Math.floor(tick.value / EVERY_S), async (signal) => {
    try {
      const [document, recorded] = await Promise.all([
        api<MemoryDocument>("/api/v1/memory?buffers=true&banks=true&blocks=true", signal),
        api<{ events: RecordedEvent[] }>("/api/v1/memory/events?limit=200", signal),
      ]);
      details.value = { document, recorded: recorded.events, error: null };
    } catch (error) {
      if (error instanceof HttpError) details.value = { ...details.value, error: error.message };
    }
  });
}

export function Memory() {
  useDetails();
  const current = snapshot.value!;
  const chosen = route.value.query.get("device");
  const devices = current.devices.filter((device) => !chosen || String(device.id) === chosen);
  const { recorded, error } = details.value;
  const document = isReport && "buffers" in current ? (current as MemoryDocument) : details.value.document;
  const isMine = (ids: number[] | null | undefined) => !chosen || (ids ?? []).some((id) => String(id) === chosen);
  const buffers = (document?.buffers ?? []).filter((buffer) => isMine(buffer.devices));
  return (
    <>
      <div class="view-head">
        <h1>Memory</h1>
        <label>
          Device{" "}
          <select value={chosen ?? ""} onChange={(event) => set("device", event.currentTarget.value || null)}>
            <option value="">all</option>
            {current.devices.map((device) => (
              <option key={device.id} value={String(device.id)}>{device.id} {boardName(device)}</option>
            ))}
          </select>
        </label>
      </div>
      {!token.value && !isReport && <TokenHint what="Buffers, tags, address maps and allocation events" />}
      {error && <p class="hint bad">Details: {error}</p>}
      <Refused events={recorded.filter((event) => isMine(event.devices))} />
      {devices.length > PANELS_MAX ? (
        <DeviceRows devices={devices} processes={current.processes} />
      ) : (
        <div class="memory-grid">
          {devices.map((device) => (
            <DeviceMemory key={device.id} device={device} processes={current.processes} />
          ))}
        </div>
      )}
      {document && (
        <>
          <Groups buffers={buffers} />
          <Maps document={document} isMine={isMine} />
          <div class="columns">
            <Largest buffers={buffers} />
            <Recorded events={recorded.filter((event) => isMine(event.devices))} />
          </div>
        </>
      )}
    </>
  );
}

interface Use {
  process: Process;
  /** None where its memory is not tracked. */
  bytes: number | null;
}

/** The processes on a device, largest first. */
function usersOf(device: Device, processes: Process[]): Use[] {
  const users = processes.flatMap((process) => process.devices.filter(({ id }) => id === device.id).map(({ memory }) => ({ process, bytes: memory })));
  return users.sort((a, b) => (b.bytes ?? -1) - (a.bytes ?? -1));
}

/** Many devices: a row each, the fullest first. */
function DeviceRows({ devices, processes }: { devices: Device[]; processes: Process[] }) {
  const share = ({ memory }: Device) => (memory.used == null || !memory.total ? -1 : memory.used / memory.total);
  const rows = [...devices].sort((a, b) => share(b) - share(a) || a.id - b.id);
  return (
    <Panel title="Devices, fullest first" extra={<span class="count">{number(rows.length)}</span>}>
      <div class="scroll tall" tabIndex={0} role="region" aria-label="Table of devices">
        <table class="grid small">
          <thead>
            <tr>
              <th scope="col" class="right">Device</th>
              <th scope="col" class="wide">DRAM</th>
              <th scope="col" class="wide">L1</th>
              <th scope="col">Processes</th>
            </tr>
          </thead>
          <tbody>
            {rows.map((device) => {
              const { memory } = device;
              const users = usersOf(device, processes);
              return (
                <tr key={device.id}>
                  <th scope="row" class="right num"><a href={address("memory", null, { device: String(device.id) })}>{device.id}</a></th>
                  <td class="wide"><Bar label="" name={`DRAM of device ${device.id}`} part={memory.used} whole={memory.total} why={device.missing?.["memory.used"]} /></td>
                  <td class="wide"><Bar label="" name={`L1 of device ${device.id}`} part={memory.l1_used} whole={memory.l1_total} why={device.missing?.["memory.l1_used"]} /></td>
                  <td class="cell-name" title={users.map(nameOf).join(", ")}>{users.length ? users.slice(0, 2).map(nameOf).join(", ") + (users.length > 2 ? ` +${users.length - 2}` : "") : <span class="dim">idle</span>}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </Panel>
  );
}

const nameOf = ({ process }: Use): string => `${process.name ?? "?"} ${process.pid}`;

function DeviceMemory({ device, processes }: { device: Device; processes: Process[] }) {
  const { memory } = device;
  const known = KINDS.map((kind) => ({ kind, memory: memory.kinds[kind] })).filter((row) => row.memory?.used != null);
  const rows = known.filter(({ memory: of }) => of!.used || of!.peak);
  const users = usersOf(device, processes);
  const refusals = memory.refusals ?? 0;
  return (
    <section class="panel" aria-label={`Memory of device ${device.id}`}>
      <header class="panel-head">
        <h2>
          <a href={address("device", device.id)}>Device {device.id}</a> <small>{boardName(device)}</small>
        </h2>
      </header>
      <Bar label="DRAM" part={memory.used} whole={memory.total} why={device.missing?.["memory.used"]} />
      <Bar label="L1" part={memory.l1_used} whole={memory.l1_total} why={device.missing?.["memory.l1_used"]} />
      {refusals > 0 && <p class="bad-text">{number(refusals)} allocations refused</p>}
      {known.length === 0 && <p class="empty">Not tracked: start programs with <code>ttmon run -- CMD</code> to see their memory.</p>}
      {known.length > 0 && rows.length === 0 && <p class="empty">Nothing allocated.</p>}
      {rows.length > 0 && (
      <table class="grid small">
        <thead>
          <tr>
            <th scope="col">Kind</th>
            <th scope="col" class="right">Used</th>
            <th scope="col" class="right">Free</th>
            <th scope="col" class="right">Peak</th>
            <th scope="col" class="right">Buffers</th>
          </tr>
        </thead>
        <tbody>
          {rows.map(({ kind, memory: of }) => (
            <tr key={kind}>
              <th scope="row">{kind}</th>
              <td class="right num">{size(of!.used)}</td>
              <td class="right num">{of!.free == null ? <span class="dim">N/A</span> : size(of!.free)}</td>
              <td class="right num">{of!.peak == null ? <span class="dim">N/A</span> : size(of!.peak)}</td>
              <td class="right num">{of!.count == null ? <span class="dim">N/A</span> : number(of!.count)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      )}
      <ul class="shares">
        {users.slice(0, 5).map(({ process, bytes }) => (
          <li key={process.pid}>
            <span class="share-name">{process.name ?? "?"} <small class="num">{process.pid}</small></span>
            <span class={`num${bytes == null ? " dim" : ""}`} title={bytes == null ? reason("not_tracked") : undefined}>{size(bytes)}</span>
            <span class="num dim">{bytes == null ? "" : percent(bytes, memory.total)}</span>
          </li>
        ))}
        {users.length > 5 && <li class="dim">{users.length - 5} more processes</li>}
      </ul>
    </section>
  );
}
