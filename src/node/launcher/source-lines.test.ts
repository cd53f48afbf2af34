// Goal: a stack that passes files of the package leads to lines of its sources.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { temporaryDirectory } from "../../../test/support/temporary-directory.ts";
import { tellSourceLines, withSourceLines } from "./source-lines.ts";

const folder = "file:///package/lib/";

test("places in the package become places in the sources; others, and files without a map, stay", () => {
  const lib = temporaryDirectory("source-lines-lib");
  const href = `${pathToFileURL(lib).href}/`;
  // Line 3 is line 11 of the source.
  const map = { version: 3, sources: ["../src/worker/tensor.ts"], names: [], mappings: ";;AAUA" };
  writeFileSync(join(lib, "chunk-worker.js.map"), JSON.stringify(map));
  const stack = (place: string): string => `Error: no\n    at push (${place})\n    at file:///app/train.ts:5:1`;
  const source = new URL("../src/worker/tensor.ts:11:1", href).href;
  assert.equal(withSourceLines(stack(`${href}chunk-worker.js:3:1`), href), stack(source));
  for (const other of [`${href}chunk-other.js:3:1`, "file:///elsewhere/chunk-worker.js:3:1", "node:fs:3:1"])
    assert.equal(withSourceLines(stack(other), href), stack(other));
});

test("what is thrown need not be an error, nor changeable, and causes may go in a circle", () => {
  const circle = new Error("a");
  circle.cause = circle;
  for (const thrown of [circle, Object.freeze(new Error("b")), undefined, "text", { stack: `x (${folder}a.js:1:1)` }])
    assert.doesNotThrow(() => tellSourceLines(thrown));
});
