// The frame around the views.
import { render } from "preact";
import { useEffect } from "preact/hooks";
import "uplot/dist/uPlot.min.css";
import "./style.css";
import { address, route } from "./router";
import { age, isReport, isStale, link, snapshot, start, token } from "./store";
import { duration } from "./format";
import { Device } from "./device";
import { Events } from "./events";
import { Fleet, hasFleet } from "./fleet";
import { Memory } from "./memory";
import { Mesh } from "./mesh";
import { Overview } from "./overview";
import { Processes } from "./processes";
import { loadReport, RecordingNote, Report } from "./report";
import { choice, choose } from "./theme";
import { isOpen, TokenDialog } from "./token";

const VIEWS = [
  { name: "overview", title: "Overview", key: "1", view: Overview },
  { name: "device", title: "Devices", key: "2", view: Device },
  { name: "memory", title: "Memory", key: "3", view: Memory },
  { name: "processes", title: "Processes", key: "4", view: Processes },
  { name: "mesh", title: "Mesh", key: "5", view: Mesh },
  { name: "events", title: "Events", key: "6", view: Events },
  { name: "fleet", title: "Fleet", key: "7", view: Fleet },
];

function Status() {
  const { state, reason } = link.value;
  const seconds = Math.floor(age.value);
  let text = state === "live" ? "live" : state === "connecting" ? "connecting …" : reason ?? "not connected";
  if (isStale.value && snapshot.value) text = `${state === "live" ? "no new data" : text}; data is ${duration(seconds)} old`;
  const name = state === "live" && !isStale.value ? "good" : state === "connecting" ? "none" : "bad";
  return (
    <span class={`status ${name}`} title={text}>
      <span class={`dot ${name}`} aria-hidden="true" />
      {text}
    </span>
  );
}

/** Read aloud: changes of the connection only, not every second. */
function Announcement() {
  const { state, reason } = link.value;
  const text = isStale.value ? `Data is stale. ${reason ?? ""}` : state === "live" ? "Live" : (reason ?? "");
  return (
    <p class="hidden" role="status">
      {text}
    </p>
  );
}

const THEMES: Record<string, string> = { auto: "light", light: "dark", dark: "auto" };

function Header() {
  const current = snapshot.value;
  return (
    <header class="top">
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.getElementById("main")!.focus(); }}>
        Skip to content
      </a>
      <a class="brand" href={address("overview")}>
        ttmon
      </a>
      <span class="host">
        {current?.host ?? ""}
        {current?.origin === "sim" && <em class="origin">simulated</em>}
        {current?.driver && <small> driver {current.driver}</small>}
      </span>
      <nav aria-label="Views">
        {VIEWS.filter(({ name }) => name !== "fleet" || hasFleet()).map(({ name, title, key }) => (
          <a key={name} href={address(name)} aria-current={route.value.view === name ? "page" : undefined} title={`Key ${key}`}>
            {title}
          </a>
        ))}
      </nav>
      <span class="tools">
        {!isReport && <Status />}
        {!isReport && (
          <button type="button" onClick={() => (isOpen.value = true)} title={token.value ? "A token is in use" : "Enter the token to see everything"}>
            {token.value ? "Token ✓" : "Token"}
          </button>
        )}
        <button type="button" onClick={() => choose(THEMES[choice.value] ?? "auto")} aria-label={`Theme: ${choice.value}`} title={`Theme: ${choice.value}`}>
          {choice.value === "auto" ? "◐" : choice.value === "light" ? "☀" : "☾"}
        </button>
      </span>
    </header>
  );
}

function isTyping(event: KeyboardEvent): boolean {
  const target = event.target as HTMLElement;
  return event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName) || isOpen.value;
}

function onKey(event: KeyboardEvent) {
  if (isTyping(event)) return;
  const view = VIEWS.find(({ key, name }) => key === event.key && (name !== "fleet" || hasFleet()));
  if (view) location.hash = address(view.name);
  else if (event.key === "/") {
    event.preventDefault();
    if (route.value.view !== "processes") location.hash = address("processes");
    requestAnimationFrame(() => document.querySelector<HTMLInputElement>("input[type=search]")?.focus());
  }
}

function App() {
  useEffect(() => {
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  const { view } = route.value;
  const found = VIEWS.find(({ name }) => name === view);
  useEffect(() => {
    document.title = `${found?.title ?? "ttmon"} · ${snapshot.value?.host ?? "ttmon"}`;
  });
  const View = found?.view ?? Overview;
  return (
    <>
      <Header />
      <main id="main" tabIndex={-1} class={isStale.value ? "stale" : ""}>
        {stored && <RecordingNote stored={stored} />}
        {snapshot.value ? <View /> : <Waiting />}
      </main>
      <Announcement />
      <TokenDialog />
    </>
  );
}

function Waiting() {
  const { state, reason } = link.value;
  return (
    <div class="waiting">
      <h1>{state === "refused" ? "Not allowed" : state === "waiting" ? "No connection" : "Loading …"}</h1>
      {reason && <p>{reason}</p>}
      {state === "refused" && (
        <button type="button" class="primary" onClick={() => (isOpen.value = true)}>
          Enter token
        </button>
      )}
      {state === "waiting" && <p>Trying again.</p>}
    </div>
  );
}

const root = document.getElementById("app")!;
const stored = isReport ? loadReport() : null;
if (!stored) start();
if (stored?.kind === "run") {
  document.title = "ttmon run report";
  render(<Report report={stored.document} />, root);
} else render(<App />, root);
