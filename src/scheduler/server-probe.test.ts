// server-probe — Goal: a server is gone exactly when its machine says that nothing listens at its address.

import assert from "node:assert/strict";
import { test } from "node:test";
import { WeighbridgeError } from "../base/errors.ts";
import { SimClock } from "../testing/sim-clock.ts";
import type { Link, Transport } from "../transport/transport.ts";
import { ServerProbe } from "./server-probe.ts";

type Answer = "refused" | "silent" | "answered";

/** A server that answers so, one try after the other, and is lost so many times; what was made of it. */
async function probed(
  answers: readonly Answer[],
  isBackAfter = Infinity,
  forMs = 100,
  times = 1,
): Promise<{ tries: number; gone: number; closed: number }> {
  const clock = new SimClock();
  const seen = { tries: 0, gone: 0, closed: 0 };
  const connect: Transport["connect"] = async () => {
    const answer = answers[seen.tries++];
    if (answer === "answered") return { destroy: () => seen.closed++ } as unknown as Link;
    const cause = Object.assign(new Error(answer), { code: answer === "refused" ? "ECONNREFUSED" : "ETIMEDOUT" });
    throw new WeighbridgeError("NO_ROUTE", "nothing answers", { retryable: true, cause });
  };
  const roster = {
    lostServer: () => (seen.tries < isBackAfter ? "memory://s0" : undefined),
    serverGone: (node: number, incarnation: number) => {
      assert.deepEqual([node, incarnation], [8, 2]);
      return [{ kind: "died", node } as const];
    },
  };
  const carryOut = ({ length }: readonly unknown[]): void => {
    seen.gone += length;
  };
  const probe = new ServerProbe({ transport: { connect }, clock, roster, carryOut });
  for (let time = 0; time < times; time++) probe.lost(8, 2);
  await clock.advance(forMs);
  return seen;
}

test("a server is gone when nothing listens there, at the first try or a later one", async () => {
  assert.deepEqual(await probed(["refused"]), { tries: 1, gone: 1, closed: 0 });
  assert.deepEqual(await probed(["answered", "answered", "refused"]), { tries: 3, gone: 1, closed: 2 });
});

test("one that is silent is not, and is asked again once a second (ServerProbe.H1)", async () => {
  assert.deepEqual(await probed(["silent", "silent"], Infinity, 1500), { tries: 2, gone: 0, closed: 0 });
  assert.deepEqual(await probed(["silent", "answered", "refused"], Infinity, 1500), { tries: 3, gone: 1, closed: 1 });
});

test("one that is looked for is not looked for twice", async () => {
  assert.deepEqual(await probed(["answered", "silent"], Infinity, 10, 3), { tries: 2, gone: 0, closed: 1 });
});

test("nor is one that has come back meanwhile", async () => {
  assert.deepEqual(await probed(["answered", "refused"], 2), { tries: 2, gone: 0, closed: 1 });
  assert.deepEqual(await probed(["refused"], 0), { tries: 0, gone: 0, closed: 0 });
});

test("one that answers is looked for less often after 50 ms, until it is gone", async () => {
  const answers = [...Array.from({ length: 30 }, () => "answered" as const), "refused" as const];
  assert.deepEqual(await probed(answers, Infinity, 1000), { tries: 19, gone: 0, closed: 19 });
  assert.deepEqual(await probed(answers, Infinity, 5000), { tries: 31, gone: 1, closed: 30 });
});

test("nobody is looked for without a transport, nor by a scheduler that is closed", async () => {
  let tries = 0;
  const roster = { lostServer: () => "memory://s0", serverGone: () => assert.fail("nobody is gone") };
  const clock = new SimClock();
  const connect: Transport["connect"] = async () => {
    tries++;
    return { destroy: () => {} } as unknown as Link;
  };
  new ServerProbe({ clock, roster, carryOut: () => {} }).lost(8, 2);
  const probe = new ServerProbe({ transport: { connect }, clock, roster, carryOut: () => {} });
  probe.lost(8, 2);
  await clock.advance(3);
  probe.close();
  await clock.advance(100);
  assert.equal(tries, 1);
});
