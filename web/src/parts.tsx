// Small pieces that several views are made of.
import type { ComponentChildren } from "preact";
import { percent, reason, size } from "./format";
import type { Device, ServiceEvent } from "./types";

/** 0 worst. Sorts devices, and orders the words. */
const RANK: Record<string, number> = { critical: 0, gone: 0, unreadable: 1, warning: 2, stale: 2, resetting: 3, starting: 4, unknown: 5, ok: 6 };

/** State where it is not ok, else health. */
export function condition(device: Device): string {
  return device.state === "ok" || device.state === "unknown" ? device.health : device.state;
}

export const rank = (device: Device): number => RANK[condition(device)] ?? 1;

/** A remote chip whose health nobody can know is nothing to worry about. */
export const isWell = (device: Device): boolean => rank(device) >= 5;

const SIGNS: Record<string, string> = { ok: "✓", unknown: "–", warning: "▲", stale: "▲", critical: "✖", gone: "✖", unreadable: "✖", resetting: "↻", starting: "↻" };

export function Badge({ device }: { device: Device }) {
  const word = condition(device);
  return <Word word={word} title={device.health_reasons.join("; ") || (word === "unknown" ? "no sensor can be read on a remote chip" : "within all limits")} />;
}

/** A word for a state, with its sign and colour. */
export function Word({ word, title }: { word: string; title?: string }) {
  return (
    <span class={`badge ${level(word)}`} title={title}>
      <span aria-hidden="true">{SIGNS[word] ?? "?"}</span> {word}
    </span>
  );
}

export function level(word: string): string {
  const at = RANK[word] ?? 1;
  return at <= 1 ? "bad" : at <= 4 ? "warn" : at === 5 ? "none" : "good";
}

/** The class of a load by its own limit. */
export function heat(share: number | null): string {
  return share == null ? "none" : share >= 0.95 ? "bad" : share >= 0.85 ? "warn" : "good";
}

interface BarProps {
  label: string;
  /** For a screen reader, where there is no label. */
  name?: string;
  part: number | null | undefined;
  whole: number | null | undefined;
  /** Why there is no value. */
  why?: string | undefined;
}

/** How full something is: bar, percent and bytes. */
export function Bar({ label, name = label, part, whole, why }: BarProps) {
  const share = part == null || !whole ? null : Math.min(1, part / whole);
  const text = part == null && !whole ? "N/A" : `${size(part)} / ${size(whole)}`;
  return (
    <div class="bar" title={part == null ? `${name}: ${reason(why)}` : undefined}>
      {label && <span class="bar-label">{label}</span>}
      <span class="track" role="meter" aria-label={name} aria-valuemin={0} aria-valuemax={100} aria-valuenow={Math.round((share ?? 0) * 100)} aria-valuetext={part == null ? reason(why) : `${percent(part, whole)}, ${text}`}>
        <span class={`fill ${heat(share)}`} style={{ width: `${(share ?? 0) * 100}%` }} />
      </span>
      <span class="bar-percent num">{percent(part, whole)}</span>
      <span class="bar-size num">{text}</span>
    </div>
  );
}

export const boardName = (device: Device): string => [device.board ?? "unknown board", device.chip].filter(Boolean).join(" ");

export function Panel({ title, extra, children, id }: { title: string; extra?: ComponentChildren; children: ComponentChildren; id?: string }) {
  return (
    <section class="panel" aria-label={title} id={id}>
      <header class="panel-head">
        <h2>{title}</h2>
        {extra}
      </header>
      {children}
    </section>
  );
}

/** A sentence for each event. */
export function describe(event: ServiceEvent): string {
  switch (event.event) {
    case "started":
      return "The service started";
    case "appeared":
      return `Device ${event.device} appeared${event.board ? ` (${event.board})` : ""}`;
    case "left":
      return `Device ${event.device} is no longer listed`;
    case "state":
      return `Device ${event.device}: ${event.from} → ${event.to}`;
    case "health":
      return `Device ${event.device}: health ${event.from} → ${event.to}${event.reasons?.length ? ` (${event.reasons.join("; ")})` : ""}`;
    case "clock":
      return `The clock was set by ${event.jump_s} s`;
    case "gap":
      return `${event.missed} ${event.missed === 1 ? "sample was" : "samples were"} skipped: the service was late`;
    case "unreadable":
      return `The machine cannot be read: ${event.reason ?? "unknown reason"}`;
    case "readable":
      return "The machine can be read again";
    case "alert":
      return `Device ${event.device}: alert ${event.rule} ${event.state === "firing" ? "fired" : "ended"}${event.summary ? ` (${event.summary})` : ""}`;
    default:
      return event.event;
  }
}

export function eventLevel(event: ServiceEvent): string {
  if (event.event === "state" || event.event === "health") return level(event.to ?? "ok");
  if (event.event === "alert") return event.state === "firing" ? (event.severity === "critical" ? "bad" : "warn") : "good";
  return event.event === "left" || event.event === "unreadable" ? "bad" : event.event === "gap" || event.event === "clock" ? "warn" : "none";
}
