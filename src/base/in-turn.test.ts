// in-turn.test — Goal: work runs alone and in order, and a failure reaches its caller alone.

import assert from "node:assert/strict";
import { test } from "node:test";
import { InTurn } from "./in-turn.ts";

test("work begins when the work before it has ended, failed or not (InTurn.T1)", async () => {
  const turns = new InTurn();
  const lines: string[] = [];
  const first = Promise.withResolvers<void>();
  const failed = turns.run(async () => {
    lines.push("first begins");
    await first.promise;
    lines.push("first ends");
    throw new Error("first");
  });
  const second = turns.run(() => {
    lines.push("second");
    return 2;
  });
  const { ended } = turns;
  first.resolve();
  await assert.rejects(failed, /first/);
  assert.equal(await second, 2);
  await ended;
  assert.deepEqual(lines, ["first begins", "first ends", "second"]);
});
