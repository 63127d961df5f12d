// The five questions of a new user. Each is answered on the screen after at most one click, without
// scrolling. The times are printed, not checked: they depend on the load of the machine.
import assert from "node:assert/strict";
import { close, open, PATIENCE, test } from "./harness.mjs";

/** The element is within the window. */
async function isSeen(locator) {
  await locator.waitFor({ timeout: PATIENCE });
  const box = await locator.boundingBox();
  const { width, height } = locator.page().viewportSize();
  assert.ok(box && box.x >= 0 && box.y >= 0 && box.x + Math.min(box.width, 80) <= width && box.y + Math.min(box.height, 20) <= height, `at ${JSON.stringify(box)}`);
  return locator.innerText();
}

const QUESTIONS = [
  { question: "are all devices there and healthy?", clicks: [], answer: ".summary > .bad", says: /8\s+3 unhealthy/ },
  { question: "who uses them?", clicks: ["Processes"], answer: "tbody tr", says: /python3|test_app/ },
  { question: "how full is the memory?", clicks: ["Memory"], answer: ".memory-grid .bar", says: /\d+%/ },
  { question: "what changed?", clicks: ["Events"], answer: ".events li", says: /Device|service/ },
  { question: "which process do I stop?", clicks: ["Processes"], answer: "tbody tr", says: /^\s*\d+\s/ },
];

test("the five questions are answered with one click each", async (start) => {
  const service = await start("t3k,fault=hot:3,fault=gone:2");
  const times = [];
  for (const { question, clicks, answer, says } of QUESTIONS) {
    const begun = Date.now();
    const page = await open(service, "");
    for (const name of clicks) await page.getByRole("navigation").getByRole("link", { name }).click();
    assert.match(await isSeen(page.locator(answer).first()), says, question);
    times.push(Date.now() - begun);
    await close(page);
  }
  return `${times.map((time) => `${(time / 1000).toFixed(1)} s`).join(", ")}; clicks ${QUESTIONS.map(({ clicks }) => clicks.length).join(", ")}`;
});
