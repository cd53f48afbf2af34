// Goal: a node of the job is let in with the incarnation it was given; numbers and lives that nobody gave are not.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../base/errors.ts";
import type { RosterEntry, RosterView } from "../wire/roster.ts";
import { checkMember, type HelloRules } from "./hello-rules.ts";

const entry = (node: number, incarnation: number): RosterEntry => {
  return { node, role: node % 2 === 0 ? "server" : "worker", rank: 0, address: "", incarnation, state: "alive", label: "" };
};
const KNOWN: RosterView = { version: 1, nodes: [entry(8, 1), entry(9, 2)] };
const NOBODY: RosterView = { version: 0, nodes: [] };

/** "" when the node is let in; otherwise whether it may come again. */
function outcome(node: number, incarnation: number, rules: Partial<HelloRules>): string {
  try {
    checkMember({ node, incarnation }, { roster: KNOWN, serverCount: 1, workerCount: 1, isCertain: true, ...rules });
    return "";
  } catch (error) {
    assert.ok(isWeighbridgeError(error, "NO_ROUTE"), String(error));
    return error.retryable ? "later" : "never";
  }
}

test("a node with a slot is let in, in its incarnation or an older one, which others refuse by name", () => {
  assert.equal(outcome(9, 2, {}), "");
  assert.equal(outcome(9, 1, {}), "");
});

test("an incarnation of which nobody has told us may come again later", () => {
  assert.equal(outcome(9, 3, {}), "later");
  assert.equal(outcome(9, 2 ** 53 - 1, {}), "later");
  assert.equal(outcome(9, 3, { isCertain: false }), "", "a restarted scheduler hears of newer lives from the nodes");
});

test("a number that has no slot in the job is refused", () => {
  for (const node of [10, 11, 2 ** 53 - 1]) assert.equal(outcome(node, 1, {}), "never");
});

test("a restarted scheduler lets a node in of which the node that told it of the others had not heard", () => {
  assert.equal(outcome(11, 1, { isCertain: false, workerCount: 2 }), "");
  assert.equal(outcome(13, 1, { isCertain: false, workerCount: 2 }), "never");
});

test("while nobody has told us of anybody the counts decide", () => {
  assert.deepEqual(
    [8, 9, 10, 11].map((node) => outcome(node, 1, { roster: NOBODY, serverCount: 1, workerCount: 2 })),
    ["", "", "later", ""],
  );
});

test("where the roster tells a node's token, its hello has to show it", () => {
  const roster: RosterView = { version: 1, nodes: [{ ...entry(9, 2), token: "secret" }] };
  const rules = { roster, serverCount: 1, workerCount: 1, isCertain: true };
  const check = (incarnation: number, token: string | undefined): void => checkMember({ node: 9, incarnation, token }, rules);
  check(2, "secret");
  for (const token of ["", "Secret", "secret "]) assert.throws(() => check(2, token), /not worker 0 of incarnation 2/);
  check(2, undefined); // this process itself speaks for the node
  check(1, ""); // an earlier incarnation is refused by name, whoever it is
});
