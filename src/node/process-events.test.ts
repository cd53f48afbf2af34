// process-events — Goal: any number of nodes listen to the end of one process with one listener of its own.

import assert from "node:assert/strict";
import { test } from "node:test";
import { EndEvent } from "./process-events.ts";

type EndListener = (exitCode: number) => void;

test("twenty nodes are one listener of the process, and each hears the event until it ends that", () => {
  const listeners = (name: string): EndListener[] => process.rawListeners(name) as EndListener[];
  for (const name of ["beforeExit", "exit"] as const) {
    const event = new EndEvent(name); // nodes of other tests of this process may listen to the shared ones
    const before = new Set(listeners(name));
    const heard: number[] = [];
    const stops = Array.from({ length: 20 }, (_, i) => event.on((exitCode) => heard.push(100 * exitCode + i)));
    const added = listeners(name).filter((listener) => !before.has(listener));
    assert.equal(added.length, 1, name);
    stops[3]?.();
    stops[3]?.();
    added[0]?.(1);
    assert.deepEqual(
      heard,
      Array.from({ length: 20 }, (_, i) => 100 + i).filter((number) => number !== 103),
    );
    for (const stop of stops) stop();
    assert.deepEqual(listeners(name), [...before], name);
  }
});
