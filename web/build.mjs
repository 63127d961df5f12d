// Builds the page into crates/in-monitor/serve/page. With --check: builds it elsewhere and compares.
import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gunzipSync, gzipSync } from "node:zlib";
import { build } from "esbuild";
import { types } from "./types.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const kept = join(here, "../crates/in-monitor/serve/page");
const isCheck = process.argv.includes("--check");
const out = isCheck ? mkdtempSync(join(tmpdir(), "ttmon-page-")) : kept;
const FILES = ["index.html", "app.js", "app.css", "icon.svg"];

mkdirSync(out, { recursive: true });
writeFileSync(join(here, "src/openapi.ts"), types(JSON.parse(readFileSync(join(here, "openapi.json"), "utf8"))));
await build({
  entryPoints: [join(here, "src/app.tsx")],
  outfile: join(out, "app.js"),
  bundle: true,
  minify: true,
  format: "esm",
  target: ["chrome109", "firefox115", "safari16"],
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  banner: { js: "/* ttmon: Apache-2.0. With Preact, @preact/signals (MIT, Jason Miller and others) and uPlot (MIT, Leon Sorokin). */" },
  logLevel: "warning",
});
for (const name of ["index.html", "icon.svg"]) writeFileSync(join(out, name), readFileSync(join(here, "src", name)));

const whole = createHash("sha256");
let total = 0;
for (const name of FILES) {
  const bytes = readFileSync(join(out, name));
  whole.update(bytes);
  const packed = gzipSync(bytes, { level: 9 });
  total += packed.length;
  writeFileSync(join(out, `${name}.gz`), packed);
}
writeFileSync(join(out, "etag"), `"${whole.digest("hex").slice(0, 16)}"\n`);
for (const name of ["app.js", "app.css"]) {
  // A report has them inline.
  if (/<\/(script|style)|<!--/i.test(readFileSync(join(out, name), "utf8"))) throw new Error(`${name} would end its element`);
  writeFileSync(join(out, `${name}.sha256`), createHash("sha256").update(readFileSync(join(out, name))).digest("base64"));
}
console.log(`page: ${total} bytes compressed`);

if (isCheck) {
  // Compressed copies are compared by their content: versions of the compressor differ.
  const plain = (directory, name) => {
    const bytes = readFileSync(join(directory, name));
    return name.endsWith(".gz") ? gunzipSync(bytes) : bytes;
  };
  const names = [...FILES, ...FILES.map((name) => `${name}.gz`), "etag", "app.js.sha256", "app.css.sha256"];
  const stale = names.filter((name) => {
    try {
      return !plain(out, name).equals(plain(kept, name));
    } catch {
      return true;
    }
  });
  if (stale.length) {
    console.error(`page: crates/in-monitor/serve/page is not what web/ builds: ${stale.join(", ")}; run cargo xtask web`);
    process.exit(1);
  }
}
