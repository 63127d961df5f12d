// Devices in trouble, a service in trouble, tokens, foreign text, the keyboard, many tabs, an hour of the past.
import assert from "node:assert/strict";
import { browser, close, examineAccess, examineLayout, intercept, open, PATIENCE, ready, shot, show, test, TOKEN, VIEWS } from "./harness.mjs";

test("devices that are hot, gone and in reset come first and say why", async (start) => {
  const service = await start("t3k,fault=hot:3,fault=gone:2@2,fault=reset:1@2");
  const page = await open(service, "overview");
  await page.locator('.tile.gone[data-device="2"]').waitFor({ timeout: PATIENCE });
  await page.locator('.tile.critical[data-device="3"]').waitFor({ timeout: PATIENCE });
  await page.locator('.tile.resetting[data-device="1"]').waitFor({ timeout: PATIENCE });
  const order = await page.locator(".tile").evaluateAll((tiles) => tiles.map((tile) => tile.className.split(" ")[1]));
  const last = order.lastIndexOf("resetting");
  assert.ok(order.slice(0, 2).every((word) => ["critical", "gone"].includes(word)) && !order.slice(0, last).includes("ok"), order.join(" "));
  assert.match(await page.locator('.tile[data-device="3"] .tile-why').innerText(), /temperature/);
  assert.match(await page.locator(".summary .bad").innerText(), /unhealthy/);
  // The alert of the hot device, on the overview and among the events.
  await page.locator('.panel[aria-label="Alerts"]').getByText("device 3").waitFor({ timeout: PATIENCE });
  await page.evaluate(() => (location.hash = "#/events"));
  await page.getByText("Device 2: ok → gone").waitFor();
  const alert = page.locator(".alerts li.bad", { hasText: "hot" });
  assert.match(await alert.innerText(), /hot\s+critical\s+device 3\s+temperature .* since/);
  await examineAccess(page, "events with faults");
  await page.evaluate(() => (location.hash = "#/device/2"));
  await page.locator(".badge.bad").waitFor();
  await examineLayout(page, "a device that is gone");
  await close(page);
});

test("a device that hangs says so, and the others go on", async (start) => {
  const service = await start("n150x2,fault=hang:1@2");
  const page = await open(service, "overview");
  await page.locator('.tile[data-device="0"]').waitFor({ timeout: PATIENCE });
  await page.waitForFunction(() => /timed out/.test(document.querySelector('.tile[data-device="1"]').innerHTML), null, { timeout: PATIENCE });
  const text = () => page.locator('.tile[data-device="0"]').innerText();
  const before = await text();
  await page.waitForFunction((old) => document.querySelector('.tile[data-device="0"]').innerText !== old, before, { timeout: PATIENCE });
  assert.equal(await page.locator(".status.good").count(), 1);
  await show(page, "device/1");
  await page.getByText("the read timed out").first().waitFor({ timeout: PATIENCE });
  await examineAccess(page, "a device that hangs");
  await close(page);
});

test("values move", async (start) => {
  const service = await start("t3k");
  const page = await open(service, "overview", { reducedMotion: "reduce" });
  await ready(page);
  const before = await page.locator(".tiles").innerText();
  await page.waitForFunction((old) => document.querySelector(".tiles").innerText !== old, before, { timeout: PATIENCE });
  await close(page);
});

test("without --deep a tile shows launches per second as activity", async (start) => {
  const page = await open(await start("t3k"), "overview");
  await page.locator('.tile[data-device="0"] .launches', { hasText: /^[1-9]\d*\.\d launches\/s$/ }).waitFor({ timeout: PATIENCE });
  // Of a process that reports nothing, or of no process, there is no figure.
  assert.equal(await page.locator('.tile[data-device="3"] .launches').count(), 0);
  await close(page);
});

test("utilization has a chart and a row where the chips are read", async (start) => {
  const service = await start("p150,procs=1", ["--deep"]);
  const page = await open(service, "device/0");
  await page.locator('figure.chart[aria-label^="Utilization"]').first().waitFor({ timeout: PATIENCE });
  await page.locator("tr", { hasText: /^Utilization\s*\d+%/ }).first().waitFor({ timeout: PATIENCE });
  await close(page);
});

test("the service restarts: stale data is dimmed and dated, then live again", async (start) => {
  const service = await start("n150");
  const page = await open(service, "overview");
  await page.locator(".status.good").waitFor({ timeout: PATIENCE });
  await service.stop();
  await page.locator(".status.bad").waitFor({ timeout: PATIENCE });
  await page.locator("main.stale").waitFor({ timeout: PATIENCE });
  assert.match(await page.locator(".status").innerText(), /data is \d+s old/);
  await examineAccess(page, "old data");
  await shot(page, "stale");
  await service.start();
  await page.locator(".status.good").waitFor({ timeout: PATIENCE });
  assert.equal(await page.locator("main.stale").count(), 0);
  await close(page);
});

test("a wrong token is refused, none hides, the right one shows", async (start) => {
  const service = await start("t3k");
  const wrong = await open(service, "memory", { token: "a-token-of-somebody-else" });
  await wrong.getByRole("heading", { name: "Not allowed" }).waitFor({ timeout: PATIENCE });
  await wrong.getByRole("main").getByRole("button", { name: "Enter token" }).click();
  await examineAccess(wrong, "the dialog of the token");
  await wrong.getByRole("textbox", { name: "Token" }).fill(TOKEN);
  await wrong.getByRole("button", { name: "Use token" }).click();
  await wrong.getByRole("heading", { name: "Largest buffers" }).waitFor({ timeout: PATIENCE });
  assert.ok(!wrong.url().includes(TOKEN));
  await close(wrong);
  const none = await open(service, "memory", { token: null });
  await ready(none);
  assert.match(await none.locator(".hint").innerText(), /hidden/);
  assert.equal(await none.getByRole("heading", { name: "Largest buffers" }).count(), 0);
  await examineAccess(none, "memory without a token");
  assert.deepEqual(await none.context().cookies(), []);
  await close(none);
});

const EVIL = `<img src=x onerror="globalThis.hacked=1"><script>globalThis.hacked=1</script>`;
const FOREIGN = new Set(["name", "command", "user", "tag", "board", "health_reasons", "host", "driver", "pod", "container", "job", "detail", "part", "serial", "status", "op", "file", "function", "words", "summary", "rule", "layout"]);

function poison(value, key = "") {
  if (Array.isArray(value)) return value.map((one) => poison(one, key));
  if (value && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, poison(one, name)]));
  return typeof value === "string" && FOREIGN.has(key) ? `${EVIL}${value}` : value;
}

test("markup in foreign text is text", async (start) => {
  const service = await start("t3k,fault=hot:0");
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  // Every text of the service's answers is replaced on the way.
  await intercept(context, "**/api/v1/**", async (route) => {
    const url = route.request().url();
    if (url.includes("/fields")) return route.continue();
    if (url.includes("deltas=true")) {
      const whole = await fetch(`${service.url}api/v1/snapshot`, { headers: { authorization: `Bearer ${TOKEN}` } });
      const snapshot = poison(await whole.json());
      const event = { id: 1, time: snapshot.time, event: "state", device: 0, from: EVIL, to: EVIL };
      return route.fulfill({ contentType: "text/event-stream", body: `event: snapshot\ndata: ${JSON.stringify(snapshot)}\n\nevent: state\ndata: ${JSON.stringify(event)}\n\n` });
    }
    const answer = await route.fetch();
    const json = await answer.json().catch(() => null);
    return json ? route.fulfill({ response: answer, json: poison(json) }) : route.continue();
  });
  const page = await open(service, "overview", { context });
  for (const view of VIEWS) {
    await page.evaluate((hash) => (location.hash = hash), `#/${view}`);
    await ready(page);
    await page.getByText("<img src=x").first().waitFor({ state: "attached", timeout: PATIENCE });
    assert.equal(await page.evaluate(() => globalThis.hacked), undefined, view);
    assert.equal(await page.locator("main img, main script").count(), 0, view);
  }
  await context.close();
});

test("refused allocations and lines of the program are shown", async (start) => {
  const service = await start("n150");
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  const line = { file: "models/vae.py", line: 12, function: "decode" };
  await intercept(context, "**/api/v1/memory/events**", async (route) => {
    const answer = await route.fetch();
    const json = await answer.json();
    json.events.push({ time: json.events.at(-1)?.time ?? new Date().toISOString(), pid: 7, op: "oom", kind: "l1", devices: [0], size: 33554432, tag: null, line, verdict: "fragmented", words: "asked 32.0MB L1 on device 0 (512.0KB in each of 64 banks): 700.0KB free per bank, largest block 410.0KB: would fit if not fragmented", top: [] });
    return route.fulfill({ response: answer, json });
  });
  await intercept(context, "**/api/v1/memory?**", async (route) => {
    const answer = await route.fetch();
    const json = await answer.json();
    for (const buffer of json.buffers) buffer.line = line;
    return route.fulfill({ response: answer, json });
  });
  const page = await open(service, "memory", { context });
  await page.getByText("would fit if not fragmented").waitFor({ timeout: PATIENCE });
  const panel = page.locator('.panel[aria-label="Refused allocations"]');
  assert.match(await panel.innerText(), /out of memory .*pid 7, models\/vae\.py:12 decode/s);
  // Where lines are known, they are what is grouped by.
  assert.match(await page.locator('.panel[aria-label="What uses it"]').innerText(), /models\/vae\.py:12 decode/);
  await page.locator('.panel[aria-label="What uses it"] select').selectOption("tag");
  assert.match(page.url(), /by=tag/);
  await examineLayout(page, "refusals");
  await examineAccess(page, "refusals");
  await shot(page, "refusals");
  await context.close();
});

test("an answer that takes longer than the page's own pace is shown", async (start) => {
  const service = await start("n150");
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  let asked = 0;
  await intercept(context, "**/api/v1/memory?**", async (route) => {
    asked += 1;
    const answer = await route.fetch();
    await new Promise((wake) => setTimeout(wake, 6000));
    return route.fulfill({ response: answer });
  });
  const page = await open(service, "memory", { context });
  await page.getByRole("heading", { name: "Largest buffers" }).waitFor({ timeout: PATIENCE });
  assert.equal(asked, 1);
  await context.close();
});

test("fields of --deep are shown where the service has them", async (start) => {
  const service = await start("n150");
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  await intercept(context, "**/api/v1/events?deltas=true", async (route) => {
    const snapshot = await (await fetch(`${service.url}api/v1/snapshot`)).json();
    Object.assign(snapshot.devices[0], { utilization: 0.73, core_efficiency: 0.41, throttle_reasons: ["thermal"], eth_links_up: 4 });
    for (const name of ["utilization", "core_efficiency", "throttle_reasons", "eth_links_up"]) delete snapshot.devices[0].missing[name];
    return route.fulfill({ contentType: "text/event-stream", body: `event: snapshot\ndata: ${JSON.stringify(snapshot)}\n\n` });
  });
  const page = await open(service, "overview", { context });
  await page.locator(".gauge", { hasText: "Utilization" }).getByText("73%").waitFor({ timeout: PATIENCE });
  assert.equal(await page.locator(".launches").count(), 0);
  await show(page, "device/0");
  await page.locator("figure", { hasText: "Utilization" }).waitFor();
  for (const [title, value] of [["Core efficiency", "41%"], ["Ethernet links up", "4"]]) {
    assert.match(await page.locator(".fields tr", { hasText: title }).first().innerText(), new RegExp(value));
  }
  await context.close();
});

test("an hour of the past: gaps, limits and events under the crosshair", async (start) => {
  const service = await start("n150");
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  const asked = [];
  const begun = Math.floor(Date.now() / 1000) - 3600;
  // 40 degrees, then nothing for ten minutes from the half hour on, then 50 degrees.
  const points = Array.from({ length: 360 }, (_, at) => (at < 180 ? 40 : at < 240 ? null : 50));
  await intercept(context, "**/api/v1/history?device=**", (route) => {
    const url = new URL(route.request().url());
    asked.push(Object.fromEntries(url.searchParams));
    const fields = Object.fromEntries(url.searchParams.get("fields").split(",").map((name) => [name, points]));
    const mark = { id: 9, time: new Date((begun + 1800) * 1000).toISOString(), event: "state", device: 0, from: "ok", to: "resetting" };
    const document = { schema: 1, version: "0", time: new Date((begun + 3590) * 1000).toISOString(), start: new Date(begun * 1000).toISOString(), step_s: 10, points: 360, fields: Object.keys(fields), devices: [{ id: 0, fields }], marks: [mark] };
    return route.fulfill({ json: document });
  });
  const page = await open(service, "device/0?span=1h", { context });
  const figure = page.locator("figure", { hasText: "Temperature" }).first();
  await figure.getByText("50.0 °C").waitFor({ timeout: PATIENCE });
  assert.deepEqual([asked[0].since, asked[0].step], ["3600", "10"]);
  const over = await figure.locator(".u-over").boundingBox();
  const at = async (share) => {
    await page.mouse.move(over.x + over.width * share, over.y + over.height / 2);
    return figure.locator(".at").innerText();
  };
  assert.match(await at(0.25), /^40\.0 °C at \d\d:\d\d:\d\d$/);
  assert.match(await at(0.6), /^N\/A at/);
  assert.match(await at(0.9), /^50\.0 °C at/);
  assert.match(await at(0.502), /Device 0: ok → resetting/);
  // One crosshair for all charts.
  assert.match(await page.locator("figure", { hasText: "Power" }).first().locator(".at").innerText(), / at \d\d:\d\d:\d\d/);
  assert.match(await figure.innerText(), /limit 75/);
  await shot(page, "hour");
  await context.close();
});

test("the keyboard is enough", async (start) => {
  const service = await start("t3k");
  const page = await open(service, "overview");
  await ready(page);
  await page.keyboard.press("4");
  await page.getByRole("heading", { name: "Processes", level: 1 }).waitFor();
  await page.keyboard.press("/");
  await page.waitForFunction(() => document.activeElement?.getAttribute("type") === "search");
  await page.keyboard.type("no such process");
  await page.getByText("0 of", { exact: false }).waitFor();
  assert.match(page.url(), /q=no\+such\+process/);
  await page.keyboard.press("Escape");
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press("1");
  await page.locator(".tile-head").first().focus();
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Device 0" }).waitFor();
  await close(page);
});

test("seven tabs of a browser share one stream, and a hidden tab has none", async (start) => {
  const service = await start("n150");
  const context = await browser.newContext();
  const pages = [];
  for (let count = 0; count < 7; count += 1) pages.push(await open(service, "overview", { context }));
  for (const page of pages) await page.locator(".status.good").waitFor({ timeout: PATIENCE });
  assert.equal(await service.metric("ttmon_http_streams"), 1);
  const moves = async (page) => {
    const before = await page.evaluate(() => document.querySelector(".tiles").innerText);
    await page.waitForFunction((old) => document.querySelector(".tiles").innerText !== old, before, { timeout: PATIENCE });
  };
  await Promise.all(pages.map(moves));
  // The one that has the stream ends: another takes over.
  await pages.shift().close();
  await Promise.all(pages.map(moves));
  assert.equal(await service.metric("ttmon_http_streams"), 1);
  // A headless browser hides no tab, so the page is informed as a browser would do it.
  const turn = (page, state) =>
    page.evaluate((value) => {
      Object.defineProperty(document, "visibilityState", { value, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    }, state);
  const streams = async (count) => {
    for (const begun = Date.now(); (await service.metric("ttmon_http_streams")) !== count; ) assert.ok(Date.now() < begun + PATIENCE, `not ${count} streams`);
  };
  await Promise.all(pages.map((page) => turn(page, "hidden")));
  await streams(0);
  await turn(pages[2], "visible");
  await moves(pages[2]);
  await streams(1);
  await context.close();
});
