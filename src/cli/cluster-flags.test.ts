// Goal: the commands about a running job take its address among their words, and no other command does.

import assert from "node:assert/strict";
import { test } from "node:test";
import { takeAddress } from "./cluster-flags.ts";

const ADDRESS = "weighbridge://a.example:9700";

test("the address of a job may stand anywhere among the words of a command about it", () => {
  for (const words of ["status ADDRESS --json", "status --json ADDRESS", "checkpoint ADDRESS save", "checkpoint save ADDRESS --keep 3"]) {
    const args = words.replace(" ADDRESS", "").split(" ");
    assert.deepEqual(takeAddress(words.replace("ADDRESS", ADDRESS).split(" ")), { address: ADDRESS, args });
  }
});

test("behind --, and in commands that run something else, such a word is left where it is", () => {
  for (const words of [["params", "get", "urls", "--string", "--", ADDRESS], ["launch", "-w", "2", "script.ts", ADDRESS], ["status"], []])
    assert.deepEqual(takeAddress(words), { args: words });
});
