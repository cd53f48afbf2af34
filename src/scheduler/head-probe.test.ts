// head-probe — Goal: a head is gone exactly when its machine says that nothing listens at its address.

import assert from "node:assert/strict";
import { test } from "node:test";
import { WeighbridgeError } from "../base/errors.ts";
import { SimClock } from "../testing/sim-clock.ts";
import type { Link, Transport } from "../transport/transport.ts";
import { HeadProbe } from "./head-probe.ts";

type Answer = "refused" | "silent" | "answered";

/** A head that answers so, one try after the other; what was made of it. */
async function probed(answers: readonly Answer[], isBackAfter = Infinity): Promise<{ tries: number; gone: number; closed: number }> {
  const clock = new SimClock();
  const seen = { tries: 0, gone: 0, closed: 0 };
  const connect: Transport["connect"] = async () => {
    const answer = answers[seen.tries++];
    if (answer === "answered") return { destroy: () => seen.closed++ } as unknown as Link;
    const cause = Object.assign(new Error(answer), { code: answer === "refused" ? "ECONNREFUSED" : "ETIMEDOUT" });
    throw new WeighbridgeError("NO_ROUTE", "nobody answers", { retryable: true, cause });
  };
  const roster = {
    lostHead: () => (seen.tries < isBackAfter ? "memory://s0" : undefined),
    headGone: (node: number, incarnation: number) => {
      assert.deepEqual([node, incarnation], [8, 2]);
      return [{ kind: "died", node } as const];
    },
  };
  const carryOut = ({ length }: readonly unknown[]): void => {
    seen.gone += length;
  };
  const probe = new HeadProbe({ transport: { connect }, clock, roster, carryOut });
  probe.lost(8, 2);
  await clock.advance(100);
  return seen;
}

test("a head is gone when nothing listens there, at the first try or a later one", async () => {
  assert.deepEqual(await probed(["refused"]), { tries: 1, gone: 1, closed: 0 });
  assert.deepEqual(await probed(["answered", "answered", "refused"]), { tries: 3, gone: 1, closed: 2 });
});

test("one that is silent is not (HeadProbe.H1)", async () => {
  assert.deepEqual(await probed(["silent"]), { tries: 1, gone: 0, closed: 0 });
});

test("nor is one that has come back meanwhile", async () => {
  assert.deepEqual(await probed(["answered", "refused"], 2), { tries: 2, gone: 0, closed: 1 });
  assert.deepEqual(await probed(["refused"], 0), { tries: 0, gone: 0, closed: 0 });
});

test("nobody is looked for without a transport, nor by a scheduler that is closed", async () => {
  let tries = 0;
  const roster = { lostHead: () => "memory://s0", headGone: () => assert.fail("nobody is gone") };
  const clock = new SimClock();
  const connect: Transport["connect"] = async () => {
    tries++;
    return { destroy: () => {} } as unknown as Link;
  };
  new HeadProbe({ clock, roster, carryOut: () => {} }).lost(8, 2);
  const probe = new HeadProbe({ transport: { connect }, clock, roster, carryOut: () => {} });
  probe.lost(8, 2);
  await clock.advance(3);
  probe.close();
  await clock.advance(100);
  assert.equal(tries, 1);
});
