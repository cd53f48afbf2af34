// Goal: `npm test` brings along what its tests need where it may, and its last lines say which tests were skipped and why.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { type InstallHost, installNumpy } from "../scripts/install-numpy.ts";
import { skippedText } from "../scripts/skipped-tests.ts";

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
  const folder = mkdtempSync(join(tmpdir(), "weighbridge-skipped-"));
  try {
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
  } finally {
    rmSync(folder, { recursive: true });
  }
  assert.equal(skippedText("✔ all of them (1.5ms)\nℹ skipped 0\n"), "");
});
