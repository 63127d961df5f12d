// Questions that a view repeats. One at a time: a slow service is not asked again before it has answered, and rests afterwards.
import { useEffect, useRef } from "preact/hooks";

/** The pause after an answer, as a multiple of the time that the answer took. */
const REST = 4;

interface Asked {
  abort: AbortController;
  isRunning: boolean;
  /** Not before this time, by the browser's clock. */
  next: number;
}

/** Asks now, when `key` changes, and at each `turn`. An empty key asks nothing. */
export function usePolled(key: string, turn: number, ask: (signal: AbortSignal) => Promise<void>) {
  const asked = useRef<Asked | null>(null);
  useEffect(
    () => () => {
      asked.current?.abort.abort();
      asked.current = null;
    },
    [key],
  );
  useEffect(() => {
    const last = asked.current;
    if (!key || (last && (last.isRunning || Date.now() < last.next))) return;
    const own: Asked = { abort: new AbortController(), isRunning: true, next: 0 };
    asked.current = own;
    const begun = Date.now();
    ask(own.abort.signal)
      .catch(() => {})
      .finally(() => {
        own.isRunning = false;
        own.next = Date.now() + REST * (Date.now() - begun);
      });
  }, [key, turn]);
}
