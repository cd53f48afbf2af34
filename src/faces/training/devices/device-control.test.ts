// Goal: threads know between which words of the owner they have nothing to do.

import assert from "node:assert/strict";
import { test } from "node:test";
import { createControlMemory, DeviceControl, NO_CHUNK } from "./device-control.ts";

test("a step is under way from its begin until its gradients are summed, not until its chunks are taken", () => {
  const memory = createControlMemory(2, { isClaimed: true, chunkCountMax: 8 });
  const [owner, other] = [new DeviceControl(memory, 0), new DeviceControl(memory, 1)];
  assert.equal(other.isBetweenSteps, true);
  for (let step = 0; step < 3; step++) {
    owner.begin(16, 16);
    assert.equal(other.isBetweenSteps, false);
    for (let chunk = other.nextChunk(); chunk !== NO_CHUNK; chunk = other.nextChunk()) other.done(chunk, 1);
    assert.equal(other.hasChunk, false);
    assert.equal(other.isBetweenSteps, false);
    owner.endStep();
    assert.equal(other.isBetweenSteps, true);
  }
});
