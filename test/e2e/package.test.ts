// The package as it is published: built, laid into a node_modules, and used from there by plain JavaScript.

import assert from "node:assert/strict";
import { type SpawnSyncReturns, spawnSync } from "node:child_process";
import { cpSync, existsSync, globSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { before, test } from "node:test";
import { temporaryDirectory } from "../support/temporary-directory.ts";
import { findOldNode } from "./find-old-node.ts";
import { BUILD, DEADLINE_MS, ROOT } from "./processes.ts";

const SCRIPT = `
import { KVServer, KVWorker } from "weighbridge/kv";
import { start } from "weighbridge/node";
import { SimCluster } from "weighbridge/testing";

const office = await start();
if (office.isServer) new KVServer(office, 0);
if (office.isWorker) {
  const kv = new KVWorker(office, 0);
  const keys = BigUint64Array.of(1n, 2n);
  const vals = new Float32Array(2);
  await kv.wait(kv.pushPull(keys, Float32Array.of(3, 4), vals));
  console.log("pulled", vals.join(), typeof SimCluster);
}
await office.finalize();
`;

const folder = temporaryDirectory("package");

const oldNode = findOldNode();
const modules = join(folder, "node_modules");

before(() => {
  if (BUILD === undefined) {
    const built = spawnSync(process.execPath, ["scripts/build.mjs"], { cwd: ROOT, encoding: "utf8", timeout: DEADLINE_MS });
    assert.equal(built.status, 0, built.stdout + built.stderr);
  }
  mkdirSync(modules);
  cpSync(BUILD ?? join(ROOT, "dist"), join(modules, "weighbridge"), { recursive: true });
  for (const name of ["commander", "yaml"]) symlinkSync(join(ROOT, "node_modules", name), join(modules, name));
});

function run(node: string, ...args: string[]): SpawnSyncReturns<string> {
  return spawnSync(node, args, { cwd: folder, encoding: "utf8", timeout: DEADLINE_MS });
}

test("the built package runs a cluster from a node_modules folder", () => {
  writeFileSync(join(folder, "script.mjs"), SCRIPT);
  const command = join(modules, "weighbridge/bin/weighbridge.mjs");
  const ran = run(process.execPath, command, "launch", "-s", "1", "-w", "1", "--", "script.mjs");
  assert.equal(ran.status, 0, ran.stdout + ran.stderr);
  assert.match(ran.stdout, /pulled 3,4 function/);
});

test("the types of every door hold in a project without the browser's, and with the libraries checked", () => {
  mkdirSync(join(modules, "@types"));
  symlinkSync(join(ROOT, "node_modules/@types/node"), join(modules, "@types/node"));
  const { exports } = JSON.parse(readFileSync(join(modules, "weighbridge/package.json"), "utf8"));
  const doors = Object.keys(exports).filter((door) => door !== "./package.json");
  const imports = doors.map((door, i) => `import * as door${i} from "weighbridge${door.slice(1)}"; void door${i};`);
  writeFileSync(join(folder, "types.mts"), imports.join("\n"));
  const options = [
    "--module",
    "nodenext",
    "--target",
    "es2024",
    "--lib",
    "es2024,esnext.disposable",
    "--types",
    "node",
    "--strict",
    "--noEmit",
  ];
  const checked = run(process.execPath, join(ROOT, "node_modules/typescript/bin/tsc"), ...options, "types.mts");
  assert.equal(checked.stdout, "");
  assert.equal(checked.status, 0, checked.stderr);
});

test("the doors of other frameworks open without them, and npm does not ask for them", () => {
  writeFileSync(
    join(folder, "adapters.mjs"),
    `import { psOptimizer } from "weighbridge/tfjs"; import { PsParameters } from "weighbridge/jax"; console.log(typeof psOptimizer, typeof PsParameters);`,
  );
  const ran = run(process.execPath, "adapters.mjs");
  assert.equal(ran.stdout, "function function\n", ran.stderr);
  const manifest = JSON.parse(readFileSync(join(modules, "weighbridge/package.json"), "utf8"));
  const optional = Object.keys(manifest.peerDependencies).filter((name) => manifest.peerDependenciesMeta[name]?.optional === true);
  assert.deepEqual(optional, ["@jax-js/jax", "@tensorflow/tfjs-core"]);
});

for (const door of [
  "weighbridge",
  "weighbridge/embedded",
  "weighbridge/kv",
  "weighbridge/tfjs",
  "weighbridge/jax",
  "weighbridge/node",
  "weighbridge/testing",
]) {
  test(`${door} says in one line that Node is too old`, {
    skip: oldNode === undefined ? "there is no Node before 24 on this machine to try it with" : false,
  }, () => {
    writeFileSync(join(folder, "door.mjs"), `import(${JSON.stringify(door)}).catch((error) => console.log(error.stack));`);
    assert.match(
      run(String(oldNode), "door.mjs").stdout,
      /^Error: weighbridge needs Node 24 or newer; this is Node [\d.]+ at \/.*\. Install it, or run `npm install node@24` .*\n$/,
    );
  });
}

test("every link of every page in the package leads to a file in the package, and to no place on this machine", () => {
  const root = join(modules, "weighbridge");
  const pages = globSync("**/*.md", { cwd: root });
  assert.ok(pages.includes("README.md") && pages.some((page) => page.startsWith("docs")), pages.join());
  let links = 0;
  for (const page of pages) {
    for (const [, path = ""] of readFileSync(join(root, page), "utf8").matchAll(/\]\((?!https?:)([^)#\s]+)(?:#[^)\s]+)?\)/g)) {
      const target = join(dirname(page), path);
      assert.ok(!target.startsWith("..") && existsSync(join(root, target)), `${page} links to ${path}`);
      links++;
    }
  }
  assert.ok(links > 50, `${links} links`);
});

test("every file that a help text of the package names is in the package, or the reader's own", () => {
  const command = join(modules, "weighbridge/bin/weighbridge.mjs");
  const commands = ["", "train", "launch", "server", "checkpoint save"];
  for (const name of commands) {
    const { stdout, stderr } = run(process.execPath, command, ...name.split(" ").filter((word) => word !== ""), "--help");
    assert.match(stdout, /^Usage: weighbridge/, stderr);
    for (const [path] of stdout.matchAll(/(?<![\w./-])[\w.-]+\/[\w./-]+\.(?:ts|md|mjs|js|json|yaml)\b/g))
      assert.ok(existsSync(join(modules, "weighbridge", path)), `weighbridge ${name} --help names ${path}`);
  }
});

test("koffi, which makes servers faster, is an optional dependency of the package, and README says what it brings", () => {
  const manifest = JSON.parse(readFileSync(join(modules, "weighbridge/package.json"), "utf8"));
  const ours = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  assert.deepEqual(manifest.optionalDependencies, { koffi: ours.optionalDependencies.koffi });
  assert.match(readFileSync(join(modules, "weighbridge/README.md"), "utf8"), /koffi .*1\.3 times as fast/s);
});

test("under Bun and Deno the command hands over to Node, and without one says so in one sentence", () => {
  const command = join(modules, "weighbridge/bin/weighbridge.mjs");
  const as = (versions: object, path: string): SpawnSyncReturns<string> => {
    const pretence = `Object.defineProperty(process, "versions", { value: { ...process.versions, ...${JSON.stringify(versions)} } })`;
    const args = ["--import", `data:text/javascript,${encodeURIComponent(pretence)}`, command, "--version"];
    return spawnSync(process.execPath, args, { cwd: folder, encoding: "utf8", timeout: DEADLINE_MS, env: { ...process.env, PATH: path } });
  };
  assert.match(as({ bun: "1.4.4" }, dirname(process.execPath)).stdout, /^\d+\.\d+\.\d+\n$/);
  const refused = as({ deno: "2.9.6" }, folder);
  assert.match(refused.stderr, /^weighbridge needs Node 24 or newer; this is Deno 2\.9\.6 at .* install Node 24\.\n$/);
  assert.equal(refused.status, 1);
});

test("the repository itself is not packed by mistake", () => {
  const packed = spawnSync("npm", ["pack", "--dry-run"], { cwd: ROOT, encoding: "utf8", timeout: DEADLINE_MS });
  assert.notEqual(packed.status, 0);
  assert.match(packed.stderr, /npm run build && npm pack \.\/dist/);
});
