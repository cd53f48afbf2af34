// Goal: options are taken exactly when each of them exists; what is refused is named, with what was meant.

import assert from "node:assert/strict";
import { test } from "node:test";
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
  checkWaitOptions({ deadlineMs: 1, signal: undefined });
  refused(() => checkWaitOptions({ deadlinMs: 1 } as never), /did you mean deadlineMs\?/);
  refused(() => checkWaitOptions({ deadlineMs: -1 }), /a deadline of -1 ms/);
  checkWaitOptions({ barrier: false } as never, ["barrier", "deadlineMs"], "the options of a close");
  refused(() => checkWaitOptions({ barier: false } as never, ["barrier"], "the options of a close"), /of a close have no "barier"/);
});
