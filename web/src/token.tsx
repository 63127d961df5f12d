// The token opens what belongs to single users. It is kept for this tab, and never part of an address.
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { signal } from "@preact/signals";
import { isReport, link, setToken, token } from "./store";

export const isOpen = signal(false);

/** Says what is hidden, and how to see it. */
export function TokenHint({ what }: { what: string }) {
  if (isReport) return null;
  return (
    <p class="hint">
      {what} {what.includes(",") || what.endsWith("s") ? "are" : "is"} hidden: {token.value ? "the service does not show them with this token." : "they need the token of the service."}{" "}
      {!token.value && (
        <button type="button" onClick={() => (isOpen.value = true)}>
          Enter token
        </button>
      )}
    </p>
  );
}

export function TokenDialog() {
  const text = useSignal("");
  const ref = useRef<HTMLDialogElement>(null);
  const isRefused = link.value.state === "refused";
  useEffect(() => {
    const dialog = ref.current!;
    if (isOpen.value && !dialog.open) dialog.showModal();
    else if (!isOpen.value && dialog.open) dialog.close();
  }, [isOpen.value]);
  const submit = (event: Event) => {
    event.preventDefault();
    setToken(text.value.trim() || null);
    text.value = "";
    isOpen.value = false;
  };
  return (
    <dialog ref={ref} onClose={() => (isOpen.value = false)} aria-labelledby="token-title">
      <form onSubmit={submit}>
        <h2 id="token-title">Token</h2>
        {isRefused && <p class="bad-text">The service refused: {link.value.reason}</p>}
        <p>
          On the machine, <code>ttmon token</code> prints it. It is kept for this tab only.
        </p>
        <label>
          Token
          <input type="password" autocomplete="off" spellcheck={false} value={text.value} onInput={(event) => (text.value = event.currentTarget.value)} />
        </label>
        <div class="buttons">
          {token.value && (
            <button type="button" onClick={() => { setToken(null); isOpen.value = false; }}>
              Forget token
            </button>
          )}
          <button type="button" onClick={() => (isOpen.value = false)}>
            Cancel
          </button>
          <button type="submit" class="primary">
            Use token
          </button>
        </div>
      </form>
    </dialog>
  );
}
