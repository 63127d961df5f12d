// Chips as they are wired, with the heat of any field.
import { address, route, set } from "./router";
import { fields, snapshot } from "./store";
import { lookup, quantity, reason } from "./format";
import { boardName, condition, level } from "./parts";
import type { Device } from "./types";

interface Cell {
  device: Device;
  column: number;
  row: number;
}

/** Rows and columns by the number of chips: 2x4 of a t3k, 4x8 of a Galaxy. Chips of one board are neighbours. */
function layout(devices: Device[]): { cells: Cell[]; columns: number; tray: number } {
  const boards = new Map<string, Device[]>();
  for (const device of devices) {
    const key = device.serial ?? `device ${device.id}`;
    boards.set(key, [...(boards.get(key) ?? []), device]);
  }
  const isPaired = [...boards.values()].some((chips) => chips.length === 2);
  if (isPaired) {
    const cells: Cell[] = [];
    let column = 0;
    for (const chips of boards.values()) {
      chips.forEach((device, row) => cells.push({ device, column, row }));
      column += 1;
    }
    return { cells, columns: column, tray: 0 };
  }
  const columns = devices.length >= 32 ? 8 : devices.length > 8 ? 4 : Math.min(4, devices.length || 1);
  return { cells: devices.map((device, index) => ({ device, column: index % columns, row: Math.floor(index / columns) })), columns, tray: devices.length >= 32 ? 32 : 0 };
}

export function Mesh() {
  const devices = snapshot.value!.devices;
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
  const { cells, columns } = layout(devices);
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
      <p class="hint">
        Chips are placed by board{devices.length >= 32 ? " in rows of eight" : ""}; lines join the chips of one board and a remote chip to its gateway. Links between boards need <code>--deep</code>.
      </p>
      <section class="panel mesh-panel" aria-label="Mesh">
        <MeshGrid cells={cells} columns={columns} share={share} text={(device) => (row ? cellText(device, row.name, row.unit) : "N/A")} />
      </section>
    </>
  );
}

function cellText(device: Device, name: string, unit: string): string {
  const value = lookup(device, name);
  return value == null ? "N/A" : quantity(value, unit);
}

const SIZE = { width: 116, height: 74, gap: 22 };

function MeshGrid({ cells, columns, share, text }: { cells: Cell[]; columns: number; share: (device: Device) => number | null; text: (device: Device) => string }) {
  const rows = Math.max(0, ...cells.map(({ row }) => row)) + 1;
  const step = { x: SIZE.width + SIZE.gap, y: SIZE.height + SIZE.gap };
  const width = columns * step.x - SIZE.gap + 4;
  const height = rows * step.y - SIZE.gap + 4;
  const at = new Map(cells.map((cell) => [cell.device.id, cell]));
  const middle = (cell: Cell) => ({ x: cell.column * step.x + SIZE.width / 2 + 2, y: cell.row * step.y + SIZE.height / 2 + 2 });
  return (
    <svg class="mesh" viewBox={`0 0 ${width} ${height}`} style={{ maxWidth: `${columns * 200}px`, minWidth: `${columns * 62}px` }} role="group" aria-label={`${cells.length} chips`}>
      {cells.map((cell) => {
        const gateway = cell.device.via == null ? undefined : at.get(cell.device.via);
        if (!gateway) return null;
        const [a, b] = [middle(cell), middle(gateway)];
        return <line key={`l${cell.device.id}`} class="wire" x1={a.x} y1={a.y} x2={b.x} y2={b.y} />;
      })}
      {cells.map((cell) => {
        const { device } = cell;
        const heat = share(device);
        const word = condition(device);
        const label = `Device ${device.id}, ${boardName(device)}, ${text(device)}, ${word}`;
        return (
          <a key={device.id} href={address("device", device.id)}>
            <g transform={`translate(${cell.column * step.x + 2} ${cell.row * step.y + 2})`} class={`chip ${level(word)} ${device.location}`}>
              <title>{device.temperature == null ? `${label}. ${reason(device.missing?.["temperature"])}` : label}</title>
              <rect class="chip-back" width={SIZE.width} height={SIZE.height} rx="8" />
              <rect class="chip-heat" width={SIZE.width} height={SIZE.height} rx="8" style={{ opacity: heat == null ? 0 : 0.08 + heat * 0.62 }} data-hot={heat != null && heat >= 0.95 ? "1" : "0"} />
              <text x="10" y="21" class="chip-id">{device.id}</text>
              <text x={SIZE.width - 10} y="21" class="chip-word" text-anchor="end">{word}</text>
              <text x="10" y="46" class={`chip-value${heat == null ? " none" : ""}`}>{text(device)}</text>
              <text x="10" y="64" class="chip-board">{boardName(device)}</text>
            </g>
          </a>
        );
      })}
    </svg>
  );
}
