// Goal: spec/protocol.md says the numbers that the code uses. Words cannot be tested; tables can.

import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { isWeighbridgeError, reasonOf } from "../../src/base/errors.ts";
import { CALL_WINDOW } from "../../src/cluster/cluster-node.ts";
import { rowsPull } from "../../src/contracts/rows.ts";
import { type InitializerSpec, resolveInitializer } from "../../src/store/initializers/initializer-spec.ts";
import { resolveSchedule } from "../../src/store/updaters/learning-rate-schedule.ts";
import { type OptimizerSpec, resolveOptimizer } from "../../src/store/updaters/optimizer-spec.ts";
import { ParameterStage } from "../../src/testing/parameter-stage.ts";
import { linkEncoding } from "../../src/wire/codecs/link-encoding.ts";
import { BLOCK_BYTES, HEADER_BYTES, Kind, PAYLOAD_BYTES_MAX, REQUESTS_OPEN_MAX } from "../../src/wire/frame.ts";
import { FunctionId } from "../../src/wire/function-id.ts";
import { KvFlag, LARGE_VALUE_BYTES } from "../../src/wire/kv-message.ts";

const root = join(import.meta.dirname, "..", "..");
const protocol = readFileSync(join(root, "spec", "protocol.md"), "utf8");
const consistency = readFileSync(join(root, "spec", "consistency.md"), "utf8");
const functions = readFileSync(join(root, "spec", "functions.md"), "utf8");

/** The cells of every table row. */
const rows = protocol
  .split("\n")
  .filter((line) => line.startsWith("|"))
  .map((line) => line.split("|").map((cell) => cell.trim()));

test("every function and every flag has the number that the text gives it", () => {
  for (const [name, number] of Object.entries(FunctionId)) {
    assert.ok(
      rows.some((row) => row[1] === String(number) && row[2] === name),
      `${name} is ${number}`,
    );
  }
  for (const [name, flag] of Object.entries(KvFlag)) {
    assert.ok(
      rows.some((row) => row[1] === name && row[2] === String(flag)),
      `${name} is ${flag}`,
    );
  }
});

test("kinds and limits are those of the code", () => {
  const kinds = Object.entries(Kind).map(([name, number]) => `${number} ${name}`);
  assert.ok(protocol.includes(kinds.join(", ")), kinds.join(", "));
  assert.ok(protocol.includes(`a header of ${HEADER_BYTES} bytes`));
  const limits = rows.slice(rows.findIndex((row) => row[1] === "payload of a frame"));
  const figures = [PAYLOAD_BYTES_MAX, BLOCK_BYTES, LARGE_VALUE_BYTES].map((bytes) => bytes.toLocaleString("en-US"));
  for (const figure of figures)
    assert.ok(
      limits.some((row) => row[2]?.includes(figure)),
      figure,
    );
  assert.equal(REQUESTS_OPEN_MAX, 2 ** 20);
  const openCalls = limits.find((row) => row[1]?.startsWith("calls that a server has open with one worker"));
  assert.equal(openCalls?.[2], `${CALL_WINDOW.callsMax}, ${CALL_WINDOW.bytesMax / 2 ** 20} MiB of requests`);
});

test("every code in the text is one of ours, and every one of ours is in the text", () => {
  const source = readFileSync(join(root, "src", "base", "errors.ts"), "utf8");
  const codes = new Set([...source.matchAll(/\| "([A-Z_]+)"/g)].map((match) => match[1]));
  const first = rows.findIndex((row) => row[1] === "code");
  const told = rows.slice(first + 2).map((row) => row[1] ?? "");
  const listed = told.slice(
    0,
    told.findIndex((name) => !/^[A-Z_]+$/.test(name)),
  );
  assert.ok(listed.length > 15);
  for (const code of listed) assert.ok(codes.has(code), code);
  for (const code of codes) assert.ok(listed.includes(code ?? ""), `${code} is not in the table`);
});

/**
 * Every error that a node makes, by code: whether the same call may succeed later. Not those that only a caller sees.
 */
function retryablesInCode(): Map<string, Set<string>> {
  const found = new Map<string, Set<string>>();
  const rooms = globSync("src/{base,cluster,consistency,kernel,node/checkpoint,peer,scheduler,server,store,wire}/**/*.ts", { cwd: root });
  for (const path of rooms.filter((name) => !name.endsWith(".test.ts"))) {
    const source = readFileSync(join(root, path), "utf8");
    for (const made of source.matchAll(/new WeighbridgeError\(\s*"([A-Z_]+)"/g)) {
      let end = made.index + made[0].length;
      for (let depth = 1; depth > 0; end++) depth += source[end] === "(" ? 1 : source[end] === ")" ? -1 : 0;
      const [, says = "false"] = /retryable: (true|false|[^,}]*)/.exec(source.slice(made.index, end)) ?? [];
      const code = made[1] ?? "";
      found.set(code, (found.get(code) ?? new Set()).add(says.trim()));
    }
  }
  return found;
}

test("the text says of every code whether its failures are retryable, as the code has it", () => {
  const first = rows.findIndex((row) => row[1] === "code");
  const told = new Map(rows.slice(first + 2).map((row) => [row[1] ?? "", row[2] ?? ""]));
  const inCode = retryablesInCode();
  assert.ok(inCode.size > 30);
  for (const [code, kinds] of inCode) {
    const text = told.get(code);
    if (text === "") continue; // at the caller only
    const expected =
      kinds.size > 1 || [...kinds].some((kind) => !/^(true|false)$/.test(kind)) ? /yes.*no|no.*yes/ : kinds.has("true") ? /^yes$/ : /^no$/;
    assert.match(text ?? "", expected, `${code}: ${[...kinds].join(", ")}`);
  }
});

/** The names and defaults that the text has for a type, in a table of this head. */
function defaultsInText(head: string, type: string): Readonly<Record<string, unknown>> {
  const from = rows.findIndex((row) => row[1] === head);
  const row = rows.slice(from).find((cells) => cells[1] === `\`${type}\``);
  assert.ok(from >= 0 && row !== undefined, `there is no ${head} ${type}`);
  const fields = (row[2] ?? "").split(/, (?=`)/).filter((field) => field !== "");
  return Object.fromEntries(
    fields
      .map((field) => /^`(\w+)` ?(.*)$/.exec(field)?.slice(1) ?? [field, ""])
      .map(([name, text]) => [name, text === "" ? undefined : JSON.parse(text ?? "")]),
  );
}

/** The rows of the table with this head. */
function typesInText(head: string): string[] {
  const from = rows.findIndex((row) => row[1] === head) + 2;
  const names = rows.slice(from).map((row) => /^`(\w+)`$/.exec(row[1] ?? "")?.[1]);
  return names.slice(0, names.indexOf(undefined)).map(String);
}

test("initializers, optimizers, schedules and links have the fields and defaults that the text gives them", () => {
  const without = (spec: object, ...names: readonly string[]): object =>
    Object.fromEntries(Object.entries(spec).filter(([name]) => !names.includes(name)));
  const always = ["type", "schedule", "clipValue", "clipNorm", "nonFinite"];
  for (const type of typesInText("optimizer")) {
    const resolved = resolveOptimizer({ type } as OptimizerSpec);
    assert.deepEqual(defaultsInText("optimizer", type), without(resolved, ...always), type);
    const takesGradients = !["assign", "min", "max"].includes(type);
    assert.deepEqual(without(resolved, ...Object.keys(defaultsInText("optimizer", type)), "type"), {
      ...(resolved.learningRate === undefined ? {} : { schedule: { type: "constant" } }),
      ...(takesGradients ? { clipValue: null, clipNorm: null } : {}),
      nonFinite: "refuse",
    });
  }
  for (const type of typesInText("initializer"))
    assert.deepEqual(defaultsInText("initializer", type), without(resolveInitializer({ type } as InitializerSpec), "type"), type);
  const given: Readonly<Record<string, object>> = {
    constant: {},
    step: { every: 2, factor: 0.5 },
    cosine: { steps: 3 },
    warmUp: { steps: 3 },
  };
  for (const type of typesInText("schedule")) {
    const resolved = resolveSchedule({ type, ...given[type] });
    assert.deepEqual({ type, ...defaultsInText("schedule", type), ...given[type] }, resolved);
  }
  const inText = Object.fromEntries(
    typesInText("link").map((name) => [name, JSON.parse(rows.find((row) => row[1] === `\`${name}\``)?.[2] ?? "")]),
  );
  assert.deepEqual(inText, linkEncoding("table"));
});

test("the text lists every type of initializer, optimizer and schedule that there is", () => {
  const refusedNames = (resolve: () => unknown): string[] => {
    try {
      resolve();
    } catch (thrown) {
      return /one of (.*), not/.exec(reasonOf(thrown))?.[1]?.split(", ") ?? [];
    }
    return [];
  };
  assert.deepEqual(
    typesInText("optimizer"),
    refusedNames(() => resolveOptimizer({ type: "nothing" } as unknown as OptimizerSpec)),
  );
  assert.deepEqual(
    typesInText("initializer"),
    refusedNames(() => resolveInitializer({ type: "nothing" } as unknown as InitializerSpec)),
  );
  assert.deepEqual(
    typesInText("schedule"),
    refusedNames(() => resolveSchedule({ type: "nothing" })),
  );
});

test("a read that waits for the clocks fails with DEADLINE after the time that the text says, and names the slowest", async () => {
  const [, told = ""] = /It waits ([\d,]+) ms at most, then it fails with DEADLINE, `retryable`/.exec(protocol) ?? [];
  assert.ok(rows.some((row) => row[1] === "a read that waits for the clocks" && row[2] === `${told} ms`));
  const stage = new ParameterStage();
  const parameter = stage.create({ kind: "table", width: 1, staleness: 0 });
  let failedAtMs = -1;
  const reading = stage.call(0, rowsPull, { parameter, clock: 1, keys: BigUint64Array.of(7n) }).catch((thrown: unknown) => {
    failedAtMs = stage.clock.nowMs();
    throw thrown;
  });
  const startedAtMs = stage.clock.nowMs();
  const failed = assert.rejects(reading, (thrown) => {
    assert.ok(isWeighbridgeError(thrown, "DEADLINE") && thrown.retryable && /worker 0, worker 1 at clock 0/.test(thrown.message));
    return true;
  });
  await stage.clock.run();
  await failed;
  assert.equal(failedAtMs - startedAtMs, Number(told.replaceAll(",", "")));
});

test("rules are numbered without gaps, and every one that is cited exists", () => {
  const rules = [...protocol.matchAll(/^- \*\*([A-Z])(\d+)\.\*\*/gm)].map(([, letter, number]) => ({ letter, number: Number(number) }));
  const byLetter = Map.groupBy(rules, ({ letter }) => letter);
  for (const [letter, list] of byLetter) {
    assert.deepEqual(
      list.map(({ number }) => number),
      list.map((_, i) => i + 1),
      `rules ${letter}`,
    );
  }
  const known = new Set(rules.map(({ letter, number }) => `${letter}${number}`));
  const cited = [...`${protocol}${consistency}${functions}`.matchAll(/\b([FJHREKCSXVABT]\d+)\b/g)].map((match) => match[1] ?? "");
  for (const rule of cited) assert.ok(known.has(rule), `${rule} is cited, but there is no such rule`);
});

test("a label alone is of its own page, or of protocol.md where that page has none of its letter; others have their page", () => {
  const pages = new Map(
    ["protocol", "consistency", "codecs", "checkpoint", "functions"].map((name) => [
      name,
      readFileSync(join(root, "spec", `${name}.md`), "utf8"),
    ]),
  );
  const rulesOf = (name: string): Set<string> =>
    new Set([...(pages.get(name) ?? "").matchAll(/^- \*\*([A-Z]\d+[a-z]?)\.\*\*/gm)].map((match) => match[1] ?? ""));
  const label = String.raw`[A-Z]\d{1,2}[a-z]?\b`;
  const paged = new RegExp(String.raw`\b(\w+)\.md(?:\]\(\w+\.md\))?, (${label}(?:(?:, | and | to )${label})*)`, "g");
  for (const [page, text] of pages) {
    for (const [, other = "", labels = ""] of text.matchAll(paged))
      for (const cited of labels.split(/, | and | to /)) assert.ok(rulesOf(other).has(cited), `${page}.md cites ${cited} of ${other}.md`);
    const own = rulesOf(page);
    const letters = new Set([...own].map((rule) => rule[0]));
    const bare = text.replaceAll(paged, "").replaceAll(/`[^`]*`|U\+\d+/g, "");
    for (const [cited] of bare.matchAll(new RegExp(String.raw`(?<![\w-])(?![FIU](?:16|32|64)\b)${label}`, "g")))
      assert.ok((letters.has(cited[0]) ? own : rulesOf("protocol")).has(cited), `${page}.md cites ${cited}`);
  }
});

test("the rules of consistency are numbered without gaps, and every one that its code and tests cite exists", () => {
  const rules = [...consistency.matchAll(/^- \*\*([A-Z])(\d+)\.\*\*/gm)].map(([, letter, number]) => ({ letter, number: Number(number) }));
  const byLetter = Map.groupBy(rules, ({ letter }) => letter);
  assert.deepEqual([...byLetter.keys()], ["W", "P", "U", "N", "M", "D", "G", "Q"]);
  for (const [letter, list] of byLetter) {
    assert.deepEqual(
      list.map(({ number }) => number),
      list.map((_, i) => i + 1),
      `rules ${letter}`,
    );
  }
  const known = new Set(rules.map(({ letter, number }) => `${letter}${number}`));
  const places = ["src/consistency/*.ts", "test/simulation/paced-*.ts", "src/server/checkpoint/*.ts"];
  places.push("src/server/parameters/parameter-pace.ts", "src/server/handlers/parameters.ts", "src/contracts/parameters.ts");
  const texts = globSync(places, { cwd: root }).map((path) => readFileSync(join(root, path), "utf8"));
  // U32 and U64 are types of columns, not rules.
  const citedIn = (text: string): string[] => [...text.matchAll(/(?<![\w"])(?!U32|U64)([WPUNMDGQ]\d+)\b/g)].map((match) => match[1] ?? "");
  const citedByCode = new Set(texts.flatMap(citedIn));
  for (const rule of [...citedByCode, ...citedIn(consistency)]) assert.ok(known.has(rule), `${rule} is cited, but there is no such rule`);
  for (const rule of known) assert.ok(citedByCode.has(rule), `no code and no test keeps ${rule}`);
});
