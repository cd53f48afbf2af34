// Goal: a command notices that npm, which started it, is gone, and only then.

import assert from "node:assert/strict";
import { test } from "node:test";
import { watchStarter } from "./starter.ts";

function watch(npmCommand: string | undefined, parents: readonly number[], polls: number): string[] {
  const gone: string[] = [];
  let asked = 0;
  const timers: (() => void)[] = [];
  watchStarter({
    npmCommand,
    parentPid: () => parents[Math.min(asked++, parents.length - 1)]!,
    onGone: (starter) => gone.push(starter),
    every: (poll) => {
      timers.push(poll);
      return () => timers.splice(timers.indexOf(poll), 1);
    },
  });
  for (let poll = 0; poll < polls; poll++) for (const timer of [...timers]) timer();
  return gone;
}

test("npm start and npx are missed once when they are gone", () => {
  for (const command of ["start", "exec"]) assert.deepEqual(watch(command, [100, 100, 100, 1], 6), ["npm"]);
  assert.deepEqual(watch("start", [100], 6), []);
});

test("a shell, or a script of npm's, may leave a command running", () => {
  for (const command of [undefined, "run-script", ""]) assert.deepEqual(watch(command, [100, 1], 6), []);
});
