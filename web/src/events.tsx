// What happened, and what is wrong now.
import { computed } from "@preact/signals";
import { route, set, address } from "./router";
import { alerts, events, snapshot } from "./store";
import { clock } from "./format";
import { describe, eventLevel, Panel } from "./parts";
import type { Alert } from "./types";

export const firing = computed(() => (alerts.value ?? []).filter((alert) => alert.state === "firing" && !alert.silenced_until));

/** Firing first, then those that may fire, then those that ended. */
const ORDER = ["firing", "pending", "resolved"];

export function AlertList({ alerts: list }: { alerts: Alert[] }) {
  if (!list.length) return <p class="empty">No alert is active.</p>;
  return (
    <ul class="alerts" role="list">
      {[...list].sort((a, b) => ORDER.indexOf(a.state) - ORDER.indexOf(b.state)).map((alert) => {
        const level = alert.state !== "firing" ? "none" : alert.severity === "critical" ? "bad" : "warn";
        return (
          <li key={`${alert.rule} ${alert.device}`} class={level}>
            <b>{alert.rule}</b> <span class={`badge ${level}`}>{alert.state === "firing" ? alert.severity : alert.state}</span>{" "}
            <a href={address("device", alert.device)}>device {alert.device}</a> <span>{alert.summary}</span>{" "}
            <time class="num dim" dateTime={alert.since ?? undefined}>since {clock(alert.since)}</time>
            {alert.silenced_until && <span class="dim"> silenced until {clock(alert.silenced_until)}</span>}
          </li>
        );
      })}
    </ul>
  );
}

export function Events() {
  const device = route.value.query.get("device");
  const kind = route.value.query.get("kind");
  const all = events.value;
  const kinds = [...new Set(all.map((event) => event.event))].sort();
  const shown = all.filter((event) => (!device || String(event.device) === device) && (!kind || event.event === kind)).reverse();
  const problems = snapshot.value?.problems ?? [];
  return (
    <>
      <div class="view-head">
        <h1>Events</h1>
        <label>
          Device{" "}
          <select value={device ?? ""} onChange={(event) => set("device", event.currentTarget.value || null)}>
            <option value="">all</option>
            {(snapshot.value?.devices ?? []).map(({ id }) => (
              <option key={id} value={String(id)}>{id}</option>
            ))}
          </select>
        </label>
        <label>
          Kind{" "}
          <select value={kind ?? ""} onChange={(event) => set("kind", event.currentTarget.value || null)}>
            <option value="">all</option>
            {kinds.map((name) => (
              <option key={name} value={name}>{name}</option>
            ))}
          </select>
        </label>
        <span class="count">{shown.length} of {all.length}</span>
      </div>
      {alerts.value && (
        <Panel title="Alerts">
          <AlertList alerts={alerts.value} />
        </Panel>
      )}
      {problems.length > 0 && (
        <Panel title="Problems of the newest sample">
          <ul class="alerts" role="list">
            {problems.map((problem, index) => (
              <li key={index} class="warn">
                <b>{problem.part}</b> <span>{problem.detail ?? problem.reason}</span>
              </li>
            ))}
          </ul>
        </Panel>
      )}
      <Panel title="Journal">
        {shown.length === 0 && <p class="empty">No events. The journal begins when the service starts.</p>}
        <ol class="events long">
          {shown.map((event) => (
            <li key={event.id}>
              <time class="num" dateTime={event.time}><span class="date">{event.time.slice(0, 10)} </span>{clock(event.time)}</time>
              <span class={`dot ${eventLevel(event)}`} aria-hidden="true" />
              <span>{event.device != null ? <a href={address("device", event.device)}>{describe(event)}</a> : describe(event)}</span>
            </li>
          ))}
        </ol>
      </Panel>
    </>
  );
}
