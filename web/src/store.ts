// The state of the page: what the service sent, and how old it is.
import { computed, signal } from "@preact/signals";
import { apply } from "./delta";
import { share } from "./share";
import { follow, get, HttpError } from "./stream";
import { Past } from "./past";
import type { Alert, Fields, ServiceEvent, HistoryDocument, Snapshot } from "./types";

const TOKEN_KEY = "ttmon-token";
const EVENTS_MAX = 500;
/** A stream says something at least every 15 s; snapshots come every second. */
const SILENCE_MS = 20_000;
/** A stream names each alert that fires or ends; those that are pending are asked for. */
const ALERTS_MS = 30_000;
const RETRY_MS = [500, 1000, 2000, 4000, 8000];
/** From this age on values are shown dimmed. */
export const STALE_S = 5;

export type Link = { state: "connecting" | "live" | "waiting" | "refused"; reason?: string };

export const snapshot = signal<Snapshot | null>(null);
export const fields = signal<Fields | null>(null);
export const events = signal<ServiceEvent[]>([]);
/** None where the service has no alerts. */
export const alerts = signal<Alert[] | null>(null);
export const link = signal<Link>({ state: "connecting" });
/** When the newest snapshot came, by this browser's clock. */
export const received = signal(0);
export const now = signal(Date.now());
export const token = signal<string | null>(readToken());
export const past = new Past();
/** The past of each device has grown. */
export const tick = signal(0);
/** Whether the data is part of the file, and nothing will change. */
export const isReport = document.getElementById("data") !== null;

export const age = computed(() => (received.value ? Math.max(0, (now.value - received.value) / 1000) : 0));
export const isStale = computed(() => !isReport && (age.value > STALE_S || link.value.state === "refused"));

function readToken(): string | null {
  try {
    return sessionStorage.getItem(TOKEN_KEY);
  } catch {
    return null;
  }
}

/** Keeps a token for this tab, or forgets it, and asks anew. */
export function setToken(value: string | null) {
  try {
    if (value) sessionStorage.setItem(TOKEN_KEY, value);
    else sessionStorage.removeItem(TOKEN_KEY);
  } catch {
    // Without storage the token lasts until the page is left.
  }
  token.value = value;
  restart();
}

export async function api<T>(path: string, signal?: AbortSignal): Promise<T> {
  const response = await get(path, token.value, signal ? { signal } : {});
  return (await response.json()) as T;
}

type Passed = { snapshot?: Snapshot; delta?: unknown; number: number; event?: ServiceEvent; link?: Link };
let number = 0;

function take(message: Passed, isOwn: boolean) {
  if (message.link) link.value = message.link;
  if (message.event) addEvents([message.event]);
  if (message.event?.event === "alert") void loadAlerts();
  if (message.snapshot) show(message.snapshot, message.number);
  else if (message.delta && snapshot.value && (isOwn || message.number === number + 1)) {
    show(apply(snapshot.value as never, message.delta as never) as unknown as Snapshot, message.number);
  } else if (message.delta && !isOwn) {
    // A delta was missed: start again with the whole.
    restart();
  }
}

function show(next: Snapshot, at: number) {
  const isAnother = !snapshot.value || snapshot.value.host !== next.host;
  number = at;
  snapshot.value = next;
  received.value = Date.now();
  now.value = received.value;
  if (link.value.state !== "live") link.value = { state: "live" };
  if (isAnother) past.clear();
  past.add(next);
  tick.value += 1;
  if (!past.isFilled) void fillPast();
}

export function addEvents(more: ServiceEvent[]) {
  const known = new Set(events.value.map((event) => event.id));
  const fresh = more.filter((event) => !known.has(event.id));
  if (fresh.length) events.value = [...events.value, ...fresh].sort((a, b) => a.id - b.id).slice(-EVENTS_MAX);
}

async function fillPast() {
  past.isFilled = true;
  try {
    past.fill(await api<HistoryDocument>(`/api/v1/history?since=${past.seconds}&fields=${past.fields.join(",")}`));
    tick.value += 1;
  } catch {
    // Sparklines begin now.
  }
}

/** Reads the stream repeatedly until the signal. */
async function lead(signal: AbortSignal, pass: (message: unknown) => void) {
  let failures = 0;
  const post = (message: Passed) => {
    take(message, true);
    pass(message);
  };
  while (!signal.aborted) {
    try {
      await follow("/api/v1/events?deltas=true", token.value, signal, SILENCE_MS, ({ event, data }) => {
        failures = 0;
        const value = JSON.parse(data);
        if (event === "snapshot") post({ snapshot: value, number: number + 1 });
        else if (event === "delta") post({ delta: value, number: number + 1 });
        else post({ event: value, number });
      });
      post({ link: { state: "waiting", reason: "the service closed the connection" }, number });
    } catch (error) {
      if (signal.aborted) return;
      const isRefused = error instanceof HttpError && (error.status === 401 || error.status === 403);
      const reason = error instanceof HttpError ? error.message : "the service does not answer";
      post({ link: { state: isRefused ? "refused" : "waiting", reason }, number });
      if (isRefused) return await new Promise<void>((end) => signal.addEventListener("abort", () => end()));
    }
    const pause = RETRY_MS[Math.min(failures, RETRY_MS.length - 1)]!;
    failures += 1;
    await new Promise((wake) => setTimeout(wake, pause));
    void loadOnce();
  }
}

/** What changes rarely: the field table, events so far, alerts. */
async function loadOnce() {
  const [table, journal] = await Promise.allSettled([
    fields.value ? fields.value : api<Fields>("/api/v1/fields"),
    api<{ events: ServiceEvent[] }>("/api/v1/events"),
  ]);
  if (table.status === "fulfilled") fields.value = table.value;
  if (journal.status === "fulfilled") addEvents(journal.value.events);
  await loadAlerts();
}

async function loadAlerts() {
  try {
    alerts.value = (await api<{ alerts: Alert[] }>("/api/v1/alerts")).alerts;
  } catch {
    alerts.value = null;
  }
}

let running: AbortController | null = null;

function restart() {
  running?.abort();
  running = null;
  snapshot.value = null;
  link.value = { state: "connecting" };
  past.isFilled = false;
  begin();
}

/** A name that is the same for tabs with the same token, and does not contain it. */
function channelName(): string {
  let hash = 2166136261;
  for (const letter of token.value ?? "") hash = Math.imul(hash ^ letter.charCodeAt(0), 16777619);
  return `ttmon-${hash >>> 0}`;
}

function begin() {
  if (running || document.visibilityState === "hidden") return;
  running = new AbortController();
  const whole = () => (snapshot.value ? { snapshot: snapshot.value, number, link: link.value } : null);
  share(channelName(), { lead, take: (message) => take(message as Passed, false), whole }, running.signal);
  void loadOnce();
}

/** Live from now on; a hidden tab has no stream. */
export function start() {
  setInterval(() => {
    if (document.visibilityState === "visible") now.value = Date.now();
  }, 1000);
  setInterval(() => {
    if (alerts.value && document.visibilityState === "visible") void loadAlerts();
  }, ALERTS_MS);
  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "hidden") {
      running?.abort();
      running = null;
    } else {
      now.value = Date.now();
      past.isFilled = false;
      begin();
    }
  });
  begin();
}
