// Goal: options are taken exactly when each of them exists; what is refused is named, with what was meant.

import assert from "node:assert/strict";
import { test } from "node:test";
import { checkWait } from "./deferred.ts";
import { isWeighbridgeError } from "./errors.ts";
import { checkOptions, checkWaitOptions } from "./known-options.ts";

const refused = (check: () => void, text: RegExp): void =>
  assert.throws(check, (error) => isWeighbridgeError(error, "BAD_ARGUMENT") && text.test(error.message));

test("takes what is known, nothing at all, and what is there without a value", () => {
  for (const options of [{}, { rows: 1 }, { rows: undefined, width: 2 }, Object.create(null)])
    checkOptions(options, ["rows", "width"], "it");
});

test("names every option that there is not, and the nearest of each", () => {
  refused(
    () => checkOptions({ rosw: 1, widht: 2, rows: 3 }, ["rows", "width"], "the options of w"),
    /^the options of w have no "rosw", "widht"; there are rows, width; did you mean rows and width\?$/,
  );
});

test("shows what is no object", () => {
  for (const [given, shown] of [
    [null, "null"],
    ["x", '"x"'],
    [7n, "7n"],
    [undefined, "undefined"],
  ] as const)
    refused(() => checkOptions(given, ["rows"], "the options"), new RegExp(`are an object with rows, not ${shown}$`));
});

test("a wait has a deadline and a signal; more where a call has more", () => {
  checkWaitOptions({ timeoutMs: 1, signal: undefined });
  refused(() => checkWaitOptions({ timoutMs: 1 } as never), /did you mean timeoutMs\?/);
  refused(() => checkWaitOptions({ timeoutMs: -1 }), /timeoutMs must be a number of milliseconds from 0 on, got -1/);
  checkWaitOptions({ barrier: false } as never, ["barrier", "timeoutMs"], "the options of a close");
  refused(() => checkWaitOptions({ barier: false } as never, ["barrier"], "the options of a close"), /of a close have no "barier"/);
});

test("a signal in place of options is refused with what to write", () => {
  refused(() => checkWaitOptions(AbortSignal.abort() as never), /^the options of a wait are an object: write \{ signal \} in place/);
});

test("an option that has another name now is refused with it", () => {
  refused(() => checkWaitOptions({ deadlineMs: 1 } as never), /^the options of a wait: deadlineMs is now called timeoutMs$/);
  refused(() => checkOptions({ deadlineMs: 1 }, ["rows"], "the options of w"), /have no "deadlineMs"; there are rows/);
  refused(() => checkWait({ deadlineMs: 1 } as never), /deadlineMs is now called timeoutMs/);
});
