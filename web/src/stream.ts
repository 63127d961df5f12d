// Server-sent events over fetch, which unlike EventSource can carry a token.

export interface Message {
  event: string;
  id: string | null;
  data: string;
}

/** Splits text that arrives in pieces into messages. */
export class Parser {
  #rest = "";

  push(text: string): Message[] {
    const blocks = (this.#rest + text).split("\n\n");
    this.#rest = blocks.pop() ?? "";
    return blocks.map(message).filter((found): found is Message => found !== null);
  }
}

function message(block: string): Message | null {
  let event = "message";
  let id: string | null = null;
  const data: string[] = [];
  for (const line of block.split("\n")) {
    const colon = line.indexOf(": ");
    if (colon <= 0) continue;
    const value = line.slice(colon + 2);
    const name = line.slice(0, colon);
    if (name === "event") event = value;
    else if (name === "id") id = value;
    else if (name === "data") data.push(value);
  }
  return data.length ? { event, id, data: data.join("\n") } : null;
}

/** Why a request failed. */
export class HttpError extends Error {
  constructor(readonly status: number, detail: string) {
    super(detail);
  }
}

export async function get(path: string, token: string | null, options: { accept?: string; signal?: AbortSignal } = {}): Promise<Response> {
  const headers: Record<string, string> = { accept: options.accept ?? "application/json" };
  if (token) headers["authorization"] = `Bearer ${token}`;
  const response = await fetch(path, { headers, signal: options.signal ?? null, cache: "no-store", credentials: "omit" });
  if (!response.ok) {
    const problem = (await response.json().catch(() => ({}))) as { title?: string; detail?: string };
    throw new HttpError(response.status, problem.detail ?? problem.title ?? response.statusText);
  }
  return response;
}

/** Reads a stream until it ends, or nothing came for so long that it must be dead. */
export async function follow(path: string, token: string | null, signal: AbortSignal, silence: number, take: (message: Message) => void) {
  const own = new AbortController();
  const stop = () => own.abort();
  signal.addEventListener("abort", stop);
  let timer = setTimeout(stop, silence);
  try {
    const response = await get(path, token, { accept: "text/event-stream", signal: own.signal });
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    const parser = new Parser();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(timer);
      timer = setTimeout(stop, silence);
      parser.push(value).forEach(take);
    }
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", stop);
  }
}
