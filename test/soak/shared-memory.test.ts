// Goal: 1,000 peers of shared-memory links are killed at seeded moments, and nothing is left of them (test/e2e has 20);
// and a ring takes 1,000,000 descriptors that somebody scribbled over (its own test has 20,000).

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";
import { killPeers } from "../e2e/killed-peers.ts";
import { temporaryDirectory } from "../support/temporary-directory.ts";

test("1,000 killed peers leave beginnings of their streams, and nothing else", { timeout: 1_200_000 }, async () => {
  await killPeers(1000, temporaryDirectory("killed-peers"));
});

test("1,000,000 scribbled descriptors end rings with BAD_FRAME, and nothing else happens", () => {
  const ring = new URL("../../src/node/transport/byte-ring.test.ts", import.meta.url).pathname;
  const { status, stdout } = spawnSync(process.execPath, ["--test", "--test-name-pattern=scribbled", ring], {
    encoding: "utf8",
    env: { ...process.env, WEIGHBRIDGE_FUZZ: "1000000", NODE_TEST_CONTEXT: undefined },
  });
  assert.equal(status, 0, stdout);
});
