// Whether the data can be learned, and what is measured of it.

import assert from "node:assert/strict";
import test from "node:test";
import { ClickWorld, FEATURE_COUNT } from "./click-world.ts";
import { Learner } from "./learner.ts";
import { qualityOf } from "./quality.ts";

const world = new ClickWorld(10);
const heldOut = world.draw(5000, 1);

test("without weights it is guessing; with the true ones it is as good as can be", () => {
  const guess = qualityOf(new Float32Array(FEATURE_COUNT), heldOut);
  assert.equal(guess.auc, 0.5);
  assert.ok(Math.abs(guess.logLoss - Math.LN2) < 1e-9);
  const best = qualityOf(world.trueWeights, heldOut);
  assert.ok(best.auc > 0.88 && best.accuracy > 0.78 && best.logLoss < 0.45, JSON.stringify(best));
});

test("weights turned round foretell the opposite", () => {
  const best = qualityOf(world.trueWeights, heldOut);
  const turned = world.trueWeights.map((weight) => -weight);
  const worst = qualityOf(turned, heldOut);
  assert.ok(Math.abs(best.auc + worst.auc - 1) < 1e-9);
});

test("the same seeds draw the same impressions", () => {
  assert.deepEqual(new ClickWorld(10).draw(50, 3), world.draw(50, 3));
  assert.notDeepEqual(world.draw(50, 4), world.draw(50, 3));
});

test("a learner on its own gets better step by step", () => {
  const learner = new Learner();
  const weights = new Float32Array(FEATURE_COUNT);
  for (let step = 0; step < 300; step++) {
    const batch = world.draw(128, step + 100);
    const features = learner.featuresOf(batch);
    const own = Float32Array.from(features.unique, (feature) => weights[feature] as number);
    const changes = new Float32Array(own.length);
    learner.learn(batch, features, own, changes);
    features.unique.forEach((feature, place) => {
      weights[feature]! += changes[place] as number;
    });
  }
  assert.ok(qualityOf(weights, heldOut).auc > 0.8);
});
