// Goal: spec/protocol.md says the numbers that the code uses. Words cannot be tested; tables can.

import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { BLOCK_BYTES, HEADER_BYTES, Kind, PAYLOAD_BYTES_MAX, REQUESTS_OPEN_MAX } from "../../src/wire/frame.ts";
import { FunctionId } from "../../src/wire/function-id.ts";
import { KvFlag, LARGE_VALUE_BYTES } from "../../src/wire/kv-message.ts";

const root = join(import.meta.dirname, "..", "..");
const protocol = readFileSync(join(root, "spec", "protocol.md"), "utf8");
const consistency = readFileSync(join(root, "spec", "consistency.md"), "utf8");

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
});

test("every code in the text is one of ours", () => {
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
  const cited = [...`${protocol}${consistency}`.matchAll(/\b([FJHREKCSXV]\d+)\b/g)].map((match) => match[1] ?? "");
  for (const rule of cited) assert.ok(known.has(rule), `${rule} is cited, but there is no such rule`);
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
