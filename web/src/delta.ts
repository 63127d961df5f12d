// The deltas of /api/v1/events?deltas=true: docs/serve.md has the format.

type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

const isObject = (value: Json | undefined): value is { [key: string]: Json } =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** The value after the change. What did not change is the same object as before. */
export function apply(old: Json | undefined, delta: Json): Json {
  if (!isObject(delta)) return delta;
  if (Array.isArray(old)) {
    const list = old.slice();
    for (const [index, change] of Object.entries(delta)) list[Number(index)] = apply(old[Number(index)], change);
    return list;
  }
  if (!isObject(old)) return delta;
  const result = { ...old };
  for (const [name, change] of Object.entries(delta)) {
    if (name === "~") for (const gone of change as string[]) delete result[gone];
    else result[name] = apply(old[name], change);
  }
  return result;
}
