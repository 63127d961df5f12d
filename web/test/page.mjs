// The page in a real Chromium, against real services on simulated machines: node test/page.mjs PROGRAM [--only WORD] [--shots DIR] [--assets DIR]
// With --assets: the files of DIR instead of those in the program, so that a change of the page needs no build of the program.
// With --shots: a picture of every view in every theme and size. With --picture: the picture of the README, and no test.
// With --measure: figures for cargo xtask bench page, and no test.
// Layout is asserted by the positions of elements: pixels change with every version of the browser.
import { end, flags, runAll } from "./harness.mjs";
// The longest one first.
import { measure } from "./cost.mjs";
import "./views.mjs";
import "./states.mjs";
import "./questions.mjs";
import "./report.mjs";
import "./fleet.mjs";
import { write } from "./picture.mjs";

const other = flags.includes("--picture") ? write : flags.includes("--measure") ? measure : null;
if (other) {
  await other();
  await end();
} else await runAll();
