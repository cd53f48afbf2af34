// What a shared model of Node adds to the face: its files.

import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { temporaryDirectory } from "../../test/support/temporary-directory.ts";
import { throwsCode } from "../testing/throws-code.ts";
import { createSharedModel } from "./create-shared-model.ts";

test("a traceFile that cannot be written fails close, which names it; the model is closed", async () => {
  const model = createSharedModel("local", { traceFile: join(temporaryDirectory("trace"), "nowhere", "trace.json") });
  await model.init([0]);
  await assert.rejects(model.close(), throwsCode("BAD_ARGUMENT", /traceFile .*trace\.json cannot be written: ENOENT/));
  assert.throws(() => model.tensor([1], 0), throwsCode("CLOSED"));
  await model.close();
});
