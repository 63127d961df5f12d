// Memory: how full each device is by kind and process, what takes it, and where it lies.
import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { address, route, set } from "./router";
import { api, isReport, snapshot, tick, token } from "./store";
import { clock, duration, number, percent, ranges, size } from "./format";
import { Bar, boardName, Panel } from "./parts";
import { HttpError } from "./stream";
import { theme } from "./theme";
import { TokenHint } from "./token";
import type { Block, Buffer, Device, MemoryDocument, Process, RecordedEvent } from "./types";

const KINDS = ["dram", "trace", "l1", "l1_small", "cb", "kernel"];
const SHOWN_MAX = 40;
/** Details are read from the programs' ledgers: not every second. */
const EVERY_S = 4;

type Details = { document: MemoryDocument | null; recorded: RecordedEvent[]; error: string | null };
const details = signal<Details>({ document: null, recorded: [], error: null });

function useDetails() {
  const turn = Math.floor(tick.value / EVERY_S);
  useEffect(() => {
    if (isReport || !token.value) return;
    const abort = new AbortController();
    Promise.all([
      api<MemoryDocument>("/api/v1/memory?buffers=true&banks=true&blocks=true", abort.signal),
      api<{ events: RecordedEvent[] }>("/api/v1/memory/events?limit=200", abort.signal),
    ])
      .then(([document, recorded]) => (details.value = { document, recorded: recorded.events, error: null }))
      .catch((error) => {
        if (error instanceof HttpError) details.value = { ...details.value, error: error.message };
      });
    return () => abort.abort();
  }, [turn, token.value]);
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
      <div class="memory-grid">
        {devices.map((device) => (
          <DeviceMemory key={device.id} device={device} processes={current.processes} />
        ))}
      </div>
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

function DeviceMemory({ device, processes }: { device: Device; processes: Process[] }) {
  const { memory } = device;
  const rows = KINDS.map((kind) => ({ kind, memory: memory.kinds[kind] })).filter((row) => row.memory?.used != null);
  const users = processes.flatMap((process) => process.devices.filter(({ id }) => id === device.id).map((used) => ({ process, bytes: used.memory ?? 0 })));
  users.sort((a, b) => b.bytes - a.bytes);
  return (
    <section class="panel" aria-label={`Memory of device ${device.id}`}>
      <header class="panel-head">
        <h2>
          <a href={address("device", device.id)}>Device {device.id}</a> <small>{boardName(device)}</small>
        </h2>
      </header>
      <Bar label="DRAM" part={memory.used} whole={memory.total} why={device.missing?.["memory.used"]} />
      <Bar label="L1" part={memory.l1_used} whole={memory.l1_total} why={device.missing?.["memory.l1_used"]} />
      {rows.length === 0 ? <p class="empty">Not tracked: start programs with `ttmon run -- CMD` to see their memory.</p> : (
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
            <span class="num">{size(bytes)}</span>
            <span class="num dim">{percent(bytes, memory.total)}</span>
          </li>
        ))}
        {users.length > 5 && <li class="dim">{users.length - 5} more processes</li>}
      </ul>
    </section>
  );
}

const BY: Record<string, (buffer: Buffer) => string> = {
  tag: (buffer) => buffer.tag ?? "no tag",
  line: (buffer) => (buffer.line ? `${buffer.line.file}:${buffer.line.line}` : "unknown line"),
  op: (buffer) => buffer.op ?? "unknown operation",
  process: (buffer) => `pid ${buffer.pid}`,
};

function Groups({ buffers }: { buffers: Buffer[] }) {
  const by = route.value.query.get("by") ?? "tag";
  const name = BY[by] ?? BY["tag"]!;
  const groups = new Map<string, { key: string; kind: string; bytes: number; count: number }>();
  for (const buffer of buffers) {
    const key = name(buffer);
    const group = groups.get(`${key}\n${buffer.kind}`) ?? { key, kind: buffer.kind, bytes: 0, count: 0 };
    group.bytes += buffer.size;
    group.count += 1;
    groups.set(`${key}\n${buffer.kind}`, group);
  }
  const rows = [...groups.values()].sort((a, b) => b.bytes - a.bytes);
  const top = rows[0]?.bytes ?? 1;
  return (
    <Panel
      title="What takes it"
      extra={
        <label>
          By{" "}
          <select value={by} onChange={(event) => set("by", event.currentTarget.value)}>
            {Object.keys(BY).map((key) => (
              <option key={key} value={key}>{key}</option>
            ))}
          </select>
        </label>
      }
    >
      {rows.length === 0 && <p class="empty">No tracked buffer. Start a program with `ttmon run -- CMD` to see its buffers.</p>}
      <ul class="groups">
        {rows.slice(0, 12).map((group) => (
          <li key={`${group.key}${group.kind}`}>
            <span class="group-name" title={group.key}>{group.key}</span>
            <span class="group-kind">{group.kind}</span>
            <span class="track" aria-hidden="true"><span class="fill plain" style={{ width: `${(group.bytes / top) * 100}%` }} /></span>
            <span class="num">{size(group.bytes)}</span>
            <span class="num dim">{number(group.count)}</span>
          </li>
        ))}
      </ul>
      {rows.length > 12 && <p class="more">{rows.length - 12} smaller groups</p>}
    </Panel>
  );
}

function Maps({ document, isMine }: { document: MemoryDocument; isMine: (ids: number[]) => boolean }) {
  const rows = document.allocators
    .filter((allocator) => isMine(allocator.devices))
    .flatMap((allocator) => Object.entries(allocator.kinds).filter(([, kind]) => kind.bank_bytes).map(([kind, of]) => ({ allocator, kind, of })));
  if (!rows.length) return null;
  const byKey = new Map<string, Block[]>();
  for (const block of document.blocks ?? []) {
    const key = `${block.allocator} ${block.kind}`;
    const list = byKey.get(key);
    if (list) list.push(block);
    else byKey.set(key, [block]);
  }
  return (
    <Panel title="Address map of a bank" extra={<span class="legend"><i class="used" /> used <i class="free" /> free <i class="largest" /> largest free</span>}>
      <ul class="maps">
        {rows.slice(0, SHOWN_MAX).map(({ allocator, kind, of }) => (
          <li key={`${allocator.id} ${kind}`}>
            <span class="map-name">
              device {ranges(allocator.devices)} <b>{kind}</b> <small>pid {allocator.pid}, {number(of.banks)} banks</small>
            </span>
            <BlockMap blocks={byKey.get(`${allocator.id} ${kind}`) ?? []} label={`${kind} of device ${ranges(allocator.devices)}: ${size(of.free_per_bank)} of ${size(of.bank_bytes)} free in a bank, largest ${size(of.largest_free_per_bank)}`} />
            <span class="num map-text">
              {size(of.free_per_bank)} free, largest {size(of.largest_free_per_bank)}, fragmentation {percent(of.fragmentation, 1)}
            </span>
          </li>
        ))}
      </ul>
      {rows.length > SHOWN_MAX && <p class="more">{rows.length - SHOWN_MAX} more; choose a device above</p>}
    </Panel>
  );
}

function BlockMap({ blocks, label }: { blocks: Block[]; label: string }) {
  const ref = useRef<HTMLCanvasElement>(null);
  const colours = theme.value;
  useEffect(() => {
    const canvas = ref.current!;
    const width = Math.round(canvas.clientWidth * devicePixelRatio);
    const height = Math.round(canvas.clientHeight * devicePixelRatio);
    if (!width || !blocks.length) return;
    canvas.width = width;
    canvas.height = height;
    const context = canvas.getContext("2d")!;
    const start = Number(blocks[0]!.address);
    const end = blocks.reduce((last, block) => Math.max(last, Number(block.address) + block.size), start + 1);
    const largest = blocks.reduce<Block | null>((found, block) => (block.free && block.size > (found?.size ?? 0) ? block : found), null);
    context.fillStyle = colours.free;
    context.fillRect(0, 0, width, height);
    for (const block of blocks) {
      if (block.free && block !== largest) continue;
      context.fillStyle = block === largest ? colours.good : colours.used;
      const left = ((Number(block.address) - start) / (end - start)) * width;
      const wide = (block.size / (end - start)) * width;
      context.fillRect(left, 0, Math.max(wide - (wide > 3 ? 1 : 0), 0.5), height);
    }
  }, [blocks, colours]);
  return <canvas ref={ref} class="map" role="img" aria-label={label} />;
}

function Largest({ buffers }: { buffers: Buffer[] }) {
  const rows = [...buffers].sort((a, b) => b.size - a.size).slice(0, SHOWN_MAX);
  return (
    <Panel title="Largest buffers" extra={<span class="count">{rows.length} of {number(buffers.length)}</span>}>
      <div class="scroll tall" tabIndex={0} role="region" aria-label="Table of largest buffers">
        <table class="grid small">
          <thead>
            <tr>
              <th scope="col">Address</th>
              <th scope="col" class="right">Size</th>
              <th scope="col">Kind</th>
              <th scope="col">Dev</th>
              <th scope="col" class="right">Age</th>
              <th scope="col">Tag</th>
              <th scope="col" class="right">PID</th>
            </tr>
          </thead>
          <tbody>
            {rows.map((buffer) => (
              <tr key={`${buffer.allocator} ${buffer.kind} ${buffer.address}`}>
                <td class="num">{buffer.address}</td>
                <td class="right num">{size(buffer.size)}</td>
                <td>{buffer.kind}</td>
                <td class="num">{ranges(buffer.devices)}</td>
                <td class="right num">{buffer.age_s == null ? "N/A" : duration(buffer.age_s)}</td>
                <td class="tag" title={buffer.tag ?? undefined}>{buffer.tag}</td>
                <td class="right num">{buffer.pid}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Panel>
  );
}

function Recorded({ events }: { events: RecordedEvent[] }) {
  const rows = events.slice(-SHOWN_MAX).reverse();
  return (
    <Panel title="Allocation events">
      <div class="scroll tall" tabIndex={0} role="region" aria-label="Table of allocation events">
        <table class="grid small">
          <thead>
            <tr>
              <th scope="col">Time</th>
              <th scope="col">Event</th>
              <th scope="col">Kind</th>
              <th scope="col" class="right">Size</th>
              <th scope="col">Dev</th>
              <th scope="col">Tag</th>
            </tr>
          </thead>
          <tbody>
            {rows.map((event, index) => (
              <tr key={index} class={event.op.includes("refus") || event.op.includes("oom") ? "bad" : ""}>
                <td class="num">{clock(event.time)}</td>
                <td>{event.op}</td>
                <td>{event.kind ?? ""}</td>
                <td class="right num">{event.size == null ? "" : size(event.size)}</td>
                <td class="num">{event.devices ? ranges(event.devices) : ""}</td>
                <td class="tag" title={event.tag ?? undefined}>{event.tag ?? ""}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Panel>
  );
}
