// completion — Goal: the scripts that the command prints complete the command's own words.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import test from "node:test";
import { COMMAND_NAMES } from "../../src/cli/commands.ts";
import { SHELLS } from "../../src/cli/completion-scripts.ts";
import { offeredBy } from "../support/completing-shell.ts";
import { Processes } from "./processes.ts";

for (const shell of SHELLS) {
  const isThere = spawnSync(shell, ["-c", "true"]).error === undefined;
  test(`${shell} completes the words of the command`, { skip: isThere ? false : `there is no ${shell} on this machine` }, async () => {
    await using processes = new Processes();
    const [plain, json] = [processes.weighbridge(["completion", shell]), processes.weighbridge(["completion", shell, "--json"])];
    await Promise.all([plain.succeeds(), json.succeeds()]);
    const script = plain.stdout;
    assert.deepEqual(JSON.parse(json.stdout), { shell, script });
    const offered = (...words: readonly string[]): readonly string[] => offeredBy(shell, script, words)?.toSorted() ?? [];
    assert.deepEqual(offered(""), COMMAND_NAMES.toSorted());
    assert.deepEqual(offered("params", ""), ["get", "list", "show"]);
    assert.deepEqual(offered("train", "wi"), ["wide-deep"]);
    assert.deepEqual(offered("init", "x", "--template", ""), ["service", "tables", "train"]);
    assert.deepEqual(offered("checkpoint", "save", "--kee"), ["--keep"]);
    assert.deepEqual(offered("launch", "--all-r"), ["--all-roles"]);
  });
}
