// Goal: a shell that has loaded the completion script offers commands, flags and choices where they can stand.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { offeredBy } from "../../test/support/completing-shell.ts";
import { temporaryDirectory } from "../../test/support/temporary-directory.ts";
import { type CompletedCommand, completionScript, SHELLS, type Shell } from "./completion-scripts.ts";

const flag = (names: readonly string[], takesValue = false, choices: readonly string[] = []): CompletedCommand["flags"][number] => {
  return { names, summary: "it's a flag", takesValue, choices };
};
const command = (name: string, more: Partial<CompletedCommand> = {}): CompletedCommand => {
  return { name, summary: `what ${name} does`, flags: [], choices: [], commands: [], ...more };
};
const COMMANDS = [
  command("train", { choices: ["lenet", "mf"], flags: [flag(["--epochs"], true), flag(["-s", "--servers"], true)] }),
  command("launch", { flags: [flag(["--restart"], true, ["on-failure", "never"]), flag(["--all-roles"])] }),
  command("checkpoint", { commands: [command("save", { flags: [flag(["--keep"], true), flag(["--json"])] }), command("verify")] }),
];

/** What is offered for the last of the words; undefined without such a shell. */
function offered(shell: Shell, words: readonly string[]): readonly string[] | undefined {
  return offeredBy(shell, completionScript(shell, COMMANDS), words);
}

for (const shell of SHELLS) {
  const probe = spawnSync(shell, ["-c", "true"]).error === undefined;
  test(`${shell} reads its script`, { skip: probe ? false : `there is no ${shell} on this machine` }, () => {
    const path = join(temporaryDirectory("completion"), "script");
    writeFileSync(path, completionScript(shell, COMMANDS));
    const { status, stderr } = spawnSync(shell, ["-n", path], { encoding: "utf8" });
    assert.equal(status, 0, stderr);
  });
}

for (const shell of SHELLS) {
  const probe = spawnSync(shell, ["-c", "true"]).error === undefined;
  test(`${shell} offers commands, subcommands, choices and flags`, { skip: probe ? false : `there is no ${shell} on this machine` }, () => {
    assert.deepEqual(offered(shell, [""])?.toSorted(), ["checkpoint", "launch", "train"]);
    assert.deepEqual(offered(shell, ["la"]), ["launch"]);
    assert.deepEqual(offered(shell, ["checkpoint", ""])?.toSorted(), ["save", "verify"]);
    assert.deepEqual(offered(shell, ["train", "le"]), ["lenet"]);
    assert.deepEqual(offered(shell, ["launch", "--restart", ""])?.toSorted(), ["never", "on-failure"]);
    assert.deepEqual(offered(shell, ["launch", "--al"]), ["--all-roles"]);
    assert.deepEqual(offered(shell, ["checkpoint", "save", "--js"]), ["--json"]);
    assert.deepEqual(offered(shell, ["checkpoint", "verify", "--js"]), [], "a flag of another command");
  });
}

test("bash leaves values of flags, and what follows --, to files", () => {
  if (spawnSync("bash", ["-c", "true"]).error !== undefined) return;
  assert.deepEqual(offered("bash", ["train", "--epochs", ""]), []);
  assert.deepEqual(offered("bash", ["launch", "--", "--al"]), []);
  assert.deepEqual(offered("bash", ["train", "lenet", "--epochs", "3", "--s"]), ["--servers"]);
});
