// config-problem — one problem of a configuration, and the error that reports all of them together. Each can be acted
// on by itself: what is wrong, where it was set, what was expected and found, and the fix.

import { WeighbridgeError } from "../../base/errors.ts";

export type ConfigProblem = {
  /** The variable, key or flag, as the user wrote it. */
  readonly subject: string;
  /** option, command line, environment, file:path or default. */
  readonly origin: string;
  readonly expected: string;
  readonly found: string;
  readonly fix: string;
};

const QUOTE_CHARS_MAX = 80;

/** A value as an error shows it. */
export function quote(value: unknown): string {
  const text = typeof value === "bigint" || typeof value === "symbol" ? String(value) : (JSON.stringify(value) ?? String(value));
  return text.length <= QUOTE_CHARS_MAX ? text : `${text.slice(0, QUOTE_CHARS_MAX)}… (${text.length} characters)`;
}

/** `hint` is a fix for several of them. */
export function badConfig(problems: readonly ConfigProblem[], hint = ""): WeighbridgeError {
  const count = problems.length === 1 ? "1 problem" : `${problems.length} problems`;
  const lines = problems.map((problem, index) => `  ${index + 1}. ${sentence(problem)}`);
  return new WeighbridgeError("BAD_CONFIG", `${count} with the configuration:\n${[...lines, ...(hint === "" ? [] : [hint])].join("\n")}`);
}

function sentence({ subject, origin, expected, found, fix }: ConfigProblem): string {
  return `${subject} (${origin}): expected ${expected}; found ${found}; fix: ${fix}`;
}
