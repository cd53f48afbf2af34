// trim-declarations — leaves of the built declarations what the doors export and what that names: the rest is for our
// own rooms, and would not compile without what stripInternal has taken out. Comments lose the labels of invariants,
// which are in no file that users have. build.mjs runs it.

import { globSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Declared, PublicSurface } from "./public-surface.ts";

const IMPORT = /^import (type )?\{ (.*) \} from (".*");\n/gm;
const COMMENT = /\/\*[\s\S]*?\*\//g;
/** Labels in parentheses, and what is before them on the way from the last word: "(Frame.F1, Frame.F2)". */
const LABELS = /(?:\s*\n\s*\*)?\s*\((?:[A-Z]\w+\.[A-Z]\d+(?:, )?)+\)/g;

/** Trims the declarations of the package that was built in `dist`. */
export function trimDeclarations(dist: string): void {
  using surface = new PublicSurface(dist);
  const needed = new Set<Declared>(surface.doors.flatMap(({ exports }) => [...exports.values()]));
  for (const declared of needed) for (const other of declared.names) needed.add(other);
  const doors = new Set(surface.doors.map(({ path }) => path));
  const kept = new Map<string, { readonly from: number; readonly to: number }[]>();
  for (const { file, ranges } of [...needed].map((declared) => declared.place)) kept.set(file, [...(kept.get(file) ?? []), ...ranges]);
  for (const path of globSync("**/*.d.ts", { cwd: dist }).map((found) => join(dist, found))) {
    const ranges = kept.get(path);
    if (ranges === undefined) {
      if (!doors.has(path)) rmSync(path);
      continue;
    }
    const text = readFileSync(path, "utf8");
    const imports = [...text.matchAll(IMPORT)].map(([line]) => line).join("");
    const body = ranges.sort((one, other) => one.from - other.from).map(({ from, to }) => text.slice(from, to).trim());
    const told = body.join("\n").replaceAll(COMMENT, (comment) => comment.replaceAll(LABELS, ""));
    writeFileSync(path, withUsedImports(`${imports}${told}\nexport {};\n`));
  }
}

/** tsc leaves the imports of what was taken out. */
function withUsedImports(text: string): string {
  const rest = text.replaceAll(IMPORT, "").replaceAll(COMMENT, "");
  const isUsed = (specifier: string): boolean => new RegExp(`\\b${/\w+$/.exec(specifier)?.[0]}\\b`).test(rest);
  return text.replaceAll(IMPORT, (_line, type: string | undefined, names: string, from: string) => {
    const used = names.split(/,\s*/).filter((specifier) => specifier !== "" && isUsed(specifier));
    return used.length === 0 ? "" : `import ${type ?? ""}{ ${used.join(", ")} } from ${from};\n`;
  });
}
