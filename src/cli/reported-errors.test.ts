// Goal: an error that several processes run into is printed once, and nothing is lost.

import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import type { ProcessEnd } from "../node/launcher/node-process.ts";
import { ReportedErrors } from "./reported-errors.ts";

const ERROR = 'weighbridge: UNKNOWN_FUNCTION: no function "normOf" on server 0';

/** Processes of a job that write lines and end; what is shown of it. */
class Stage {
  readonly shown: string[] = [];
  readonly #errors = new ReportedErrors();

  process(name: string) {
    const { promise, resolve } = Promise.withResolvers<void>();
    const show = (line: string): void => void this.shown.push(line);
    const take = this.#errors.reader(promise, (line) => `[${name}] ${line}`, show);
    const write = (line: string): void => {
      const changed = take(line);
      if (changed !== undefined) show(changed);
    };
    return { write, end: resolve };
  }

  fail(reason: string): void {
    this.#errors.addReason({ reason } as ProcessEnd);
    this.shown.push(`the job: ${reason}`);
  }
}

test("an error that ends the job is told in its last line alone, however many processes ran into it (ReportedErrors.T1)", async () => {
  const stage = new Stage();
  const [one, other] = [stage.process("worker/0"), stage.process("worker/1")];
  one.write("before");
  one.write(`${ERROR} (train.ts:3:7)`);
  other.write(`${ERROR} (train.ts:9:7)`);
  one.end();
  stage.fail(`${ERROR} (train.ts:3:7)`);
  other.end();
  await turn();
  await turn();
  assert.deepEqual(stage.shown, ["[worker/0] before", `the job: ${ERROR} (train.ts:3:7)`]);
});

test("an error that does not end the job is told by the first process that says it, and others in their own words (ReportedErrors.T1)", async () => {
  const stage = new Stage();
  const [one, other, third] = [stage.process("worker/0"), stage.process("worker/1"), stage.process("worker/2")];
  for (const process of [one, other]) process.write(ERROR);
  third.write("weighbridge: CLOSED: something else");
  for (const process of [one, other, third]) process.end();
  await turn();
  await turn();
  assert.deepEqual(stage.shown, [`[worker/0] ${ERROR}`, "[worker/2] weighbridge: CLOSED: something else"]);
});

test("a line that follows an error, such as one of its list, comes after it", () => {
  const stage = new Stage();
  const { write } = stage.process("server/0");
  write("weighbridge: BAD_CONFIG: 1 problem with the configuration:");
  write("  1. rank");
  assert.deepEqual(stage.shown, ["[server/0] weighbridge: BAD_CONFIG: 1 problem with the configuration:\n[server/0]   1. rank"]);
});

test("a process that does not end after its error shows it soon (ReportedErrors.T2)", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const stage = new Stage();
  stage.process("worker/0").write(ERROR);
  assert.deepEqual(stage.shown, []);
  t.mock.timers.tick(1000);
  assert.deepEqual(stage.shown, [`[worker/0] ${ERROR}`]);
});

test("lines that differ only in the server which reports the error are one error (ReportedErrors.T1)", async () => {
  const stage = new Stage();
  const [one, other] = [stage.process("worker/0"), stage.process("worker/1")];
  one.write('weighbridge: UNKNOWN_PLUG_IN: server 1: this server has no updater "signs"');
  other.write('weighbridge: UNKNOWN_PLUG_IN: server 0: this server has no updater "signs"');
  one.end();
  other.end();
  await turn();
  await turn();
  assert.deepEqual(stage.shown, ['[worker/0] weighbridge: UNKNOWN_PLUG_IN: server 1: this server has no updater "signs"']);
});
