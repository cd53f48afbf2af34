// Goal: what servers say of their plug-ins is compared by rank, whichever answered first.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../base/errors.ts";
import { requireSamePlugIns } from "./parameter-control.ts";

const answer = (version: number, hash: string, module: string): string =>
  JSON.stringify([{ kind: "updater", name: "u", version, deterministic: true, hash, module }]);

test("servers with the same version and source are alike, wherever the module lies", () => {
  requireSamePlugIns("e", new Map());
  requireSamePlugIns(
    "e",
    new Map([
      [0, "[]"],
      [1, "[]"],
    ]),
  );
  requireSamePlugIns(
    "e",
    new Map([
      [1, answer(1, "aa", "/x/u.ts")],
      [0, answer(1, "aa", "/y/u.ts")],
    ]),
  );
});

test("servers that differ in the version or the source are named with their modules, the lower rank first", () => {
  for (const other of [answer(2, "aa", "/y/u.ts"), answer(1, "bb", "/y/u.ts")]) {
    const answers = new Map([
      [1, other],
      [0, answer(1, "aa", "/x/u.ts")],
    ]);
    assert.throws(
      () => requireSamePlugIns("e", answers),
      (thrown) =>
        isWeighbridgeError(thrown, "SPEC_MISMATCH") &&
        /^e: servers have different modules with the updater "u": server 0 version 1 of \/x\/u\.ts .*, server 1 version/.test(
          thrown.message,
        ),
    );
  }
});
