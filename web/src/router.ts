// Addresses behind the `#`, so that a view can be shared and works in a file.
import { signal } from "@preact/signals";

export interface Route {
  view: string;
  /** What the view is of: a device, for example. */
  id: string | null;
  query: URLSearchParams;
}

function parse(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?");
  const [view = "", id = null] = path.split("/");
  return { view: view || "overview", id, query: new URLSearchParams(query) };
}

export const route = signal<Route>(parse(location.hash));

addEventListener("hashchange", () => {
  const before = route.value;
  route.value = parse(location.hash);
  if (before.view !== route.value.view || before.id !== route.value.id) {
    scrollTo(0, 0);
    document.getElementById("main")?.focus({ preventScroll: true });
  }
});

/** The address with other parameters. */
export function address(view: string, id?: string | number | null, query: Record<string, string> = {}): string {
  const text = new URLSearchParams(query).toString();
  return `#/${view}${id == null ? "" : `/${id}`}${text ? `?${text}` : ""}`;
}

/** Changes one parameter of the address, without a new entry in the browser's history. */
export function set(name: string, value: string | null) {
  const { view, id, query } = route.value;
  const next = new URLSearchParams(query);
  if (value === null || value === "") next.delete(name);
  else next.set(name, value);
  history.replaceState(null, "", address(view, id, Object.fromEntries(next)));
  route.value = parse(location.hash);
}
