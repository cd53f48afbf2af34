// transport-suite — what every Transport must do (Link.L1 to L5), as one function that
// registers the tests.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../../src/base/errors.ts";
import type { LinkReader } from "../../src/transport/transport.ts";
import {
  closePair,
  connectPair,
  DEADLINE_MS,
  Leftovers,
  Recorder,
  randomBytes,
  type Scenario,
  type TransportKind,
} from "./transport-bench.ts";
import { testDelivery, testFlow } from "./transport-delivery.ts";
import { testEnds, testFaults } from "./transport-ends.ts";

export function testTransport(kind: TransportKind): void {
  const scenario: Scenario = (name, body) => {
    test(`${kind.name}: ${name}`, { timeout: 30_000 }, async (context) => {
      const bench = kind.open(context);
      const leftovers = new Leftovers();
      context.after(() => leftovers.end());
      const tracked = { ...bench, listening: leftovers.track(bench.listening), connecting: leftovers.track(bench.connecting) };
      await bench.drive(body(tracked));
    });
  };
  testDelivery(scenario);
  testFlow(scenario);
  testEnds(scenario, kind);
  testFaults(scenario);
  testAddresses(scenario, kind);
}

function testAddresses(scenario: Scenario, kind: TransportKind): void {
  const noReader = (): LinkReader => assert.fail("nobody is connected");

  scenario("says NO_ROUTE and the address when nobody listens there", async (bench) => {
    const address = bench.freeAddress();
    const listener = await bench.listening.listen(address, noReader);
    await listener.close();
    await assert.rejects(bench.connecting.connect(listener.address, noReader, { timeoutMs: DEADLINE_MS }), (error) => {
      assert.ok(isWeighbridgeError(error, "NO_ROUTE"));
      assert.ok(error.message.includes(listener.address), error.message);
      return error.retryable;
    });
  });

  scenario("says PORT_IN_USE and the address when it is taken, and takes it again once it is free", async (bench) => {
    const listener = await bench.listening.listen(bench.freeAddress(), (link) => new Recorder().take(link));
    await assert.rejects(bench.listening.listen(listener.address, noReader), (error) => {
      assert.ok(isWeighbridgeError(error, "PORT_IN_USE"));
      assert.ok(error.message.includes(listener.address) && error.message.includes("choose another"), error.message);
      return true;
    });
    const near = new Recorder();
    // The first one still listens.
    const link = await bench.connecting.connect(listener.address, near.take, { timeoutMs: DEADLINE_MS });
    link.destroy();
    await near.untilClosed();
    await listener.close();
    const again = await bench.listening.listen(listener.address, noReader);
    assert.equal(again.address, listener.address);
    await again.close();
  });

  scenario("closes a listener twice without harm, and leaves its links alone", async (bench) => {
    const pair = await connectPair(bench);
    await pair.listener.close();
    await pair.listener.close();
    pair.nearLink.write([randomBytes(1000, 23)], () => {});
    await pair.far.until(1000);
    pair.farLink.write([randomBytes(1000, 24)], () => {});
    await pair.near.until(1000);
    await closePair(pair);
  });

  scenario("says BAD_ARGUMENT for addresses that are none of its own", async (bench) => {
    for (const address of ["", "nonsense", "http://host:1", ...kind.badAddresses]) {
      const bad = (error: unknown): boolean => isWeighbridgeError(error, "BAD_ARGUMENT") && error.message.includes(`"${address}"`);
      await assert.rejects(bench.listening.listen(address, noReader), bad, `listen ${address}`);
      await assert.rejects(bench.connecting.connect(address, noReader, { timeoutMs: DEADLINE_MS }), bad, `connect ${address}`);
    }
  });
}
