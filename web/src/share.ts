// One stream for all tabs of a browser: HTTP/1.1 allows six connections. The tab that holds a lock has the stream and passes on what it
// receives; a tab that is hidden gives the lock up, and one that ends loses it.

export interface Feed {
  /** Reads the stream until the signal. */
  lead(signal: AbortSignal, pass: (message: unknown) => void): Promise<void>;
  /** Takes a message of the tab that has the stream. */
  take(message: unknown): void;
  /** What a tab that has just come needs. */
  whole(): unknown;
}

/** Runs until the signal. `name` separates tabs with different permissions. */
export function share(name: string, feed: Feed, signal: AbortSignal): void {
  if (!("locks" in navigator) || !("BroadcastChannel" in globalThis)) {
    void feed.lead(signal, () => {});
    return;
  }
  const channel = new BroadcastChannel(name);
  let leads = false;
  channel.onmessage = ({ data }) => {
    if (data === "hello") {
      const whole = leads ? feed.whole() : null;
      if (whole) channel.postMessage(whole);
    } else if (!leads) feed.take(data);
  };
  channel.postMessage("hello");
  navigator.locks
    .request(name, { signal }, async () => {
      leads = true;
      await feed.lead(signal, (message) => channel.postMessage(message));
    })
    .catch(() => {});
  signal.addEventListener("abort", () => channel.close());
}
