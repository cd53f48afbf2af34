// Goal: what typedoc is given has a module for each door, by its name, and any type that a page would name and not show
// is an error. typedoc itself comes from the network: npm run docs.

import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { referenceArguments, writeEntries } from "../scripts/make-reference.ts";

test("each door has a module of its name, which exports what the built declarations do", () => {
  const root = mkdtempSync(join(tmpdir(), "weighbridge-"));
  try {
    const work = join(root, "work", "reference");
    mkdirSync(work, { recursive: true });
    const doors = [
      { name: "weighbridge", path: join(root, "dist", "types", "node", "weighbridge.d.ts") },
      { name: "weighbridge/kv", path: join(root, "dist", "types", "faces", "kv", "index.d.ts") },
    ];
    const entries = writeEntries(doors, work);
    assert.deepEqual(entries, [join(work, "weighbridge.ts"), join(work, "weighbridge-kv.ts")]);
    const [main, kv] = entries.map((entry) => readFileSync(entry, "utf8"));
    assert.equal(main, '/** @module weighbridge */\nexport * from "../../dist/types/node/weighbridge.js";\n');
    assert.equal(kv, '/** @module weighbridge/kv */\nexport * from "../../dist/types/faces/kv/index.js";\n');
  } finally {
    rmSync(root, { recursive: true });
  }
});

test("typedoc reads these modules with the written configuration, and fails for a type that it cannot show", () => {
  const given = referenceArguments(["work/a.ts", "work/b.ts"], { work: "work", out: "pages" });
  assert.deepEqual(given.slice(-2), ["work/a.ts", "work/b.ts"]);
  const after = (flag: string): string | undefined => given[given.indexOf(flag) + 1];
  assert.equal(after("--tsconfig"), join("work", "tsconfig.json"));
  assert.equal(after("--out"), "pages");
  assert.equal(after("--validation.notExported"), "true");
  assert.ok(given.includes("--treatValidationWarningsAsErrors"));
});
