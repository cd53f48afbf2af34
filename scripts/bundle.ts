// bundle — makes the JavaScript of the package, in few files: Node takes more than half a millisecond of CPU for each
// module that a process loads, and a server has several hundred. rolldown does it, with source maps.
//
// Invariants:
//   Bundle.B1. What is opened by its path is a file of its own, by its own name: the doors, the command, and the
//       programs with which a process or a thread begins.
//   Bundle.B2. All files lie in one folder, so that a program is found beside whatever file starts it
//       (src/node/launcher/job-plan.ts).
//   Bundle.B3. A process loads what its role needs. What only some need is in files that are loaded on demand.

import { writeFileSync } from "node:fs";
import { isAbsolute, join } from "node:path";
import { type CodeSplittingNameFunction, rolldown } from "rolldown";

const ROOT = join(import.meta.dirname, "..");
type Graph = Parameters<CodeSplittingNameFunction>[1];

/** With which a process or a thread begins; by their paths below src/. */
const PROGRAMS = [
  "cli/main",
  "cli/entry",
  "cli/server-thread",
  "cli/train/training-node",
  "cli/train/alone-node",
  "node/launcher/launched",
  "node/tables-server",
  "node/training-device",
];

/**
 * What nodes of a role begin with. What the same roles load is one file, whatever else shares it, and the errors with
 * the rest of `base` are another: some import nothing else. The other modules fall into files by which doors and
 * programs load them.
 */
const BASE = join(ROOT, "src/base/");
const ROLES = { worker: "src/node/connect.ts", server: "src/node/server-root.ts", scheduler: "src/node/scheduler-root.ts" };

/**
 * Bundles the sources into `outDir`. `doors`: the source of each by its name. `gate` is what each door imports before
 * all else, beside it.
 */
export async function bundle(outDir: string, doors: Readonly<Record<string, string>>, gate: string): Promise<void> {
  const programs = PROGRAMS.map((path) => [path.slice(path.lastIndexOf("/") + 1), `src/${path}.ts`]);
  const bundled = await rolldown({
    cwd: ROOT,
    input: { ...doors, ...Object.fromEntries(programs) },
    platform: "node",
    // Packages, those that users bring along included. Our own package.json is none.
    external: (id) => !id.startsWith(".") && !isAbsolute(id) && !id.startsWith("weighbridge/"),
    treeshake: { moduleSideEffects: false },
    preserveEntrySignatures: "allow-extension",
  });
  const { output } = await bundled.write({
    dir: outDir,
    format: "esm",
    sourcemap: true,
    sourcemapPathTransform: (path) => path.replace("../../", "../"),
    comments: { legal: false, jsdoc: false, annotation: true },
    entryFileNames: "[name].js",
    chunkFileNames: "chunk-[name].js",
    banner: ({ name, isEntry }) => (isEntry && name in doors ? `import "./${gate}";` : ""),
    codeSplitting: { groups: [{ name: fileOfRoles(), debugName: "roles", includeDependenciesRecursively: false }] },
  });
  await bundled.close();
  for (const file of output) if (file.type === "chunk") writeFileSync(join(outDir, file.fileName), inAscii(file.code));
}

/** Names the file for what the same roles load; null: no role loads the module. */
function fileOfRoles(): CodeSplittingNameFunction {
  let closures: readonly (readonly [role: string, modules: ReadonlySet<string>])[] | undefined;
  return (module, graph) => {
    closures ??= Object.entries(ROLES).map(([role, root]) => [role, closureOf(join(ROOT, root), graph)]);
    if (module.startsWith(BASE)) return "base";
    const roles = closures.filter(([, modules]) => modules.has(module)).map(([role]) => role);
    if (roles.length === 0) return null;
    return roles.length === closures.length ? "node" : roles.join("-");
  };
}

/** A module and all that is evaluated before it. */
function closureOf(root: string, graph: Graph): ReadonlySet<string> {
  if (graph.getModuleInfo(root) === null) throw new Error(`${root} is no module of the bundle`);
  const found = new Set([root]);
  for (const id of found) for (const imported of graph.getModuleInfo(id)?.importedIds ?? []) found.add(imported);
  return found;
}

/**
 * Only texts contain characters beyond ASCII, since comments are gone. V8 keeps a file of ASCII in half of the memory,
 * and reads it sooner. Lines stay what they are, as source maps need them.
 */
function inAscii(code: string): string {
  return code.replaceAll(/[^\0-\x7f]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
