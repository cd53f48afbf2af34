// check — what `npm test` runs, in order: types, lint, kernels as built, then every test. Stops at the first that fails. Its last lines say what was skipped, and why.
// `npm test -- src/wire` runs only the tests below these paths.

import { spawnSync } from "node:child_process";
// All of it, by one name: a single import that an old Node does not have would fail before the line below that says so.
import * as fs from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import * as util from "node:util";

const TEST_GLOBS = [
  "src/**/*.test.ts",
  "bench/**/*.test.ts",
  "test/*.test.ts",
  "test/{conformance,differential,simulation,training,e2e}/**/*.test.ts",
];
const TEST_TIMEOUT_MS = 180_000;
/** As many test files as there are cores: by default Node leaves one idle, half of a small machine. */
const FILES_AT_ONCE = os.availableParallelism();
/** Every test by name, for whoever wants to read it. */
const LOG = ".weighbridge/test.log";

const [major = 0] = process.versions.node.split(".").map(Number);
if (major < 24) {
  console.error(`weighbridge: the tests need Node 24 or newer, this is ${process.version}: run them with npm test, which brings it along`);
  process.exit(1);
}

function run(name, command, args) {
  const startedAt = Date.now();
  const { status } = spawnSync(command, args, { stdio: "inherit", shell: process.platform === "win32" });
  console.error(`weighbridge: ${name} ${status === 0 ? "passed" : "failed"} in ${((Date.now() - startedAt) / 1000).toFixed(1)} s`);
  if (status !== 0) process.exit(status ?? 1);
}

const paths = process.argv.slice(2);
if (paths.length === 0) {
  run("types", "tsc", ["-p", "tsconfig.json"]);
  run("types of the core, without those of Node", "tsc", ["-p", "tsconfig.core.json"]);
  run("types of the examples", "tsc", ["-p", "examples/tsconfig.json"]);
  run("format and lint", "biome", ["check", "--error-on-warnings", "."]);
  run("type-aware lint", "oxlint", ["--type-aware", "--deny-warnings", "src", "test", "bench", "examples"]);
  run("kernels", process.execPath, ["scripts/build-kernels.mjs", "--check"]);
}
const files = fs.globSync(TEST_GLOBS).filter((file) => paths.length === 0 || paths.some((start) => file.startsWith(start)));
if (files.length === 0 || paths.some((start) => !fs.existsSync(start))) {
  console.error(`weighbridge: no tests below ${paths.join(" ")}`);
  process.exit(1);
}
const { installNumpy, thisHost } = await import("./install-numpy.ts");
const installed = files.some((file) => file.includes("python-client")) ? installNumpy(thisHost) : undefined;
if (installed !== undefined) console.error(`weighbridge: ${installed}`);
fs.mkdirSync(".weighbridge", { recursive: true });
const reporters = [
  "--test-reporter=dot",
  "--test-reporter-destination=stdout",
  "--test-reporter=spec",
  `--test-reporter-destination=${LOG}`,
];
const startedAt = Date.now();
const status = runTests();
// In a terminal the log is in colour.
const log = util.stripVTControlCharacters(fs.readFileSync(LOG, "utf8"));
const [, summary = "", failures = ""] = /(ℹ tests \d+\n.*?)(\n✖ failing tests:.*)?$/s.exec(log) ?? [];
if (failures !== "") console.log(failures);
console.log(`\nweighbridge: ${outcomeText(summary)} in ${((Date.now() - startedAt) / 1000).toFixed(1)} s; each by name in ${LOG}`);
const { skippedText } = await import("./skipped-tests.ts");
const skipped = skippedText(log);
if (skipped !== "") console.log(`weighbridge: ${skipped}`);
process.exit(status);

/** "1203 tests passed", or with what did not pass. */
function outcomeText(summary) {
  const countOf = (what) => Number(new RegExp(`^ℹ ${what} (\\d+)$`, "m").exec(summary)?.[1] ?? 0);
  const failed = countOf("fail") + countOf("cancelled");
  const others = [failed > 0 ? `${failed} failed` : [], countOf("skipped") > 0 ? `${countOf("skipped")} skipped` : []].flat();
  if (summary === "" || (status !== 0 && failed === 0)) others.push(`the test runner ended with ${status}`);
  return [`${countOf("pass")} tests passed`, ...others].join(", ");
}

/** A cache of compiled code, the same that the command itself uses, spares each of the several hundred processes some of its start. */
function runTests() {
  const args = ["--test", `--test-timeout=${TEST_TIMEOUT_MS}`, `--test-concurrency=${FILES_AT_ONCE}`, ...reporters, ...files.sort()];
  const env = { NODE_COMPILE_CACHE: path.join(os.tmpdir(), "node-compile-cache"), ...process.env };
  return spawnSync(process.execPath, args, { stdio: "inherit", env }).status ?? 1;
}
