// build — makes the package that is published, in dist/: plain JavaScript with types. The repository itself runs its sources unbuilt.
//   npm run build && npm publish ./dist

import { spawnSync } from "node:child_process";
import { cpSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const root = join(import.meta.dirname, "..");
const dist = join(root, "dist");
rmSync(dist, { recursive: true, force: true });

const { status } = spawnSync("tsc", ["-p", "tsconfig.build.json"], { cwd: root, stdio: "inherit", shell: process.platform === "win32" });
if (status !== 0) process.exit(status ?? 1);

for (const path of ["bin", "README.md", "LICENSE", "CHANGELOG.md"]) cpSync(join(root, path), join(dist, path), { recursive: true });

const { name, version, description, license, type, keywords, engines, bin, exports, dependencies } = JSON.parse(
  readFileSync(join(root, "package.json"), "utf8"),
);
const builtExports = Object.fromEntries(
  Object.entries(exports).map(([door, path]) => {
    if (!path.endsWith(".ts")) return [door, path];
    const stem = path.slice(0, -".ts".length);
    return [door, { types: `${stem}.d.ts`, default: `${stem}.js` }];
  }),
);
const manifest = { name, version, description, license, type, keywords, engines, bin, exports: builtExports, dependencies };
writeFileSync(join(dist, "package.json"), `${JSON.stringify(manifest, null, 2)}\n`);
