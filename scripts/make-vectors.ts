// make-vectors — writes spec/vectors/: the golden bytes of every message, from the real encoders.
//   node scripts/make-vectors.ts            writes the files
//   node scripts/make-vectors.ts --check    exits 1 when a file is not what the code gives
// A difference is a change of the wire: it needs a docs/decisions page, and a new version of the protocol unless old
// peers understand it.

import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { makeCodecVectors } from "../test/conformance/codec-vectors.ts";
import { DOCUMENTED } from "../test/conformance/functions/all.ts";
import { makeFunctionVector, vectorFileName } from "../test/conformance/functions/vectors.ts";
import { makeVectors } from "../test/conformance/golden-vectors.ts";
import { makeKeyVectors } from "../test/conformance/key-vectors.ts";
import { describeVector } from "../test/conformance/vector-file.ts";

const directory = join(import.meta.dirname, "..", "spec", "vectors");
const isCheck = process.argv.includes("--check");

const files = new Map<string, string>();
for (const vector of await makeVectors()) files.set(`${vector.name}.json`, `${JSON.stringify(describeVector(vector), null, 2)}\n`);
for (const vector of makeCodecVectors()) files.set(`codecs/${vector.name}.json`, `${JSON.stringify(vector, null, 2)}\n`);
for (const vector of makeKeyVectors()) files.set(`keys/${vector.name}.json`, `${JSON.stringify(vector, null, 2)}\n`);
for (const fn of DOCUMENTED.filter(({ example }) => example !== undefined))
  files.set(`functions/${vectorFileName(fn.name)}`, `${JSON.stringify(await makeFunctionVector(fn), null, 2)}\n`);

for (const folder of ["codecs", "functions", "keys"]) mkdirSync(join(directory, folder), { recursive: true });
const present = readdirSync(directory, { recursive: true, encoding: "utf8" })
  .map((path) => path.replaceAll("\\", "/"))
  .filter((path) => path.endsWith(".json"));
const changed = [...files].filter(([name, text]) => !present.includes(name) || readFileSync(join(directory, name), "utf8") !== text);
const superfluous = present.filter((name) => !files.has(name));
if (isCheck) {
  for (const name of [...changed.map(([changedName]) => changedName), ...superfluous])
    console.error(`spec/vectors/${name} is not what the code gives`);
  process.exit(changed.length + superfluous.length === 0 ? 0 : 1);
}
for (const [name, text] of changed) writeFileSync(join(directory, name), text);
for (const name of superfluous) rmSync(join(directory, name));
console.log(`spec/vectors: ${files.size} vectors, ${changed.length} changed, ${superfluous.length} removed`);
