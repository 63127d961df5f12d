// The last five minutes of each device, for sparklines: filled once from the history of the service, then from each snapshot.
import { lookup } from "./format";
import type { HistoryDocument, Snapshot } from "./types";

const POINTS = 300;

export class Past {
  readonly seconds = POINTS;
  fields = ["temperature", "power", "aiclk_mhz", "memory.used", "memory.l1_used", "pcie_to_device_words_per_s", "utilization"];
  isFilled = false;
  #columns = new Map<string, (number | null)[]>();

  /** Keeps these fields too, and asks for what they were. */
  want(fields: string[]) {
    const more = fields.filter((field) => !this.fields.includes(field));
    if (!more.length) return;
    this.fields = [...this.fields, ...more];
    this.isFilled = false;
  }

  clear() {
    this.#columns.clear();
    this.isFilled = false;
  }

  /** The points of a field, oldest first. */
  of(device: number, field: string): (number | null)[] {
    return this.#columns.get(`${device}/${field}`) ?? [];
  }

  add(snapshot: Snapshot) {
    for (const device of snapshot.devices) {
      for (const field of this.fields) {
        const value = lookup(device, field);
        this.#push(`${device.id}/${field}`, typeof value === "number" ? value : null);
      }
    }
  }

  /** What was before the page was opened. */
  fill(history: HistoryDocument) {
    const every = Math.max(1, Math.round(1 / history.step_s));
    for (const device of history.devices) {
      for (const [field, column] of Object.entries(device.fields)) {
        const points = column.filter((_, index) => index % every === 0);
        this.#columns.set(`${device.id}/${field}`, points.slice(-POINTS));
      }
    }
  }

  #push(key: string, value: number | null) {
    const column = this.#columns.get(key);
    if (!column) this.#columns.set(key, [value]);
    else {
      column.push(value);
      if (column.length > POINTS) column.shift();
    }
  }
}
