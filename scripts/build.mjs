// build — makes the package that is published, in dist/: JavaScript with source maps (bundle.ts), types, the documents
// that its users read, and a manifest. The repository itself runs its sources unbuilt. `npm pack` builds and packs it.

import { spawnSync } from "node:child_process";
import { cpSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { bundle } from "./bundle.ts";
import { publishedManifest } from "./published-manifest.ts";
import { copyPages } from "./published-pages.ts";
import { trimDeclarations } from "./trim-declarations.ts";

const root = join(import.meta.dirname, "..");
const dist = join(root, "dist");
const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
const GATE = "needs-node.js";
const SOURCE = "@weighbridge/source";

rmSync(dist, { recursive: true, force: true });

// `npm test` has checked the types already.
const unchecked = process.argv.includes("--unchecked") ? ["--noCheck"] : [];
const options = { cwd: root, stdio: "inherit", shell: process.platform === "win32" };
const { status } = spawnSync("tsc", ["-p", "tsconfig.build.json", ...unchecked], options);
if (status !== 0) process.exit(status ?? 1);

const doors = Object.entries(manifest.exports).flatMap(([door, { [SOURCE]: source } = {}]) =>
  source === undefined ? [] : [[door === "." ? "weighbridge" : door.slice("./".length), source]],
);
await bundle(join(dist, "lib"), Object.fromEntries(doors), GATE);

// A door opened by an older Node says so in one line, before anything behind it fails over what that Node does not
// have.
const major = Number(/\d+/.exec(manifest.engines.node)[0]);
writeFileSync(
  join(dist, "lib", GATE),
  `// needs-node: the first thing that every door of the package loads.

if (Number(process.versions.node.split(".")[0]) < ${major}) {
  const error = new Error(\`weighbridge needs Node ${major} or newer; this is Node \${process.versions.node} at \${process.execPath}. Install it, or run \\\`npm install node@${major}\\\` in the project and \\\`npx node\\\` instead of node\`);
  error.stack = \`\${error.name}: \${error.message}\`; // Where it was loaded from says nothing.
  throw error;
}
`,
);

for (const path of ["bin", "templates", "LICENSE"]) cpSync(join(root, path), join(dist, path), { recursive: true });
copyPages(root, dist);
writeFileSync(join(dist, "package.json"), `${JSON.stringify(publishedManifest(), null, 2)}\n`);
trimDeclarations(dist);
