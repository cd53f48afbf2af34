// Goal: `npm test` brings along what its tests need where it may, and its last lines say which tests were skipped and
// why.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { type InstallHost, installNumpy } from "../scripts/install-numpy.ts";
import { skippedText } from "../scripts/skipped-tests.ts";
import { planTests, SLOW_FILES, SLOW_FOLDERS, writeEntries } from "../scripts/test-plan.ts";
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

test("skipped tests are told by name and reason, whatever characters those have", () => {
  const folder = temporaryDirectory("skipped");
  const file = join(folder, "skips.test.mjs");
  writeFileSync(
    file,
    `import { describe, test } from "node:test";
test("one # two (3)", { skip: "there is no # here" }, () => {});
test("three", { skip: "there is no # here" }, () => {});
test("bare", { skip: true }, () => {});
describe("outer", () => { test("inner", { skip: "no Python" }, () => {}); test("runs", () => {}); });
`,
  );
  const log = join(folder, "log");
  spawnSync(process.execPath, ["--test", "--test-reporter=spec", `--test-reporter-destination=${log}`, file], {
    env: { ...process.env, NODE_TEST_CONTEXT: undefined },
  });
  assert.equal(
    skippedText(readFileSync(log, "utf8")),
    `skipped, 4 of them, and why:
  there is no # here:
    one # two (3)
    three
  no reason is given:
    bare
  no Python:
    inner`,
  );
  assert.equal(skippedText("✔ all of them (1.5ms)\nℹ skipped 0\n"), "");
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
