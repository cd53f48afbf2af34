// Goal: every request finds its application, those that come early wait for it in order, and neither the early nor the
// lost cost much.

import assert from "node:assert/strict";
import { test } from "node:test";
import { StubCaller } from "../testing/stub-caller.ts";
import { AppRegistry, type AppRegistryOptions } from "./app-registry.ts";
import type { FunctionHandler } from "./channel.ts";

const FUNCTION = 40;

function stage(options: Partial<AppRegistryOptions> = {}) {
  const caller = new StubCaller();
  const directory = new AppRegistry({ clock: caller.clock, ...options });
  caller.serve(FUNCTION, directory);
  return { caller, directory };
}

/** An app that answers and remembers what it saw: "name payload". */
function recorder(seen: string[], name = "app"): FunctionHandler {
  return {
    handle(channel, header, bytes, at): void {
      seen.push(`${name} ${new TextDecoder().decode(bytes.subarray(at, at + header.payloadBytes))}`);
      channel.acknowledge(header);
    },
  };
}

test("hands requests to their application, and asks it where payloads should land", async () => {
  const { caller, directory } = stage();
  const seen: string[] = [];
  const long = "a".repeat(200); // shorter ones stay where they were read
  const landing = new Uint8Array(long.length);
  directory.add(1, { ...recorder(seen, "one"), destination: () => landing });
  directory.add(2, recorder(seen, "two"));
  await caller.request({ app: 2, text: "b" });
  await caller.request({ app: 1, text: long });
  assert.deepEqual(seen, ["two b", `one ${long}`]);
  assert.deepEqual(landing, new TextEncoder().encode(long));
  assert.deepEqual(caller.answers(), ["REPLY 1", "REPLY 2"]);
});

test("an application exists once; on workers once per customer", () => {
  const { directory } = stage();
  directory.add(1, recorder([]));
  assert.throws(() => directory.add(1, recorder([]), 5), /already has an application 1/);
  const worker = stage({ byCustomer: true }).directory;
  worker.add(1, recorder([]));
  worker.add(1, recorder([]), 5);
  assert.throws(() => worker.add(1, recorder([]), 5), /application 1 for customer 5/);
});

test("customers of one app do not get each other's requests", async () => {
  const { caller, directory } = stage({ byCustomer: true });
  const seen: string[] = [];
  directory.add(1, recorder(seen, "zero"));
  directory.add(1, recorder(seen, "five"), 5);
  directory.add(0, recorder(seen, "other app"), 5);
  await caller.request({ app: 1, customer: 5, text: "a" });
  await caller.request({ app: 1, customer: 0, text: "b" });
  await caller.request({ app: 0, customer: 5, text: "c" });
  assert.deepEqual(seen, ["five a", "zero b", "other app c"]);
});

test("requests that come early are handed over in their order, before any later one (AppRegistry.A1)", async () => {
  const { caller, directory } = stage();
  const seen: string[] = [];
  await caller.request({ app: 1, text: "first" });
  await caller.request({ app: 1, text: "second" });
  assert.deepEqual(caller.answers(), []);
  directory.add(1, recorder(seen));
  caller.receive({ app: 1, text: "third, in the same turn" });
  await caller.clock.run();
  assert.deepEqual(seen, ["app first", "app second", "app third, in the same turn"]);
  assert.deepEqual(caller.answers(), ["REPLY 1", "REPLY 2", "REPLY 3"]);
});

test("a request that waited too long is answered with UNKNOWN_APP, and is not handed over later (AppRegistry.A2)", async () => {
  const { caller, directory } = stage({ waitMs: 1000 });
  const seen: string[] = [];
  caller.receive({ app: 1, text: "early" });
  await caller.clock.advance(900);
  caller.receive({ app: 1, text: "late" });
  await caller.clock.advance(100);
  assert.deepEqual(caller.answers(), ["FAILURE 1 UNKNOWN_APP"]);
  directory.add(1, recorder(seen));
  await caller.clock.run();
  assert.deepEqual(seen, ["app late"]);
  assert.deepEqual(caller.answers(), ["REPLY 2"]);
});

test("only so many requests and bytes wait; who is refused for room loses what it has waiting there, others do not (AppRegistry.A2, AppRegistry.A3)", async () => {
  for (const limits of [{ waitingMax: 4 }, { waitingBytesMax: 20 }]) {
    const { caller, directory } = stage(limits);
    const other = new StubCaller(caller.clock);
    other.serve(FUNCTION, directory);
    const seen: string[] = [];
    caller.receive({ app: 2, text: "apart" });
    for (const text of ["one..", "two.."]) caller.receive({ app: 1, text });
    other.receive({ app: 1, text: "other" });
    caller.receive({ app: 1, text: "one too many" });
    await caller.clock.advance(0);
    assert.deepEqual(caller.answers(), ["FAILURE 2 UNKNOWN_APP", "FAILURE 3 UNKNOWN_APP", "FAILURE 4 UNKNOWN_APP"], JSON.stringify(limits));
    caller.receive({ app: 1, text: "again" });
    directory.add(1, recorder(seen));
    directory.add(2, recorder(seen, "two"));
    await caller.clock.run();
    assert.deepEqual(seen, ["app other", "app again", "two apart"]);
  }
});

test("what a node asked before it was restarted is not handed over, and the next incarnation gets the answer to its own request (AppRegistry.A5)", async () => {
  const { caller, directory } = stage();
  const seen: string[] = [];
  caller.receive({ app: 1, text: "old" });
  caller.restart();
  caller.receive({ app: 1, text: "new" }); // has the number of the old one
  directory.add(1, recorder(seen));
  await caller.clock.run();
  assert.deepEqual(seen, ["app new"]);
  assert.deepEqual(caller.answers(), ["REPLY 1"]);
});

test("what a node asked before it was restarted is refused to nobody, in time and for lack of room (AppRegistry.A5)", async () => {
  const { caller, directory } = stage({ waitMs: 1000, waitingMax: 2 });
  const seen: string[] = [];
  caller.receive({ app: 1, text: "old" });
  await caller.clock.advance(900);
  caller.restart();
  caller.receive({ app: 1, text: "new" });
  await caller.clock.advance(100);
  assert.deepEqual(caller.answers(), [], "the time of the old one is over");
  caller.restart();
  caller.receive({ app: 1, text: "newer" });
  caller.receive({ app: 1, text: "one too many" });
  await caller.clock.advance(0);
  assert.deepEqual(caller.answers(), ["FAILURE 1 UNKNOWN_APP", "FAILURE 2 UNKNOWN_APP"]);
  directory.add(1, recorder(seen));
  await caller.clock.run();
  assert.deepEqual(seen, []);
});

test("what an application throws at a request that waited goes back to its caller, and the next one is handed over", async () => {
  const { caller, directory } = stage();
  caller.receive({ app: 1, text: "bad" });
  caller.receive({ app: 1, text: "good" });
  directory.add(1, {
    handle(channel, header, bytes): void {
      if (bytes[0] === "b".charCodeAt(0)) throw new Error("bad");
      channel.acknowledge(header);
    },
  });
  await caller.clock.run();
  assert.deepEqual(caller.answers().sort(), ["FAILURE 1 HANDLER_FAILED", "REPLY 2"]);
});
