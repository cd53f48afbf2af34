// Goal: what learning-rate-schedule promises, field by field and at its edges.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../../base/errors.ts";
import { rateShare } from "./learning-rate.ts";
import { resolveSchedule, type ScheduleSpec } from "./learning-rate-schedule.ts";

function shares(spec: ScheduleSpec, steps: readonly number[]): number[] {
  const schedule = resolveSchedule(spec);
  return steps.map((step) => Math.round(rateShare(schedule, step) * 1e9) / 1e9);
}

test("constant stays at 1", () => {
  assert.deepEqual(shares({ type: "constant" }, [0, 1, 1e9]), [1, 1, 1]);
  assert.deepEqual(resolveSchedule(undefined), { type: "constant" });
});

test("step falls by the factor after every so many steps", () => {
  assert.deepEqual(shares({ type: "step", every: 10, factor: 0.5 }, [0, 9, 10, 19, 20, 35]), [1, 1, 0.5, 0.5, 0.25, 0.125]);
});

test("cosine falls from 1 to the floor and stays there", () => {
  assert.deepEqual(shares({ type: "cosine", steps: 100, floor: 0.2 }, [0, 50, 100, 101, 1e6]), [1, 0.6, 0.2, 0.2, 0.2]);
  assert.deepEqual(shares({ type: "cosine", steps: 4 }, [0, 1, 2, 3, 4]), [1, 0.853553391, 0.5, 0.146446609, 0]);
});

test("warm-up rises to 1 with its last step, and what follows begins at its own step 0", () => {
  assert.deepEqual(shares({ type: "warmUp", steps: 4 }, [0, 1, 2, 3, 4, 100]), [0.25, 0.5, 0.75, 1, 1, 1]);
  assert.deepEqual(
    shares({ type: "warmUp", steps: 2, from: 0.5, after: { type: "step", every: 3, factor: 0.1 } }, [0, 1, 2, 4, 5, 8]),
    [0.75, 1, 1, 1, 0.1, 0.01],
  );
  const twice: ScheduleSpec = { type: "warmUp", steps: 2, after: { type: "warmUp", steps: 2 } };
  assert.deepEqual(shares(twice, [0, 1, 2, 3, 4]), [0.5, 1, 0.5, 1, 1]);
});

test("every share lies between 0 and 1", () => {
  const specs: ScheduleSpec[] = [
    { type: "step", every: 1, factor: 1e-300 },
    { type: "cosine", steps: 3, floor: 1 },
    { type: "warmUp", steps: 7, from: 1, after: { type: "cosine", steps: 1 } },
  ];
  for (const spec of specs) for (const share of shares(spec, [0, 1, 2, 3, 6, 7, 8, 9, 2 ** 40])) assert.ok(share >= 0 && share <= 1);
});

test("a schedule survives JSON, and resolving twice changes nothing", () => {
  const schedule = resolveSchedule({ after: { type: "cosine", steps: 5 }, type: "warmUp", steps: 3 });
  assert.deepEqual(schedule, { type: "warmUp", steps: 3, from: 0, after: { type: "cosine", steps: 5, floor: 0 } });
  assert.equal(JSON.stringify(resolveSchedule(JSON.parse(JSON.stringify(schedule)))), JSON.stringify(schedule));
});

test("a wrong schedule is refused with the field, what was expected and what was found", () => {
  const refused = (spec: unknown, message: RegExp): void =>
    assert.throws(
      () => resolveSchedule(spec),
      (thrown) => isWeighbridgeError(thrown, "BAD_ARGUMENT") && message.test(thrown.message),
    );
  refused(null, /^schedule: expected an object with a type, not null$/);
  refused({ type: "linear" }, /^schedule\.type: expected one of constant, step, cosine, warmUp, not "linear"; did you mean step\?$/);
  for (const type of ["constructor", "__proto__"]) refused({ type }, /^schedule\.type: expected one of/);
  refused({ type: "step", every: 0, factor: 0.5 }, /^schedule\.every: expected a whole number of at least 1, not 0$/);
  refused({ type: "step", every: 1.5, factor: 0.5 }, /^schedule\.every/);
  refused({ type: "step", every: 1, factor: 2 }, /^schedule\.factor: expected a number above 0 and up to 1, not 2$/);
  refused({ type: "cosine", steps: 10, floor: -1 }, /^schedule\.floor: expected a number from 0 to 1, not -1$/);
  refused({ type: "cosine", step: 10 }, /^schedule\.step: there is no such field; cosine has type, steps, floor; did you mean steps\?$/);
  refused(
    { type: "warmUp", steps: 1, after: { type: "cosine" } },
    /^schedule\.after\.steps: expected a whole number of at least 1, not undefined$/,
  );
});
