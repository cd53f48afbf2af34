// scaling-service.test — Goal: servers that could not hold what the job holds are not left alone with it.

import assert from "node:assert/strict";
import { test } from "node:test";
import { throwsCode } from "../testing/throws-code.ts";
import { checkRoom } from "./scaling-service.ts";

const MIB = 2 ** 20;

test("what all servers hold must fit those to be, each by its share of the parts", () => {
  const holding = (rank: number, used: number, max: number) => ({ rank, stateBytes: used * MIB, stateBytesMax: max * MIB });
  const next = { epoch: 3, policy: "range", servers: [0] } as const;
  checkRoom([holding(0, 60, 128), holding(1, 60, 128)], next);
  assert.throws(
    () => checkRoom([holding(0, 80, 128), holding(1, 60, 128)], next),
    throwsCode("ARENA_FULL", /server 0 would hold 140 MiB of the job's 140 MiB, and has room for 128 MiB/),
  );
  checkRoom([holding(0, 80, 128), holding(1, 60, 128)], { ...next, servers: [0, 1] });
});
