// What the page reads of the API. Field lists come from openapi.ts, which is generated.
import type { Alerts, Mesh, Device as DeviceFields, DeviceProcess, MemoryOfKind, Process as ProcessFields, Fields } from "./openapi";

export type { Fields };
export type FieldRow = Fields["device"][number];
export type ChartRow = Fields["charts"][number];
export type Missing = { missing?: Record<string, string> };
export type KindMemory = MemoryOfKind & Missing;
export type Kinds = Record<string, KindMemory>;

export interface DeviceMemory {
  total: number | null;
  used: number | null;
  free: number | null;
  l1_total: number | null;
  l1_used: number | null;
  untracked_processes: number | null;
  hidden_processes: number | null;
  refusals: number | null;
  kinds: Kinds;
}

export type Device = DeviceFields & Missing & {
  id: number;
  board: string | null;
  chip: string | null;
  location: string;
  via: number | null;
  serial: string | null;
  state: string;
  health: string;
  health_reasons: string[];
  memory: DeviceMemory;
  processes: DeviceProcess[];
};

export type Process = ProcessFields & Missing & {
  pid: number;
  name: string | null;
  user: string | null;
  command: string | null;
  container: string | null;
  pod: string | null;
  job: string | null;
  status: string;
  source: string | null;
  kinds: Kinds;
  devices: { id: number | null; memory: number | null; kinds: Kinds }[];
};

export interface AllocatorKind {
  used: number | null;
  allocated: number | null;
  free: number | null;
  count: number | null;
  peak: number | null;
  banks: number | null;
  bank_bytes: number | null;
  free_per_bank: number | null;
  largest_free_per_bank: number | null;
  fragmentation: number | null;
}

export interface Allocator {
  id: string;
  pid: number;
  mesh: string | null;
  devices: number[];
  kinds: Record<string, AllocatorKind>;
}

export interface Snapshot {
  version: string;
  host: string;
  time: string;
  driver: string | null;
  origin: string;
  devices: Device[];
  processes: Process[];
  processes_age_s: number;
  problems: { part: string; reason: string; detail?: string }[];
  allocators: Allocator[];
}

export interface SourceLine {
  file: string;
  line: number;
  function?: string;
}

export interface Buffer {
  pid: number;
  allocator: string;
  kind: string;
  address: string;
  size: number;
  per_bank?: number | null;
  layout?: string | null;
  devices: number[];
  age_s: number | null;
  tag: string | null;
  op?: string | null;
  line?: SourceLine | null;
}

export interface Block {
  allocator: string;
  kind: string;
  address: string;
  size: number;
  free: boolean;
}

export interface MemoryDocument extends Snapshot {
  buffers: Buffer[];
  blocks: Block[];
}

export interface ServiceEvent {
  id: number;
  time: string;
  event: string;
  device?: number;
  board?: string;
  from?: string;
  to?: string;
  reasons?: string[];
  state?: string;
  rule?: string;
  severity?: string;
  summary?: string;
  jump_s?: number;
  missed?: number;
  reason?: string;
}

export interface RecordedEvent {
  time: string | null;
  pid: number;
  op: string;
  kind?: string | null;
  size?: number | null;
  address?: string | null;
  devices?: number[] | null;
  tag?: string | null;
  line?: SourceLine | null;
  /** Of a refusal: what was asked for, what was free and why it did not fit. */
  words?: string | null;
  verdict?: string | null;
  top?: { size: number; tag: string | null; op: string | null; line: SourceLine | null }[];
}

export interface HistoryDocument {
  time: string;
  start: string;
  step_s: number;
  points: number;
  fields: string[];
  devices: { id: number; fields: Record<string, (number | null)[]> }[];
  marks: ServiceEvent[];
}

export type Alert = Alerts["alerts"][number];
/** Without the head of a document in a report. */
export type MeshDocument = Pick<Mesh, "layout" | "rows" | "columns" | "tiles" | "links">;
