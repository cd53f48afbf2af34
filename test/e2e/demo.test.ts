// demo — Goal: what `npm start` runs learns something, and says so.

import assert from "node:assert/strict";
import test from "node:test";
import { Processes } from "./processes.ts";

test("the demo trains a model that is far better than guessing", async () => {
  await using processes = new Processes();
  const demo = processes.weighbridge(["demo", "--steps", 600]);
  await demo.succeeds(60_000);
  const [, before, after, best] = await demo.says(/^ {2}AUC +(\d\.\d+) +(\d\.\d+) +(\d\.\d+)$/);
  assert.ok(Number(before) === 0.5 && Number(after) > 0.82 && Number(after) < Number(best), demo.transcript);
  await demo.says(/^ {2}.*step +1,200\/1,200 .*done/);
  await demo.says(/server 1 .*10,000/);
  await demo.says(/npx weighbridge launch/);
});
