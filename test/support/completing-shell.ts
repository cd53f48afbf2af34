// completing-shell — what a shell that has loaded a completion script offers. zsh completes in its line editor alone:
// there the script's function is called as that would call it, and what it adds is printed.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Shell } from "../../src/cli/completion-scripts.ts";
import { temporaryDirectory } from "./temporary-directory.ts";

/** For the last of the words, without those that do not begin with it; undefined without such a shell. */
export function offeredBy(shell: Shell, script: string, words: readonly string[]): readonly string[] | undefined {
  const path = join(temporaryDirectory("completion"), "script");
  writeFileSync(path, script);
  const { error, status, stdout, stderr } = spawnSync(shell, ["-c", codeOf(shell, path, words)], { encoding: "utf8" });
  if (error !== undefined) return undefined;
  assert.equal(stderr, "");
  assert.equal(status, 0);
  const last = words.at(-1) ?? "";
  return stdout.split("\n").filter((line) => line !== "" && (shell !== "zsh" || line.startsWith(last)));
}

function codeOf(shell: Shell, path: string, words: readonly string[]): string {
  const list = ["weighbridge", ...words].map((word) => `'${word}'`).join(" ");
  switch (shell) {
    case "bash":
      return `. ${path}\nCOMP_WORDS=(${list}); COMP_CWORD=${words.length}; _weighbridge; printf '%s\\n' "\${COMPREPLY[@]}"`;
    case "zsh":
      return `compdef() { : }; _files() { : }; compadd() { shift; print -l -- "$@" }
. ${path}\nwords=(${list}); CURRENT=${words.length + 1}; _weighbridge`;
    case "fish":
      return `source ${path}\ncomplete -C ${JSON.stringify(["weighbridge", ...words].join(" "))} | cut -f1`;
  }
}
