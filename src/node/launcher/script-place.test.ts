// Goal: the line of an error of ours names the line of the user's script from which it came, if its stack has one.

import assert from "node:assert/strict";
import { join, resolve } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { scriptPlace } from "./script-place.ts";

const project = resolve("/home/anna/project");
const root = join(project, "node_modules/weighbridge");
const url = (...path: readonly string[]): string => pathToFileURL(join(...path)).href;
const place = (...frames: readonly string[]): string | undefined =>
  scriptPlace(["WeighbridgeError: x (y):1:2", ...frames.map((frame) => `    at ${frame}`)].join("\n"), { root, cwd: project });

test("it is the first frame that is neither ours, nor of another package, nor of Node", () => {
  const ours = [`wrongLength (${url(root, "src/worker/caller-array.ts")}:64:10)`, `Tensor.push (${url(root, "lib/chunk-worker.js")}:1:1)`];
  const others = [
    "process.processTicksAndRejections (node:internal/process/task_queues:105:5)",
    `${url(project, "node_modules/a/b.js")}:1:2`,
  ];
  assert.equal(place(...ours, ...others, `inner (${url(project, "train.ts")}:6:11)`, `${url(project, "main.ts")}:8:7`), "train.ts:6:11");
  assert.equal(place(...ours, ...others), undefined);
  assert.equal(place(), undefined);
  assert.equal(scriptPlace("", { root, cwd: project }), undefined);
});

test("frames of every shape count: without a function, behind await, of a script in CommonJS, with a space in its path", () => {
  assert.equal(place(`${url(project, "train.ts")}:8:7`), "train.ts:8:7");
  assert.equal(place(`async ${url(project, "train.ts")}:8:7`), "train.ts:8:7");
  assert.equal(place(`async Promise.all (index 0)`, `Object.<anonymous> (${join(project, "train.cjs")}:3:1)`), "train.cjs:3:1");
  assert.equal(place(`inner (${url(project, "my models/a b.ts")}:6:11)`), `${join("my models", "a b.ts")}:6:11`);
});

test("a script of another folder is named in full, and an example of the package is no part of ours", () => {
  assert.equal(place(`${url("/srv/train.ts")}:8:7`), `${resolve("/srv/train.ts")}:8:7`);
  assert.equal(
    scriptPlace(`x\n    at ${url(project, "examples/06-resume/main.ts")}:8:7`, { root: project, cwd: project }),
    "examples/06-resume/main.ts:8:7".replaceAll("/", join("/")),
  );
});
