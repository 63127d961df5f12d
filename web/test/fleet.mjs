// The fleet view, with a store behind it that can go down. With --store URL: a real Prometheus (cargo xtask nightly --only fleet). Else the
// answers that such a store gave: test/store.json, written with --store URL --record FILE.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { close, examineAccess, examineLayout, flag, open, PATIENCE, shot, test } from "./harness.mjs";

const real = flag("--store");
const record = flag("--record");
const KEPT = join(dirname(fileURLToPath(import.meta.url)), "store.json");
const known = real ? {} : JSON.parse(readFileSync(KEPT, "utf8"));

/** Stands before the store, so that it can be down. */
class Store {
  port = 0;

  async start() {
    this.server = createServer((question, answer) => void this.pass(question, answer));
    await new Promise((resolve) => this.server.listen(this.port, "127.0.0.1", resolve));
    this.port = this.server.address().port;
    return this;
  }

  async pass(question, answer) {
    const query = new URL(question.url, "http://store").searchParams.get("query") ?? "";
    if (real) known[query] = await (await fetch(new URL(question.url, real))).json();
    const found = known[query] ?? { status: "error", error: `not recorded: ${query}` };
    answer.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(found));
  }

  async stop() {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }
}

async function withStore(start, run) {
  const store = await new Store().start();
  const service = await start("n150,idle", ["--fleet", `http://127.0.0.1:${store.port}`]);
  try {
    return await run(service, store);
  } finally {
    await store.stop();
  }
}

const summary = (page) => page.locator(".fleet .summary");

test("the fleet view lists hosts, racks, jobs and free chips", (start) =>
  withStore(start, async (service) => {
    const page = await open(service, "fleet");
    // The answer that the page shows: a real store has another one at the next scrape.
    const answered = page.waitForResponse((answer) => new URL(answer.url()).pathname === "/api/v1/fleet", { timeout: PATIENCE });
    await page.reload();
    const { host_count: count, hosts, alerts } = await (await answered).json();
    await summary(page).waitFor({ timeout: PATIENCE });
    assert.ok(count >= 12, `${count} hosts`);
    assert.match(await summary(page).innerText(), new RegExp(`Hosts\\s+${count}\\b`));
    const rows = page.locator(".fleet tbody tr");
    assert.equal(await rows.count(), Math.min(count, 200));
    // Worst first, with a link to the host's own page.
    const [first] = hosts;
    assert.match(await rows.first().innerText(), new RegExp(`^\\s*${first.host}`));
    assert.equal(await rows.first().getByRole("link").getAttribute("href"), first.url);
    if (alerts.length) await page.locator('.panel[aria-label="Alerts"] li').first().waitFor();
    for (const [name, cell] of [["Racks", /r\d+/], ["Partitions", /batch|debug|serving/], ["Jobs and pods", /job |\//], ["Free chips", /idle|host/i]]) {
      await page.getByRole("button", { name }).click();
      await page.locator(".fleet tbody tr", { hasText: cell }).first().waitFor({ timeout: PATIENCE });
      for (const width of [360, 3840, 1280]) {
        await page.setViewportSize({ width, height: 800 });
        await examineLayout(page, `fleet, ${name}, ${width}`);
        await shot(page, `fleet-${name}-${width}`);
      }
      await examineAccess(page, `fleet, ${name}`);
    }
    const { hosts: free } = await (await fetch(`${service.url}api/v1/fleet/find?chips=8`)).json();
    assert.ok(free.length > 0 && free.length < count / 2, `${free.length} hosts with 8 idle chips`);
    await page.getByRole("textbox", { name: "Idle chips" }).fill("8");
    await page.keyboard.press("Enter");
    await page.waitForFunction((number) => document.querySelectorAll(".fleet tbody tr").length === number, free.length, { timeout: PATIENCE });
    assert.match(page.url(), /by=free&chips=8/);
    await page.getByText("Nothing is reserved").waitFor();
    await page.getByRole("button", { name: "Hosts", exact: true }).click();
    await page.getByPlaceholder("Search").fill(first.host);
    await page.getByText(`1 of ${count}`).waitFor({ timeout: PATIENCE });
    await close(page);
    if (record) writeFileSync(record, `{\n${Object.entries(known).map(([query, answer]) => `${JSON.stringify(query)}: ${JSON.stringify(answer)}`).join(",\n")}\n}\n`);
    return `${count} hosts, ${alerts.length} alerts, ${real ? "from a real store" : "from recorded answers"}`;
  }));

for (const colorScheme of ["dark", "light"]) {
  test(`the fleet view names a store that is down, and uses it again: ${colorScheme}`, (start) =>
    withStore(start, async (service, store) => {
      const page = await open(service, "fleet", { colorScheme });
      await summary(page).waitFor({ timeout: PATIENCE });
      const rows = page.locator(".fleet tbody tr");
      const count = await rows.count();
      for (const width of [360, 3840, 1280]) {
        await page.setViewportSize({ width, height: 800 });
        await examineLayout(page, `fleet at ${width}, ${colorScheme}`);
        await shot(page, `fleet-${colorScheme}-${width}`);
      }
      await examineAccess(page, `fleet, ${colorScheme}`);
      await store.stop();
      const message = page.getByRole("alert");
      await message.getByText("cannot be reached").waitFor({ timeout: PATIENCE });
      assert.match(await message.innerText(), /^The store .*\. What is shown is \d+m?\d*s old\.$/);
      // What was known stays, marked as old.
      assert.deepEqual([await rows.count(), await page.locator(".fleet.old").count()], [count, 1]);
      await examineAccess(page, `fleet without a store, ${colorScheme}`);
      await shot(page, `fleet-down-${colorScheme}`);
      // A page that is opened now has nothing to show, and says so.
      const late = await open(service, "fleet", { colorScheme });
      await late.getByText("cannot be reached").waitFor({ timeout: PATIENCE });
      await examineAccess(late, `fleet that never had a store, ${colorScheme}`);
      await close(late);
      await store.start();
      await message.waitFor({ state: "detached", timeout: PATIENCE });
      assert.equal(await page.locator(".fleet.old").count(), 0);
      assert.equal(await rows.count(), count);
      await close(page);
    }));
}
