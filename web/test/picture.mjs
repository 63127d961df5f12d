// The picture of the page in the README, from the recording that the other pictures are made from: node test/page.mjs PROGRAM --picture
// Its pixels change with every version of the browser, its layout does not: that is what is compared.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { close, open, PATIENCE, program, test } from "./harness.mjs";

const screens = join(dirname(fileURLToPath(import.meta.url)), "../../docs/screens");
const LAYOUT = join(screens, "page.layout.json");

/** Opens the recording as a report, and returns the places and texts of its parts. */
async function draw() {
  const output = join(tmpdir(), `ttmon-page-picture-${process.pid}.html`);
  const made = spawnSync(program, ["report", join(screens, "t3k.ttmon"), "-o", output], { encoding: "utf8" });
  assert.equal(made.status, 0, made.stderr);
  const page = await open({ url: `file://${output}` }, "overview", { token: null, colorScheme: "dark", width: 1280, height: 788 });
  await page.locator(".chart canvas").nth(1).waitFor({ timeout: PATIENCE });
  await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
  const layout = await page.evaluate(() =>
    [...document.querySelectorAll(".top, .hint, .summary > div, .tile, .chart, .panel")].map((part) => {
      const { x, y, width, height } = part.getBoundingClientRect();
      return { text: part.innerText.replaceAll(/\s+/g, " ").slice(0, 60), place: [x, y, width, height].map(Math.round) };
    }),
  );
  rmSync(output);
  return { page, layout };
}

test("the picture of the README has the layout of the page", async () => {
  const { page, layout } = await draw();
  await close(page);
  const known = JSON.parse(readFileSync(LAYOUT, "utf8"));
  assert.deepEqual(layout, known, "docs/screens/page.png is another page; run cargo xtask web --picture");
});

/** Writes the picture and its layout. */
export async function write() {
  const { page, layout } = await draw();
  await page.screenshot({ path: join(screens, "page.png") });
  writeFileSync(LAYOUT, `[\n${layout.map((part) => `  ${JSON.stringify(part)}`).join(",\n")}\n]\n`);
  await close(page);
}
