// Goal: the table of optimizers in the guide is what the code does: every type, every setting, every default; and every
// option says what it is.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { resolveSchedule, type ScheduleSpec } from "../src/store/updaters/learning-rate-schedule.ts";
import { type OptimizerSpec, resolveOptimizer } from "../src/store/updaters/optimizer-spec.ts";

const read = (path: string): string => readFileSync(new URL(`../${path}`, import.meta.url), "utf8");
const PAGE = read("docs/guides/optimizers.md");

/** The cells of each row of the table that has this heading. */
function tableOf(heading: string): string[][] {
  const lines = PAGE.slice(PAGE.indexOf(heading)).split("\n");
  const end = lines.findIndex((line) => !line.startsWith("|"));
  const cells = (line: string): string[] =>
    line
      .split("|")
      .slice(1, -1)
      .map((cell) => cell.trim());
  return lines.slice(2, end).map(cells);
}

const bare = (cell: string): string => cell.replaceAll("`", "");

/** All types, as the error about an unknown one names them. */
function knownTypes(): string[] {
  try {
    resolveOptimizer({ type: "nonsense" } as unknown as OptimizerSpec);
  } catch (thrown) {
    return (/one of (.*?), not/.exec((thrown as Error).message)?.[1] ?? "").split(", ").map((type) => type.trim());
  }
  return [];
}

test("the guide's table has every optimizer with every setting and its default, and no others", () => {
  const documented = new Map(tableOf("| type ").map(([type = "", settings = ""]) => [bare(type), bare(settings)]));
  assert.deepEqual([...documented.keys()].sort(), knownTypes().sort());
  for (const [type, settings] of documented) {
    const {
      type: _type,
      schedule: _schedule,
      clipValue: _value,
      clipNorm: _norm,
      nonFinite: _policy,
      ...numbers
    } = resolveOptimizer({ type } as OptimizerSpec);
    const said = settings === "" ? [] : settings.split(", ").map((setting) => setting.split(" "));
    assert.deepEqual(Object.fromEntries(said.map(([name, value]) => [name, Number(value)])), numbers, type);
  }
});

test("the guide's table of common settings has those of the code with their defaults", () => {
  const documented = new Map(tableOf("| setting ").map(([name = "", value = ""]) => [bare(name), bare(value)]));
  const { schedule, clipValue, clipNorm, nonFinite } = resolveOptimizer({ type: "adam" });
  const defaults = { schedule: schedule?.type, clipValue: String(clipValue), clipNorm: String(clipNorm), nonFinite };
  assert.deepEqual(Object.fromEntries(documented), defaults);
  for (const type of ["assign", "min", "max"] as const) assert.deepEqual(Object.keys(resolveOptimizer({ type })), ["type", "nonFinite"]);
  assert.equal("schedule" in resolveOptimizer({ type: "ftrl" }), false);
});

test("the guide's schedules are resolved to what it says", () => {
  for (const [text, spec] of [
    ['{ type: "constant" }', { type: "constant" }],
    ['{ type: "cosine", steps, floor: 0 }', { type: "cosine", steps: 5 }],
    ['{ type: "warmUp", steps, from: 0, after: { type: "constant" } }', { type: "warmUp", steps: 5 }],
  ] as const satisfies readonly (readonly [string, ScheduleSpec])[]) {
    assert.ok(PAGE.includes(`\`${text}\``), text);
    const said = text.replace("steps", "steps: 5").replaceAll(/([a-zA-Z]+):/g, '"$1":');
    assert.deepEqual(resolveSchedule(spec), JSON.parse(said));
  }
});

test("every option of an optimizer and of a schedule has a comment that says what it is", () => {
  for (const [path, from, to] of [
    ["src/store/updaters/optimizer-spec.ts", "export type NonFinitePolicy", "export type OptimizerName"],
    ["src/store/updaters/learning-rate-schedule.ts", "export type ScheduleSpec", "/** A schedule with every field present"],
  ] as const) {
    const source = read(path);
    const lines = source.slice(source.indexOf(from), source.indexOf(to)).split("\n");
    const options = lines.flatMap((line, i) => (/^ +readonly (?!type)[a-zA-Z0-9]+\??:/.test(line) ? [i] : []));
    assert.ok(options.length >= 5);
    for (const i of options) assert.match(lines[i - 1] ?? "", /\*\/$/, `${path}: ${lines[i]?.trim()}`);
  }
});
