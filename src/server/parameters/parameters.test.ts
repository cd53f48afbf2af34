// parameters.test — Goal: a server's names and numbers are those of one catalogue, through clears that come late,
// twice or not at all.

import assert from "node:assert/strict";
import { test } from "node:test";
import { ParameterStage } from "../../testing/parameter-stage.ts";
import { specText } from "../../testing/test-catalogues.ts";

const { parameters: reference } = new ParameterStage();

function shapesOf({ specs }: typeof reference): string[] {
  return specs.map((spec) => `${spec.name} ${spec.kind === "tensor" ? spec.shape.join("x") : ""}`);
}

test("a number that has another name here, and a name that has another number, are refused, and nothing changes", () => {
  const { parameters } = new ParameterStage();
  parameters.create(specText("a"), { number: 1, edition: 1 });
  const other = { code: "SPEC_MISMATCH", message: /b is asked for as number 1, which is a here: it was numbered by another scheduler/ };
  assert.throws(() => parameters.create(specText("b"), { number: 1, edition: 1 }), other);
  const twice = { code: "SPEC_MISMATCH", message: /a is number 1 here, and 2 in the request/ };
  assert.throws(() => parameters.create(specText("a"), { number: 2, edition: 9 }), twice);
  for (const numbered of [
    { number: 0, edition: 1 },
    { number: 1, edition: 0 },
  ])
    assert.throws(() => parameters.create(specText("a"), numbered), { code: "BAD_REQUEST" });
  assert.deepEqual(shapesOf(parameters), ["a 4"]);
});

test("an edition that was cleared is not made again; a later one takes the place of an earlier, whose clear did not come", () => {
  const { parameters } = new ParameterStage();
  parameters.create(specText("a"), { number: 1, edition: 1 });
  assert.equal(parameters.clear(1, 1), true);
  assert.throws(() => parameters.create(specText("a"), { number: 1, edition: 1 }), {
    code: "UNKNOWN_PARAMETER",
    message: /a was dropped on this server/,
    retryable: true,
  });
  parameters.create(specText("a", [5]), { number: 1, edition: 2 });
  assert.equal(parameters.clear(1, 1), false, "a clear that comes late");
  assert.deepEqual(shapesOf(parameters), ["a 5"]);
  parameters.create(specText("a", [6]), { number: 1, edition: 4 });
  assert.deepEqual(shapesOf(parameters), ["a 6"]);
});

test("a server tells the names that it holds and those that it cleared, the latest 1,024, and nothing of what it is restoring", () => {
  const { parameters } = new ParameterStage();
  parameters.create(specText("kept"), { number: 1, edition: 3 });
  for (let i = 0; i < 1030; i++) {
    parameters.create(specText(`gone ${i}`), { number: 10 + i, edition: 1 });
    parameters.clear(10 + i, 1);
  }
  const told = [...parameters.entries()];
  assert.equal(told.length, 1025);
  const kept = told.find(({ name }) => name === "kept");
  assert.deepEqual([kept?.number, kept?.edition, JSON.parse(kept?.spec ?? "").shape], [1, 3, [4]]);
  assert.deepEqual(told.at(-1), { name: "gone 1029", number: 1039, edition: 2 });
  assert.equal(parameters.highest, 1039);
  parameters.isRestoring = true;
  assert.deepEqual(
    [...parameters.entries()].filter(({ spec }) => spec !== undefined),
    [],
  );
});

test("whoever wants to know learns of the first parameter before it is made", () => {
  const stage = new ParameterStage();
  const made: number[] = [];
  stage.parameters.onState = () => made.push(stage.parameters.all.length);
  stage.create({ kind: "table", width: 1 });
  assert.deepEqual(made, [0]);
});
