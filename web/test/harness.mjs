// What the tests of the page share: services of simulated machines, tabs of a real Chromium, and what is examined in every view.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const here = dirname(fileURLToPath(import.meta.url));
export const [program, ...flags] = process.argv.slice(2);
export const flag = (name) => (flags.includes(name) ? flags[flags.indexOf(name) + 1] : null);
const only = flag("--only");
export const shots = flag("--shots");
const assets = flag("--assets");
if (shots) mkdirSync(shots, { recursive: true });
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
export const TOKEN = "the-token-of-the-page-test";
export const VIEWS = ["overview", "device/0", "memory", "processes", "mesh", "events"];
export const PATIENCE = 60_000;

/** A `ttmon serve` of a simulated machine. */
export class Service {
  constructor(spec, more = []) {
    this.spec = spec;
    this.more = more;
    this.folder = mkdtempSync(join(tmpdir(), "ttmon-page-"));
    this.port = 0;
  }

  async start() {
    const args = ["serve", "--sim", this.spec, "--listen", `127.0.0.1:${this.port}`, "--api", join(this.folder, "api.sock"), ...this.more];
    const env = { ...process.env, TTMON_TOKEN: TOKEN, TTMON_SOCKET: join(this.folder, "alloc.sock") };
    this.process = spawn(program, args, { env, stdio: ["ignore", "ignore", "pipe"] });
    this.port = await new Promise((resolve, reject) => {
      let text = "";
      this.process.stderr.on("data", (piece) => {
        text += piece;
        const found = /http:\/\/127\.0\.0\.1:(\d+)/.exec(text);
        if (found) resolve(Number(found[1]));
      });
      this.process.on("exit", (code) => reject(new Error(`ttmon serve ended with ${code}: ${text}`)));
    });
    for (const begun = Date.now(); Date.now() < begun + PATIENCE; ) {
      if ((await fetch(`${this.url}readyz`)).ok) break;
      await new Promise((wake) => setTimeout(wake, 50));
    }
    return this;
  }

  get url() {
    return `http://127.0.0.1:${this.port}/`;
  }

  /** One of the service's own figures. */
  async metric(name) {
    const text = await (await fetch(`${this.url}metrics`)).text();
    return Number(new RegExp(`^${name} (\\S+)`, "m").exec(text)?.[1]);
  }

  async stop() {
    if (this.process.exitCode !== null) return;
    const ended = new Promise((resolve) => this.process.once("exit", resolve));
    this.process.kill("SIGTERM");
    await ended;
  }

  async end() {
    await this.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** Only the fonts of Debian's fonts-dejavu-core, so that texts have the same width everywhere. PAGE_FONTS is where they are unpacked. */
function pinnedFonts() {
  const file = join(mkdtempSync(join(tmpdir(), "ttmon-fonts-")), "fonts.conf");
  const folder = process.env.PAGE_FONTS ?? "/usr/share/fonts/truetype/dejavu";
  writeFileSync(file, readFileSync(join(here, "fonts.conf"), "utf8").replace("FOLDER", folder).replace("CACHE", dirname(file)));
  return file;
}

const fonts = pinnedFonts();
const env = { ...process.env, FONTCONFIG_FILE: fonts, TZ: "UTC", LANG: "C.UTF-8" };
export const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"], env });

/** A tab that fails the test on any error of a script or of the policy. `before` runs in it before the page's own script. */
export async function open(service, view, options = {}) {
  const { token = TOKEN, width = 1280, height = 800, before, argument, ...rest } = options;
  const context = options.context ?? (await browser.newContext({ viewport: { width, height }, ...rest }));
  if (assets) await intercept(context, /\/(assets\/[a-z.]+)?(#.*)?$/, replaceAsset);
  const page = await context.newPage();
  page.faults = [];
  page.on("pageerror", (error) => page.faults.push(error.message));
  page.on("console", (message) => {
    // A browser logs each answer that is not 200; those are examined where they matter.
    if (message.type() === "error" && !/Failed to load resource|ERR_/.test(message.text())) page.faults.push(message.text());
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(service.url) && !request.url().startsWith("data:")) page.faults.push(`asked ${request.url()}`);
  });
  if (token) await page.addInitScript((value) => sessionStorage.getItem("ttmon-token") ?? sessionStorage.setItem("ttmon-token", value), token);
  if (before) await page.addInitScript(before, argument);
  await page.goto(`${service.url}#/${view}`);
  return page;
}

async function replaceAsset(route) {
  const name = new URL(route.request().url()).pathname.split("/").at(-1) || "index.html";
  const answer = await route.fetch();
  const headers = { ...answer.headers() };
  delete headers["content-encoding"];
  delete headers["content-length"];
  await route.fulfill({ status: 200, headers, body: readFileSync(join(assets, name)) });
}

export const ready = (page) => page.locator("main > :not(.waiting):not(.hint)").first().waitFor({ timeout: PATIENCE });

/** Goes to a view, and waits until its data is there. */
export async function show(page, view) {
  await page.evaluate((hash) => (location.hash = hash), `#/${view}`);
  await ready(page);
  const found = {
    overview: ".tile",
    device: ".chart canvas",
    memory: '.panel[aria-label="Largest buffers"]',
    processes: "td",
    mesh: ".chip",
    events: ".events",
  };
  await page.locator(found[view.split(/[/?]/)[0]]).first().waitFor({ state: "attached", timeout: PATIENCE });
}

export const close = async (page) => {
  assert.deepEqual(page.faults, []);
  await page.context().close();
};

/** Nothing is wider than the window, tiles neither overlap nor leave it, and no number is cut. */
export async function examineLayout(page, where) {
  const found = await page.evaluate(() => {
    const problems = [];
    if (document.documentElement.scrollWidth > innerWidth + 1) problems.push(`page is ${document.documentElement.scrollWidth} wide in ${innerWidth}`);
    const boxes = [...document.querySelectorAll(".tile, .panel, .chart, .summary > div")].map((element) => ({ element, box: element.getBoundingClientRect() }));
    for (const { element, box } of boxes) {
      if (box.left < -1 || box.right > innerWidth + 1) problems.push(`${element.className} from ${box.left} to ${box.right}`);
      if (box.width < 60 || box.height < 20) problems.push(`${element.className} is ${box.width} x ${box.height}`);
    }
    const tiles = boxes.filter(({ element }) => element.classList.contains("tile"));
    tiles.forEach(({ box: a }, index) => {
      for (const { box: b } of tiles.slice(index + 1)) {
        if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1) problems.push("tiles overlap");
      }
    });
    for (const number of document.querySelectorAll(".bar-percent, .bar-size, .gauge .num, .summary b, td.num, .badge")) {
      if (number.clientWidth > 0 && number.scrollWidth > number.clientWidth + 1) problems.push(`cut: ${number.textContent}`);
    }
    for (const table of document.querySelectorAll(".panel table, .panel ul")) {
      const panel = table.closest(".scroll, .panel").getBoundingClientRect();
      if (!table.closest(".scroll") && table.getBoundingClientRect().right > panel.right + 1) problems.push(`a table leaves its panel ${table.closest(".panel").getAttribute("aria-label")}`);
    }
    return problems;
  });
  assert.deepEqual(found, [], where);
}

export async function examineAccess(page, where) {
  // Injected by the browser, as an extension would: the page's policy stays.
  await page.evaluate(axe);
  const violations = await page.evaluate(async () => {
    const result = await globalThis.axe.run(document, { resultTypes: ["violations"] });
    return result.violations.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => node.html.slice(0, 120)).join(" | ")}`);
  });
  assert.deepEqual(violations, [], where);
}

export const shot = async (page, name) => {
  if (shots) await page.screenshot({ path: join(shots, `${name.replaceAll(/[/?=]/g, "-")}.png`) });
};

const tests = [];
let passed = 0;
let failed = 0;

/** `run` gets a function that starts a service, which ends with the test. With `alone` nothing else runs: it measures. */
export function test(name, run, { alone = false } = {}) {
  if (!only || name.includes(only)) tests.push({ name, run, alone });
}

async function runOne({ name, run }) {
  const services = [];
  const begun = Date.now();
  const start = (spec, more) => {
    const service = new Service(spec, more);
    services.push(service);
    return service.start();
  };
  try {
    const figures = await run(start);
    passed += 1;
    console.log(`ok   ${name} (${((Date.now() - begun) / 1000).toFixed(1)} s)${figures ? `: ${figures}` : ""}`);
  } catch (error) {
    failed += 1;
    console.log(`FAIL ${name}: ${error.stack ?? error}`);
  }
  for (const service of services) await service.end();
}

export async function end() {
  await browser.close();
  rmSync(dirname(fonts), { recursive: true });
}

/** Most tests wait most of the time, so three run at once. */
export async function runAll() {
  const together = tests.filter(({ alone }) => !alone);
  const lane = async () => {
    for (let next = together.shift(); next; next = together.shift()) await runOne(next);
  };
  await Promise.all([lane(), lane(), lane()]);
  for (const one of tests.filter(({ alone }) => alone)) await runOne(one);
  await end();
  console.log(`page: ${passed} passed, ${failed} failed`);
  process.exit(failed ? 1 : 0);
}

/** Answers in place of the service. A request may still be under way when its page is closed: its failure is no failure of the test. */
export const intercept = (context, pattern, answer) =>
  context.route(pattern, (route) =>
    Promise.resolve(answer(route)).catch((error) => {
      if (!/disposed|closed|ECONN/.test(`${error} ${error.cause}`)) throw error;
    }),
  );
