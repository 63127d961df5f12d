// Every view: sizes of machines, sizes of windows, themes, print.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { close, examineAccess, examineLayout, open, ready, shot, show, test, VIEWS } from "./harness.mjs";

const MACHINES = [
  { devices: 1, spec: "n150" },
  { devices: 8, spec: "t3k" },
  { devices: 32, spec: "galaxy" },
  { devices: 128, spec: "galaxyx4" },
];
const SIZES = [
  { width: 360, height: 740 },
  { width: 3840, height: 2160 },
  // Last: rules of accessibility are examined in this one.
  { width: 1280, height: 800 },
];
const THEMES = {
  dark: { colorScheme: "dark", forcedColors: "none", reducedMotion: "no-preference" },
  light: { colorScheme: "light", forcedColors: "none", reducedMotion: "reduce" },
  "forced-dark": { colorScheme: "dark", forcedColors: "active", reducedMotion: "reduce" },
  "forced-light": { colorScheme: "light", forcedColors: "active", reducedMotion: "no-preference" },
};

for (const { devices, spec } of MACHINES) {
  test(`every view of ${devices} devices`, async (start) => {
    const service = await start(spec);
    const page = await open(service, "overview");
    await page.waitForFunction((count) => document.querySelectorAll(".tile").length === count, devices);
    for (const view of VIEWS) {
      await show(page, view);
      for (const size of SIZES) {
        await page.setViewportSize(size);
        await examineLayout(page, `${view} at ${size.width}`);
        await shot(page, `${devices}-${view}-${size.width}`);
      }
      if (devices === 32 || (devices === 128 && view === "overview")) await examineAccess(page, view);
    }
    await close(page);
  });
}

for (const [name, media] of Object.entries(THEMES)) {
  test(`every view in the theme ${name}`, async (start) => {
    const service = await start("t3k,fault=hot:1,fault=gone:3@2");
    const page = await open(service, "overview", media);
    await page.locator(".tile.gone").first().waitFor();
    for (const view of [...VIEWS, "overview?charts=all"]) {
      await show(page, view);
      for (const size of SIZES) {
        await page.setViewportSize(size);
        await examineLayout(page, `${view} at ${size.width}, ${name}`);
        await shot(page, `theme-${name}-${view}-${size.width}`);
      }
      await examineAccess(page, `${view}, ${name}`);
    }
    if (media.reducedMotion === "reduce") assert.equal(await page.evaluate(() => getComputedStyle(document.querySelector(".fill")).transitionDuration), "0s");
    await close(page);
  });
}

test("a button changes the theme, and the next visit keeps it", async (start) => {
  const service = await start("n150");
  const page = await open(service, "overview", { colorScheme: "dark" });
  await ready(page);
  const back = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const dark = await back();
  await page.getByRole("button", { name: "Theme: auto" }).click();
  const light = await back();
  assert.notEqual(light, dark);
  await page.reload();
  await ready(page);
  assert.equal(await back(), light);
  await close(page);
});

test("fonts are those of the package", async (start) => {
  const service = await start("n150");
  const page = await open(service, "overview");
  await ready(page);
  const session = await page.context().newCDPSession(page);
  await session.send("DOM.enable");
  await session.send("CSS.enable");
  const { root } = await session.send("DOM.getDocument", { depth: -1 });
  const { nodeIds } = await session.send("DOM.querySelectorAll", { nodeId: root.nodeId, selector: ".summary b, .brand, .bar-size" });
  for (const nodeId of nodeIds) {
    const { fonts } = await session.send("CSS.getPlatformFontsForNode", { nodeId });
    for (const { familyName } of fonts) assert.match(familyName, /^DejaVu/);
  }
  assert.ok(nodeIds.length >= 5);
  await close(page);
});

test("a 4K wall shows 128 devices without scrolling", async (start) => {
  const service = await start("galaxyx4");
  const page = await open(service, "overview", { width: 3840, height: 2160 });
  await page.waitForFunction(() => document.querySelectorAll(".tile").length === 128);
  const bottom = await page.evaluate(() => Math.max(...[...document.querySelectorAll(".tile")].map((tile) => tile.getBoundingClientRect().bottom)));
  assert.ok(bottom <= 2160, `tiles end at ${bottom}`);
  await close(page);
});

test("print is black on white, without what cannot be pressed", async (start) => {
  const service = await start("t3k");
  const page = await open(service, "overview", { colorScheme: "dark", width: 794, height: 1123 });
  for (const view of VIEWS) {
    await page.emulateMedia({ media: "screen" });
    await show(page, view);
    await page.emulateMedia({ media: "print" });
    await examineLayout(page, `print of ${view}`);
    const found = await page.evaluate(() => {
      const style = getComputedStyle(document.body);
      const isShown = (selector) => [...document.querySelectorAll(selector)].some((element) => element.getClientRects().length > 0);
      return { back: style.backgroundColor, text: style.color, pressed: isShown(".top nav, .tools, .spans, .pager, main button:not(.plain), main select, input") };
    });
    assert.deepEqual(found, { back: "rgb(255, 255, 255)", text: "rgb(0, 0, 0)", pressed: false }, view);
    await shot(page, `print-${view}`);
  }
  assert.ok((await page.pdf({ format: "A4" })).length > 10_000);
  await close(page);
});

/** A T3000 as UMD describes it: places, boards, and two links between neighbours. */
function descriptor() {
  const places = [[1, 0], [1, 1], [2, 0], [2, 1], [0, 0], [0, 1], [3, 0], [3, 1]];
  const pairs = [[0, 1], [0, 2], [0, 4], [1, 3], [1, 5], [2, 3], [2, 6], [3, 7], [4, 5], [6, 7]];
  const lines = ["arch:", ...places.map((_, chip) => `  ${chip}: wormhole_b0`), "chips:"];
  places.forEach((place, chip) => lines.push(`  ${chip}:`, ...[...place, 0, 0].map((part) => `    - ${part}`)));
  lines.push("ethernet_connections:");
  pairs.forEach(([a, b]) => [0, 1].forEach((channel) => lines.push("  -", `    - chip: ${a}`, `      chan: ${channel}`, `    - chip: ${b}`, `      chan: ${channel}`)));
  lines.push("chips_with_mmio:", ...[0, 1, 2, 3].map((chip) => `  - ${chip}: ${chip}`), "boards:");
  [0, 1, 2, 3].forEach((chip) => lines.push("  -", `    - board_id: ${chip + 1}`, "    - board_type: n300", "    - chips:", `        - ${chip}`, `        - ${chip + 4}`));
  return `${lines.join("\n")}\n`;
}

test("the mesh has the trays of a Galaxy and the links of a descriptor", async (start) => {
  const galaxy = await open(await start("galaxy"), "mesh");
  await show(galaxy, "mesh");
  const trays = await galaxy.evaluate(() => {
    const box = (element) => element.getBoundingClientRect();
    const chips = [...document.querySelectorAll(".chip-back")].map(box);
    return [...document.querySelectorAll(".tray rect")].map(box).map((tray) => chips.filter((chip) => chip.left >= tray.left && chip.right <= tray.right && chip.top >= tray.top && chip.bottom <= tray.bottom).length);
  });
  assert.deepEqual(trays, [8, 8, 8, 8]);
  await close(galaxy);

  const plain = await start("t3k");
  const file = join(plain.folder, "cluster.yaml");
  writeFileSync(file, descriptor());
  const page = await open(plain, "mesh");
  await show(page, "mesh");
  assert.equal(await page.locator(".wire").count(), 4);
  assert.match(await page.locator("main").innerText(), /--cluster FILE/);
  await close(page);
  const wired = await open(await start("t3k", ["--cluster", file]), "mesh");
  await show(wired, "mesh");
  assert.equal(await wired.locator(".wire").count(), 10);
  assert.deepEqual(await wired.locator(".wire text").allTextContents(), Array(10).fill("2"));
  const ends = await wired.evaluate(() => {
    const chips = [...document.querySelectorAll(".chip-back")].map((chip) => chip.getBoundingClientRect());
    const overlaps = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
    return [...document.querySelectorAll(".wire path")].map((path) => chips.filter((chip) => overlaps(chip, path.getBoundingClientRect())).length);
  });
  // A line touches the two chips that it joins, and no third one.
  assert.ok(ends.every((count) => count === 2), ends.join());
  await examineAccess(wired, "mesh with links");
  await shot(wired, "mesh-links");
  await close(wired);
});
