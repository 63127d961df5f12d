// The colours that canvases need, from the style sheet; they change with the theme of the system.
import { signal } from "@preact/signals";

const NAMES = ["line", "area", "grid", "text", "dim", "bad", "warn", "good", "panel", "used", "free"] as const;
type Colours = Record<(typeof NAMES)[number], string>;

function read(): Colours {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim() || "#888"])) as Colours;
}

export const theme = signal<Colours>(read());

const KEY = "ttmon-theme";
export const choice = signal<string>(stored() ?? "auto");

/** A page without storage, a report for example, follows the system. */
function stored(): string | null {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}

export function choose(value: string) {
  choice.value = value;
  try {
    localStorage.setItem(KEY, value);
  } catch {
    // The choice lasts until the page is left.
  }
  show();
}

function show() {
  if (choice.value === "auto") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = choice.value;
  theme.value = read();
}

for (const query of ["(prefers-color-scheme: dark)", "(forced-colors: active)", "print"]) matchMedia(query).addEventListener("change", show);
show();
