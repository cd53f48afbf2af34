// build — makes the package that is published, in dist/: plain JavaScript with types. The repository itself runs its
// sources unbuilt.
//   npm run build && npm pack ./dist      a .tgz to install elsewhere
//   npm run build && npm publish ./dist

import { spawnSync } from "node:child_process";
import { cpSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, posix } from "node:path";
import { bundle } from "./bundle.ts";

const root = join(import.meta.dirname, "..");
const dist = join(root, "dist");
rmSync(dist, { recursive: true, force: true });

// `npm test` has checked the types already.
const unchecked = process.argv.includes("--unchecked") ? ["--noCheck"] : [];
// Comments are for readers of types: a process that loads JavaScript without them starts with a fifth less CPU time.
for (const flag of ["--removeComments", "--emitDeclarationOnly"]) {
  const options = { cwd: root, stdio: "inherit", shell: process.platform === "win32" };
  const { status } = spawnSync("tsc", ["-p", "tsconfig.build.json", flag, ...unchecked], options);
  if (status !== 0) process.exit(status ?? 1);
}

// With everything that README links to: the package says nothing of a place on the web where it could be read.
const PAGES = ["README.md", "CHANGELOG.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs", "examples", "spec", "bench/RESULTS.md"];
for (const path of ["bin", "LICENSE", ...PAGES]) cpSync(join(root, path), join(dist, path), { recursive: true });

const {
  name,
  version,
  description,
  license,
  type,
  keywords,
  engines,
  bin,
  exports,
  dependencies,
  peerDependencies,
  peerDependenciesMeta,
  ...rest
} = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
// Not the builds of Node, which are for the repository.
const optionalDependencies = { koffi: rest.optionalDependencies.koffi };
const builtExports = Object.fromEntries(
  Object.entries(exports).map(([door, { default: source } = {}]) => {
    if (source === undefined) return [door, exports[door]];
    const stem = source.slice(0, -".ts".length);
    return [door, { types: `${stem}.d.ts`, default: `${stem}.js` }];
  }),
);
const doors = Object.values(builtExports).flatMap(({ default: door }) => (door === undefined ? [] : [posix.normalize(door)]));
/** What a process of each role loads first. */
const STARTS = [
  "cli/main",
  "cli/launch",
  "cli/scheduler",
  "cli/server",
  "node/index",
  "node/scheduler-root",
  "node/server-root",
  "node/worker-root",
];
bundle(
  dist,
  [...doors, "src/cli/main.js"],
  STARTS.map((name) => `src/${name}.js`),
);

// A door opened by an older Node says so in one line, before anything behind it fails over what that Node does not
// have.
const GATE = "src/needs-node.js";
const major = Number(/\d+/.exec(engines.node)[0]);
writeFileSync(
  join(dist, GATE),
  `// needs-node — the first thing that every door of the package loads.

if (Number(process.versions.node.split(".")[0]) < ${major}) {
  const error = new Error(\`weighbridge needs Node ${major} or newer; this is Node \${process.versions.node} at \${process.execPath}. Install it, or run \\\`npm install node@${major}\\\` in the project and \\\`npx node\\\` instead of node\`);
  error.stack = \`\${error.name}: \${error.message}\`; // Where it was loaded from says nothing.
  throw error;
}
`,
);
for (const door of doors) {
  const path = join(dist, door);
  writeFileSync(path, `import "${posix.relative(posix.dirname(door), GATE)}";\n${readFileSync(path, "utf8")}`);
}

const manifest = {
  ...{ name, version, description, license, type, keywords, engines, bin },
  ...{ exports: builtExports, dependencies, optionalDependencies, peerDependencies, peerDependenciesMeta },
};
writeFileSync(join(dist, "package.json"), `${JSON.stringify(manifest, null, 2)}\n`);
