// What takes the memory, and where it is: by tag, line and operation, address maps, largest buffers, refusals, events.
import { useEffect, useRef } from "preact/hooks";
import { route, set } from "./router";
import { clock, duration, number, percent, ranges, size } from "./format";
import { Panel } from "./parts";
import { theme } from "./theme";
import type { Block, Buffer, MemoryDocument, RecordedEvent, SourceLine } from "./types";

const SHOWN_MAX = 40;

const lineText = (line: SourceLine): string => `${line.file}:${line.line}${line.function ? ` ${line.function}` : ""}`;

const BY: Record<string, (buffer: Buffer) => string> = {
  tag: (buffer) => buffer.tag ?? "no tag",
  line: (buffer) => (buffer.line ? lineText(buffer.line) : "unknown line"),
  op: (buffer) => buffer.op ?? "unknown operation",
  process: (buffer) => `pid ${buffer.pid}`,
};

export function Groups({ buffers }: { buffers: Buffer[] }) {
  // Lines say more than tags, where the program was started with them.
  const by = route.value.query.get("by") ?? (buffers.some((buffer) => buffer.line) ? "line" : "tag");
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
      title="What uses it"
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
      {rows.length === 0 && <p class="empty">No tracked buffer. Start a program with <code>ttmon run -- CMD</code> to see its buffers.</p>}
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

export function Maps({ document, isMine }: { document: MemoryDocument; isMine: (ids: number[]) => boolean }) {
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

const origin = ({ tag, line, op }: Buffer): string => tag ?? (line ? lineText(line) : (op ?? ""));

/** Allocations that did not fit, newest first: what was asked for, what was free, why. */
export function Refused({ events }: { events: RecordedEvent[] }) {
  const rows = events.filter(isRefusal).reverse();
  if (!rows.length) return null;
  return (
    <Panel title="Refused allocations" extra={<span class="count">{number(rows.length)} recorded</span>}>
      <ul class="alerts" role="list">
        {rows.slice(0, 8).map((event, index) => (
          <li key={index} class="bad">
            <time class="num dim" dateTime={event.time ?? undefined}>{clock(event.time)}</time> <b>{event.op === "clash" ? "clash" : "out of memory"}</b>{" "}
            <span>{event.words ?? `${size(event.size)} ${event.kind ?? ""} on device ${ranges(event.devices ?? [])}`}</span>{" "}
            <span class="dim">pid {event.pid}{event.line ? `, ${lineText(event.line)}` : event.tag ? `, ${event.tag}` : ""}</span>
          </li>
        ))}
      </ul>
    </Panel>
  );
}

const isRefusal = ({ op }: RecordedEvent): boolean => op === "oom" || op === "clash";

export function Largest({ buffers }: { buffers: Buffer[] }) {
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
              <th scope="col">Tag or line</th>
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
                <td class="tag" title={origin(buffer)}>{origin(buffer)}</td>
                <td class="right num">{buffer.pid}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Panel>
  );
}

export function Recorded({ events }: { events: RecordedEvent[] }) {
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
              <tr key={index} class={isRefusal(event) ? "bad" : ""}>
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
