// Goal: every script in README, the guides and the other pages compiles against our sources, as a user's would: a name
// that is gone, an option that is renamed or a missing argument is found. What a page leaves to its reader is declared
// in support/guide-names.ts.

import assert from "node:assert/strict";
import { globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, sep } from "node:path";
import { test } from "node:test";
import { API } from "typescript/unstable/sync";
import { COMMON_NAMES, OTHER_PACKAGES, PAGE_NAMES } from "./support/guide-names.ts";

const root = join(import.meta.dirname, "..");
/** Within the package, so that its own name leads to its sources. */
const folder = join(root, ".weighbridge", "guide-types");
const PAGES: readonly string[] = ["README.md", ...globSync(["docs/*.md", "docs/guides/*.md"], { cwd: root })].map((path) =>
  path.replaceAll(sep, "/"),
);
const COMPILER_OPTIONS = {
  ...{ target: "es2024", lib: ["es2024", "esnext.disposable", "dom"], types: ["node"], module: "nodenext", moduleDetection: "force" },
  ...{ strict: true, noUncheckedIndexedAccess: true, exactOptionalPropertyTypes: true, customConditions: ["@weighbridge/source"] },
  ...{ allowImportingTsExtensions: true, skipLibCheck: true, noEmit: true },
};

type Script = { readonly path: string; readonly page: string; readonly line: number; readonly text: string };

/** The scripts of a page. One that begins with its name, `// train.ts`, is a module that others of the page import. */
function scriptsOf(page: string): readonly Script[] {
  const text = readFileSync(join(root, page), "utf8");
  return [...text.matchAll(/^```ts\n(.*?)^```$/gms)].map(({ 1: code = "", index }) => {
    const line = text.slice(0, index).split("\n").length;
    const [, name = `line-${line}.ts`] = /^\/\/ ([\w-]+\.ts)\b/.exec(code) ?? [];
    return { path: join(folder, page.replaceAll(/\W/g, "-"), name), page, line, text: code };
  });
}

/** The script, and behind it what it uses without declaring it, so that its lines keep their numbers. */
function withNames({ page, text }: Script): string {
  const names = Object.entries({ ...COMMON_NAMES, ...PAGE_NAMES[page] }).filter(([name]) => {
    const isUsed = new RegExp(`(?<![\\w.])${name}\\b(?!:)`).test(text);
    const isDeclared = new RegExp(`\\b(?:const|let|using|function|class|import)\\s+(?:${name}\\b|[[{*][^=;"]*\\b${name}\\b)`).test(text);
    return isUsed && !isDeclared;
  });
  return `${text}\n${names.map(([name, type]) => `declare const ${name}: ${type};\n`).join("")}export {};\n`;
}

test("every script of README, the guides and the other pages compiles", () => {
  const scripts = PAGES.flatMap(scriptsOf);
  assert.ok(scripts.length > 50, `it finds ${scripts.length}`);
  rmSync(folder, { recursive: true, force: true });
  for (const script of scripts) {
    mkdirSync(join(script.path, ".."), { recursive: true });
    writeFileSync(script.path, withNames(script));
  }
  const packages = join(folder, "other-packages.d.ts");
  writeFileSync(packages, OTHER_PACKAGES);
  const config = join(folder, "tsconfig.json");
  writeFileSync(config, JSON.stringify({ compilerOptions: COMPILER_OPTIONS, files: [packages, ...scripts.map(({ path }) => path)] }));
  const api = new API({ cwd: root });
  try {
    const project = api.updateSnapshot({ openProjects: [config] }).getProject(config);
    assert.ok(project !== undefined);
    const problems = scripts.flatMap(({ path, page, line, text }) =>
      [...project.program.getSyntacticDiagnostics(path), ...project.program.getSemanticDiagnostics(path)].map((found) => {
        const at = text.slice(0, found.pos).split("\n").length;
        return `${page}:${line + at}: ${found.text}`;
      }),
    );
    assert.deepEqual(problems, []);
  } finally {
    api.close();
  }
});
