// Goal: listeners of named events are called as people expect of an EventTarget, and one that fails harms no other.

import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { throwsCode } from "../testing/throws-code.ts";
import { EventListeners } from "./event-listeners.ts";

type Events = { readonly came: { readonly type: "came"; readonly what: number }; readonly went: { readonly type: "went" } };

function stage(): { readonly target: EventListeners<Events>; readonly failures: string[] } {
  const failures: string[] = [];
  return { target: new EventListeners<Events>(["came", "went"], (type, thrown) => failures.push(`${type}: ${String(thrown)}`)), failures };
}

test("a listener is called with each event of its name, until it is removed, once, or until a signal fires", () => {
  const { target } = stage();
  const [all, once, until]: [number[], number[], number[]] = [[], [], []];
  const listener = ({ what }: { readonly what: number }): void => void all.push(what);
  const stop = new AbortController();
  target.add("came", listener);
  target.add("came", listener, { once: true }); // the same function: it stays as it is
  target.add("came", ({ what }) => once.push(what), { once: true });
  target.add("came", ({ what }) => until.push(what), { signal: stop.signal });
  target.add("came", ({ what }) => until.push(-what), { signal: AbortSignal.abort() });
  target.emit({ type: "came", what: 1 });
  target.emit({ type: "went" });
  stop.abort();
  target.emit({ type: "came", what: 2 });
  target.remove("went", () => {});
  target.remove("came", listener);
  target.emit({ type: "came", what: 3 });
  assert.deepEqual([all, once, until], [[1, 2], [1], [1]]);
  assert.equal(target.has("came"), false);
});

test("a listener that throws or rejects is told, and the others are called", async () => {
  const { target, failures } = stage();
  const called: string[] = [];
  target.add("went", () => {
    throw new Error("thrown");
  });
  target.add("went", async () => await Promise.reject(new Error("rejected")));
  target.add("went", () => called.push("the last"));
  target.emit({ type: "went" });
  await setImmediate();
  assert.deepEqual(called, ["the last"]);
  assert.deepEqual(failures, ["went: Error: thrown", "went: Error: rejected"]);
});

test("events, listeners and options that do not exist are refused", () => {
  const { target } = stage();
  const loose = target as unknown as { add(...given: readonly unknown[]): void; remove(...given: readonly unknown[]): void };
  assert.throws(
    () => loose.add("cmae", () => {}),
    throwsCode("BAD_ARGUMENT", /no event "cmae"; there are came, went; did you mean came\?/),
  );
  assert.throws(() => loose.remove(undefined, () => {}), throwsCode("BAD_ARGUMENT", /no event undefined/));
  for (const wrong of [undefined, null, {}, { handleEvent() {} }])
    assert.throws(() => loose.add("came", wrong), throwsCode("BAD_ARGUMENT", /a listener must be a function/));
  assert.throws(() => loose.add("came", () => {}, { onec: true }), throwsCode("BAD_ARGUMENT", /did you mean once\?/));
  for (const wrong of [true, null]) assert.throws(() => loose.add("came", () => {}, wrong), throwsCode("BAD_ARGUMENT", /are an object/));
  assert.throws(() => loose.add("came", () => {}, { signal: 5 }), throwsCode("BAD_ARGUMENT", /must be an AbortSignal/));
});

test("node:events can wait for one", async () => {
  const { target } = stage();
  const asTarget = { addEventListener: target.add.bind(target), removeEventListener: target.remove.bind(target) };
  const waiting = once(asTarget as unknown as EventTarget, "came", { signal: new AbortController().signal });
  target.emit({ type: "came", what: 7 });
  assert.deepEqual(await waiting, [{ type: "came", what: 7 }]);
});
