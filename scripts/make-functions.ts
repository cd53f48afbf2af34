// make-functions — writes spec/functions.md: every built-in function, from the contracts and the words beside them.
//   node scripts/make-functions.ts            writes the page
//   node scripts/make-functions.ts --check    exits 1 when the page is not what the contracts give
// The golden vectors come first (make-vectors.ts): the page looks into those of the control plane.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { FAMILIES } from "../test/conformance/functions/all.ts";
import { functionsPage } from "../test/conformance/functions/page.ts";

const spec = join(import.meta.dirname, "..", "spec");
const path = join(spec, "functions.md");
const page = functionsPage(FAMILIES, (name) => JSON.parse(readFileSync(join(spec, "vectors", `${name}.json`), "utf8")));
if (!process.argv.includes("--check")) {
  writeFileSync(path, page);
  console.log(`spec/functions.md: ${page.split("\n").length} lines`);
} else if (readFileSync(path, "utf8") !== page) {
  console.error("spec/functions.md is not what the contracts give: run npm run build:functions");
  process.exitCode = 1;
}
