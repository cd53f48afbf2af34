// Goal: `npm test` brings along what its tests need where it may, shows how far it is, and its last lines say how many
// tests were skipped, and why.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { type InstallHost, installNumpy } from "../scripts/install-numpy.ts";
import { type Skip, skippedText } from "../scripts/skipped-tests.ts";
import { planTests, SLOW_FILES, SLOW_FOLDERS, writeEntries } from "../scripts/test-plan.ts";
import { type TestEvent, TestProgress } from "../scripts/test-progress.ts";
import { temporaryDirectory } from "./support/temporary-directory.ts";

/** A machine whose apt-get succeeds from the given call of `install` on. */
function hostOf(options: Partial<InstallHost> & { readonly succeedsAt?: number }): {
  readonly host: InstallHost;
  readonly calls: string[];
} {
  const calls: string[] = [];
  let installCount = 0;
  const aptGet = (args: readonly string[]): boolean => {
    calls.push(args[0] ?? "");
    return args[0] === "update" || ++installCount >= (options.succeedsAt ?? 1);
  };
  return { host: { isRoot: true, isDebian: true, hasNumpy: () => false, aptGet, ...options }, calls };
}

test("numpy is installed as root on Debian, and nowhere else", () => {
  const debian = hostOf({});
  assert.match(installNumpy(debian.host) ?? "", /^installed python3 and python3-numpy$/);
  assert.deepEqual(debian.calls, ["install"]);
  for (const other of [{ isRoot: false }, { isDebian: false }, { hasNumpy: () => true }]) {
    const { host, calls } = hostOf(other);
    assert.equal(installNumpy(host), undefined);
    assert.deepEqual(calls, []);
  }
});

test("a machine that knows of no packages yet is told of them once; one that cannot install goes on without, and says so", () => {
  const fresh = hostOf({ succeedsAt: 2 });
  assert.match(installNumpy(fresh.host) ?? "", /^installed/);
  assert.deepEqual(fresh.calls, ["install", "update", "install"]);
  const offline = hostOf({ succeedsAt: Infinity });
  assert.match(installNumpy(offline.host) ?? "", /could not install .*: tests that need them are skipped/);
});

test("skipped tests are summed up by reason, the most frequent first, whatever characters those have", () => {
  const folder = temporaryDirectory("skipped");
  const file = join(folder, "skips.test.mjs");
  writeFileSync(
    file,
    `import { describe, test } from "node:test";
test("one # two (3)", { skip: "there is no # here" }, () => {});
test("three", { skip: "there is no # here" }, () => {});
test("bare", { skip: true }, () => {});
describe("outer", () => { test("inner", { skip: "no Python" }, () => {}); test("runs", () => {}); });
describe("apart", { skip: "no disk" }, () => { test("never heard of", () => {}); });
`,
  );
  const { summary, skips } = runOf([file], folder);
  assert.equal(
    skippedText(skips),
    `4 tests and 1 suite were skipped:
  2: there is no # here
  1: no reason is given
  1: no Python
  1 suite: no disk`,
  );
  assert.equal(summary.skipped, 4, "what the line before it says");
  assert.equal(skippedText([]), "");
  assert.match(skippedText([{ reason: "no disk", isSuite: true }]), /^1 suite was skipped:\n {2}1 suite: no disk$/);
});

test("a test that fails is told while an earlier file still runs, and files count as they end", () => {
  const folder = temporaryDirectory("progress");
  const [slow, quick] = ["slow", "quick"].map((name) => join(folder, `${name}.test.mjs`)) as [string, string];
  writeFileSync(
    slow,
    `import { existsSync } from "node:fs";
import { test } from "node:test";
test("ends once it is told", { timeout: 20_000 }, async () => {
  while (!existsSync(${JSON.stringify(join(folder, "told"))})) await new Promise((go) => setTimeout(go, 10));
});
`,
  );
  writeFileSync(quick, `import { test } from "node:test"; test("fails", () => { throw new Error(); }); test("passes", () => {});`);
  const { summary, text } = runOf([slow, quick], folder);
  assert.deepEqual([summary.passed, summary.failed], [2, 1], "the slow one has passed");
  const lines = text.split("\n");
  assert.match(lines[0] ?? "", /^✖ fails \(.*quick\.test\.mjs\)$/);
  assert.ok(lines.includes("weighbridge: 1 of 2 test files, 1 tests passed, 1 failed, 15 s"), text);
  assert.equal(lines.at(-2), "weighbridge: 2 of 2 test files, 2 tests passed, 1 failed, 30 s");
});

type RunOutcome = { readonly summary: { passed: number; failed: number; skipped: number }; readonly skips: Skip[]; readonly text: string };

/**
 * Runs files with the progress of `npm test`, in a process of its own. It writes the file "told" with the first line,
 * gets a line in its log when the first file has ended, and one at the end.
 */
function runOf(files: readonly string[], folder: string): RunOutcome {
  const script = join(folder, "run.mjs");
  const code = `
    import { writeFileSync } from "node:fs";
    import { run } from "node:test";
    import { TestProgress } from ${JSON.stringify(pathToFileURL(join(import.meta.dirname, "../scripts/test-progress.ts")).href)};
    const [folder, ...files] = process.argv.slice(2);
    let [text, summary, ended] = ["", undefined, 0];
    const write = (part) => { text += part; };
    const progress = new TestProgress({ out: { write }, filesOf: new Map(files.map((file) => [file, 1])) });
    const tests = run({ files, concurrency: 2 });
    tests.on("data", (event) => {
      progress.take(event);
      if (event.type === "test:complete" && files.includes(event.data.name) && ++ended === 1) {
        progress.tick(15);
        writeFileSync(folder + "/told", "");
      }
      if (event.type === "test:summary" && event.data.file === undefined) summary = event.data.counts;
    });
    tests.on("end", () => {
      progress.tick(30);
      console.log(JSON.stringify({ text, summary, skips: progress.skips }));
    });`;
  writeFileSync(script, code);
  const { stdout, stderr } = spawnSync(process.execPath, [script, folder, ...files], {
    env: { ...process.env, NODE_TEST_CONTEXT: undefined },
    encoding: "utf8",
  });
  assert.equal(stderr, "");
  return JSON.parse(stdout) as RunOutcome;
}

/** What a run writes whose events come one second apart. */
function progressOf(out: { readonly isTTY: boolean; readonly columns?: number }, events: readonly TestEvent[]): string {
  let text = "";
  const filesOf = new Map([
    ["/x/entry.mjs", 12],
    ["/x/alone.test.ts", 1],
  ]);
  const progress = new TestProgress({ out: { ...out, write: (part: string) => (text += part) }, filesOf });
  for (const [index, event] of events.entries()) {
    progress.take(event);
    progress.tick(index + 1);
  }
  progress.end();
  return text;
}

function completed(name: string, passed: boolean, data: Partial<TestEvent["data"]> = {}): TestEvent {
  return { type: "test:complete", data: { name, ...data, details: { passed, ...data.details } } };
}

const PASSES: readonly TestEvent[] = Array.from({ length: 20 }, () => completed("passes", true));
const FAILS: TestEvent = completed("adds up", false, { file: `${process.cwd()}/src/sum.test.ts` });
const ENDS: TestEvent = completed("/x/entry.mjs", true, { file: "/x/entry.mjs" });

test("a log of npm test gets a line now and then of how far it is, and a line for each test that fails", () => {
  assert.equal(
    progressOf({ isTTY: false }, [...PASSES, FAILS, ENDS, ...PASSES]),
    `weighbridge: 0 of 13 test files, 15 tests passed, 15 s
✖ adds up (src/sum.test.ts)
weighbridge: 12 of 13 test files, 28 tests passed, 1 failed, 30 s
`,
  );
});

test("a terminal has one line of it, which is never wider than the terminal, and is gone at the end", () => {
  const text = progressOf({ isTTY: true, columns: 40 }, [...PASSES.slice(0, 2), FAILS]);
  const lines = text.split("\r\u001B[2K");
  assert.deepEqual(lines.slice(1, 4), [
    "weighbridge: 0 of 13 test files, 1 test",
    "weighbridge: 0 of 13 test files, 2 test",
    "✖ adds up (src/sum.test.ts)\n",
  ]);
  assert.equal(lines.at(-1), "");
});

test("suites, skipped tests and tests that fail with one below them are not counted", () => {
  const suite = completed("a suite", true, { details: { type: "suite" } });
  const skipped = completed("skipped", true, { skip: "no CUDA" });
  const unfinished = completed("to do", false, { todo: true });
  const above = completed("outer", false, { details: { error: { failureType: "subtestsFailed" } } });
  const later: TestEvent = { type: "test:fail", data: { name: "told already" } };
  const events = [suite, skipped, unfinished, above, later, ...PASSES.slice(0, 10)];
  assert.equal(progressOf({ isTTY: false }, events), "weighbridge: 0 of 13 test files, 10 tests passed, 15 s\n");
});

test("every test file is in one process; those that start processes are alone, two beside each other one, and files of a room share a few (TestPlan.T1 to T3)", () => {
  const files = ["src/wire/a.test.ts", "src/wire/codecs/b.test.ts", "test/e2e/x.test.ts", "test/e2e/y.test.ts", "test/e2e/z.test.ts"];
  files.push("test/request-path.test.ts", "test/strangers.test.ts", "test/tidy.test.ts");
  const many = Array.from({ length: 40 }, (_, index) => `src/store/${index}.test.ts`);
  const plan = planTests([...files, ...many]);
  assert.deepEqual(plan.flatMap((one) => one.files).toSorted(), [...files, ...many].toSorted());
  assert.deepEqual(plan.slice(0, 5), [
    { folder: "test", files: ["test/request-path.test.ts"] },
    { folder: "test/e2e", files: ["test/e2e/x.test.ts"] },
    { folder: "test/e2e", files: ["test/e2e/y.test.ts"] },
    { folder: "test", files: ["test/strangers.test.ts", "test/tidy.test.ts"] },
    { folder: "test/e2e", files: ["test/e2e/z.test.ts"] },
  ]);
  const store = plan.filter(({ folder }) => folder === "src/store").map((one) => one.files.length);
  assert.deepEqual(store, [14, 13, 13]);
  assert.deepEqual(plan.at(-1), { folder: "src/wire", files: ["src/wire/a.test.ts", "src/wire/codecs/b.test.ts"] });
});

test("what is said to be slow is there, and starts first", () => {
  const names = readdirSync(join(import.meta.dirname, "e2e")).filter((name) => name.endsWith(".test.ts"));
  const plan = planTests(names.map((name) => `test/e2e/${name}`)).flatMap((one) => one.files);
  assert.deepEqual(plan.slice(0, SLOW_FILES.length), SLOW_FILES);
  for (const folder of SLOW_FOLDERS) assert.ok(statSync(join(import.meta.dirname, "..", folder)).isDirectory(), folder);
});

test("an error that nobody catches fails the file of its test, although the runner traces no promises", () => {
  const folder = temporaryDirectory("untraced");
  const preload = join(import.meta.dirname, "../scripts/untraced-promises.cjs");
  const runs = ['Promise.reject(new Error("lost"));', 'setTimeout(() => { throw new Error("late"); });', ""].map((line, index) => {
    const file = join(folder, `${index}.test.mjs`);
    writeFileSync(
      file,
      `import { executionAsyncId } from "node:async_hooks";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
test("goes on", async () => {
  ${line}
  await sleep(1);
  if (executionAsyncId() !== 0) throw new Error("promises are traced");
});
`,
    );
    const env = { ...process.env, NODE_TEST_CONTEXT: undefined };
    return spawnSync(process.execPath, [`--require=${preload}`, "--test-reporter=spec", file], { env, encoding: "utf8" });
  });
  assert.deepEqual(
    runs.map(({ status }) => status),
    [1, 1, 0],
  );
  assert.match(runs[0]?.stdout ?? "", /created the error "Error: lost" which triggered an unhandledRejection event/);
  assert.match(runs[1]?.stdout ?? "", /created the error "Error: late" which triggered an uncaughtException event/);
});

test("of files that share a process, one that cannot be loaded fails by its name, and the others run", () => {
  const folder = temporaryDirectory("entries");
  const files = ["broken.test.mjs", "sound.test.mjs"].map((name) => join(folder, name));
  writeFileSync(files[0] ?? "", `import "./nothing.mjs";`);
  writeFileSync(files[1] ?? "", `import { test } from "node:test"; test("is sound", () => {});`);
  const [entry = ""] = writeEntries([{ folder: "src/x", files }], join(folder, "entries"));
  const { stdout, status } = spawnSync(process.execPath, ["--test", "--test-reporter=spec", entry], {
    env: { ...process.env, NODE_TEST_CONTEXT: undefined },
    encoding: "utf8",
  });
  assert.equal(status, 1);
  assert.match(stdout, /✖ \S+broken\.test\.mjs loads/);
  assert.match(stdout, /Cannot find module \S+nothing\.mjs/);
  assert.match(stdout, /✔ is sound/);
});

type Asked = Readonly<Record<string, string>>;
type LockedPackage = { readonly integrity?: string; readonly version?: string } & {
  readonly [kind in "dependencies" | "devDependencies" | "optionalDependencies"]?: Asked;
};

function jsonOf<T>(name: string): T {
  return JSON.parse(readFileSync(join(import.meta.dirname, "..", name), "utf8")) as T;
}

/** What a package finds under a name: the one in its own folder, or in that of one around it. */
function foundBy(packages: Readonly<Record<string, LockedPackage>>, path: string, name: string): LockedPackage | undefined {
  for (let folder = path; ; folder = folder.slice(0, Math.max(0, folder.lastIndexOf("node_modules/") - 1))) {
    const found = packages[join(folder, "node_modules", name)];
    if (found !== undefined || folder === "") return found;
  }
}

test("the lock file has every package that any of its packages may need, on every platform, in the version that is asked for: npm ci refuses it otherwise", () => {
  const { packages } = jsonOf<{ packages: Record<string, LockedPackage> }>("package-lock.json");
  const asking = { ...packages, "": jsonOf<LockedPackage>("package.json") };
  const wrong = Object.entries(asking).flatMap(([path, { dependencies = {}, devDependencies = {}, optionalDependencies = {} }]) =>
    Object.entries({ ...dependencies, ...(path === "" ? devDependencies : {}), ...optionalDependencies }).flatMap(([name, asked]) => {
      const found = foundBy(packages, path, name);
      const isWrong = found === undefined || (/^\d+\.\d+\.\d+[^ ]*$/.test(asked) && found.version !== asked);
      return isWrong ? [`${path} asks for ${name} ${asked}, and the lock has ${found?.version}`] : [];
    }),
  );
  assert.deepEqual(wrong, []);
  const unchecked = Object.entries(packages).filter(([path, { integrity }]) => path !== "" && integrity === undefined);
  assert.deepEqual(unchecked, []);
});
