// Goal: the modules of a build do in one file what they did in files of their own, and what cannot be put there ends
// the build.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { bundle } from "../scripts/bundle.ts";
import { temporaryDirectory } from "./support/temporary-directory.ts";

/** A build of these files. */
function buildOf(files: Readonly<Record<string, string>>): string {
  const dist = temporaryDirectory("bundle");
  for (const [path, text] of Object.entries({ "package.json": `{ "type": "module" }`, ...files })) {
    mkdirSync(dirname(join(dist, path)), { recursive: true });
    writeFileSync(join(dist, path), text);
  }
  return dist;
}

function outputOf(dist: string, script: string): string {
  const { stdout, stderr } = spawnSync(process.execPath, [join(dist, script)], { encoding: "utf8" });
  assert.equal(stderr, "");
  return stdout;
}

test("modules are evaluated once, after those that they import, or when they are asked for; all files share them (Bundle.B1, Bundle.B2)", () => {
  const dist = buildOf({
    "src/base/count.js": `console.log("count");\nlet count = 0;\nexport function next() {\n  return ++count;\n}\n`,
    "src/base/names.js": `import { next as step } from "./count.js";\nclass Name {\n}\nexport const first = step();\nexport { Name as Title };\n`,
    "src/late.js": `console.log("late");\nexport const url = import.meta.url.split("/").at(-1);\n`,
    "src/door.js": `export { first, Title } from "./base/names.js";\nexport { next } from "./base/count.js";\n`,
    "src/start.js": `import { join } from "node:path";\nimport {\n  first,\n  next,\n} from "./door.js";\nconst { url } = await import("./late.js");\nconsole.log(first, next(), url, join("a", "b"));\n`,
    "bin/user.mjs": `import { next, Title } from "../src/door.js";\nawait import("../src/start.js");\nconsole.log(next(), Title.name);\n`,
  });
  bundle(dist, ["src/door.js"]);
  assert.equal(outputOf(dist, "bin/user.mjs"), "count\nlate\n1 2 late.js a/b\n3 Name\n");
  assert.deepEqual(
    ["src/door.js", "src/start.js", "src/late.js", "src/base/names.js"].map((path) => existsSync(join(dist, path))),
    [true, true, false, false],
  );
});

test("what nodes load first is compiled at once, with all that it imports, and is evaluated when it is imported, too", () => {
  const dist = buildOf({
    "src/start.js": `console.log("start");\nconst { a } = await import("./root.js");\nconsole.log(a);\n`,
    "src/root.js": `import { b } from "./below.js";\nconst late = () => import("./late.js");\nexport const a = b + String(late).length * 0;\n`,
    "src/below.js": `console.log("below");\nexport const b = 2;\n`,
    "src/late.js": "export const c = 3;\n",
  });
  bundle(dist, [], ["src/root.js"]);
  assert.equal(outputOf(dist, "src/start.js"), "start\nbelow\n2\n");
  const text = readFileSync(join(dist, "src/modules.js"), "utf8");
  const atOnce = [...text.matchAll(/^modules\["(.*)"\] = \(function/gm)].map(([, path]) => path);
  assert.deepEqual(atOnce, ["src/below.js", "src/root.js"]);
  assert.throws(() => bundle(buildOf({ "src/start.js": "" }), [], ["src/gone.js"]), /src\/gone\.js is no module of the build/);
});

test("the modules' file is ASCII, and says the same", () => {
  const dist = buildOf({
    "src/start.js": `import { text } from "./text.js";\nconsole.log(text(3), /^[↑…]$/u.test("…"));\n`,
    "src/text.js": `export const text = (n) => n + " × 2 … 𝄞";\n`,
  });
  bundle(dist, []);
  assert.equal(outputOf(dist, "src/start.js"), "3 × 2 … 𝄞 true\n");
  assert.match(readFileSync(join(dist, "src/modules.js"), "utf8"), /^[\0-\x7f]*$/);
});

for (const [what, text, error] of [
  ["that waits", "export const a = 1;\nawait 0;\n", /odd\.js waits at its top level/],
  ["with a default export", "export default 1;\n", /odd\.js: the bundle cannot read "export default 1;"/],
  ["with exports of another's", `export * from "./other.js";\n`, /odd\.js: the bundle cannot read "export \*/],
  ["whose exports may change", "export let a = 1;\n", /odd\.js: the bundle cannot read "export let a/],
  ["that imports what is not there", `import { a } from "./nothing.js";\n`, /odd\.js imports \.\/nothing\.js, which is no module/],
] as const) {
  test(`a module ${what} ends the build`, () => {
    const dist = buildOf({ "src/start.js": `import { a } from "./odd.js";\n`, "src/odd.js": text, "src/other.js": "" });
    assert.throws(() => bundle(dist, []), error);
  });
}
