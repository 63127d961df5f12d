// `ttmon report`: one file that opens from disk.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { close, examineAccess, examineLayout, open, PATIENCE, program, shot, show, test, VIEWS } from "./harness.mjs";

const RUN = {
  schema: 1, version: "0", command: ["python", "<img src=x onerror=globalThis.hacked=1>"], start_time: "2026-11-16T08:12:45.000Z", exit: 1, signal: null,
  duration_s: 133.2, allocations: 18204, exact: true, overhead_ratio: 0.001, growth_bytes: null,
  devices: [{ id: 0, kinds: { dram: { peak: 9e9, peak_time_s: 41, capacity: 12e9, at_end: 1e8 }, l1: { peak: 6e7, peak_time_s: 41, capacity: 9e7, at_end: 0 } }, leaked: { count: 1, bytes: 1e8 } }],
  peak_set: [{ device: 0, kind: "dram", tag: "</script><b>load</b>", op: null, bytes: 6e9, count: 12 }],
  leaks: [{ pid: 1, allocator: "1.0.1", kind: "dram", address: "0x40000", size: 1e8, devices: [0], age_s: 62, tag: "layer 7" }], leaked: { count: 1, bytes: 1e8 },
  oom: [{ time_s: 50, kind: "l1", asked: 33554432, banks: 64, per_bank: 524288, free_per_bank: 716800, largest_free_per_bank: 419840, fits_without_fragmentation: true }], clashes: [],
};

/** Other tests go on meanwhile. */
async function run(arguments_) {
  const child = spawn(program, arguments_, { stdio: ["ignore", "ignore", "pipe"] });
  let text = "";
  child.stderr.on("data", (piece) => (text += piece));
  const status = await new Promise((resolve) => child.on("exit", resolve));
  assert.equal(status, 0, text);
}

/** Opens a report from disk; nothing may be asked for. */
async function openReport(input, name) {
  const output = join(tmpdir(), `ttmon-page-${process.pid}-${name}.html`);
  await run(["report", input, "-o", output]);
  const service = { url: `file://${output}` };
  const page = await open(service, name === "run" ? "" : "overview", { token: null, colorScheme: "light" });
  return { page, output };
}

test("a run report is one file that needs no network", async () => {
  const input = join(tmpdir(), `ttmon-page-${process.pid}.json`);
  writeFileSync(input, JSON.stringify(RUN));
  const { page, output } = await openReport(input, "run");
  await page.getByText("would fit if not fragmented").waitFor({ timeout: PATIENCE });
  await page.getByText("</script><b>load</b>").waitFor();
  assert.equal(await page.evaluate(() => globalThis.hacked), undefined);
  await examineLayout(page, "run report");
  await examineAccess(page, "run report");
  await shot(page, "report-run");
  await close(page);
  const other = spawnSync(program, ["report", output, "-o", output], { encoding: "utf8" });
  assert.ok(other.status !== 0 && /neither/.test(other.stderr), other.stderr);
  rmSync(input);
  rmSync(output);
});

test("a recording is one file that needs no network", async () => {
  const input = join(tmpdir(), `ttmon-page-${process.pid}.ttmon`);
  await run(["record", "--sim", "t3k", "--duration", "4", input]);
  const { page, output } = await openReport(input, "recording");
  await page.waitForFunction(() => document.querySelectorAll(".tile").length === 8);
  for (const view of VIEWS) {
    await show(page, view);
    await examineLayout(page, view);
    await examineAccess(page, `recording ${view}`);
    await shot(page, `report-${view}`);
  }
  await close(page);
  rmSync(input);
  rmSync(output);
});
