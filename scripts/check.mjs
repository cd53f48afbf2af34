// check — what `npm test` runs: types, lint and kernels as built, then every test. Stops at the first that fails. It
// shows how far the tests are (test-progress.ts), and its last lines say how many were skipped, and why.
// `npm test -- src/wire` runs only the tests below these paths.

import { spawn } from "node:child_process";
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
/** Bounds a hang. The longest test takes 20 s on an idle machine, and may take ten times as long on a slow one. */
const TEST_TIMEOUT_MS = 300_000;
/** More than there are cores: end-to-end tests wait for half of their time. */
const PROCESSES_AT_ONCE = 2 * os.availableParallelism();
/**
 * Each session reserves 4 GiB of addresses, which V8 counts as memory in use: at more than half of the limit of the
 * heap it collects all garbage. With V8's own limit simulations spend up to half of their time on that. It also shrinks
 * the young generation of a process whose heap stays small, time and again, and then collects it for every megabyte.
 */
const HEAP = ["--max-old-space-size=131072", "--min-semi-space-size=16", "--no-memory-reducer"];
const EXEC_ARGV = [...HEAP, `--require=${path.join(import.meta.dirname, "untraced-promises.cjs")}`];
/** How often the line of a terminal changes. */
const PROGRESS_MS = 500;
/** Files that import the test files which share a process. */
const ENTRIES = ".weighbridge/test-entries";
/** Every test by name, to be read. */
const LOG = ".weighbridge/test.log";

const [major = 0] = process.versions.node.split(".").map(Number);
if (major < 24) {
  console.error(`weighbridge: the tests need Node 24 or newer, this is ${process.version}: run them with npm test, which brings it along`);
  process.exit(1);
}

/** Ends the check if the command fails. */
async function run(name, command, args) {
  const startedAt = Date.now();
  const child = spawn(command, args, { stdio: "inherit", shell: process.platform === "win32" });
  const status = await new Promise((resolve, reject) => child.once("error", reject).once("exit", resolve));
  console.error(`weighbridge: ${name} ${status === 0 ? "passed" : "failed"} in ${((Date.now() - startedAt) / 1000).toFixed(1)} s`);
  if (status !== 0) process.exit(status ?? 1);
}

const paths = process.argv.slice(2);
if (paths.length === 0) {
  // The compiler of kernels uses one core and says nothing: it runs beside the others.
  const kernels = run("kernels", process.execPath, ["scripts/build-kernels.mjs", "--check"]);
  await run("types", "tsc", ["-p", "tsconfig.json"]);
  await run("types of the core, without those of Node", "tsc", ["-p", "tsconfig.core.json"]);
  await run("types of the examples", "tsc", ["-p", "examples/tsconfig.json"]);
  await run("types of the templates", "tsc", ["-p", "templates/tsconfig.json"]);
  await run("format and lint", "biome", ["check", "--error-on-warnings", "."]);
  await run("type-aware lint", "oxlint", ["--type-aware", "--deny-warnings", "src", "test", "bench", "examples", "templates"]);
  await kernels;
}
const files = fs.globSync(TEST_GLOBS).filter((file) => paths.length === 0 || paths.some((start) => file.startsWith(start)));
if (files.length === 0 || paths.some((start) => !fs.existsSync(start))) {
  console.error(`weighbridge: no tests below ${paths.join(" ")}`);
  process.exit(1);
}
const { installNumpy, thisHost } = await import("./install-numpy.ts");
const installed = files.some((file) => file.includes("python-client")) ? installNumpy(thisHost) : undefined;
if (installed !== undefined) console.error(`weighbridge: ${installed}`);
// End-to-end tests start hundreds of processes, and those of the package as it is published start faster.
if (files.some((file) => file.startsWith(path.join("test", "e2e")))) {
  await run("build", process.execPath, ["scripts/build.mjs", ...(paths.length === 0 ? ["--unchecked"] : [])]);
  process.env.BUILT_PACKAGE = path.resolve("dist");
}
const { planTests, writeEntries } = await import("./test-plan.ts");
const startedAt = Date.now();
const plan = planTests(files);
const entries = writeEntries(plan, ENTRIES);
const { counts, success, skips } = await runTests(entries, new Map(entries.map((entry, index) => [entry, plan[index].files.length])));
// In a terminal the log is in colour.
const log = util.stripVTControlCharacters(endOf(LOG));
const [failures = ""] = /\n✖ failing tests:.*$/s.exec(log) ?? [];
if (failures !== "") console.log([...log.matchAll(/^ℹ Error: .*$/gm), failures].join("\n"));
console.log(`\nweighbridge: ${outcomeText(counts)} in ${((Date.now() - startedAt) / 1000).toFixed(1)} s; each by name in ${LOG}`);
const { skippedText } = await import("./skipped-tests.ts");
const skipped = skippedText(skips);
if (skipped !== "") console.log(`weighbridge: ${skipped}`);
process.exit(success ? 0 : 1);

/** The last 64 MB of a file: a test that does not end may write more than a string can hold. */
function endOf(file) {
  const length = Math.min(fs.statSync(file).size, 64 * 1024 * 1024);
  const end = Buffer.alloc(length);
  const descriptor = fs.openSync(file, "r");
  const read = fs.readSync(descriptor, end, 0, length, fs.fstatSync(descriptor).size - length);
  fs.closeSync(descriptor);
  return end.toString("utf8", 0, read);
}

/** "1203 tests passed", or with what did not pass. */
function outcomeText({ passed, failed, cancelled, skipped }) {
  const others = [failed + cancelled > 0 ? `${failed + cancelled} failed` : [], skipped > 0 ? `${skipped} skipped` : []].flat();
  return [`${passed} tests passed`, ...others].join(", ");
}

/**
 * Runs what Node is to run in this order, with so many test files behind each. Returns the summary of all, and what was
 * skipped.
 */
async function runTests(entries, filesOf) {
  const { run } = await import("node:test");
  const { spec } = await import("node:test/reporters");
  const { TestProgress } = await import("./test-progress.ts");
  const { pipeline } = await import("node:stream/promises");
  // The cache of compiled code that the command itself uses spares each of the several hundred processes some of its
  // start.
  process.env.NODE_COMPILE_CACHE ??= path.join(os.tmpdir(), "node-compile-cache");
  const tests = run({ files: entries, concurrency: PROCESSES_AT_ONCE, timeout: TEST_TIMEOUT_MS, execArgv: EXEC_ARGV });
  const progress = new TestProgress({ out: process.stdout, filesOf });
  const timer = setInterval(() => progress.tick((Date.now() - startedAt) / 1000), PROGRESS_MS);
  let summary;
  tests.on("data", (event) => {
    progress.take(event);
    if (event.type === "test:summary" && event.data.file === undefined) summary = event.data;
  });
  await pipeline(tests, new spec(), fs.createWriteStream(LOG));
  clearInterval(timer);
  progress.end();
  return { ...summary, skips: progress.skips };
}
