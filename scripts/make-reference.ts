// make-reference — makes the API reference, pages of HTML in docs/api, of the built declarations:
//   npm run build && npm run docs
//
// typedoc makes them. It needs a TypeScript that it knows, older than ours, so npx fetches both when they are wanted:
// nothing of them is installed with the repository.

import { spawnSync } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join, relative, sep } from "node:path";
import { COMPILER_OPTIONS, type Door, PublicSurface } from "./public-surface.ts";

const TOOLS: readonly string[] = ["typedoc@0.28.20", "typescript@5.9.3"];

/** Writes a module for each door into `work`, so that pages have the names that users import; returns the paths. */
export function writeEntries(doors: readonly Pick<Door, "name" | "path">[], work: string): readonly string[] {
  return doors.map(({ name, path }) => {
    const file = join(work, `${name.replace("/", "-")}.ts`);
    const source = relative(work, path)
      .replaceAll(sep, "/")
      .replace(/\.d\.ts$/, ".js"); // found by its types
    writeFileSync(file, `/** @module ${name} */\nexport * from "${source}";\n`);
    return file;
  });
}

/** What typedoc is called with. A type that a page would name and not show is an error (PublicSurface.P1). */
export function referenceArguments(
  entries: readonly string[],
  { work, out }: { readonly work: string; readonly out: string },
): readonly string[] {
  return [
    ...["--tsconfig", join(work, "tsconfig.json"), "--out", out, "--name", "weighbridge", "--readme", "none"],
    ...["--excludeExternals", "--excludePrivate", "--excludeProtected", "--disableSources"],
    ...["--validation.notExported", "true", "--treatValidationWarningsAsErrors", "--logLevel", "Warn"],
    ...entries,
  ];
}

if (import.meta.main) {
  const root = join(import.meta.dirname, "..");
  const work = join(root, ".weighbridge", "reference");
  const out = join(root, "docs", "api");
  rmSync(work, { recursive: true, force: true });
  mkdirSync(work, { recursive: true });
  using surface = new PublicSurface(join(root, "dist"));
  const entries = writeEntries(surface.doors, work);
  const compilerOptions = { ...COMPILER_OPTIONS, rootDir: root, typeRoots: [join(root, "node_modules", "@types")] };
  writeFileSync(join(work, "tsconfig.json"), JSON.stringify({ compilerOptions, files: entries }));
  const tools = TOOLS.flatMap((tool) => ["--package", tool]);
  const { status } = spawnSync("npx", ["--yes", ...tools, "typedoc", ...referenceArguments(entries, { work, out })], {
    cwd: root,
    stdio: "inherit",
    shell: process.platform === "win32",
  });
  if (status !== 0) process.exit(status ?? 1);
  console.log(`docs${sep}api${sep}index.html`);
}
