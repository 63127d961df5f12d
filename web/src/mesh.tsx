// Chips as they are wired, with the heat of any field.
import { signal } from "@preact/signals";
import { address, route, set } from "./router";
import { api, fields, isReport, snapshot, tick, token } from "./store";
import { lookup, quantity, reason } from "./format";
import { usePolled } from "./poll";
import { boardName, condition, level } from "./parts";
import type { Device, MeshDocument } from "./types";

/** A chip on the grid. Positions come from the service, which places chips as `ttmon top` does. */
interface Cell {
  device: Device;
  column: number;
  row: number;
  tray: number | null;
}

const loaded = signal<MeshDocument | null>(null);

/** The mesh of a recording, which is part of the file. */
export function keepMesh(document: MeshDocument) {
  loaded.value = document;
}

/** Asked for again when the devices are others. */
function useMesh(devices: Device[]) {
  const ids = devices.map(({ id }) => id).join(",");
  usePolled(isReport ? "" : `${ids} ${token.value ?? ""}`, loaded.value ? 0 : tick.value, async (signal) => {
    loaded.value = await api<MeshDocument>("/api/v1/mesh", signal);
  });
}

function cellsOf(devices: Device[], mesh: MeshDocument): Cell[] {
  const byId = new Map(devices.map((device) => [device.id, device]));
  return mesh.tiles.flatMap(({ device: id, row, column, tray }) => {
    const device = byId.get(id);
    return device ? [{ device, row, column, tray }] : [];
  });
}

export function Mesh() {
  const devices = snapshot.value!.devices;
  useMesh(devices);
  const choices = (fields.value?.device ?? []).filter((row) => row.unit !== "" && row.unit !== "count" && devices.some((device) => typeof lookup(device, row.name) === "number"));
  const name = route.value.query.get("field") ?? "temperature";
  const row = choices.find((choice) => choice.name === name) ?? choices[0];
  const limits = new Map((fields.value?.charts ?? []).map((chart) => [chart.field, chart.limit]));
  const values = devices.map((device) => (row ? (lookup(device, row.name) as number | null) : null));
  const known = values.filter((value): value is number => typeof value === "number");
  const top = Math.max(...known, 0);
  const limitName = row ? (limits.get(row.name) ?? (row.name === "memory.used" ? "memory.total" : row.name === "memory.l1_used" ? "memory.l1_total" : null)) : null;
  const share = (device: Device): number | null => {
    const value = row ? lookup(device, row.name) : null;
    const limit = limitName ? (lookup(device, limitName) as number | null) : null;
    return typeof value === "number" ? Math.min(1, value / (limit || top || 1)) : null;
  };
  const mesh = loaded.value;
  if (!mesh) return <p class="empty">Loading …</p>;
  const wires = wiresOf(devices, mesh);
  return (
    <>
      <div class="view-head">
        <h1>Mesh</h1>
        <label>
          Heat by{" "}
          <select value={row?.name ?? ""} onChange={(event) => set("field", event.currentTarget.value)}>
            {choices.map((choice) => (
              <option key={choice.name} value={choice.name}>{choice.title}</option>
            ))}
          </select>
        </label>
        <span class="scale" aria-hidden="true">
          <span>0</span>
          <span class="scale-bar" />
          <span>{limitName ? "limit" : row ? quantity(top, row.unit) : ""}</span>
        </span>
      </div>
      <p class="legend">
        {mesh.layout}. {mesh.links.length > 0 ? "Lines are Ethernet links; a number is how many." : wires.length > 0 ? "Lines join the chips of a board." : ""}{" "}
        {mesh.links.length === 0 && <>Links between boards come from a cluster descriptor: <code>ttmon serve --cluster FILE</code>.</>}
      </p>
      <section class="panel mesh-panel" aria-label="Mesh">
        <MeshGrid cells={cellsOf(devices, mesh)} columns={mesh.columns} wires={wires} share={share} text={(device) => (row ? cellText(device, row.name, row.unit) : "N/A")} />
      </section>
    </>
  );
}

function cellText(device: Device, name: string, unit: string): string {
  const value = lookup(device, name);
  return value == null ? "N/A" : quantity(value, unit);
}

const SIZE = { width: 100, height: 72, gap: 22, tray: 20 };

/** Two chips and the number of links between them, 0 where only the board is known. */
interface Wire {
  ends: [number, number];
  count: number;
}

function wiresOf(devices: Device[], mesh: MeshDocument): Wire[] {
  if (mesh.links.length) return mesh.links.map(({ devices: [a, b], count }) => ({ ends: [a!, b!], count }));
  return devices.flatMap(({ id, via }) => (via == null ? [] : [{ ends: [via, id] as [number, number], count: 0 }]));
}

interface Point {
  x: number;
  y: number;
}

interface GridProps {
  cells: Cell[];
  columns: number;
  wires: Wire[];
  share: (device: Device) => number | null;
  text: (device: Device) => string;
}

function MeshGrid({ cells, columns, wires, share, text }: GridProps) {
  const rows = Math.max(0, ...cells.map(({ row }) => row)) + 1;
  const trays = [...new Set(cells.map(({ tray }) => tray).filter((tray): tray is number => tray !== null))];
  const step = { x: SIZE.width + SIZE.gap, y: SIZE.height + SIZE.gap };
  const edge = trays.length ? SIZE.tray : 2;
  const corner = (cell: Cell): Point => ({ x: edge + cell.column * step.x + (cell.tray ?? 0) * SIZE.tray, y: edge + cell.row * step.y });
  const width = columns * step.x - SIZE.gap + 2 * edge + Math.max(0, trays.length - 1) * SIZE.tray;
  const height = rows * step.y - SIZE.gap + 2 * edge;
  const at = new Map(cells.map((cell) => [cell.device.id, cell]));
  return (
    <svg class="mesh" viewBox={`0 0 ${width} ${height}`} style={{ maxWidth: `${columns * 14}rem`, minWidth: `${columns * 74}px` }} role="group" aria-label={`${cells.length} chips`}>
      {trays.map((tray) => (
        <Tray key={tray} tray={tray} corners={cells.filter((cell) => cell.tray === tray).map(corner)} />
      ))}
      {wires.map(({ ends: [a, b], count }) => {
        const [one, other] = [at.get(a), at.get(b)];
        return one && other ? <Wire key={`${a}-${b}`} from={corner(one)} to={corner(other)} isNear={Math.abs(one.row - other.row) + Math.abs(one.column - other.column) === 1} count={count} /> : null;
      })}
      {cells.map((cell) => {
        const { device } = cell;
        const heat = share(device);
        const word = condition(device);
        const label = `Device ${device.id}, ${boardName(device)}, ${text(device)}, ${word}`;
        return (
          <a key={device.id} href={address("device", device.id)}>
            <g transform={`translate(${corner(cell).x} ${corner(cell).y})`} class={`chip ${level(word)} ${device.location}`}>
              <title>{device.temperature == null ? `${label}. ${reason(device.missing?.["temperature"])}` : label}</title>
              <rect class="chip-back" width={SIZE.width} height={SIZE.height} rx="8" />
              <rect class="chip-heat" width={SIZE.width} height={SIZE.height} rx="8" style={{ opacity: heat == null ? 0 : 0.08 + heat * 0.62 }} data-hot={heat != null && heat >= 0.95 ? "1" : "0"} />
              <text x="10" y="21" class="chip-id">{device.id}</text>
              <text x={SIZE.width - 10} y="21" class="chip-word" text-anchor="end">{word}</text>
              <text x="10" y="46" class={`chip-value${heat == null ? " none" : ""}`}>{text(device)}</text>
              <text x="10" y="64" class="chip-board">{boardName(device).replace(/^galaxy.*/, "galaxy")}</text>
            </g>
          </a>
        );
      })}
    </svg>
  );
}

function Tray({ tray, corners }: { tray: number; corners: Point[] }) {
  const [left, top] = [Math.min(...corners.map(({ x }) => x)), Math.min(...corners.map(({ y }) => y))];
  const [right, bottom] = [Math.max(...corners.map(({ x }) => x)) + SIZE.width, Math.max(...corners.map(({ y }) => y)) + SIZE.height];
  const margin = SIZE.tray / 2;
  return (
    <g class="tray">
      <rect x={left - margin} y={top - margin} width={right - left + 2 * margin} height={bottom - top + 2 * margin} rx="10" />
      <text x={left - margin + 8} y={top - margin + 3}>tray {tray}</text>
    </g>
  );
}

/** A straight line between neighbours, a bow between others, so that no line ends at a chip in between. */
function Wire({ from, to, isNear, count }: { from: Point; to: Point; isNear: boolean; count: number }) {
  const [a, b] = [from, to].map(({ x, y }) => ({ x: x + SIZE.width / 2, y: y + SIZE.height / 2 })) as [Point, Point];
  const middle = { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 };
  const bow = isNear ? 0 : SIZE.height / 2 + SIZE.gap / 2;
  const bend = a.y === b.y ? { x: middle.x, y: middle.y - 2 * bow } : { x: middle.x - 2 * bow, y: middle.y };
  return (
    <g class={`wire${isNear ? "" : " far"}`}>
      <path d={isNear ? `M${a.x} ${a.y}L${b.x} ${b.y}` : `M${a.x} ${a.y}Q${bend.x} ${bend.y} ${b.x} ${b.y}`} />
      {count > 1 && isNear && <text x={middle.x + (a.x === b.x ? 5 : 0)} y={middle.y + (a.x === b.x ? 4 : -5)} text-anchor={a.x === b.x ? "start" : "middle"}>{count}</text>}
    </g>
  );
}
