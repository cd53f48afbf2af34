// Goal: the public surface changes on purpose only. What the doors of the built package export is what api/ says
// (npm run build && npm run api writes it anew), whatever a signature names can be imported, and everything has a doc
// comment.

import assert from "node:assert/strict";
import { globSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import { apiReports } from "../../scripts/make-api.ts";
import { type Door, isField, PublicSurface } from "../../scripts/public-surface.ts";

const root = join(import.meta.dirname, "..", "..");
const surface = new PublicSurface(join(root, "dist"));
after(() => surface[Symbol.dispose]());

/**
 * Doors that keep the names and shapes of other systems. Their fields and getters, `rank` for instance, are excused
 * from comments (PublicSurface.P2).
 */
const FACES: ReadonlySet<string> = new Set(["kv", "tensors", "tables", "shared-model"].map((face) => `weighbridge/${face}`));

/** Shapes of other libraries, and two tables of types, whose comment says what all their fields are. */
const DESCRIBED_AS_A_WHOLE: ReadonlySet<string> = new Set([
  ...["TfModule", "TfTensor", "TfVariable", "TfLayerVariable", "JaxArray", "JaxModule", "FieldTypes", "RowArrays"],
]);

/** Shapes that others define, of which users pass no options on: a module, and the events of a trace. */
const FOREIGN_OPTIONS: ReadonlySet<string> = new Set(["TfModule", "ChromeTraceEvent"]);

/** What users cannot follow in a comment: a source file, a page that the package lacks, the label of an invariant. */
const REFERENCE = /(?<![\w/.])[a-z][\w-]*(?:\/[\w-]+)*\.ts\b|docs\/decisions|bench\/|spec\/|\b[A-Z]\d{1,2}\b/g;
/** Words that CONVENTIONS keeps out of sentences. */
const UNWANTED = /\b(?:go(?:es|ing)? on|besides?|nobody|anew|(?:every|some)body(?:'s)?|so many)\b/gi;

test("the reports in api/ say what the doors export (PublicSurface.P3): npm run build && npm run api", () => {
  const reports = apiReports(surface.doors);
  assert.deepEqual(readdirSync(join(root, "api")).sort(), [...reports.keys()].sort());
  for (const [file, text] of reports) assert.equal(readFileSync(join(root, "api", file), "utf8"), text, file);
});

test("what a public signature names is exported by a door (PublicSurface.P1)", () => {
  const offered = new Set(surface.doors.flatMap(({ exports }) => [...exports.values()]));
  for (const door of surface.doors) {
    const missing = [...door.exports.values()].flatMap((by) =>
      by.names.filter((other) => !offered.has(other)).map(({ name }) => `${name}, which ${by.name} names`),
    );
    assert.deepEqual(missing, [], door.name);
  }
});

test("every export and every public member has a doc comment (PublicSurface.P2)", () => {
  for (const door of surface.doors) {
    const isFace = FACES.has(door.name);
    const undocumented = [...door.exports.values()].flatMap((each) =>
      each.undocumented((member) => DESCRIBED_AS_A_WHOLE.has(each.name) || (isFace && isField(member))),
    );
    assert.deepEqual(undocumented, [], door.name);
  }
});

test("every option takes undefined, as what is left out: with exactOptionalPropertyTypes callers could not pass one on", () => {
  for (const door of surface.doors)
    for (const [name, declared] of door.exports) if (!FOREIGN_OPTIONS.has(name)) assert.deepEqual(declared.strictOptions, [], door.name);
});

/** The comments of all declarations, each in one line, by their files. */
function* eachComment(): Generator<readonly [path: string, comment: string]> {
  for (const path of globSync("types/**/*.d.ts", { cwd: join(root, "dist") }))
    for (const [comment] of readFileSync(join(root, "dist", path), "utf8").matchAll(/\/\*[\s\S]*?\*\/|\/\/[^\n]*/g))
      yield [path, comment.replaceAll(/\s*\n\s*\*/g, "")];
}

test("no comment that users see cites an invariant or names a file that they do not have", () => {
  for (const [path, comment] of eachComment()) assert.deepEqual(comment.match(REFERENCE), null, `${path}: ${comment}`);
});

test("comments that users see are in plain English", () => {
  for (const [path, comment] of eachComment()) assert.deepEqual(comment.match(UNWANTED), null, `${path}: ${comment}`);
});

test("the comment of a function says what it is for, not only what it throws", () => {
  for (const path of globSync("types/**/*.d.ts", { cwd: join(root, "dist") })) {
    const text = readFileSync(join(root, "dist", path), "utf8");
    const silent = [...text.matchAll(/\/\*\*\s+(?:\* )?Throws [^.]*\.\s+\*\/\n\s*(?!\s|constructor|protected|set )(.*)/g)].map(
      ([, line]) => line,
    );
    assert.deepEqual(silent, [], path);
  }
});

test("the comment of ErrorCode and of NonFinitePolicy says what each word means", () => {
  const [main] = surface.doors as [Door];
  for (const name of ["ErrorCode", "NonFinitePolicy"]) {
    const declared = main.exports.get(name);
    const words = declared?.text.match(/"\w+"/g) ?? [];
    assert.ok(words.length >= 3);
    for (const word of words) assert.ok(declared?.comment.includes(`- \`${word}\`: `), `${name} says nothing of ${word}`);
  }
});
