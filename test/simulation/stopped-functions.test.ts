// Goal: users' functions on servers that leave their state when they are stopped: what could be repeated on a
// replicated server is saved, with what functions keep; with anything else the server leaves nothing, and says why.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { FunctionContext } from "../../src/contracts/function-context.ts";
import { type PsFunction, psFunction } from "../../src/contracts/ps-function.ts";
import { throwsCode } from "../../src/testing/throws-code.ts";
import { HEAD, StopStage } from "./planned-stops.ts";

type Counter = { calls: number };
const counterOf = (server: FunctionContext): Counter => server.own("counter", () => ({ calls: 0 }));

const count = psFunction({
  name: "count",
  request: {},
  response: { calls: "u32" },
  deterministic: true,
  save: (server) => Uint8Array.of(counterOf(server).calls),
  load: (server, [calls = 0]) => {
    counterOf(server).calls = calls;
  },
  handler: (server) => ({ calls: ++counterOf(server).calls }),
});

type Nothing = PsFunction<Record<never, never>, Record<never, never>>;

/** A function without save and load that does this. */
function doing(name: string, act: (server: FunctionContext) => unknown, deterministic: boolean = true): Nothing {
  return psFunction({
    name,
    request: {},
    response: {},
    deterministic,
    handler: (server) => {
      act(server);
      return {};
    },
  });
}

const keeps = doing("keeps", (server) => server.own("x", () => ({})));
const tells = doing("tells", (server) => server.workers.ranks);
const dice = doing("dice", () => {}, false);
const late: Nothing = psFunction({ name: "late", request: {}, response: {}, deterministic: true, handler: async () => ({}) });

test("a server with a deterministic function goes on where it was, with what the function keeps, also of calls while it stops", async () => {
  await using stage = await new StopStage({ functions: [count] }).open();
  const { cluster, session } = stage;
  const call = async (): Promise<number> => (await session.call(count, { server: 0 }, {})).calls;
  await cluster.run(stage.push());
  for (let i = 1; i <= 3; i++) assert.equal(await cluster.run(call()), i);
  const stopped = stage.stop();
  let calls = 3;
  while (!stage.hasLeft) assert.equal(await cluster.run(Promise.race([call(), stopped.then(() => 0)])), stage.hasLeft ? 0 : ++calls);
  assert.ok(calls > 3, "some came while it stopped");
  const next = call();
  await cluster.run(cluster.startNode(HEAD));
  assert.ok((await cluster.run(next)) > calls);
  await cluster.run(stage.push());
  assert.ok(!stage.isLost, stage.said.join("\n"));
});

for (const [fn, isServed, reason] of [
  [dice, false, /the function dice changes state, and is not deterministic/],
  [keeps, true, /the function keeps keeps "x" of its own, without save and load/],
  [tells, true, /the function tells calls workers/],
  [late, true, /the function late answers later/],
] as const) {
  test(`a server leaves nothing ${isServed ? "after a call of" : "with"} the function ${fn.name}, which it serves, and says why (PlannedStop.P3)`, async () => {
    await using stage = await new StopStage({ functions: [fn] }).open();
    const { cluster, session } = stage;
    await cluster.run(session.call(fn, { server: 0 }, {}));
    await cluster.run(stage.push());
    const stopped = stage.stop();
    await cluster.run(stopped);
    assert.ok(stage.isLost, stage.said.join("\n"));
    assert.match(stage.said.join(), reason);
    await assert.rejects(cluster.run(stage.push()), throwsCode("NODE_DEAD"));
  });
}

test("a function that could not be repeated hinders nothing as long as nobody calls it; while the server stops it is refused", async () => {
  await using stage = await new StopStage({ functions: [keeps, late] }).open();
  const { cluster, session } = stage;
  await cluster.run(stage.push());
  const { server } = cluster.office(HEAD);
  const stopped = stage.stop();
  while (server?.replica?.log.isOn !== true) await cluster.clock.advance(0.1);
  for (const fn of [keeps, late]) await assert.rejects(cluster.run(session.call(fn, { server: 0 }, {})), throwsCode("UNSUPPORTED"));
  await cluster.run(stopped);
  await cluster.run(cluster.startNode(HEAD));
  await cluster.run(stage.push());
  assert.ok(!stage.isLost, stage.said.join("\n"));
});
