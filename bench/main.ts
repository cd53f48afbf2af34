// main — the bench: `npm run bench -- --help` says how to call it.
// Measures the raw ceiling and ours in one run; only their ratio is worth comparing between machines or days.
// The table goes to stdout, progress to stderr. A wrong value or a dead node ends the run with a non-zero exit and no
// file.

import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { foldLine } from "../src/cli/terminal-text.ts";
import { CASES, IDLE_CASE_NAMES, MEMORY_CASE_NAME } from "./cases.ts";
import type { Regime } from "./child.ts";
import { type Options, parseOptions, USAGE } from "./options.ts";
import { formatLine, formatMixes, formatTable, type Line } from "./report.ts";
import { groupsOf, runGroup, runIdleCase, runMemoryCase } from "./session.ts";

/** As of every command of ours. */
const USAGE_EXIT_CODE = 2;

async function run({ effort, caseNames, regimes, rawOnly, jsonFile }: Options): Promise<void> {
  const startedAt = performance.now();
  const lines: Line[] = [];
  const onLine = (line: Line): void => {
    lines.push(line);
    const text = `${((performance.now() - startedAt) / 1e3).toFixed(0).padStart(4)} s  ${formatLine(line)}`;
    progress(foldLine(text, { columns: columnsOf(process.stderr), indent: 4 }).join("\n"));
  };
  const cases = CASES.filter(({ name }) => caseNames.includes(name));
  for (const group of groupsOf(cases, possible(regimes))) await runGroup(group, { effort, rawOnly, onLine });
  if (caseNames.includes(MEMORY_CASE_NAME) && regimes.includes("free") && !rawOnly) await runMemoryCase(onLine);
  for (const packaging of ["sources", "built"] as const) {
    if (caseNames.includes(IDLE_CASE_NAMES[packaging]) && regimes.includes("free") && !rawOnly) await runIdleCase(packaging, onLine);
  }
  console.log([formatTable(lines, columnsOf(process.stdout)), ...formatMixes(lines)].join("\n"));
  if (jsonFile !== undefined) {
    const entries = lines.flatMap(({ entry }) => entry ?? []);
    writeFileSync(jsonFile, `${JSON.stringify(entries, null, 2)}\n`);
  }
}

function possible(regimes: readonly Regime[]): readonly Regime[] {
  if (!regimes.includes("pinned") || spawnSync("taskset", ["-c", "1", "true"]).status === 0) return regimes;
  progress("pinned cases are skipped: `taskset -c 1` does not work here (is util-linux installed, and are there two cores?)");
  return regimes.filter((regime) => regime !== "pinned");
}

/** A failure that made the shutdown fail as well is told first. */
function reason(error: unknown): string {
  if (error instanceof SuppressedError) return `${reason(error.suppressed)}\n(and while shutting down: ${reason(error.error)})`;
  return error instanceof Error ? error.message : String(error);
}

/** Of a terminal; endless elsewhere. */
function columnsOf(stream: NodeJS.WriteStream): number {
  return stream.isTTY ? stream.columns : Infinity;
}

function progress(text: string): void {
  process.stderr.write(`${text}\n`);
}

/** What Node's parser adds about an option that it does not know, of use to nobody here. */
const NODE_ADVICE = /\. To specify a positional argument.*/;

/** Undefined when they make no sense, which was said then. */
function readOptions(args: readonly string[]): Options | undefined {
  try {
    return parseOptions(args);
  } catch (error) {
    progress(`bench: ${reason(error).replace(NODE_ADVICE, "; --help tells what there is")}`);
    return undefined;
  }
}

async function main(args: readonly string[]): Promise<number> {
  if (["--help", "-h", "--help-all"].some((flag) => args.includes(flag))) {
    console.log(USAGE);
    return 0;
  }
  const options = readOptions(args);
  if (options === undefined) return USAGE_EXIT_CODE;
  try {
    await run(options);
    return 0;
  } catch (error) {
    progress(`bench: ${reason(error)}`);
    return 1;
  }
}

process.exitCode = await main(process.argv.slice(2));
